"""A temporary change in Slack: its offer, its card, which is edited through its life, and calls for help.

Nothing that a person or a cluster wrote is parsed: names of people and times are parts of rich text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from bot.changes.journal import EventKind
from bot.changes.record import Record
from bot.render.words import SEVERITIES
from bot.report import Impact
from bot.slack.message import Block, Message
from bot.slack.render import blocks
from bot.slack.render.blocks import Pressed, value_of
from bot.slack.render.text import (
    BUTTON_VALUE,
    Part,
    bullets,
    channel,
    cut,
    escape,
    inert,
    line,
    lines,
    mention,
    moment,
    pieced,
    preformatted,
    rich_text,
    somebody,
    span,
    told,
    told_mrkdwn,
    told_plain,
)
from bot.texts import Prose, Text, clauses, listed

REVERT, EXTEND = "change:revert", "change:extend"
APPROVE, REFUSE = "change:approve", "change:refuse"

Waiting = Literal["pending", "approved", "refused", "expired", "void", "done", "not-done"]
State = Waiting | EventKind
_PUT_BACK: frozenset[State] = frozenset({"reverted", "reverted-by-another"})
RUNNING: frozenset[State] = frozenset({"raised", "effective", "stuck", "extended", "retimed", "unreadable", "failed"})

_HEADLINE: Mapping[State, str] = {
    "pending": "card.pending",
    "approved": "card.approved",
    "refused": "card.refused",
    "expired": "card.expired",
    "void": "card.void",
    "done": "card.done",
    "not-done": "card.not-done",
    "never-raised": "card.never-raised",
    "raised": "card.raised",
    "effective": "card.effective",
    "stuck": "card.stuck",
    "extended": "card.extended",
    "retimed": "card.retimed",
    "reverted": "card.reverted",
    "reverted-by-another": "card.reverted-by-another",
    "drifted": "card.drifted",
    "container-gone": "card.container-gone",
    "replaced": "card.replaced",
    "unreadable": "card.unreadable",
    "failed": "card.failed",
}
NAME, DETAIL = 200, 1500
_REASON, _DIFF_LINES, _NAMED, _ALOUD = 500, 20, 10, 1200
CONFIRM, CANCEL = "change:confirm", "change:cancel"
FORM = "change"
REASON, REASON_TEXT = "because", "text"
"""The block and the input of the form's reason."""
LONGEST_REASON = 500


class ChangeCard(msgspec.Struct, frozen=True):
    """The content of a change's card. `by` is who decided or made happen what the state says, empty for the bot itself;
    `at` (unix seconds) is when, 0 where that is not known. While approval is pending, `approval` and `digest` are what
    the buttons carry, and it expires at `expires_at` (unix seconds); `longer`: it extends an open change.
    """

    state: State
    record: Record
    cluster: str
    detail: str = ""
    by: str = ""
    approved_by: str = ""
    approval: str = ""
    digest: str = ""
    expires_at: float = 0.0
    longer: bool = False
    at: float = 0.0


class CardButton(Pressed, frozen=True):
    """The values of a button of a change's card. `key` is the change's id, or the approval's."""

    key: str
    cluster: str
    target: str
    digest: str = ""


def render_card(card: ChangeCard) -> blocks.Draft:
    record = card.record
    is_back = card.state in _PUT_BACK
    change = what(record, longer=card.longer, is_back=is_back)
    headline = Text(_HEADLINE[card.state], what=change)
    parts = [line(*told(inert(headline, 2 * NAME), "bold")), bullets(*(line(*fact) for fact in _facts(card)))]
    if shown := [
        inert(diff_line, NAME) for diff_line in card.detail[:DETAIL].splitlines()[:_DIFF_LINES] if diff_line.strip()
    ]:
        parts.append(preformatted("\n".join(shown)))
    aloud = Text(
        "card.aloud",
        target=record.target,
        who=record.by,
        because=inert(record.because, _REASON) or "-",
        until=record.at,
    )
    buttons = _buttons(card)
    built: list[Block] = [rich_text(*parts), *([blocks.actions(*buttons)] if buttons else [])]
    text = lines([escape(headline, _ALOUD), escape(aloud, _ALOUD)])
    return blocks.Draft(told_mrkdwn(text, (record.by,) if mention(record.by).startswith("<") else ()), tuple(built))


def render_late(card: ChangeCard, minutes: int, approvers: Sequence[str], by_hand: str) -> blocks.Draft:
    """Tells the approvers that a change is overdue by `minutes`; `by_hand` is the shell line that reverts it."""
    target = card.record.target
    hours = minutes // 60
    since = Text("card.late-hours", count=hours) if hours else Text("card.late-minutes", count=minutes)
    headline = Text("card.late", what=what(card.record), since=since, target=target)
    return _call(headline, card.detail, Text("card.late-do", target=target), by_hand, approvers)


def render_unreadable(target: str, why: str, approvers: Sequence[str], by_hand: str) -> blocks.Draft:
    """Tells the approvers that neither a change's record nor a copy can be read; `by_hand` is a line to look."""
    return _call(Text("card.no-copy", target=target), why, Text("card.no-copy-do"), by_hand, approvers)


def _call(headline: Text, detail: str, do: Text, by_hand: str, approvers: Sequence[str]) -> blocks.Draft:
    calls = [part for who in approvers for part in (somebody(who), span(" "))]
    parts = [line(*calls, span(inert(headline, DETAIL), "bold"))]
    if detail.strip():
        parts.append(preformatted(inert(detail, DETAIL)))
    parts += [line(span(inert(do, DETAIL))), preformatted(inert(by_hand, DETAIL))]
    return blocks.Draft(lines([escape(headline), escape(do), escape(by_hand, DETAIL)]), (rich_text(*parts),))


def render_over(about: CardButton) -> blocks.Draft:
    """A card whose buttons can do nothing any more: of a change, or (with a digest) of a request for approval."""
    headline = Text("card.unknown" if about.digest else "card.over", target=inert(about.target, NAME))
    return blocks.Draft(escape(headline), (rich_text(line(span(inert(headline, DETAIL), "bold"))),))


def render_denied(why: Prose, who: Sequence[str], where: Sequence[str]) -> blocks.Draft:
    """Says that somebody may not do something, why, and who may or where; show it to them alone: it names others."""
    denied = Text("card.denied", why=why)
    pieces = [span(inert(denied, DETAIL), "bold")]
    if who:
        pieces += [span(pieced(" {} ", Text("card.may"))), *_listed([somebody(person) for person in who[:_NAMED]])]
    if where:
        pieces += [span(pieced(" {} ", Text("card.where"))), *_listed([channel(room) for room in where[:_NAMED]])]
    return blocks.Draft(escape(denied), (rich_text(line(*pieces)),))


def what(record: Record, *, longer: bool = False, is_back: bool = False) -> Text:
    """The change in a few words: which flag of what, from which value to which; with `is_back`, its revert."""
    changes: list[Text] = []
    for each in record.flags:
        old = each.old or each.kind.values.default
        old, new = (each.new, old) if is_back else (old, each.new)
        changes.append(each.kind.change(record.container, old, new))
    change = listed(changes) if len(changes) > 1 else changes[0]
    return Text("card.what-longer", what=change, until=record.at) if longer else change


def where(record: Record, cluster: str) -> str:
    """The Deployment that is changed, with its cluster where it has a name."""
    return inert(f"{record.target} ({cluster})" if cluster else record.target, NAME)


# ----------------------------------------------------------------------------------------------------- buttons


def _buttons(card: ChangeCard) -> list[blocks.Element]:
    record = card.record
    if card.state == "pending":
        value = value_of(CardButton(card.approval, card.cluster, record.target, card.digest))
        change = what(record, longer=card.longer)
        sure = blocks.confirm(Text("slack.sure"), told_plain(change))
        return [
            blocks.button(Text("card.button-approve"), APPROVE, value, style="primary", confirm=sure),
            blocks.button(Text("card.button-refuse"), REFUSE, value, style="danger"),
        ]
    if card.state not in RUNNING:
        return []
    value = value_of(CardButton(record.id, card.cluster, record.target))
    sure = blocks.confirm(Text("card.button-revert"), Text("card.sure-revert"))
    revert = blocks.button(Text("card.button-revert"), REVERT, value, style="danger", confirm=sure)
    extend = blocks.button(Text("card.button-extend"), EXTEND, value)
    return [revert] if card.state in ("unreadable", "failed") else [revert, extend]


# ------------------------------------------------------------------------------------------------------- facts


def _facts(card: ChangeCard) -> list[list[Part]]:
    record = card.record
    facts = [[span(pieced("{} ", Text("card.in"))), span(where(record, card.cluster), "code")]]
    facts.append([span(pieced("{} ", Text("card.asked-by"))), somebody(inert(record.by, NAME) or "-")])
    if card.approved_by:
        facts.append([span(pieced("{} ", Text("card.approved-by"))), somebody(card.approved_by)])
    if record.because.strip():
        facts.append([span(pieced("{} ", Text("card.because"))), span(inert(record.because, _REASON))])
    if card.state == "pending":
        minutes = round((record.deadline - record.since) / 60)
        terms = clauses([Text("card.for", minutes=minutes), Text("card.approve-by")])
        facts.append([span(pieced("{} ", terms)), moment(card.expires_at)])
    if card.state in RUNNING:
        facts.append([span(pieced("{} ", Text("card.until"))), moment(record.deadline)])
    if record.until_captured and card.state in RUNNING:
        facts.append([span(Text("card.captured-of", pod=inert(record.until_captured, NAME)))])
    if card.by and (card.by != record.by or card.state in _PUT_BACK):
        facts.append([span(pieced("{} ", Text("card.by"))), somebody(inert(card.by, NAME))])
    if card.at and card.state in _PUT_BACK:
        facts.append([span(pieced("{} ", Text("card.at"))), moment(card.at)])
    return facts


def _listed(pieces: Sequence[Part]) -> list[Part]:
    return [part for number, piece in enumerate(pieces) for part in ((span(", "), piece) if number else (piece,))]


# ------------------------------------------------------------------------------------------------------ what is offered


class ChangeOffer(NamedTuple):
    """A change that the bot offers to make. `two_person`: somebody else has to approve it."""

    record: Record
    impacts: tuple[Impact, ...]
    cluster: str
    two_person: bool


def offer_form(offer: ChangeOffer, draft: str) -> dict[str, Any]:
    """The modal that asks for the reason and confirms the offer; `draft` comes back when it is submitted."""
    reason = blocks.text_input(REASON_TEXT, initial=cut(offer.record.because, LONGEST_REASON))
    return blocks.modal(
        Text("card.form-title"),
        [_shown(offer), blocks.asking(Text("card.reason"), reason, REASON, hint=Text("card.reason-hint"))],
        submit=_yes(offer),
        callback_id=FORM,
        private_metadata=draft,
    )


def waiting_form() -> dict[str, Any]:
    """The modal that stands while the cluster is read, because Slack opens one only within three seconds."""
    return blocks.modal(Text("card.form-title"), [blocks.plain_section(Text("card.reading"))])


def told_form(message: Message | blocks.Draft) -> dict[str, Any]:
    """The modal that says why there is nothing to confirm."""
    return blocks.modal(Text("card.form-title"), message.blocks)


def offer_message(offer: ChangeOffer, draft: str) -> blocks.Draft | None:
    """The offer as a message, where no form can be opened; None when the draft does not fit into a button."""
    if len(draft) > BUTTON_VALUE:
        return None
    yes = blocks.button(_yes(offer), CONFIRM, draft, style="danger")
    no = blocks.button(Text("desk.cancel"), CANCEL)
    return blocks.Draft(escape(what(offer.record)), (_shown(offer), blocks.actions(yes, no)))


def _shown(offer: ChangeOffer) -> Block:
    record = offer.record
    minutes = round((record.deadline - record.since) / 60)
    parts = [
        line(span(inert(what(record), DETAIL), "bold")),
        bullets(
            line(span(pieced("{} ", Text("card.in"))), span(where(record, offer.cluster), "code")),
            line(span(clauses([Text("card.for", minutes=minutes), Text("card.undone")]))),
        ),
    ]
    if offer.impacts:
        effects = [
            line(span(pieced("{}: ", SEVERITIES[impact.severity]), "bold"), span(inert(impact.prose, DETAIL) or "-"))
            for impact in offer.impacts
        ]
        parts += [line(span(Text("card.brings"))), bullets(*effects)]
    if offer.two_person:
        parts.append(line(span(Text("card.needs-approval"))))
    return rich_text(*parts)


def _yes(offer: ChangeOffer) -> Text:
    return Text("card.ask" if offer.two_person else "card.do")
