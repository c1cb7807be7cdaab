"""The on-call report as a message: for one person, or posted in a channel."""

from collections.abc import Sequence

from bot.changes.durations import roughly
from bot.render.words import SEVERITIES
from bot.slack.render import blocks
from bot.slack.render.escalation import calling_nobody
from bot.slack.render.rich import Part, bullets, line, rich_text, span
from bot.slack.render.summary import gpu_hours, who_was
from bot.slack.render.text import escape, inert, pieced
from bot.slack.render.triage import in_short
from bot.slack.render.triage_head import Head
from bot.texts import Prose, Text
from bot.triage.summary import OncallReport

_MOST = 10
_NAME = 80


def render_oncall_report(report: OncallReport, days: int, still_open: Sequence[Head]) -> blocks.Draft:
    """For one person: posted in a channel it would call people."""
    title, parts = _told(report, days, still_open)
    return blocks.Draft(escape(title), (rich_text(*parts),))


def post_oncall_report(report: OncallReport, days: int, still_open: Sequence[Head], late: str = "") -> blocks.Draft:
    """For a channel, where it calls nobody. `late` is the time it was due, if that is past."""
    title, parts = _told(report, days, still_open)
    small = [blocks.context(Text("digest.late", day=late))] if late else []
    return blocks.Draft(escape(title), (rich_text(*calling_nobody(parts)), *small))


def _told(report: OncallReport, days: int, still_open: Sequence[Head]) -> tuple[Text, list[Part]]:
    """Incidents by cause and severity, medians, GPU-hours, calls, the noisiest alerts, and what is still open."""
    total = sum(count for _, _, count in report.opened)
    title = Text("triage.report", days=days, count=total)
    parts = [line(span(title, "bold"))]
    causes = [
        [span(pieced("{} ({}): {}", inert(cause, _NAME), SEVERITIES[severity], str(count)))]
        for cause, severity, count in report.opened
    ]
    calls = [[who_was(who), span(f": {count}")] for who, count in report.calls]
    alerts = [[span(f"{inert(name, _NAME)}: {count}")] for name, count in report.alerts]
    if total:
        parts += [*_listed("", causes), *_listed(Text("triage.report-times"), _times(report))]
    if report.affected.pods:
        parts.append(line(span(gpu_hours(report.affected))))
    parts += _listed(Text("triage.report-calls"), calls)
    parts += _listed(Text("triage.report-alerts"), alerts)
    parts += _listed(Text("triage.report-open"), [in_short(head) for head in still_open])
    return title, parts


def _times(report: OncallReport) -> list[list[Part]]:
    times: list[Text] = []
    if report.acknowledge_s is not None:
        times.append(Text("triage.report-acknowledge", time=roughly(report.acknowledge_s)))
    if report.resolve_s is not None:
        times.append(Text("triage.report-resolve", time=roughly(report.resolve_s)))
    if report.unacknowledged:
        times.append(Text("triage.report-unacknowledged", count=report.unacknowledged))
    return [[span(text)] for text in times]


def _listed(title: Prose, rows: Sequence[list[Part]]) -> list[Part]:
    """A titled list of the first rows; nothing where there is none."""
    if not rows:
        return []
    shown = [line(*row) for row in rows[:_MOST]]
    if more := len(rows) - len(shown):
        shown.append(line(span(Text("triage.more-open", count=more))))
    return [*([line(span(title, "bold"))] if title else []), bullets(*shown)]
