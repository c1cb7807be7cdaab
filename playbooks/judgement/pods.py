"""Many waiting pods, each with its cause: `pending` groups them all, `quota` those that a quota keeps out."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.pods.request_parsing import DeviceConfig, asked_resources
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Finding, Gap, gap
from bot.texts import Text
from playbooks.judgement.waiting import Judge
from playbooks.rules.common.cause_key import cause_signature
from playbooks.rules.common.gaps import scene_gaps
from playbooks.scenes.cluster import ClusterScene


class WaitingRow(NamedTuple):
    """A pod that waits, and what it asks for as written, without the domain: `gpu 1, gpumem 20k`."""

    namespace: str
    pod: str
    waiting_since: datetime | None
    minutes: int | None
    asks: str


class JudgedPod(NamedTuple):
    """One pod with the first finding about it; None where there was no room to judge it."""

    pod: Pod
    cause: Finding | None


def judge_all(
    scene: ClusterScene, pods: Iterable[Pod], undecodable: Sequence[str]
) -> tuple[list[JudgedPod], list[Gap]]:
    """Each pod's cause, in the order of the pods, and what could not be seen of what decides it."""
    judge = Judge(scene)
    judged = [JudgedPod(pod, judge.cause(pod)) for pod in pods]
    gaps = [*scene_gaps(scene, undecodable), *judge.gaps]
    if left := sum(1 for judged_pod in judged if judged_pod.cause is None):
        gaps.append(gap("fit", Text("pending.not-judged", count=left), Text("pending.not-judged-hint")))
    return judged, gaps


def by_cause(judged: Iterable[JudgedPod]) -> list[list[JudgedPod]]:
    """Those of the same cause together, by structured facts; pods that were not judged are in none."""
    groups: dict[str, list[JudgedPod]] = {}
    signatures: dict[int, str] = {}  # thousands of pods share a finding, and it may name thousands of nodes
    for judged_pod in judged:
        if judged_pod.cause is not None:
            signature = signatures.get(id(judged_pod.cause)) or cause_signature(judged_pod.cause)
            signatures[id(judged_pod.cause)] = signature
            groups.setdefault(signature, []).append(judged_pod)
    return list(groups.values())


def waiting_row(pod: Pod, config: DeviceConfig, now: datetime) -> WaitingRow:
    """The pod as a row."""
    since = parse_time(pod.metadata.creation_timestamp)
    minutes = max(0, int((now - since).total_seconds() // 60)) if since else None
    asks = ", ".join(f"{_short(name, config)} {value}" for name, value in asked_resources(pod, config).items())
    return WaitingRow(pod.namespace, pod.name, since, minutes, asks)


def _short(resource: str, config: DeviceConfig) -> str:
    """Without its domain, but for another vendor's that would then read as the first one's: `metax-tech.com/gpu`."""
    local = resource.rpartition("/")[2]
    of_first = {name.rpartition("/")[2] for name in config.gpus.all}
    return resource if local in of_first and resource not in config.gpus.all else local
