"""Reads what HAMi's scheduler process tells of itself: metrics of what it counts, its log of releases, its panics.

A pod that the process counts and that is in no list of the API is looked up by its name, and the metrics are read once
more after that, so that no older list or figure makes a ghost.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import structs

from bot.errors import NotFound
from bot.hami.installation.install import Install, lacks_leader
from bot.hami.metrics.exposition import CountedShare, SchedulerCounts, read_counted, shares_without_pod
from bot.hami.pods.allocations import NODE_KEY
from bot.hami.scheduler_logs.log_lines import (
    EXIT_CODE,
    RELEASED,
    LogLine,
    may_be_panic,
    may_be_refused_request,
    parse_line,
)
from bot.hami.scheduler_logs.scheduling_events import parse_unschedulable, strip_combined
from bot.kube.cluster import Cluster, LogWanted, PodGet, PodPorts, as_read, seen, served
from bot.kube.hami_pods import (
    EXTENDER_CONTAINER,
    FATAL,
    KUBE_SCHEDULER_CONTAINER,
    METRICS_PORT,
    PANIC,
    RELEASE,
    UNDECODED,
    metrics_port,
)
from bot.kube.models import PODS, Holder, Pod
from bot.report import Gap, gap
from bot.texts import Text
from playbooks.gather.node_side import ContainerLogs, LogSeen, events_of, gather_logs
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines, left_out, source_of
from playbooks.gather.scheduling import InstallSeen
from playbooks.playbook import Sources

METRICS_SOURCE = "scheduler metrics"
_GHOST_SOURCE = "pods of the scheduler's memory"
_MOST_GHOSTS = 20
MOST_FINISHED = 500
"""The most finished pods that are read for one question: a page of the API server's."""
_FINISHED = ",".join(f"status.phase!={phase}" for phase in ("Pending", "Running", "Unknown"))
_MOST_BYTES = 32 * 1024 * 1024
_WITHIN_S = 15.0
_MOST_LAST_LINES = 5_000
"""The most last lines that are read of a run that ended: after `fatal error` comes the stack of every goroutine."""

Named = tuple[str, str]
"""The key of a pod: namespace and name."""


class Ghost(NamedTuple):
    """A pod that the scheduler counts although no listed pod has these shares. `pod` is the pod of its name now, None
    if there is none; `heard` the time of the newest event about the name.
    """

    taken: tuple[CountedShare, ...]
    pod: Pod | None
    heard: str = ""


class SchedulerProcess(msgspec.Struct, frozen=True):
    """What was read of the scheduler process that decides. `counted` is None if it was not asked for.

    `scheduler` is the pod whose metrics they are, on `port`; `released` are its lines about pods whose GPUs it took
    back, `ended` the times at which containers of finished pods ended, and `unread` why there may be more of either.
    `runs` are the logs of the scheduler's containers that do not work (see `gather_runs`), `refused` the extender's
    lines about requests that it could not read.
    """

    panics: tuple[LogSeen, ...] = ()
    counted: SchedulerCounts | Gap | None = None
    scheduler: Pod | None = None
    port: int = METRICS_PORT
    released: tuple[LogLine, ...] = ()
    ended: tuple[str, ...] = ()
    unread: tuple[Gap, ...] = ()
    ghosts: tuple[Ghost, ...] = ()
    runs: tuple[LogSeen, ...] = ()
    refused: tuple[tuple[Pod, str], ...] = ()
    gaps: tuple[Gap, ...] = ()


async def gather_process(
    sources: Sources, found: InstallSeen, waiting: Sequence[Pod], *needles: str
) -> tuple[SchedulerProcess, ExtenderLines]:
    """Reads what HAMi's scheduler process tells about these pods, and the extenders' log lines that hold a needle.
    Metrics are read if HAMi refused a pod, panics if a call broke. Each log is read once. Never raises.
    """
    install, said = found.install, [pod.refusal for pod in waiting if pod.refusal]
    broke = any(map(may_be_refused_request, said))
    panicked = any(map(may_be_panic, said)) or any(ended_by_panic(pod) is not None for pod in install.pods)
    parsed = (parse_unschedulable(strip_combined(text)) for text in said)
    remembers = any(unschedulable is not None and unschedulable.by_hami for unschedulable in parsed)
    words = ((PANIC, panicked), (RELEASE, remembers), (UNDECODED, broke))
    asked = [*needles, *(word for word, wanted in words if wanted)]
    runs, memory, (earlier, gaps), log = await asyncio.gather(
        gather_runs(sources.cluster, found),
        gather_memory(sources, install) if remembers else as_read(SchedulerProcess()),
        earlier_panics(sources.cluster, install) if panicked else as_read(((), ())),
        gather_extender_lines(sources.cluster, install, asked) if asked else as_read(ExtenderLines()),
    )
    if remembers:
        memory = _with_releases(memory, install, log, sources.cluster.now())
    read = (*panics_in(log), *earlier) if panicked else ()
    own = tuple(line for line in log.lines if any(needle in line[1] for needle in needles))
    process = structs.replace(memory, panics=read, runs=runs.logs, gaps=(*gaps, *runs.gaps))
    return structs.replace(process, refused=log.holding(UNDECODED).lines if broke else ()), log._replace(lines=own)


async def gather_memory(sources: Sources, install: Install) -> SchedulerProcess:
    """Reads the metrics of the scheduler process that decides; `counted` is None without a way to pods' ports."""
    asked = _deciding(install)
    if not asked:
        return SchedulerProcess()
    port = metrics_port(install.flags)
    counts = await asyncio.gather(*(_counted(sources.ports, pod, port) for pod in asked))
    # Without a lease nothing tells which replica decides; since 2.8 the others count nothing.
    at = next((number for number, count in enumerate(counts) if isinstance(count, SchedulerCounts)), 0)
    return SchedulerProcess(counted=counts[at], scheduler=asked[at], port=port)


def _with_releases(process: SchedulerProcess, install: Install, log: ExtenderLines, now: datetime) -> SchedulerProcess:
    """With what the process that decides says it took back: that is newer than a refusal before it."""
    deciding = _deciding(install)
    if not deciding:
        return structs.replace(process, unread=(gap("scheduler log", Text("error-gather.no-scheduler-pod-decides")),))
    names = {pod.name for pod in deciding}
    others = {source_of(pod) for pod in install.pods if pod.name not in names}
    lines = (parse_line(raw, now) for pod, raw in log.holding(RELEASE).lines if pod.name in names)
    released = tuple(line for line in lines if line is not None and line.message in RELEASED)
    return structs.replace(
        process, released=released, unread=tuple(gap for gap in log.gaps if gap.source not in others)
    )


def _deciding(install: Install) -> Sequence[Pod]:
    return [install.leader] if install.leader else install.ready_pods


async def _counted(ports: PodPorts | None, scheduler: Pod, port: int) -> SchedulerCounts | Gap | None:
    if ports is None:
        return None
    wanted = PodGet(
        scheduler.namespace, scheduler.name, "http", port, "metrics", within_s=_WITHIN_S, limit_bytes=_MOST_BYTES
    )
    text = await served(METRICS_SOURCE, ports, wanted)
    if isinstance(text, Gap):
        return text
    return read_counted(text) or gap(METRICS_SOURCE, Text("error-usage.no-figure-of-any-gpu", wanted=wanted))


def unread(process: SchedulerProcess) -> list[Gap]:
    """The gaps of the scheduler's process, that of its metrics among them."""
    return [*process.gaps, *([process.counted] if isinstance(process.counted, Gap) else [])]


async def with_ended(cluster: Cluster, process: SchedulerProcess) -> SchedulerProcess:
    """Adds to the process the times at which finished pods ended, unless its metrics were read. Their shares are free,
    even if the log does not reach back that far.
    """
    if process.scheduler is None or isinstance(process.counted, SchedulerCounts):
        return process
    found = await seen("finished pods", cluster.list(PODS, labels=NODE_KEY, fields=_FINISHED, most=MOST_FINISHED))
    pods = () if isinstance(found, Gap) else found
    gaps = (found,) if isinstance(found, Gap) else ()
    if len(pods) >= MOST_FINISHED:
        gaps = (gap("finished pods", Text("error-gather.no-more-than-were-read", most=f"{MOST_FINISHED:,}")),)
    ends = (status.state.terminated for pod in pods for status in pod.status.container_statuses or ())
    return structs.replace(
        process,
        ended=tuple(state.finished_at for state in ends if state and state.finished_at),
        unread=(*process.unread, *gaps),
        gaps=(*process.gaps, *gaps),
    )


async def with_ghosts(sources: Sources, process: SchedulerProcess, pods: Sequence[Holder] | Gap) -> SchedulerProcess:
    """Adds to the process the pods that it counts and none of `pods` accounts for, each looked up by its name. Pods
    that it no longer counts after the look-up are left out: they ended meanwhile.
    """
    if isinstance(pods, Gap) or not isinstance(process.counted, SchedulerCounts):
        return process
    missing: dict[Named, list[CountedShare]] = {}
    for taken in shares_without_pod(process.counted, pods):
        missing.setdefault((taken.namespace, taken.pod), []).append(taken)
    named = list(missing)[:_MOST_GHOSTS]
    found = await asyncio.gather(*(seen(_GHOST_SOURCE, _look_up(sources.cluster, *name)) for name in named))
    gaps = [gap for gap in found if isinstance(gap, Gap)]
    if rest := len(missing) - len(named):
        gaps.append(gap(_GHOST_SOURCE, Text("error-gather.more-were-not-looked-up", rest=f"{rest:,}")))
    looked_up = [
        ghost._replace(taken=tuple(missing[name]))
        for name, ghost in zip(named, found, strict=True)
        if not isinstance(ghost, Gap)
    ]
    # One that has the name now may be reserved after all: it was filtered while the lists were read.
    ghosts = tuple(
        ghost
        for ghost in looked_up
        if ghost.pod is None or shares_without_pod(SchedulerCounts(ghost.taken, {}, frozenset()), [ghost.pod])
    )
    process = structs.replace(process, ghosts=ghosts, gaps=(*process.gaps, *dict.fromkeys(gaps)))
    if not ghosts or process.scheduler is None:
        return process
    again = await _counted(sources.ports, process.scheduler, process.port)
    if not isinstance(again, SchedulerCounts):  # then its figures prove nothing
        return structs.replace(process, counted=again, ghosts=())
    now = {share[:4] for share in again.taken}
    kept = (ghost._replace(taken=tuple(use for use in ghost.taken if use[:4] in now)) for ghost in ghosts)
    return structs.replace(process, ghosts=tuple(ghost for ghost in kept if ghost.taken))


async def _look_up(cluster: Cluster, namespace: str, name: str) -> Ghost:
    try:
        pod = await cluster.get(PODS, name, namespace)
    except NotFound:
        pod = None
    events = await events_of(cluster, namespace, name)
    about = () if isinstance(events, Gap) else events
    earlier = [event.seen_at for event in about if pod is None or event.involved_object.uid != pod.metadata.uid]
    return Ghost((), pod, max(earlier, default=""))


async def gather_panics(cluster: Cluster, install: Install) -> tuple[tuple[LogSeen, ...], tuple[Gap, ...]]:
    """Reads the extenders' log lines of panics: of running processes, and of runs that a panic may have ended."""
    log, (earlier, gaps) = await asyncio.gather(
        gather_extender_lines(cluster, install, [PANIC]), earlier_panics(cluster, install)
    )
    return (*panics_in(log), *earlier), (*log.gaps, *gaps)


def panics_in(log: ExtenderLines) -> tuple[LogSeen, ...]:
    """The panic lines of processes that still run, one log for each pod."""
    found: dict[str, tuple[Pod, list[str]]] = {}
    for pod, line in log.holding(PANIC).lines:
        found.setdefault(pod.name, (pod, []))[1].append(line)
    return tuple(LogSeen(pod, EXTENDER_CONTAINER, previous=False, lines=tuple(lines)) for pod, lines in found.values())


async def earlier_panics(cluster: Cluster, install: Install) -> tuple[tuple[LogSeen, ...], tuple[Gap, ...]]:
    """Reads the logs of the extenders' earlier runs that a panic may have ended."""
    ended = [pod for pod in install.pods if ended_by_panic(pod) is not None]
    wanted = [
        LogWanted(
            pod.namespace,
            pod.name,
            EXTENDER_CONTAINER,
            PANIC.encode(),
            previous=True,
            tail=_MOST_LAST_LINES,
            others=(FATAL.encode(),),
        )
        for pod in ended
    ]
    logs = await asyncio.gather(*(seen(want.source, cluster.log(want)) for want in wanted))
    gaps = [
        log if isinstance(log, Gap) else left_out(want.source, log)
        for want, log in zip(wanted, logs, strict=True)
        if isinstance(log, Gap) or log.cut
    ]
    found = [
        LogSeen(pod, EXTENDER_CONTAINER, previous=True, lines=log.lines)
        for pod, log in zip(ended, logs, strict=True)
        if not isinstance(log, Gap) and log.lines
    ]
    return tuple(found), tuple(gaps)


def ended_by_panic(scheduler: Pod) -> str | None:
    """When a panic may have ended the extender's last run; empty if the time is not said, None if none did."""
    status = scheduler.container(EXTENDER_CONTAINER)
    states = (status.last_state.terminated, status.state.terminated) if status else ()
    return next((state.finished_at or "" for state in states if state and state.exit_code == EXIT_CODE), None)


_MOST_PODS = 3
"""The most scheduler pods whose logs are read: replicas run the same program, so one end explains the others."""


async def gather_runs(cluster: Cluster, seen: InstallSeen) -> ContainerLogs:
    """Reads the logs of the containers that keep every pod of HAMi's scheduler from serving; never raises. What could
    not be read is left out if another run of the same pod was: kubelet keeps only the newest logs.
    """
    install = seen.install
    if not install.ready_pods:
        wanted = [(pod, names) for pod in install.pods[:_MOST_PODS] if (names := _sick(pod))]
    elif seen.lease_unread or not lacks_leader(install, cluster.now()):
        wanted = []
    else:
        wanted = [(pod, [KUBE_SCHEDULER_CONTAINER]) for pod in install.ready_pods[:_MOST_PODS]]
    read = await asyncio.gather(*(gather_logs(cluster, [pod], only=names) for pod, names in wanted))
    missed = (some.gaps for some in read if not any(log.lines for log in some.logs))
    return ContainerLogs(
        tuple(log for some in read for log in some.logs), tuple(gap for gaps in missed for gap in gaps)
    )


def _sick(pod: Pod) -> list[str]:
    both = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    sick = (status for status in both if not status.ready)
    return [it.name for it in sick if it.restart_count or it.state.running or it.state.terminated]
