"""The on-call report as a message: for one person, or posted in a channel."""

from collections.abc import Sequence

from bot.changes.durations import roughly
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.escalation import calling_nobody
from bot.slack.render.rich import Part, bullets, line, rich_text, span
from bot.slack.render.summary import gpu_hours, who_was
from bot.slack.render.text import escape, inert
from bot.slack.render.triage import in_short
from bot.slack.render.triage_head import Head
from bot.texts import Texts
from bot.triage.oncall_report import OncallReport

_MOST = 10
_NAME = 80


def render_oncall_report(report: OncallReport, days: int, still_open: Sequence[Head], say: Texts) -> Message:
    """For one person: posted in a channel it would call people."""
    title, parts = _told(report, days, still_open, say)
    return Message(escape(title), (rich_text(*parts),))


def post_oncall_report(
    report: OncallReport, days: int, still_open: Sequence[Head], say: Texts, late: str = ""
) -> Message:
    """For a channel, where it calls nobody. `late` is the time it was due, if that is past."""
    title, parts = _told(report, days, still_open, say)
    small = [blocks.context(say("digest.late", day=late))] if late else []
    return Message(escape(title), (rich_text(*calling_nobody(parts, say)), *small))


def _told(report: OncallReport, days: int, still_open: Sequence[Head], say: Texts) -> tuple[str, list[Part]]:
    """Incidents by cause and severity, medians, GPU-hours, calls, the noisiest alerts, and what is still open."""
    total = sum(count for _, _, count in report.opened)
    title = say("triage.report", days=days, count=total)
    parts = [line(span(title, "bold"))]
    causes = [
        [span(f"{inert(cause, _NAME)} ({say(f'render.{severity}')}): {count}")]
        for cause, severity, count in report.opened
    ]
    calls = [[who_was(who, say), span(f": {count}")] for who, count in report.calls]
    alerts = [[span(f"{inert(name, _NAME)}: {count}")] for name, count in report.alerts]
    if total:
        parts += [*_listed("", causes, say), *_listed(say("triage.report-times"), _times(report, say), say)]
    if report.affected.pods:
        parts.append(line(span(gpu_hours(report.affected, say))))
    parts += _listed(say("triage.report-calls"), calls, say)
    parts += _listed(say("triage.report-alerts"), alerts, say)
    parts += _listed(say("triage.report-open"), [in_short(head, say) for head in still_open], say)
    return title, parts


def _times(report: OncallReport, say: Texts) -> list[list[Part]]:
    times: list[str] = []
    if report.acknowledge_s is not None:
        times.append(say("triage.report-acknowledge", time=roughly(report.acknowledge_s)))
    if report.resolve_s is not None:
        times.append(say("triage.report-resolve", time=roughly(report.resolve_s)))
    if report.unacknowledged:
        times.append(say("triage.report-unacknowledged", count=report.unacknowledged))
    return [[span(text)] for text in times]


def _listed(title: str, rows: Sequence[list[Part]], say: Texts) -> list[Part]:
    """A titled list of the first rows; nothing where there is none."""
    if not rows:
        return []
    shown = [line(*row) for row in rows[:_MOST]]
    if more := len(rows) - len(shown):
        shown.append(line(span(say("triage.more-open", count=more))))
    return [*([line(span(title, "bold"))] if title else []), bullets(*shown)]
