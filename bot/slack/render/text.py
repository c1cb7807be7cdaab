"""Text that nobody can make act in Slack: what came from a cluster or a person is inert before it is anywhere.

`Mrkdwn` is the only type that Slack parses, and only `escape` and `lines` make it. What is not our own words
belongs into rich text or `plain_text`, where nothing is parsed; both take what `inert` gives. Of a text that is no
words yet, each gives a text that will have become so.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import NewType, overload

from bot.render.words import visible
from bot.report import one_line
from bot.slack.render.limits import SECTION, length
from bot.texts import Prose, Text, made

Mrkdwn = NewType("Mrkdwn", str)
MrkdwnText = NewType("MrkdwnText", Text)
"""Becomes Mrkdwn with its words."""

_ELLIPSIS = "…"
_ZERO_WIDTH_SPACE = "\u200b"
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

# Slack has no escape for these: two at the edges of words could format what is between them, so they become characters
# that look like them. Inside a word they do nothing, as in `pod_name_0`; a backtick may mean something anywhere.
LOOKALIKES = {"*": "∗", "_": "ˍ", "~": "∼", "`": "ˋ"}
_FORMATS = re.compile(r"(?<![A-Za-z0-9])[*_~]+|[*_~]+(?![A-Za-z0-9])|`+")
_QUOTED = re.compile(r"^\s*>")
# `:name:` is a picture; a time such as 05:00:00 is not. A bare address becomes a link, also after `www.`.
_ACTS_AFTER = re.compile(r":(?!\d\d:)(?=[\w+'-]+:)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)


@overload
def inert(raw: str, most: int) -> str: ...
@overload
def inert(raw: Text, most: int) -> Text: ...
def inert(raw: Prose, most: int) -> Prose:
    r"""The text on one line of at most `most` characters, with what acts instead of showing written out: `\u202e`."""
    return made(partial(inert, most=most), raw) if isinstance(raw, Text) else cut(visible(raw[: most + 1]), most)


def in_one_line(prose: Prose, most: int) -> Text:
    """On one line, which ends with a whole word where it has to be cut."""
    return made(partial(one_line, limit=most), prose)


def pieced(signs: str, *parts: Prose) -> Text:
    """Parts among signs that are the same in every language: `pieced("{}: {}", label, name)`."""
    return made(signs.format, *parts)


def cut(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis if it has more than `most` characters."""
    if length(text) <= most:
        return text
    shown = text[: most - 1]
    while (over := length(shown) - most + 1) > 0:
        shown = shown[: -max(1, over // 2)]
    return shown + _ELLIPSIS


@overload
def escape(raw: str, most: int = SECTION) -> Mrkdwn: ...
@overload
def escape(raw: Text, most: int = SECTION) -> MrkdwnText: ...
def escape(raw: Prose, most: int = SECTION) -> Mrkdwn | MrkdwnText:
    """The text as words alone, on one line: no mention, no link, no formatting, no picture comes out of it."""
    if isinstance(raw, Text):
        return MrkdwnText(made(partial(escape, most=most), raw))
    text = visible(raw[: most + 1])
    text = _unformatted(text)
    text = _QUOTED.sub("›", text)
    text = _ACTS_AFTER.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, text)
    return Mrkdwn(_cut_entities(_entities(text), most))


@overload
def lines(parts: Iterable[Mrkdwn]) -> Mrkdwn: ...
@overload
def lines(parts: Iterable[Mrkdwn | MrkdwnText]) -> Mrkdwn | MrkdwnText: ...
def lines(parts: Iterable[Mrkdwn | MrkdwnText]) -> Mrkdwn | MrkdwnText:
    """The parts one below the other: no formatting reaches from one line into the next."""
    texts = list(parts)
    words = [text for text in texts if not isinstance(text, Text)]
    if len(words) == len(texts):
        return Mrkdwn("\n".join(words))
    return MrkdwnText(pieced("\n".join(["{}"] * len(texts)), *texts))


def _unformatted(text: str) -> str:
    counted = Counter("".join(_FORMATS.findall(text)))
    acting = str.maketrans(
        {letter: LOOKALIKES[letter] for letter, count in counted.items() if count > 1 or letter == "`"}
    )
    return _FORMATS.sub(lambda found: found[0].translate(acting), text)


def _entities(text: str) -> str:
    return "".join(_ENTITIES.get(character, character) for character in text)


def _cut_entities(text: str, most: int) -> str:
    shown = cut(text, most)
    if shown is text:
        return text
    start, entity, rest = shown.rpartition("&")
    return start + _ELLIPSIS if entity and ";" not in rest else shown
