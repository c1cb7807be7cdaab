"""Summaries of incidents by their timelines: times, who did what, who was called, GPU-hours; and the on-call report."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import msgspec

from bot.report import SEVERITIES, Severity
from bot.triage.state import CALLS, News, Turn


class Counts(msgspec.Struct, frozen=True):
    """How many alerts, pods and nodes of one incident fire now, and how many ever did; the nodes are those of alerts
    that name no pod. `subjects` are some of the pods, firing ones first. The alerts' names, namespaces, severity labels
    and runbooks are here, too; `cut` is how many more firing alerts their sender left out; `by_name` has a name, how
    many alerts of it fire and how many there were, the name of which most fire first.
    """

    firing: int = 0
    alerts: int = 0
    pods_firing: int = 0
    pods: int = 0
    names: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    severities: tuple[str, ...] = ()
    runbooks: tuple[str, ...] = ()
    nodes_firing: int = 0
    nodes: int = 0
    cut: int = 0
    by_name: tuple[tuple[str, int, int], ...] = ()


class GpuRequest(NamedTuple):
    """How many GPUs a pod asks for, None where that is not known; `created_at` in seconds since 1970."""

    gpus: int | None
    created_at: float = 0.0


class FiringSpan(NamedTuple):
    """The time from `began` to `ended` (seconds since 1970; infinite: still) in which an alert about the pod fired. If
    it came and went, it fired for that `share` of the time. `pod` is the pod's namespace and name, `gpus` how many GPUs
    it asked for then, None where that is not known.
    """

    pod: tuple[str, ...]
    gpus: int | None
    began: float
    ended: float
    share: float = 1.0


class GpuTime(NamedTuple):
    """GPU-seconds affected: the GPUs that each pod asked for (not what it was given or used), times how long alerts
    about it fired; a moment with several alerts about a pod counts once. Only `known` pods of all `pods` are counted,
    so the figure is a lower bound while `known` is less. `gpus` is what the known ones ask for together.
    """

    seconds: float = 0.0
    gpus: int = 0
    known: int = 0
    pods: int = 0

    @property
    def mean_s(self) -> float:
        """How many seconds each of the GPUs was affected on average."""
        return self.seconds / self.gpus if self.gpus else 0.0


def gpu_time(spells: Sequence[FiringSpan], until: float, since: float = 0.0) -> GpuTime:
    """GPU-time affected between `since` and `until`, in seconds since 1970. A pod is known if one of its alerts tells
    how many GPUs it asks for. If it was recreated and asks for another number, each alert counts with its own, and for
    `gpus` the largest. Of several alerts at a time the one that counts most does.
    """
    by_pod: defaultdict[tuple[str, ...], list[FiringSpan]] = defaultdict(list)
    for spell in spells:
        began, ended = max(spell.began, since), min(spell.ended, until)
        if ended > began:
            by_pod[spell.pod].append(spell._replace(began=began, ended=ended))
    known = [_of_pod(some) for some in by_pod.values() if any(spell.gpus is not None for spell in some)]
    return GpuTime(sum(seconds for seconds, _ in known), sum(gpus for _, gpus in known), len(known), len(by_pod))


def _of_pod(spells: Sequence[FiringSpan]) -> tuple[float, int]:
    most = max(spell.gpus for spell in spells if spell.gpus is not None)
    seconds = 0.0
    for began, ended in pairwise(sorted({moment for spell in spells for moment in (spell.began, spell.ended)})):
        here = [spell for spell in spells if spell.began <= began and ended <= spell.ended]
        counted = ((most if spell.gpus is None else spell.gpus) * spell.share for spell in here)
        seconds += (ended - began) * max(counted, default=0.0)
    return seconds, most


ENDS: frozenset[Turn] = frozenset({"resolved", "closed"})
"""Turns of an incident after which nobody has to do anything."""
_RETURNS = frozenset({"reopened", "renewed"})
_SEEN = frozenset({"acknowledged", "taken", "handed-over", "muted"})
_DONE = frozenset({"noted", "handed-over", "muted", "closed", "change-asked", "profile-taken"})


class IncidentEvent(NamedTuple):
    """An event in an incident's timeline: when (seconds since 1970), what, and in the store its number, `seq`."""

    at: float
    news: News
    seq: int = 0


class Summary(msgspec.Struct, frozen=True):
    """The summary of an incident. Times are in seconds since it first opened, None for what did not happen, or not yet.
    `acknowledged_s` is until the first person acknowledged, took, muted or handed it over. `ended_s` is until it was
    resolved or closed the last time, and includes the time in between if it came back (`returned` times). `closed_by`
    is empty where it resolved by itself. `called` are the calls in order, a person called twice is there twice; `pages`
    counts how often pagers were rung. `done` are notes, hand-overs, mutes, changes asked for and profiles taken in the
    thread, and what was said when it was closed. `owner` is the last one. `affected` comes from `gpu_time`, not the
    timeline.
    """

    acknowledged_s: float | None = None
    acknowledged_by: str = ""
    ended_s: float | None = None
    closed_by: str = ""
    returned: int = 0
    called: tuple[str, ...] = ()
    pages: int = 0
    done: tuple[IncidentEvent, ...] = ()
    owner: str = ""
    affected: GpuTime = GpuTime()


def summarize(happened: Sequence[IncidentEvent]) -> Summary:
    """The summary of a timeline, which is in order and begins with the opening."""
    if not happened:
        return Summary()
    began = happened[0].at
    seen = next((event for event in happened if event.news.turn in _SEEN and event.news.by), None)
    turns = [event for event in happened if event.news.turn in ENDS or event.news.turn in _RETURNS]
    end = turns[-1] if turns and turns[-1].news.turn in ENDS else None
    return Summary(
        seen.at - began if seen else None,
        seen.news.by if seen else "",
        end.at - began if end else None,
        end.news.by if end else "",
        returned=sum(turn.news.turn in _RETURNS for turn in turns),
        called=tuple(event.news.detail for event in happened if event.news.turn in CALLS),
        pages=sum(event.news.turn == "paged" for event in happened),
        done=tuple(
            event
            for event in happened
            if event.news.turn in _DONE and (event.news.detail or event.news.turn == "muted")
        ),
        owner=_owner(happened),
    )


def _owner(happened: Sequence[IncidentEvent]) -> str:
    """The owner as `bot.triage.state.act` has it: who does something first, until somebody takes it or is given it."""
    owner = ""
    for _, news, _ in happened:
        match news.turn:
            case "handed-over":
                owner = news.detail
            case "taken":
                owner = news.by
            case "acknowledged" | "muted" | "unmuted":
                owner = owner or news.by
            case _:
                pass
    return owner


class Case(NamedTuple):
    """One incident for the on-call report: cause in short, timeline, alerts by name, and when pods were affected."""

    cause: str
    severity: Severity
    happened: Sequence[IncidentEvent]
    alerts: Sequence[tuple[str, int]] = ()
    spells: Sequence[FiringSpan] = ()


class OncallReport(msgspec.Struct, frozen=True):
    """The incidents of a period. `opened` counts those that opened in it by cause and severity, the most severe first;
    the median times (seconds, None without any) and `alerts` (how many of a name, most first) are of these incidents.
    `calls` counts every call in the period by who was called, most first, also for incidents that opened before.
    `affected` is of all these incidents, too; a pod of two incidents counts once at a time.
    """

    opened: tuple[tuple[str, Severity, int], ...] = ()
    acknowledge_s: float | None = None
    resolve_s: float | None = None
    unacknowledged: int = 0
    calls: tuple[tuple[str, int], ...] = ()
    alerts: tuple[tuple[str, int], ...] = ()
    affected: GpuTime = GpuTime()


def report_on(cases: Sequence[Case], since: float, until: float) -> OncallReport:
    """The on-call report on the time after `since` and up to `until` (seconds since 1970), as it stood at `until`."""
    cases = [case._replace(happened=[what for what in case.happened if what.at <= until]) for case in cases]
    opened = [case for case in cases if case.happened and case.happened[0].at > since]
    summaries = [summarize(case.happened) for case in opened]
    kinds = Counter[tuple[str, Severity]]((case.cause, case.severity) for case in opened)
    ordered = sorted(kinds.items(), key=lambda item: (-SEVERITIES.index(item[0][1]), -item[1], item[0][0]))
    calls = Counter(
        what.news.detail for case in cases for what in case.happened if what.news.turn in CALLS and what.at > since
    )
    alerts = Counter[str]()
    for case in opened:
        alerts.update(dict(case.alerts))
    return OncallReport(
        tuple((cause, severity, count) for (cause, severity), count in ordered),
        _median(summary.acknowledged_s for summary in summaries),
        _median(summary.ended_s for summary in summaries),
        sum(summary.acknowledged_s is None for summary in summaries),
        calls=tuple(calls.most_common()),
        alerts=tuple(alerts.most_common()),
        affected=gpu_time([spell for case in cases for spell in case.spells], until, since),
    )


def _median(times: Iterable[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return median(known) if known else None
