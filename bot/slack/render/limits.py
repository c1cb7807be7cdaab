"""Slack's limits that the bot keeps to; `sandbox.slack.rules` has the others, against which the tests hold messages.

Numbers are those of docs.slack.dev (block and element pages) and of Slack's own type definitions in November 2026.
"""

from collections.abc import Sequence
from typing import Any, cast

BLOCKS_OF_VIEW = 100
HEADER = 150
SECTION = 3000
CONTEXT_ELEMENTS = 10
ACTIONS_ELEMENTS = 25
BUTTON_TEXT = 75
BUTTON_VALUE = 2000
CONFIRM_TITLE, CONFIRM_TEXT, CONFIRM_BUTTON = 100, 300, 30
PLACEHOLDER = 150
LABEL = 2000
TABLE_ROWS, TABLE_COLUMNS = 100, 20
VIEW_TITLE = 24

# Undocumented: messages of 11,341 to 13,297 characters over all their blocks were refused (bolt-js#2509, #2867).
TOTAL_BUDGET = 10_000


def total_text(value: Any) -> int:
    """The characters of all strings in it, keys excepted: what is held against `TOTAL_BUDGET`."""
    if isinstance(value, str):
        return length(value)
    if isinstance(value, dict):
        return sum(map(total_text, cast("dict[str, Any]", value).values()))
    if isinstance(value, list | tuple):
        return sum(map(total_text, cast("Sequence[Any]", value)))
    return 0


def length(text: str) -> int:
    """Characters as JavaScript counts them, the most that any side of Slack can count: two outside of the BMP."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)
