"""Who holds GPUs, and what they use of them: a pod's owner, its team, and figures as they are quoted.

A team is named where a label or annotation of the pod names one.
"""

from datetime import datetime
from typing import NamedTuple, Protocol

from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import PORT, ContainerUse
from bot.kube.models import Holder, ObjectMeta, Pod
from bot.kube.times import format_time
from bot.report import Evidence
from playbooks.gather.usage import UsageSeen
from playbooks.quotes import kubectl

_TEAM_KEYS = ("team", "owner")
"""As the whole key of a label or annotation, or after its prefix: `example.com/team`."""
_HASH_LABEL = "pod-template-hash"


class Owner(NamedTuple):
    """A controller, the namespace of a pod that has none, or HAMi itself. `team` is empty where none is named."""

    kind: str
    namespace: str
    name: str
    team: str


def owner_of(pod: Pod | Holder) -> Owner:
    """Who created it: of a ReplicaSet its Deployment, whose name is the ReplicaSet's without the pods' hash."""
    metadata = pod.metadata
    refs = metadata.owner_references or ()
    ref = next((owner for owner in refs if owner.controller), next(iter(refs), None))
    if ref is None:
        return Owner("Namespace", "", metadata.namespace, _team(metadata))
    kind, name = ref.kind, ref.name
    ending = f"-{metadata.label(_HASH_LABEL)}"
    if kind == "ReplicaSet" and name.endswith(ending):
        kind, name = "Deployment", name.removesuffix(ending)
    return Owner(kind, metadata.namespace, name, _team(metadata))


def _team(metadata: ObjectMeta) -> str:
    for given in (metadata.labels or {}, metadata.annotations or {}):
        for wanted in _TEAM_KEYS:
            found = sorted(key for key in given if key.rpartition("/")[2].casefold() == wanted)
            if found:
                return given[found[0]]
    return ""


class MeasuredSnapshot(Protocol):
    """A snapshot with the figures, and when they were read."""

    @property
    def usage(self) -> UsageSeen: ...

    @property
    def taken_at(self) -> datetime: ...


def of_use(use: ContainerUse, reading: Sample, node: str, measured: MeasuredSnapshot) -> Evidence:
    """One figure of a container."""
    return of_sample(f"Pod {use.namespace}/{use.pod}", reading, node, measured, grep=f'"{use.pod}"')


def of_sample(about: str, reading: Sample, node: str, measured: MeasuredSnapshot, *, grep: str) -> Evidence:
    """One sample, as the monitor of the node or Prometheus gave it."""
    return Evidence(
        "metrics", about, format_time(measured.taken_at), reading.line, _command(reading, node, measured, grep)
    )


def _command(reading: Sample, node: str, measured: MeasuredSnapshot, grep: str) -> str:
    seen = measured.usage
    if seen.of_prometheus:
        return f"PromQL: {reading.line.rpartition(' ')[0]}"
    monitor = next((pod for pod in seen.monitors if pod.spec.node_name == node), None)
    if monitor is None:
        return ""
    path = f"/api/v1/namespaces/{monitor.namespace}/pods/{monitor.name}:{PORT}/proxy/metrics"
    return f"{kubectl('get', '--raw', path)} | grep '{grep}'"
