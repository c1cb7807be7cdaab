"""What the schedulers themselves said last about a pod: the newest statement wins (`Attempt`)."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
from msgspec.structs import replace

from bot.hami.nodes.node_lock import LockComplaint, lock_complaint
from bot.hami.scheduler_logs.filter_runs import NodeVerdict, rebuild
from bot.hami.scheduler_logs.log_lines import FILTER_STARTS, LogLine
from bot.hami.scheduler_logs.scheduling_events import (
    CardCount,
    CodeEvent,
    NodesReason,
    Unschedulable,
    event_reason,
    parse_code_event,
    parse_unschedulable,
    read_reason,
    says_none_fit,
    strip_combined,
)
from bot.kube.models import Event, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Evidence
from playbooks import quotes

Stage = Literal["filter", "filter-error", "bind", "extender", "filtered", "nothing", "unclear"]

_ATTEMPT = timedelta(seconds=15)
"""The time within which events belong to one attempt: HAMi stamps each as it happens, and drops some of a burst."""

_LONG, _MANY = timedelta(minutes=5), 3
"""kube-scheduler tries an unschedulable pod again within five minutes; after a change in the cluster, sooner."""

_EVENT_LAG = timedelta(minutes=2)
"""HAMi's own events come up to two minutes late (its client is limited to 5 requests/s); kube-scheduler's do not."""

_EVENT_TEXT_LIMIT = 1000
"""Just below the 1,024 bytes that events.k8s.io keeps of a note [k8s.io/api/events/v1 types.go]."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STAGED = ("FailedScheduling", "FilteringFailed", "FilteringSucceed", "BindingFailed")
_PLACED = ("Scheduled", "BindingSucceed", "Pulling", "Pulled", "Created", "Started")
_EXTENDER_LOST = re.compile(
    r"/filter\b|^(?!running |.*https?://).*(?:context deadline exceeded|connection refused)", re.DOTALL
)
"""kube-scheduler's words when its call of the extender's /filter failed: a failed bind names another URL."""


class Attempt(msgspec.Struct, frozen=True):
    """The schedulers' newest statement about a pod, with everything that agrees with it in time.

    `stage` is how far the pod came: refused by the filter or by Bind, the filter ended with an error, extender not
    answering, filtered but not bound, nothing said, or said in words that we do not know. `at` is None if the statement
    carries no time. `since` is when the filter is first known to have refused the pod, `attempts` how often it is known
    to have done so.
    """

    stage: Stage
    at: datetime | None = None
    evidence: Evidence | None = None
    unschedulable: Unschedulable | None = None
    lock: LockComplaint | None = None
    code_events: tuple[tuple[CodeEvent, Evidence], ...] = ()
    refusals: tuple[tuple[NodeVerdict, Evidence], ...] = ()
    since: datetime | None = None
    attempts: int = 1

    @property
    def is_repeated(self) -> bool:
        """Whether HAMi's filter refused the pod again and again, over more than one burst of attempts."""
        if self.stage != "filter" or self.at is None or self.since is None:
            return False
        lasts = self.at - self.since
        return lasts >= _LONG or (lasts >= _ATTEMPT and self.attempts >= _MANY)

    @property
    def by_hami(self) -> Sequence[NodesReason]:
        """HAMi's reasons in the schedulers' newest statement about the pod."""
        return self.unschedulable.by_hami if self.unschedulable else ()

    @property
    def by_kubernetes(self) -> Sequence[NodesReason]:
        """kube-scheduler's own reasons in the schedulers' newest statement about the pod."""
        return self.unschedulable.by_kubernetes if self.unschedulable else ()

    @property
    def codes(self) -> set[str]:
        """HAMi's reason codes about GPUs in the schedulers' newest statement about the pod."""
        return {card.code for reason in self.by_hami for card in reason.cards}

    @property
    def words(self) -> list[Evidence]:
        """The schedulers' newest statement as evidence; empty if they said nothing."""
        return [self.evidence] if self.evidence else []

    def cards_on(self, node: str) -> tuple[CardCount, ...]:
        """HAMi's reasons for one node by GPU, from the extender's log, else from HAMi's events (counts are 0 then)."""
        for refusal, _ in self.refusals:
            if refusal.node == node and (cards := read_reason(refusal.reason)):
                return cards
        return tuple(CardCount(event.code, 0, 0) for event, _ in self.code_events if node in event.nodes)

    def evidence_for(self, text: str) -> list[Evidence]:
        """The evidence for reason code `text`: condition or FailedScheduling, then HAMi's events, then a log line."""
        found = self.words if text in self.codes else []
        found += [evidence for event, evidence in self.code_events if event.code == text]
        told = ((proof, {card.code for card in read_reason(refusal.reason)}) for refusal, proof in self.refusals)
        return found + [proof for proof, codes in told if text in codes][:1]

    def generic_refusals(self) -> int:
        """How many nodes HAMi refused without saying why (`NodeUnfitPod`, `node not fit pod`)."""
        unfit = ("NodeUnfitPod", "node not fit pod")
        return sum(reason.nodes for reason in self.by_hami if reason.cards[0].code in unfit)


def last_attempt(pod: Pod, events: Iterable[Event], lines: Iterable[tuple[Pod, LogLine]]) -> Attempt:
    """The schedulers' newest statement about an unbound pod. `events` may hold those of an earlier pod of that name.
    For an empty pod (one that could not be read) the events of whichever pod had the name are taken.
    """
    uid, lines = pod.metadata.uid, list(lines)
    said = (event for event in events if event.message.strip() and not event.of_autoscaler)
    own = [event for event in said if not uid or event.is_about(uid)]
    own.sort(key=lambda event: (_when(event) or _LONG_AGO, event.name))
    attempt = _newest(pod, own)
    failed = [event for event in own if event_reason(event.reason) == "FilteringFailed"]
    codes = [(code, event) for event in failed if (code := parse_code_event(event.message))]
    newest = max((when for _, event in codes if (when := _when(event))), default=None)
    recent = [(code, event) for code, event in codes if newest and (_when(event) or newest) >= newest - _ATTEMPT]
    if attempt.at is not None:
        recent = [entry for entry in recent if (_when(entry[1]) or attempt.at) >= attempt.at - _EVENT_LAG]
    if attempt.stage == "filter":
        # Where the newest text gives codes itself (2.10), an event with another code is older news.
        explicit = attempt.codes - {"NodeUnfitPod", "node not fit pod", "node unregistered"}
        agreeing = [(code, event) for code, event in recent if not explicit or code.code in explicit]
        attempt = replace(attempt, code_events=tuple((code, quotes.of_event(event)) for code, event in agreeing))
    if attempt.stage in ("filter", "nothing"):
        attempt = replace(attempt, refusals=_refusals(pod, lines))
        if attempt.refusals and attempt.stage == "nothing":
            first, proof = attempt.refusals[0]
            attempt = replace(attempt, stage="filter", at=first.line.at, evidence=proof)
    return _with_history(attempt, pod, own, lines) if attempt.stage == "filter" else attempt


def _with_history(attempt: Attempt, pod: Pod, events: Iterable[Event], lines: Iterable[tuple[Pod, LogLine]]) -> Attempt:
    refusals = [event for event in events if event_reason(event.reason) in ("FailedScheduling", "FilteringFailed")]
    condition = pod.condition("PodScheduled")
    texts = [text for refusal in refusals for text in (refusal.first_timestamp, refusal.event_time, refusal.seen_at)]
    texts += [condition.last_transition_time] if condition and condition.status == "False" else []
    texts += [] if condition else [pod.metadata.creation_timestamp]  # kube-scheduler tries a new pod at once
    times = [moment for moment in map(parse_time, texts) if moment]
    tried = [line.at for _, line in lines if line.message in FILTER_STARTS and line.at] if attempt.refusals else []
    counts = [len(tried), *((refusal.series.count if refusal.series else refusal.count) or 1 for refusal in refusals)]
    newest = max([*tried, *([attempt.at] if attempt.at else [])], default=None)
    return replace(attempt, at=newest, since=min([*times, *tried], default=attempt.at), attempts=max(counts))


def placed_since(events: Iterable[Event], attempt: Attempt) -> Event | None:
    """An event that shows the pod bound or started after the schedulers' newest statement; None if there is none."""
    placed = [event for event in events if event_reason(event.reason) in _PLACED]
    last = max(placed, key=lambda event: _when(event) or _LONG_AGO, default=None)
    return last if last and (attempt.at is None or (_when(last) or _LONG_AGO) >= attempt.at) else None


def _when(event: Event) -> datetime | None:
    return parse_time(event.seen_at)


def _newest(pod: Pod, events: list[Event]) -> Attempt:
    """The PodScheduled condition is rewritten with every attempt; without it the newest event stands in."""
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.status == "False" and condition.message.strip():
        failed = (event for event in events if event.reason == "FailedScheduling")
        same = [event for event in failed if _same_text(event.message, condition.message)]
        at = max(filter(None, map(_when, same)), default=parse_time(condition.last_transition_time))
        evidence = quotes.of_condition(pod, condition, format_time(at) if at else None)
        attempt = _classify(condition.message, at, evidence, bind=condition.reason == "SchedulerError")
        # kube-scheduler calls any error of an extender a SchedulerError; HAMi says whether it is of its filter.
        of_filter = (event for event in events if event_reason(event.reason) == "FilteringFailed")
        is_of_filter = any(_same_text(event.message, condition.message) for event in of_filter)
        if attempt.stage == "bind" and attempt.lock is None and is_of_filter:
            attempt = replace(attempt, stage="filter-error")
        filtered = (event for event in events if event_reason(event.reason) == "FilteringSucceed")
        later = [event for event in filtered if at and (_when(event) or at) > at]
        return attempt if not later or attempt.stage == "bind" else _filtered(later[-1])
    staged = [event for event in events if event_reason(event.reason) in _STAGED]
    if not staged:
        return Attempt("nothing")
    last = staged[-1]
    if event_reason(last.reason) == "FilteringSucceed":
        return _filtered(last)
    refusals = [event for event in staged if event_reason(event.reason) in ("FailedScheduling", "BindingFailed")]
    if refusals and (_when(last) or _LONG_AGO) - (_when(refusals[-1]) or _LONG_AGO) <= _EVENT_LAG:
        last = refusals[-1]
    bind = event_reason(last.reason) != "FilteringFailed"
    return _classify(last.message, _when(last), quotes.of_event(last), bind=bind)


def _same_text(event: str, condition: str) -> bool:
    """Whether an event tells what the condition tells: an event's text is cut at 1,024 bytes, a condition's is not."""
    cut = event.removesuffix("...").rstrip()
    return event == condition or (len(event.encode()) >= _EVENT_TEXT_LIMIT and condition.startswith(cut))


def _filtered(event: Event) -> Attempt:
    return Attempt("filtered", _when(event), quotes.of_event(event))


def _classify(message: str, at: datetime | None, evidence: Evidence, *, bind: bool) -> Attempt:
    message = strip_combined(message)
    if (unschedulable := parse_unschedulable(message)) is not None:
        # A reason without a count is about every node: `0/3 nodes are available: pod has unbound immediate …`.
        reason = message.partition("available: ")[2].partition(". preemption:")[0].strip().rstrip(".")
        if reason and not unschedulable.reasons:
            unschedulable = unschedulable._replace(reasons=(NodesReason(unschedulable.total, reason),))
        return Attempt("filter", at, evidence, unschedulable)
    if (lock := lock_complaint(message)) is not None:
        return Attempt("bind", at, evidence, lock=lock)
    if _EXTENDER_LOST.search(message):
        return Attempt("extender", at, evidence)
    if parse_code_event(message) or says_none_fit(message):
        return Attempt("filter", at, evidence)
    return Attempt("bind" if bind else "unclear", at, evidence)


def _refusals(pod: Pod, lines: Iterable[tuple[Pod, LogLine]]) -> tuple[tuple[NodeVerdict, Evidence], ...]:
    """The last filter run over all replicas: only the leader runs filters."""
    by_scheduler: dict[str, tuple[Pod, list[LogLine]]] = {}
    for scheduler, line in lines:
        by_scheduler.setdefault(scheduler.name, (scheduler, []))[1].append(line)
    last = ((scheduler, run) for scheduler, about in by_scheduler.values() for run in rebuild(about)[-1:])
    by_node = [(scheduler, {refusal.node: refusal for refusal in run.refused}) for scheduler, run in last]
    runs = [(scheduler, [refused[node] for node in sorted(refused)]) for scheduler, refused in by_node if refused]
    if not runs:
        return ()
    scheduler, run = max(runs, key=lambda run: str(run[1][-1].line.at))
    return tuple((refusal, quotes.of_words(refusal.line, scheduler, pod.name)) for refusal in run)
