"""Why the slowest stage takes so long, as far as the logs and events prove it, and what its time grows with."""

import shlex
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from bot.hami.scheduler_logs.scheduling_latency import (
    MOMENTS,
    Growth,
    LatencyStage,
    Life,
    Moment,
    PodLogLine,
    measure,
    settled,
    slopes,
)
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.models import Event
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, act, gap, step
from bot.texts import Prose, Text, named, sentences
from playbooks import quotes
from playbooks.gather.latency import LatencySeen
from playbooks.rule import Stage as Speaking
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.rules.waiting.binding import late_binds
from playbooks.scenes.cluster import OfInstall

BY_KUBELET = ("bound", "allocated")
"""The steps after which a pod's start is the node's work, until the next step."""
_SHOWN = 3
_PULLS = ("Pulling", "Pulled", "Failed", "BackOff", "FailedMount", "FailedCreatePodSandBox")


class LatencyScene(OfInstall, frozen=True, dict=True, eq=False):
    """The new pods with the times of their scheduling steps, and the schedulers' logs; `since` is how far back, as
    typed. `events` are those of the pod that was slowest to start, if it was slow on its node.
    """

    latency: LatencySeen
    since: str
    events: Sequence[Event] | Gap = ()

    @cached_property
    def stages(self) -> list[LatencyStage]:
        """The stages from creation to start with their times, in order; the whole time is the last."""
        return measure(settled(self.latency.lives))

    @property
    def top(self) -> LatencyStage | None:
        """The stage with the most time over all pods, of those that some pod shows; None if there is none."""
        return max((stage for stage in self.stages[:-1] if stage.n), key=lambda stage: sum(stage.seconds), default=None)

    @cached_property
    def growths(self) -> list[Growth]:
        """What the times of HAMi's filter and bind grow with."""
        seen = self.latency
        nodes = () if isinstance(seen.nodes, Gap) else seen.nodes
        made = sorted(parse_time(node.metadata.creation_timestamp) or seen.since for node in nodes)
        judged = {call.pod: call.candidates for call, _ in seen.calls if call.candidates}  # a bind is told of none
        begun = sorted(life.noted["created"] for life in seen.lives)
        ended = sorted(at for life in seen.lives if (at := _waited_until(life)))
        rows: list[Growth] = []
        for verb in ("filter", "bind"):
            if calls := [call for call, _ in seen.calls if call.verb == verb]:
                values = {
                    "candidates": [call.candidates or judged.get(call.pod, 0) for call in calls],
                    "nodes": [bisect_right(made, call.at) for call in calls],
                    "pending": [bisect_right(begun, call.at) - bisect_right(ended, call.at) for call in calls],
                }
                rows += slopes(verb, [call.seconds * 1000 for call in calls], values)
        return rows

    @property
    def gaps(self) -> list[Gap]:
        """The gaps about HAMi and its logs."""
        return [*self.seen.gaps, *self.latency.gaps]


@rule("binding-failed")
def bind_timeouts(scene: LatencyScene) -> Iterator[Finding]:
    """The finding that many new pods are pending because their bind took longer than kube-scheduler waits."""
    return late_binds(scene.latency.pending, scene.install)


@rule("not-enough-evidence")
def nothing_measured(scene: LatencyScene) -> Iterator[Finding]:
    """The finding that no new pod shows a stage, so that nothing could be measured."""
    if scene.top is None:
        pending = scene.latency.pending
        claim = Text("latency.none-yet" if pending else "latency.none", since=scene.since, count=len(pending))
        steps = _show_attempts(scene.latency)
        yield finding("not-enough-evidence", claim, "suspected", (), (), severity="info", actions=steps)


@rule("scheduling-latency")
def longest_stage(scene: LatencyScene) -> Iterator[Finding]:
    """The finding that most of the time goes into one stage, and why."""
    if (top := scene.top) is None:
        return
    reason = _reason(top, scene)
    pending = len(scene.latency.pending) if scene.stages[-1].n else 0
    left = Text("latency.pending", count=pending) if pending else ""
    yield finding(
        "scheduling-latency",
        sentences(head(scene, top), reason.text, left),
        "suspected" if scene.gaps else reason.confidence,
        (),
        (*(proof for moment in (top.start, top.end) for proof in _of_moment(top, moment)), *reason.evidence),
        severity="warning" if reason.slow else "info",
        actions=(*reason.actions, *_show_attempts(scene.latency)),
    )


@rule("scheduling-latency")
def node_locks(scene: LatencyScene) -> Iterator[Finding]:
    """The finding that a node lock made pods wait for another try."""
    lives = [life for life in scene.latency.lives if life.locked]
    if proofs := _quoted(_locked(lives)):
        claim = Text("latency.retried", count=len(lives), total=len(scene.latency.lives))
        yield finding("scheduling-latency", claim, "confirmed", (), proofs, severity="info")


@rule("scheduling-latency")
def growth(scene: LatencyScene) -> Iterator[Finding]:
    """The findings that HAMi's filter or bind takes longer the more there is of something, or is known not to."""
    cause = Text("latency.growth-throttled") if _is_throttled(scene) else ""
    for verb, of_verb in groupby(scene.growths, key=lambda row: row.call):
        rows = list(of_verb)
        if told := [row for row in rows if row.each_ms is not None]:
            slowest, log = max(
                (said for said in scene.latency.calls if said[0].verb == verb), key=lambda said: said[0].seconds
            )
            median = Text("latency.growth", verb=verb, median=_ms(told[0].median_ms), count=told[0].runs)
            claim = sentences(median, *map(_grows, told), cause)
            confidence = "suspected" if scene.gaps or len(told) < len(rows) else "confirmed"
            proofs = [_of_said(PodLogLine(slowest.at, line, log)) for line in (slowest.first, slowest.last)]
            yield finding("scheduling-latency", claim, confidence, (), proofs, severity="info")


LATENCY_RULES: tuple[Speaking[LatencyScene], ...] = (
    Speaking("binds time out", bind_timeouts),
    Speaking("nothing to measure", nothing_measured, ends=True),
    Speaking("the longest stage", longest_stage),
    Speaking(
        "node locks",
        node_locks,
        keeps=lambda told, found: all(found.evidence[0] not in each.evidence for each in told.findings),
    ),
    Speaking("what it grows with", growth),
)


def head(scene: LatencyScene, top: LatencyStage) -> Text:
    """The claim: how long the pods took to start, and which stage took the most."""
    whole, time = scene.stages[-1], _ms(sum(top.seconds))
    values = {"since": scene.since, "stage": named(top.name, "states"), "top": time}
    if whole.n:
        return Text("latency.claim", **values, count=whole.n, median=whole.median_s, p95=whole.p95_s)
    return Text("latency.claim-unstarted", **values, count=top.n)


# --------------------------------------------------------------------------------------------------------- reasons


class _Reason(NamedTuple):
    """Why, with its proof and what to do; `slow` where something is to be changed."""

    text: Prose
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    actions: tuple[NextAction, ...] = ()
    slow: bool = False


def _reason(stage: LatencyStage, scene: LatencyScene) -> _Reason:
    """What is proven about the stage; else what happens in it, as suspected."""
    if stage.start in BY_KUBELET:
        if stage.end == "allocated":
            return _Reason(Text("latency.allocation"), "suspected")
        events = () if isinstance(scene.events, Gap) else scene.events
        pulls = [quotes.of_event(event) for event in events if event.reason in _PULLS]
        key = "latency.start-allocated" if stage.start == "allocated" else "latency.start"
        return _Reason(Text(key), "confirmed" if pulls else "suspected", tuple(pulls[:_SHOWN]))
    queued, waits = stage.start == "created", scene.latency.waits
    held_back = sum(wait.wait.seconds for wait in waits)
    # In a queue: kube-scheduler tries one pod at a time, so the pods' time between filter and bind adds up to what the
    # last one waits. At least half of it has to be so explained.
    if _is_throttled(scene) and (not queued or _spent(scene, MOMENTS[2:4]) >= (stage.max_s or 0.0) / 2):
        longest = sorted(waits, key=lambda wait: -wait.wait.seconds)
        values = {"count": len(waits), "sum": f"{held_back:.0f}", "longest": f"{longest[0].wait.seconds:.2f}"}
        text = Text("latency.throttled-queue" if queued else "latency.throttled", **values)
        proofs = tuple(quotes.of_wait(wait.wait, wait.scheduler) for wait in longest[:_SHOWN])
        return _Reason(text, "confirmed", proofs, (step(Text("latency.tune"), "tune"),), slow=True)
    locked = _locked(stage.lives)
    if locked and not queued and 2 * len({log_line.line.values.get("pod") for log_line in locked}) >= stage.n:
        see = (step(Text("latency.nodes"), "nodes"),)
        return _Reason(Text("latency.locked", count=len(locked)), "confirmed", _quoted(locked), see, slow=True)
    if stage.start not in ("created", "first_attempt"):
        return _Reason(Text("latency.extender"), "suspected")
    if stage.end not in ("first_attempt", "first_filter"):
        return _Reason(Text("latency.unknown"), "suspected")
    return _Reason(Text("latency.queue" if queued else "latency.filters"), "suspected")


def _is_throttled(scene: LatencyScene) -> bool:
    """Whether requests that were held back are at least half of the time that the pods spent in HAMi's scheduler."""
    waits = scene.latency.waits
    return bool(waits) and sum(wait.wait.seconds for wait in waits) >= _spent(scene, MOMENTS[2:5]) / 2


def _spent(scene: LatencyScene, since: Sequence[Moment]) -> float:
    return sum(sum(stage.seconds) for stage in scene.stages[:-1] if stage.start in since)


def _locked(lives: Sequence[Life]) -> list[PodLogLine]:
    return [log_line for life in lives for log_line in life.locked]


def _quoted(locked: Sequence[PodLogLine]) -> tuple[Evidence, ...]:
    return tuple(_of_said(log_line) for log_line in locked[:_SHOWN])


# ---------------------------------------------------------------------- what filter and bind grow with

_FACTORS: Mapping[str, Text] = {
    "candidates": Text("latency.candidates"),
    "nodes": Text("latency.cluster-nodes"),
    "pending": Text("latency.pending-pods"),
}


def _waited_until(life: Life) -> datetime | None:
    """None while it waits; of a pod whose binding is not known it counts as waiting at no time."""
    if not life.pod.spec.node_name and life.pod.status.phase == "Pending":
        return None
    return life.logged["bound"].at if "bound" in life.logged else life.noted.get("bound", life.noted["created"])


def _grows(row: Growth) -> Text:
    figures = {"slope": row.each_ms, "low": row.low_ms, "high": row.high_ms, "then": row.twice_ms}
    key = "latency.grows" if row.state == "grows" else "latency.flat"
    words = {name: _ms(value or 0.0) for name, value in figures.items()}
    return Text(key, of=_FACTORS[row.grows_with], now=row.usual, twice=2 * row.usual, **words)


def _ms(value: float) -> str:
    """Three figures: 0.0123, 1.91, 45.7, 1,630."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# ---------------------------------------------------------------------- moments that no log shows

_ATTEMPTS_FROM = 3
"""The log level from which kube-scheduler logs its attempts; the extender logs its moments at any level."""
_SHOWN_BY: Mapping[str, tuple[Moment, ...]] = {KUBE_SCHEDULER_CONTAINER: MOMENTS[1:2], EXTENDER_CONTAINER: MOMENTS[2:5]}


def unseen_moments(seen: LatencySeen) -> Iterator[Gap]:
    """A gap for each container whose logs show a scheduling step of no pod, unless a gap of the log says why."""
    for container in _SHOWN_BY:
        missing = _missing(container, seen)
        if missing and (why := _why(container, missing, seen)):
            yield gap(f"{container} log", why)


def _show_attempts(seen: LatencySeen) -> tuple[NextAction, ...]:
    """Lets kube-scheduler log its attempts for a while, where its level is why it shows none."""
    if not _missing(KUBE_SCHEDULER_CONTAINER, seen) or _quiet_level(seen) is None:
        return ()
    command = f"verbosity {_ATTEMPTS_FROM} for 10m --container {KUBE_SCHEDULER_CONTAINER}"
    return (act(Text("latency.show-attempts"), command),)


def _missing(container: str, seen: LatencySeen) -> list[Moment]:
    lives = settled(seen.lives)
    return [moment for moment in _SHOWN_BY[container] if lives and not any(moment in life.logged for life in lives)]


def _why(container: str, missing: Sequence[Moment], seen: LatencySeen) -> Text | None:
    """None where the log's own gap is why."""
    level = _quiet_level(seen)
    moments = ", ".join(missing).replace("_", " ")
    values = {"moments": moments, "container": container, "level": level, "least": _ATTEMPTS_FROM}
    own = [has_gap for log, has_gap in seen.logs if log.container == container]
    if not own:
        return Text("latency.unseen-no-log", **values)
    if container == KUBE_SCHEDULER_CONTAINER and level is not None:
        return Text("latency.unseen-quiet", **values)
    return None if any(own) else Text("latency.unseen-lines", **values)


def _quiet_level(seen: LatencySeen) -> int | None:
    """The lowest level of the kube-schedulers whose logs were read; None where all of them log their attempts."""
    own = (log for log, _ in seen.logs if log.container == KUBE_SCHEDULER_CONTAINER and not isinstance(log.read, Gap))
    lowest = min((log.verbosity for log in own), default=_ATTEMPTS_FROM)
    return lowest if lowest < _ATTEMPTS_FROM else None


# ---------------------------------------------------------------------- how moments are quoted

_ANNOTATIONS: dict[Moment, str] = {"chosen": "hami.io/vgpu-time", "bind_started": "hami.io/bind-time"}


def _of_said(said: PodLogLine) -> Evidence:
    log, values = said.log, said.line.values
    about = values.get("pod") or values.get("podName") or values.get("object", "schedule")
    options = ["--previous"] if log.previous else []
    return quotes.of_logged(log.scheduler, log.container, said.line.raw, said.at, *options, grep=shlex.quote(about))


def _of_moment(stage: LatencyStage, moment: Moment) -> list[Evidence]:
    """The line, or the part of the object, that shows when it was for the slowest pod."""
    life = stage.lives[0]
    pod = life.pod
    if stage.exact and moment in life.logged:
        return [_of_said(life.logged[moment])]
    if moment not in life.noted:
        return []
    if moment in _ANNOTATIONS:
        return [quotes.of_pod_annotation(pod, _ANNOTATIONS[moment])]
    if moment == "bound" and (bound := pod.condition("PodScheduled")):
        path = '{.status.conditions[?(@.type=="PodScheduled")].lastTransitionTime}'
        return [quotes.of_pod(pod, bound.last_transition_time or "", path)]
    if moment == "allocated":
        return [quotes.of_pod(pod, pod.status.start_time or "", "{.status.startTime}")]
    if moment == "created":
        return [quotes.of_pod(pod, pod.metadata.creation_timestamp or "", "{.metadata.creationTimestamp}")]
    return [quotes.of_pod(pod, format_time(life.noted[moment]), "{.status.containerStatuses}")]
