"""Why the stage that takes the most takes so long, as far as the logs and events prove it."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.scheduler_logs.scheduling_latency import MOMENTS, Life, PodLogLine, Stage
from bot.kube.models import Event
from bot.report import Confidence, Evidence, NextAction, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.latency import LatencySeen
from playbooks.latency.proof import of_said

BY_KUBELET = ("bound", "allocated")
"""What begins with these moments happens on the node."""
_SHOWN = 3
_PULLS = ("Pulling", "Pulled", "Failed", "BackOff", "FailedMount", "FailedCreatePodSandBox")


class Reason(NamedTuple):
    """Why, with its proof and what to do; `slow` where something is to be changed."""

    text: Prose
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    actions: tuple[NextAction, ...] = ()
    slow: bool = False


def longest(stages: Sequence[Stage]) -> Stage | None:
    """The stage with the greatest median, of those that some pod shows."""
    parts = [stage for stage in stages[:-1] if stage.n]
    return max(parts, key=lambda stage: stage.median_s or 0.0, default=None)


def reason_of(stage: Stage, stages: Sequence[Stage], seen: LatencySeen, events: Sequence[Event]) -> Reason:
    """What is proven about the stage; else what happens in it, as suspected."""
    if stage.start in BY_KUBELET:
        return _of_kubelet(stage, events)
    queued = stage.start == "created"
    if _is_throttled(stages, seen) and (not queued or _holds_up(stage, stages)):
        return _throttled(seen, queued=queued)
    locked = _locked(stage.lives)
    if locked and not queued and 2 * len({log_line.line.values.get("pod") for log_line in locked}) >= stage.n:
        return Reason(Text("latency.locked", count=len(locked)), "confirmed", _quoted(locked), _see_nodes(), slow=True)
    return Reason(_unproven(stage), "suspected")


def _of_kubelet(stage: Stage, events: Sequence[Event]) -> Reason:
    if stage.end == "allocated":
        return Reason(Text("latency.allocation"), "suspected")
    pulls = [quotes.of_event(event) for event in events if event.reason in _PULLS]
    text = "latency.start-allocated" if stage.start == "allocated" else "latency.start"
    return Reason(Text(text), "confirmed" if pulls else "suspected", tuple(pulls[:_SHOWN]))


def _unproven(stage: Stage) -> Text:
    """What happens in the stage."""
    if stage.start == "created":
        return Text("latency.queue" if stage.end in ("first_attempt", "first_filter") else "latency.unknown")
    if stage.start == "first_attempt":
        return Text("latency.filters" if stage.end == "first_filter" else "latency.unknown")
    return Text("latency.extender")


def retried(seen: LatencySeen) -> Reason | None:
    """The pods that a node lock made wait for another try; None without one."""
    lives = [life for life in seen.lives if life.locked]
    if not lives:
        return None
    text = Text("latency.retried", count=len(lives), total=len(seen.lives))
    return Reason(text, "confirmed", _quoted(_locked(lives)), _see_nodes())


def _is_throttled(stages: Sequence[Stage], seen: LatencySeen) -> bool:
    """Whether requests that were held back are at least half of the time that the pods spent in HAMi's scheduler."""
    spent = sum(sum(stage.seconds) for stage in stages[:-1] if stage.start in MOMENTS[2:5])
    return bool(seen.waits) and sum(wait.wait.seconds for wait in seen.waits) >= spent / 2


def _holds_up(queue: Stage, stages: Sequence[Stage]) -> bool:
    """Whether HAMi's filter accounts for the queue: kube-scheduler tries one pod at a time, so the pods' time between
    filter and bind adds up to what the last one waits. At least half of it has to be so explained.
    """
    filtering = sum(sum(stage.seconds) for stage in stages[:-1] if stage.start in MOMENTS[2:4])
    return filtering >= (queue.max_s or 0.0) / 2


def _throttled(seen: LatencySeen, *, queued: bool) -> Reason:
    waits = sorted(seen.waits, key=lambda wait: -wait.wait.seconds)
    total = sum(wait.wait.seconds for wait in waits)
    values = {"count": len(waits), "sum": f"{total:.0f}", "longest": f"{waits[0].wait.seconds:.2f}"}
    text = Text("latency.throttled-queue" if queued else "latency.throttled", **values)
    proofs = tuple(quotes.of_wait(wait.wait, wait.scheduler) for wait in waits[:_SHOWN])
    return Reason(text, "confirmed", proofs, (step(Text("latency.tune"), "tune"),), slow=True)


def _locked(lives: Sequence[Life]) -> list[PodLogLine]:
    return [log_line for life in lives for log_line in life.locked]


def _quoted(locked: Sequence[PodLogLine]) -> tuple[Evidence, ...]:
    return tuple(of_said(log_line) for log_line in locked[:_SHOWN])


def _see_nodes() -> tuple[NextAction, ...]:
    return (step(Text("latency.nodes"), "nodes"),)
