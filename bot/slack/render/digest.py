"""A digest as a message: the verdict, what changed since the last one, the worst things; one line if nothing did."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.digest.figures import Difference, Figures, differences, not_compared, step
from bot.report import Report
from bot.slack.message import Block, File, Message
from bot.slack.render import blocks
from bot.slack.render.buttons import action_button, is_ours
from bot.slack.render.rich import Part, bullets, line, rich_text, span
from bot.slack.render.text import escape, inert, lines
from bot.texts import Texts

_SHOWN, _WORST = 12, 3
_NAME, _CLAIM = 200, 400


class Told(NamedTuple):
    """What a digest tells. `before` is None for the first one; `late` is the date it was due, if that is past."""

    report: Report
    before: Figures | None
    after: Figures
    changes_open: int = 0
    late: str = ""


def render_digest(told: Told, say: Texts, files: Sequence[File] = ()) -> Message:
    """The digest; without changes it is one line, without a picture."""
    report = told.report
    title = say("digest.title", cluster=report.cluster or say("digest.here"), verdict=report.verdict)
    notes = [say("digest.late", day=told.late)] if told.late else []
    notes += [say("digest.changes-open", count=told.changes_open)] if told.changes_open else []
    changed = differences(told.before, told.after) if told.before is not None else []
    blind = not_compared(told.before, told.after) if told.before is not None else []
    notes += [say("digest.not-compared", what=", ".join(blind))] if blind else []
    if told.before is not None and not changed:
        aloud = f"{title}. {say('digest.unchanged')}"
        small = [blocks.context(*notes)] if notes else []
        return Message(escape(aloud, 3 * _NAME), (rich_text(line(span(inert(aloud, 3 * _NAME)))), *small))
    built: list[Block] = [rich_text(line(span(inert(title, 3 * _NAME), "bold")))]
    if changed:
        built.append(rich_text(line(span(say("digest.changes"), "bold")), _changes(changed, say)))
    built += _worst(report, say)
    if told.before is None:
        notes.append(say("digest.first"))
    if notes:
        built.append(blocks.context(*notes))
    aloud = [escape(title, 3 * _NAME), *(escape(_words(one, say), _NAME) for one in changed[:3])]
    return Message(lines(aloud), tuple(built), tuple(files))


def _changes(changed: Sequence[Difference], say: Texts) -> Part:
    shown = [line(span(inert(_words(one, say), _CLAIM))) for one in changed[:_SHOWN]]
    if more := len(changed) - len(shown):
        shown.append(line(span(say("digest.more", count=more))))
    return bullets(*shown)


def _words(one: Difference, say: Texts) -> str:
    if one.before and one.after:
        grown = step(one.before, one.after)
        told = {"before": one.before, "after": one.after, "step": f"({grown})" if grown else ""}
        return say("digest.changed", what=one.what, area=one.area, **told)
    value = one.after or one.before
    what = f"{one.what}: {value}" if value != "1" else one.what
    return say("digest.new" if one.after else "digest.gone", what=what, area=one.area)


def _worst(report: Report, say: Texts) -> list[Block]:
    found: list[Block] = []
    bad = [one for one in report.findings if one.severity != "info"]
    for number, one in enumerate(bad[:_WORST]):
        action = next((each for each in one.next_actions if is_ours(each)), None)
        button = action_button(action, report.cluster, number, say) if action else None
        found.append(blocks.plain_section(f"{number + 1}. {inert(one.claim, _CLAIM)}", accessory=button))
    return [rich_text(line(span(say("digest.worst"), "bold"))), *found] if found else []
