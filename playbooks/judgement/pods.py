"""Many waiting pods, each with its cause: `pending` groups them all, `quota` those that a quota keeps out."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.pods.request_parsing import DeviceConfig, asked_resources
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Finding, Gap, gap
from bot.texts import Text
from playbooks.gather.scheduling import InstallSeen
from playbooks.gather.waiting import WaitingContext
from playbooks.judgement.pod import ClusterContext, Judge, last_own_attempt
from playbooks.rules.common.cause_key import cause_signature
from playbooks.rules.common.gaps import capacity_gaps
from playbooks.rules.waiting.waiting_pod import World


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
    install: InstallSeen, pods: Iterable[Pod], scene: WaitingContext, undecodable: Sequence[str]
) -> tuple[list[JudgedPod], list[Gap]]:
    """Each pod's cause, in the order of the pods, and what could not be seen of what decides it."""
    messages = scene.messages
    world = world_of(install, scene)
    around = ClusterContext(install, world, scene.lock_owners, scene.questioned, scene.process, scene.webhook)
    judge = Judge(around)
    judged: list[JudgedPod] = []
    for pod in pods:
        name = pod.namespace, pod.name
        about = last_own_attempt(pod, messages.events.get(name, ()), messages.lines.get(name, ()))
        judged.append(JudgedPod(pod, judge.cause(pod, about)))
    gaps = [
        *capacity_gaps(install, scene.capacity, undecodable),
        *messages.gaps,
        *scene.process.gaps,
        *scene.questioned.gaps,
        *judge.gaps,
    ]
    gaps += scene.webhook.gaps if scene.webhook else ()
    gaps += [lock_owner for lock_owner in scene.lock_owners.values() if isinstance(lock_owner, Gap)]
    if left := sum(1 for judged_pod in judged if judged_pod.cause is None):
        gaps.append(gap("fit", Text("pending.not-judged", count=left), Text("pending.not-judged-hint")))
    return judged, gaps


def world_of(install: InstallSeen, scene: WaitingContext) -> World:
    """The cluster that the pods wait in."""
    return World(scene.capacity, install.install, install.config, scene.as_of)


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
