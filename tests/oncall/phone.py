"""A message as a phone shows it: its text in lines of 40 characters, a block's buttons as one line each row."""

import textwrap
from typing import Any

from bot.slack.message import Message

COLUMNS = 40


def lines_of(message: Message) -> list[str]:
    """The lines from the top, buttons as `[Acknowledge] [Take]`."""
    return [row for block in message.blocks for row in _lines(block)]


def _lines(block: dict[str, Any]) -> list[str]:
    if block["type"] == "actions":
        labels = (element.get("text") or element["placeholder"] for element in block["elements"])
        return _wrapped(" ".join(f"[{label['text'].replace(' ', '_')}]" for label in labels))
    if block["type"] == "rich_text":
        return [row for part in block["elements"] for row in _of_part(part)]
    if block["type"] == "context":
        return [row for element in block["elements"] for row in _wrapped(element["text"])]
    return _wrapped(block["text"]["text"])


def _of_part(part: dict[str, Any]) -> list[str]:
    if part["type"] == "rich_text_list":
        return [row for element in part["elements"] for row in _of_part(element)]
    return _wrapped("".join(_shown(element) for element in part["elements"]))


def _shown(piece: dict[str, Any]) -> str:
    if piece["type"] == "user":
        return "@ada.lovelace"
    return "Today at 09:00:00" if piece["type"] == "date" else piece.get("text") or piece.get("url", "")


def _wrapped(text: str) -> list[str]:
    return [row for line in text.split("\n") for row in textwrap.wrap(line, COLUMNS)]
