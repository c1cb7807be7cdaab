"""An examination as a message: what is broken first, each with its fix."""

from collections import Counter
from collections.abc import Sequence

from bot.slack.message import Message
from bot.slack.render.blocks import Room
from bot.slack.render.limits import TOTAL_BUDGET
from bot.slack.render.rich import Part, bullets, line, rich_text, span
from bot.slack.render.text import escape
from bot.texts import Texts
from handlers.doctor.links import STATES, Link, in_words

_SEEN, _FIX = 600, 600
_MARGIN = 1000
"""For the summary and the line about what is left out."""


def render_links(links: Sequence[Link], say: Texts) -> Message:
    """Failed links first, then degraded ones, then the others; as many as a message has room for."""
    counts = Counter(link.state for link in links)
    summary = say("doctor.summary", failed=counts["failed"], degraded=counts["degraded"], well=counts["ok"])
    room = Room(TOTAL_BUDGET - _MARGIN, say)
    ordered = sorted(in_words(links, say), key=lambda link: STATES.index(link.state), reverse=True)

    def shown(_: int, link: Link) -> Part:
        name = f"{link.state}: {link.name} {link.about}".strip()
        pieces = [span(room.text(name, _SEEN), "bold"), span(f" {room.text(str(link.seen), _SEEN)}")]
        pieces += [span(f"\n{say('doctor.fix')}: {room.text(str(link.fix), _FIX)}")] if link.fix else []
        return line(*pieces)

    items = room.fill("links", ordered, shown, share=room.characters, most=len(ordered))
    left_out = room.left_out["links"]
    more = [line(span(say("doctor.left-out", count=left_out)))] if left_out else []
    return Message(escape(summary), (rich_text(line(span(summary, "bold")), bullets(*items), *more),))
