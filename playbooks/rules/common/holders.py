"""Who holds GPUs, and what they use of them: a pod's owner, how it is edited, its team, and figures as they are quoted.

A team is named where a label or annotation of the pod names one.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import PORT, ContainerUse
from bot.kube.models import Holder, ObjectMeta, Pod
from bot.kube.times import format_time
from bot.report import Evidence, NextAction, step
from bot.texts import Prose, Text
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


_ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")
"""Owners that create their pods anew when their template changes."""


def _edited(pod: Pod) -> tuple[str, str]:
    """Kind and name of what has to change: the owner, or the pod that has none."""
    owner = owner_of(pod)
    return ("Pod", pod.name) if owner.kind == "Namespace" else (owner.kind, owner.name)


def of_owner(pod: Pod) -> dict[str, Prose]:
    """`Deployment ml/web`, and what has to be created anew once that is edited, as texts of steps have them."""
    kind, name = _edited(pod)
    anew = Text("change.template-fixed", kind=kind)
    if kind == "Pod" or kind in _ROLLED_OUT:
        anew = Text("change.pod-fixed" if kind == "Pod" else "change.rolled-out")
    return {"owner": f"{kind} {pod.namespace}/{name}", "anew": anew}


def edit(pod: Pod, label: Text, verb: tuple[str, ...] = ("edit",), *rest: str) -> NextAction:
    """The step that changes the pod's owner, and with it the pod: `kubectl VERB deployment/web REST`.

    A pod that waits by itself is replaced. Any other owner is created anew by whoever has its manifest, and so is a pod
    that has its node: what is read of it would go there without a scheduler. Of those the command only looks.
    """
    kind, name = _edited(pod)
    target = kind.lower(), name
    if kind in _ROLLED_OUT:
        return step(label, kubectl("-n", pod.namespace, *verb, "/".join(target), *rest), changes_cluster=True)
    look = kubectl("-n", pod.namespace, "get", *target, "-o", "yaml")
    if kind != "Pod" or pod.spec.node_name:
        return step(label, look)
    replace = f"{look} > pod.yaml && ${{EDITOR:-vi}} pod.yaml && kubectl replace --force -f pod.yaml"
    return step(label, replace, changes_cluster=True)


def edit_owner(pod: Pod, change: Prose, patch: Mapping[str, object] | None = None) -> NextAction:
    """The step that makes this change of the pod's owner; `patch` is it, as a part of the pod, where it is known."""
    label = Text("change.in-owner", change=change, **of_owner(pod))
    if patch is None:
        return edit(pod, label)
    return edit(pod, label, ("patch",), "-p", json.dumps({"spec": {"template": patch}}, separators=(",", ":")))


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
    seen, command = measured.usage, ""
    monitor = next((pod for pod in seen.monitors if pod.spec.node_name == node), None)
    if seen.of_prometheus:
        command = f"PromQL: {reading.line.rpartition(' ')[0]}"
    elif monitor is not None:
        path = f"/api/v1/namespaces/{monitor.namespace}/pods/{monitor.name}:{PORT}/proxy/metrics"
        command = f"{kubectl('get', '--raw', path)} | grep '{grep}'"
    return Evidence("metrics", about, format_time(measured.taken_at), reading.line, command)
