"""Ever simpler forms of a message, for a workspace that refuses one within Slack's limits: kinds of blocks arrive at
different times, and the limit of all text together is not documented.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from bot.render.words import cells
from bot.slack.message import Block, File, Message
from bot.slack.render.tables import WHOLE_ANSWER, whole_answers
from bot.slack.render.text import cut, length, preformatted, rich_text, total_text

_OLD = frozenset({"section", "header", "divider", "context", "actions", "input", "image", "rich_text"})
_WIDEST_CELL = 40
_SMALLEST = 40  # more than the words of preformatted text around its text
_SECTION = 2500
_PLAIN = 3500  # less than the 4,000 that chat.update takes
_SECTIONS_TOTAL = 6000


def degraded(message: Message) -> Iterator[Message]:
    """Ever simpler forms of the message: without new kinds of blocks, then plain sections, then text alone, then only
    the beginning of a long text. From the sections on, the whole answer comes as a file: the message's own, or else one
    made of the text of the blocks or the message.
    """
    if message.blocks:
        if any(block["type"] not in _OLD for block in message.blocks):
            yield message._replace(blocks=tuple(_older(message.blocks)))
        files = (*_whole(message), *(file for file in message.files if file not in whole_answers(message.files)))
        sections = tuple(_sections(message.blocks))
        if sections != message.blocks:
            yield Message(message.text, sections, files)
        yield Message(message.text, (), files)
    if length(message.text) > _PLAIN:
        yield Message(cut(message.text, _PLAIN), (), message.files or tuple(_whole(message)))


def _older(given: Sequence[Block]) -> Iterator[Block]:
    """The blocks, a table as preformatted text that is no longer, nothing for any other new kind."""
    for block in given:
        if block["type"] == "table":
            room = max(_SMALLEST, total_text(block) - _SMALLEST)
            yield rich_text(preformatted(cut("\n".join(_aligned(block["rows"])), room)))
        elif block["type"] in _OLD:
            yield block


def _aligned(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    texts = [[_said(cell) for cell in row] for row in rows]
    wide = [min(_WIDEST_CELL, max(map(cells, column))) for column in zip(*texts, strict=True)]
    for row in texts:
        padded = (text + " " * max(0, room - cells(text)) for text, room in zip(row, wide, strict=True))
        yield "  ".join(padded).rstrip()


def _whole(message: Message) -> Sequence[File]:
    if found := whole_answers(message.files):
        return found
    text = "\n\n".join(filter(None, map(plain_text, message.blocks))) or message.text
    return [File(f"{WHOLE_ANSWER}.txt", text.encode("utf-8"), WHOLE_ANSWER)]


def _sections(given: Sequence[Block]) -> Iterator[Block]:
    """What the blocks say, as few sections of plain text; shorter than what was refused."""
    shown = cut("\n\n".join(filter(None, map(plain_text, given))), _SECTIONS_TOTAL)
    text = ""
    for line in shown.split("\n"):
        if length(text) + length(line) > _SECTION and text.strip():
            yield _verbatim(text)
            text = ""
        text += f"{line}\n"
    if text.strip():
        yield _verbatim(text)


def _verbatim(text: str) -> Block:
    """A section whose lines are ours and whose words were inert before."""
    return {"type": "section", "text": {"type": "plain_text", "text": cut(text.strip("\n"), _SECTION), "emoji": False}}


# ------------------------------------------------------------------------------------------------- what blocks say


def plain_text(block: Block) -> str:
    """The text that a reader reads in the block, and the text of the button beside it."""
    if block["type"] == "table":
        return "\n".join(_aligned(block["rows"]))
    if block["type"] == "rich_text":
        return "\n".join(map(_part, block["elements"]))
    if block["type"] == "context":
        return "\n".join(map(_said, block["elements"]))
    asked = block.get("accessory", {}).get("text")
    return _said(block.get("text", "")) + (f"\n    {_said(asked)}" if asked else "")


def _part(part: dict[str, Any]) -> str:
    if part["type"] == "rich_text_list":
        return "\n".join(f"- {_said(element)}" for element in part["elements"])
    lead = {"rich_text_quote": "| ", "rich_text_preformatted": "    "}.get(part["type"], "")
    return lead + _said(part).replace("\n", f"\n{lead}")


def _said(value: Any) -> str:
    """The text of a text object, a cell, or a part of rich text."""
    if isinstance(value, str):
        return value
    return value["text"] if isinstance(value.get("text"), str) else "".join(map(_said, value.get("elements", ())))
