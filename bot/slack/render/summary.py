"""The summary of an incident that is over, for the end of its thread and of its Markdown export."""

from collections import Counter
from collections.abc import Sequence

from bot.changes.durations import roughly
from bot.slack.message import Block
from bot.slack.render.rich import Part, bullets, channel, line, rich_text, somebody, span
from bot.slack.render.text import inert
from bot.slack.render.triage_head import Head, end_of
from bot.texts import Texts
from bot.triage.gputime import GpuTime
from bot.triage.mute import read_until
from bot.triage.state import PAGER
from bot.triage.summary import Summary, TimelineEntry

_MOST_DONE = 10
_MOST_NAMES = 10
_NAME, _DETAIL = 80, 300


def summary_block(head: Head, summary: Summary, say: Texts) -> Block:
    """A titled list. It mentions people; of a user group it shows the id only, or everybody in it would be called."""
    title = line(span(say("triage.summary"), "bold"))
    return rich_text(title, bullets(*(line(*parts) for parts in summary_lines(head, summary, say))))


def summary_lines(head: Head, summary: Summary, say: Texts) -> list[list[Part]]:
    """How long it took and who did what, one line each; lines of which nothing is known are left out."""
    shown = [_acknowledged(summary, say), _ended(summary, say)]
    if summary.returned:
        shown.append([span(say("triage.summary-returned", count=summary.returned))])
    if owner := summary.owner:
        shown.append([span(f"{say('triage.owner')}: "), who_was(owner, say)])
    if summary.called:
        shown.append([span(f"{say('triage.were-called')} "), *_called(summary.called, say)])
    if summary.pages:
        shown.append([span(say("triage.summary-pages", count=summary.pages))])
    shown += [_deed(deed, say) for deed in summary.done[:_MOST_DONE]]
    if more := len(summary.done) - _MOST_DONE:
        shown += [[span(say("triage.more-open", count=more))]] if more > 0 else []
    if head.total or head.nodes:
        shown.append([span(_affected(head, say))])
    if summary.affected.pods:
        shown.append([span(gpu_hours(summary.affected, say))])
    return shown


def gpu_hours(affected: GpuTime, say: Texts) -> str:
    """GPU-hours with what they are made of, and of how many pods that is not known; there are pods."""
    if not affected.known:
        return say("triage.gpu-hours-unknown", pods=affected.pods)
    if affected.known == affected.pods and not affected.gpus:
        return say("triage.gpu-hours-none")
    hours = affected.seconds / 3600
    values = {
        "hours": f"{hours:,.1f}" if hours >= 1 else f"{hours:.2g}",
        "gpus": affected.gpus,
        "time": roughly(affected.mean_s),
    }
    if affected.known == affected.pods:
        return say("triage.gpu-hours", **values)
    return say("triage.gpu-hours-some", **values, known=affected.known, pods=affected.pods)


def who_was(who: str, say: Texts) -> Part:
    """A person or a channel by id, a user group without calling it, or any other name as it is."""
    if who == PAGER:
        return span(say("triage.pager"))
    shown = inert(who, _NAME)
    if who.startswith(("C", "G")):
        return channel(shown)
    part = somebody(shown)
    return span(say("triage.summary-group", id=shown)) if part["type"] == "usergroup" else part


def _acknowledged(summary: Summary, say: Texts) -> list[Part]:
    if summary.acknowledged_s is None:
        return [span(say("triage.summary-unacknowledged"))]
    after = say("triage.summary-acknowledged", time=roughly(summary.acknowledged_s))
    return [span(f"{after} ("), who_was(summary.acknowledged_by, say), span(")")]


def _ended(summary: Summary, say: Texts) -> list[Part]:
    if summary.ended_s is None:
        return [span(say("triage.summary-open"))]
    time = roughly(summary.ended_s)
    if not summary.closed_by:
        return [span(say("triage.summary-resolved", time=time))]
    return [span(f"{say('triage.summary-closed', time=time)} ("), who_was(summary.closed_by, say), span(")")]


def _called(called: Sequence[str], say: Texts) -> list[Part]:
    """Each once, with how often; who was called most first."""
    parts: list[Part] = []
    for who, often in Counter(called).most_common(_MOST_NAMES):
        parts += [span(", ")] if parts else []
        parts += [who_was(who, say), *([span(f" ×{often}")] if often > 1 else [])]
    return parts


def _deed(entry: TimelineEntry, say: Texts) -> list[Part]:
    news = entry.news
    what = say(f"triage.did-{news.turn}")
    if news.turn == "muted":
        parts: list[Part] = [span(f"{what} "), end_of(read_until(news.detail), say)]
    elif news.turn == "handed-over":
        parts = [span(f"{what} "), who_was(news.detail, say)]
    else:
        parts = [span(f"{what}: {inert(news.detail, _DETAIL)}")]
    return [*parts, span(" ("), who_was(news.by, say), span(")")] if news.by else parts


def _affected(head: Head, say: Texts) -> str:
    if not head.total:
        return say("triage.summary-nodes", count=head.nodes)
    pods = say("triage.summary-pods", count=head.total)
    names = head.namespaces[:_MOST_NAMES]
    if not names:
        return pods
    more = len(head.namespaces) - len(names)
    listed = ", ".join(inert(name, _NAME) for name in names) + (f" … +{more}" if more else "")
    return f"{pods} ({say('triage.namespaces')}: {listed})"
