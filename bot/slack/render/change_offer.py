"""What would be changed, shown to the one who asked before anything is: a form, or a message with buttons."""

from typing import Any, NamedTuple

from bot.changes.record import Record
from bot.render.words import SEVERITIES
from bot.report import Impact
from bot.slack.message import Block, Message
from bot.slack.render import blocks
from bot.slack.render.change import DETAIL, what, where
from bot.slack.render.limits import BUTTON_VALUE
from bot.slack.render.rich import bullets, line, rich_text, span
from bot.slack.render.text import cut, escape, inert, pieced
from bot.texts import Text, clauses

CONFIRM, CANCEL = "change:confirm", "change:cancel"
FORM = "change"
REASON, REASON_TEXT = "because", "text"
"""The form's block and input."""
LONGEST_REASON = 500


class Offer(NamedTuple):
    """What would be done. `two_person`: somebody else has to approve it."""

    record: Record
    impacts: tuple[Impact, ...]
    cluster: str
    two_person: bool


def offer_form(offer: Offer, draft: str) -> dict[str, Any]:
    """The modal that asks for the reason and confirms; `draft` comes back with what is submitted."""
    reason = blocks.text_input(REASON_TEXT, initial=cut(offer.record.because, LONGEST_REASON))
    return blocks.modal(
        Text("card.form-title"),
        [_shown(offer), blocks.asking(Text("card.reason"), reason, REASON, hint=Text("card.reason-hint"))],
        close=Text("desk.cancel"),
        submit=_yes(offer),
        callback_id=FORM,
        private_metadata=draft,
    )


def waiting_form() -> dict[str, Any]:
    """The modal while the cluster is read: a trigger is good for three seconds only."""
    return blocks.modal(
        Text("card.form-title"), [blocks.plain_section(Text("card.reading"))], close=Text("desk.cancel")
    )


def told_form(message: Message | blocks.Draft) -> dict[str, Any]:
    """The modal when there is nothing to confirm: why."""
    return blocks.modal(Text("card.form-title"), message.blocks, close=Text("desk.cancel"))


def offer_message(offer: Offer, draft: str) -> blocks.Draft | None:
    """The same where no form can be opened; None when what was asked does not fit into a button."""
    if len(draft) > BUTTON_VALUE:
        return None
    yes = blocks.button(_yes(offer), CONFIRM, draft, style="danger")
    no = blocks.button(Text("desk.cancel"), CANCEL)
    return blocks.Draft(escape(what(offer.record)), (_shown(offer), blocks.actions(yes, no)))


def _shown(offer: Offer) -> Block:
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


def _yes(offer: Offer) -> Text:
    return Text("card.ask" if offer.two_person else "card.do")
