"""Rich text: raw strings of which Slack parses nothing, so this is where quotes, names and commands stand.

Every function gives a part of a `rich_text` block and takes text that `inert` made.
"""

from typing import Any

from bot.slack.message import Block

Part = dict[str, Any]


def rich_text(*parts: Part) -> Block:
    return {"type": "rich_text", "elements": list(parts)}


def span(text: str, *styles: str) -> Part:
    """Text with styles: `bold`, `italic`, `code`. A text must not be empty."""
    piece: Part = {"type": "text", "text": text}
    if styles:
        piece["style"] = dict.fromkeys(styles, True)
    return piece


def line(*pieces: Part) -> Part:
    return {"type": "rich_text_section", "elements": list(pieces)}


def quote(text: str) -> Part:
    return {"type": "rich_text_quote", "elements": [span(text)]}


def preformatted(text: str) -> Part:
    return {"type": "rich_text_preformatted", "elements": [span(text)]}


def bullets(*items: Part) -> Part:
    """A list of what `line` gives."""
    return {"type": "rich_text_list", "style": "bullet", "elements": list(items)}
