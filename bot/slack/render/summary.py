"""Summaries: of one incident, for its thread and its Markdown export, and the on-call report about some days."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bot.kube.times import roughly
from bot.render.words import SEVERITIES
from bot.slack.message import Block
from bot.slack.render import blocks
from bot.slack.render.text import Part, bullets, escape, inert, line, pieced, rich_text, span
from bot.slack.render.triage_head import Head, callee, end_of, in_short
from bot.texts import Prose, Text
from bot.triage.state import Turn, read_until
from bot.triage.summary import GpuTime, IncidentEvent, OncallReport, Summary

DID: Mapping[Turn, Text] = {
    "opened": Text("triage.did-opened"),
    "acknowledged": Text("triage.did-acknowledged"),
    "taken": Text("triage.did-taken"),
    "handed-over": Text("triage.did-handed-over"),
    "muted": Text("triage.muted"),
    "unmuted": Text("triage.did-unmuted"),
    "noted": Text("triage.did-noted"),
    "closed": Text("triage.did-closed"),
    "resolved": Text("triage.did-resolved"),
    "reopened": Text("triage.did-reopened"),
    "renewed": Text("triage.did-renewed"),
    "called": Text("triage.did-called"),
    "last-resort": Text("triage.did-last-resort"),
    "lapsed": Text("triage.did-lapsed"),
    "worse": Text("triage.did-worse"),
    "paged": Text("triage.did-paged"),
    "unpaged": Text("triage.did-unpaged"),
    "unheard": Text("triage.did-unheard"),
    "unwatched": Text("triage.did-unwatched"),
    "node-gone": Text("triage.did-node-gone"),
    "change-asked": Text("triage.did-change-asked"),
    "profile-taken": Text("triage.did-profile-taken"),
}
_MOST_DONE = 10
_MOST_NAMES = 10
_NAME, _DETAIL = 80, 300


def summary_block(head: Head, summary: Summary) -> Block:
    """An incident's summary as a titled list that mentions people, but no user group, whose members it would notify."""
    title = line(span(Text("triage.summary"), "bold"))
    return rich_text(title, bullets(*(line(*parts) for parts in summary_lines(head, summary))))


def summary_lines(head: Head, summary: Summary) -> list[list[Part]]:
    """How long an incident took and who did what, one line each; lines of which nothing is known are left out."""
    acknowledged, ended = Text("triage.summary-unacknowledged"), Text("triage.summary-open")
    if summary.acknowledged_s is not None:
        acknowledged = Text("triage.summary-acknowledged", time=roughly(summary.acknowledged_s))
    if summary.ended_s is not None:
        key = "triage.summary-closed" if summary.closed_by else "triage.summary-resolved"
        ended = Text(key, time=roughly(summary.ended_s))
    shown = [
        _by(acknowledged, "" if summary.acknowledged_s is None else summary.acknowledged_by),
        _by(ended, "" if summary.ended_s is None else summary.closed_by),
    ]
    if summary.returned:
        shown.append([span(Text("triage.summary-returned", count=summary.returned))])
    if owner := summary.owner:
        shown.append([span(pieced("{}: ", Text("triage.owner"))), who_was(owner)])
    if summary.called:
        shown.append([span(pieced("{} ", Text("triage.were-called"))), *_called(summary.called)])
    if summary.pages:
        shown.append([span(Text("triage.summary-pages", count=summary.pages))])
    shown += [_deed(deed) for deed in summary.done[:_MOST_DONE]]
    if more := len(summary.done) - _MOST_DONE:
        shown += [[span(Text("triage.more-open", count=more))]] if more > 0 else []
    if head.counts.pods or head.counts.nodes:
        affected = Text("triage.summary-nodes", count=head.counts.nodes)
        if head.counts.pods:
            affected = Text("triage.summary-pods", count=head.counts.pods)
        if names := head.counts.pods and head.counts.namespaces[:_MOST_NAMES]:
            more = len(head.counts.namespaces) - len(names)
            listed = ", ".join(inert(name, _NAME) for name in names) + (f" … +{more}" if more else "")
            affected = pieced("{} ({}: {})", affected, Text("triage.namespaces"), listed)
        shown.append([span(affected)])
    if summary.affected.pods:
        shown.append([span(gpu_hours(summary.affected))])
    return shown


def gpu_hours(affected: GpuTime) -> Text:
    """The affected GPU-hours with what they are made of, and for how many pods they are not known; needs a pod."""
    if not affected.known:
        return Text("triage.gpu-hours-unknown", pods=affected.pods)
    if affected.known == affected.pods and not affected.gpus:
        return Text("triage.gpu-hours-none")
    hours = affected.seconds / 3600
    values = {
        "hours": f"{hours:,.1f}" if hours >= 1 else f"{hours:.2g}",
        "gpus": affected.gpus,
        "time": roughly(affected.mean_s),
    }
    if affected.known == affected.pods:
        return Text("triage.gpu-hours", **values)
    return Text("triage.gpu-hours-some", **values, known=affected.known, pods=affected.pods)


def who_was(who: str) -> Part:
    """A person or a channel by id, a user group without notifying it, or any other name as it is."""
    part = callee(who)
    return span(Text("triage.summary-group", id=part["usergroup_id"])) if part["type"] == "usergroup" else part


def _by(what: Text, who: str) -> list[Part]:
    return [span(pieced("{} (", what)), who_was(who), span(")")] if who else [span(what)]


def _called(called: Sequence[str]) -> list[Part]:
    parts: list[Part] = []
    for who, often in Counter(called).most_common(_MOST_NAMES):
        parts += [span(", ")] if parts else []
        parts += [who_was(who), *([span(f" ×{often}")] if often > 1 else [])]
    return parts


def _deed(entry: IncidentEvent) -> list[Part]:
    news = entry.news
    what = DID[news.turn]
    if news.turn == "muted":
        parts: list[Part] = [span(pieced("{} ", what)), end_of(read_until(news.detail))]
    elif news.turn == "handed-over":
        parts = [span(pieced("{} ", what)), who_was(news.detail)]
    else:
        parts = [span(pieced("{}: {}", what, inert(news.detail, _DETAIL)))]
    return [*parts, span(" ("), who_was(news.by), span(")")] if news.by else parts


# ----------------------------------------------------------------------------------------------- the on-call report


def render_oncall_report(report: OncallReport, days: int, still_open: Sequence[Head]) -> blocks.Draft:
    """The on-call report for one person's eyes: posted in a channel it would notify people."""
    title, parts = _report_parts(report, days, still_open)
    return blocks.Draft(escape(title), (rich_text(*parts),))


def post_oncall_report(report: OncallReport, days: int, still_open: Sequence[Head], late: str = "") -> blocks.Draft:
    """The on-call report for a channel, where it notifies nobody. `late` is the time it was due, if that is past."""
    title, parts = _report_parts(report, days, still_open)
    small = [blocks.context(Text("digest.late", day=late))] if late else []
    return blocks.Draft(escape(title), (rich_text(*calling_nobody(parts)), *small))


def _report_parts(report: OncallReport, days: int, still_open: Sequence[Head]) -> tuple[Text, list[Part]]:
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
    if not rows:
        return []
    shown = [line(*row) for row in rows[:_MOST_DONE]]
    if more := len(rows) - len(shown):
        shown.append(line(span(Text("triage.more-open", count=more))))
    return [*([line(span(title, "bold"))] if title else []), bullets(*shown)]


def calling_nobody(parts: Sequence[Part]) -> list[Part]:
    """The rich text with people and user groups by their id alone, so that it notifies nobody."""
    silent: list[Part] = []
    for part in parts:
        if part["type"] == "user":
            silent.append(span(part["user_id"]))
        elif part["type"] == "usergroup":
            silent.append(span(Text("triage.summary-group", id=part["usergroup_id"])))
        else:
            within = {"elements": calling_nobody(part["elements"])} if "elements" in part else {}
            silent.append({**part, **within})
    return silent
