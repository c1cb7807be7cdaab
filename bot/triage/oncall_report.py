"""The on-call report: what happened to incidents in a period, from their timelines."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from bot.report import SEVERITIES, Severity
from bot.triage.gputime import FiringSpan, GpuTime, gpu_time
from bot.triage.state import CALLS
from bot.triage.summary import TimelineEntry, summarize


class Case(NamedTuple):
    """One incident: a short name of its cause, its timeline in order, how many alerts of each name, and when its pods
    were affected.
    """

    cause: str
    severity: Severity
    happened: Sequence[TimelineEntry]
    alerts: Sequence[tuple[str, int]] = ()
    spells: Sequence[FiringSpan] = ()


class OncallReport(NamedTuple):
    """`opened` counts the incidents that opened in the period by cause and severity, the most severe first; the median
    times (seconds, None without any) and `alerts` (how many of a name, most first) are of these incidents. `calls`
    counts every call in the period by who was called, most first, also for incidents that opened before. So does
    `affected`; a pod of two incidents counts once at a time.
    """

    opened: tuple[tuple[str, Severity, int], ...] = ()
    acknowledge_s: float | None = None
    resolve_s: float | None = None
    unacknowledged: int = 0
    calls: tuple[tuple[str, int], ...] = ()
    alerts: tuple[tuple[str, int], ...] = ()
    affected: GpuTime = GpuTime()


def report_on(cases: Sequence[Case], since: float, until: float) -> OncallReport:
    """The report on the time after `since` and up to `until` (seconds since 1970), as it was told then."""
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
        tuple(calls.most_common()),
        tuple(alerts.most_common()),
        gpu_time([spell for case in cases for spell in case.spells], until, since),
    )


def _median(times: Iterable[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return median(known) if known else None
