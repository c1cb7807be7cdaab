"""Which digests a channel has, and the form that adds one."""

from collections.abc import Sequence

import msgspec

from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.limits import SECTION
from bot.slack.render.rich import bullets, line, rich_text, span
from bot.slack.render.text import escape, inert, pieced
from bot.texts import Prose, Text

OPEN = FORM = "digest_add"
WHEN, ZONE, INPUT = "when", "zone", "text"
_USUAL, _SOMEWHERE = "weekdays 09:00", "Asia/Shanghai"


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a digest is to be posted, and about which cluster; what the button and the form carry."""

    cluster: str = ""
    channel: str = ""


def read_place(value: str) -> Place:
    """What a button or a form carries; nothing where it is none of ours."""
    try:
        return msgspec.json.decode(value, type=Place)
    except msgspec.DecodeError:
        return Place()


def render_list(digests: Sequence[Prose], ways: Sequence[tuple[str, Prose]], cluster: str) -> blocks.Draft:
    """The digests, what may be typed with what it does, and the button that opens the form."""
    rows = [line(span(inert(digest, SECTION))) for digest in digests or [Text("digest.none")]]
    typed = [
        line(span(inert(words, SECTION), "code"), span(pieced(" {}", inert(does, SECTION)))) for words, does in ways
    ]
    button = blocks.button(Text("digest.form-open"), OPEN, msgspec.json.encode(Place(cluster)).decode())
    aloud = escape(digests[0] if digests else Text("digest.none"))
    shown = rich_text(bullets(*rows) if digests else rows[0]), rich_text(bullets(*typed))
    return blocks.Draft(aloud, (*shown, blocks.actions(button)))


def render_added(text: str) -> Message:
    """As rich text, where the asterisks of a cron expression stay what they are and can be copied."""
    return Message(escape(text), (rich_text(line(span(inert(text, SECTION)))),))


def form(place: Place) -> blocks.Element:
    """The form."""
    when = blocks.text_input(INPUT, initial=_USUAL)
    zone = blocks.text_input(INPUT, placeholder=_SOMEWHERE)
    return blocks.modal(
        Text("digest.form-open"),
        [
            blocks.asking(Text("digest.form-when"), when, WHEN, hint=Text("digest.form-hint")),
            blocks.asking(Text("digest.form-zone"), zone, ZONE),
        ],
        close=Text("desk.cancel"),
        submit=Text("digest.form-open"),
        callback_id=FORM,
        private_metadata=msgspec.json.encode(place).decode(),
    )
