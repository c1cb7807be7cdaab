"""A GPU container that ended with a segmentation fault, and what of the API points at HAMi-core.

HAMi-core is preloaded into every process of the container. Its file on the node is replaced when the device plugin
starts (HAMi#727, HAMi#753), and some versions crash with several GPUs or NCCL (HAMi#1191, HAMi#1230, HAMi#1479,
HAMi#1764). Nothing of that proves it: without such a sign a segmentation fault is the program's own.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from bot.hami.version import Version
from bot.kube.models import Container, ContainerStatus, Pod, StateTerminated
from bot.kube.times import parse_time
from bot.report import Finding, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.containers import in_trouble, path_in, run_time, statuses
from playbooks.rules.common.findings import finding
from playbooks.rules.placed.container_faults import given
from playbooks.rules.placed.hami_core import library_of, library_told
from playbooks.scenes.placed_pod import PlacedScene

SEGFAULT = 139
_BEFORE, _AFTER = timedelta(seconds=15), timedelta(seconds=120)
"""Around the plugin's start: it copies the library at its start, and processes trip over it at their next call."""
_BACK_OFF = (0, 10, 20, 40, 80, 160, 300, 300)
"""Seconds that kubelet waits before each restart of a container that keeps ending."""
_GOOD = Version(2, 8, 3)
"""HAMi-core 5091a2f: the first without the crashes of NCCL and vLLM."""
_LIBRARIES = re.compile(r"vllm|sglang|nccl|torch|deepspeed|megatron|tensorrt|trt-?llm|lmdeploy|triton", re.IGNORECASE)


class _Crash(NamedTuple):
    container: Container
    status: ContainerStatus
    ended: StateTerminated
    place: str


class _Start(NamedTuple):
    """A start of the device plugin, as told and as a time; `down_since` is when the run before ended."""

    pod: Pod
    quote: str
    at: datetime
    down_since: datetime


@rule("hami-core-crash", reads=("install",))
def segfault(scene: PlacedScene) -> Iterator[Finding]:
    """A GPU container ended with a segmentation fault, and something points at HAMi-core."""
    crash, held = next(_crashes(scene), None), scene.once(given)
    if crash is None or not held.shares:
        return
    library = library_of(scene.plugins)
    restarted = next(
        (start for start in map(_start_of, scene.plugins) if start and _broke(scene.pod, crash, start)), None
    )
    prone = len(held.shares) > 1 or _LIBRARIES.search(crash.container.image)
    if restarted is not None or (prone and library and library.version < _GOOD):
        yield _finding(scene, crash, restarted)


def _crashes(scene: PlacedScene) -> Iterator[_Crash]:
    by_name = {container.name: container for container in scene.once(given).containers}
    for status in statuses(scene.pod):
        for place, state in (("state", status.state), ("lastState", status.last_state)):
            ended = state.terminated
            if ended and ended.exit_code == SEGFAULT and status.name in by_name and in_trouble(status, scene.now):
                yield _Crash(by_name[status.name], status, ended, place)


def _start_of(plugin: Pod) -> _Start | None:
    """The last start of the plugin's own container, which copies the library to the node."""
    for status in plugin.status.container_statuses or ():
        text = (status.state.running.started_at if status.state.running else None) or ""
        at = parse_time(text)
        if at is not None and "monitor" not in status.name:
            before = status.last_state.terminated
            down = parse_time(before.finished_at if before else None)
            return _Start(plugin, text, at, min(down or at, at))
    return None


def _broke(pod: Pod, crash: _Crash, start: _Start) -> bool:
    """Whether a crash loop of a pod that ran before may have begun with this start."""
    began = parse_time(pod.status.start_time or pod.metadata.creation_timestamp)
    if began is None or began >= start.at:
        return False
    return any(start.down_since - about <= moment <= start.at + _AFTER for moment, about in _times(crash))


def _times(crash: _Crash) -> list[tuple[datetime, timedelta]]:
    """When it crashed last, and about when first, each with how far off it is: kubelet tells only a loop's last end."""
    last, lasted = parse_time(crash.ended.finished_at), run_time(crash.ended)
    if last is None:
        return []
    again = crash.status.restart_count - (1 if crash.status.state.running else 0)
    if lasted is None or not 0 < again <= len(_BACK_OFF):
        return [(last, _BEFORE)]
    loop = again * lasted + timedelta(seconds=sum(islice(_BACK_OFF, again)))
    return [(last, _BEFORE), (last - loop, max(_BEFORE, loop / 4))]


def _finding(scene: PlacedScene, crash: _Crash, restarted: _Start | None) -> Finding:
    pod, node = scene.pod, scene.pod.spec.node_name
    proofs = [quotes.of_pod(pod, str(SEGFAULT), _path(pod, crash, "exitCode"))]
    if crash.ended.finished_at:
        proofs.append(quotes.of_pod(pod, crash.ended.finished_at, _path(pod, crash, "finishedAt")))
    if restarted:
        started = "{.status.containerStatuses[*].state.running.startedAt}"
        proofs.append(quotes.of_pod(restarted.pod, restarted.quote, started))
    key = "hami-core-crash.restarted" if restarted else "hami-core-crash.known"
    claim = Text(key, container=crash.container.name, node=node or "?")
    if fact := library_told(scene.plugins):
        claim, proofs = sentences(claim, fact.sentence), [*proofs, *fact.proofs]
    recreate = step(Text("hami-core-crash.recreate"), kubectl_pod(pod, "delete"), changes_cluster=True)
    look = kubectl_pod(pod, "get", "-o", "yaml")
    advice = step(Text("hami-core-crash.log" if restarted else "hami-core-crash.upgrade"), look)
    return finding(
        "hami-core-crash",
        claim,
        "suspected",
        (node,) if node else (),
        proofs,
        severity="warning",
        actions=(recreate, advice) if restarted else (advice, recreate),
    )


def _path(pod: Pod, crash: _Crash, field: str) -> str:
    return path_in(pod, crash.status.name, f"{crash.place}.terminated.{field}")
