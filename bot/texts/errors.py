"""Errors and gaps in another language than English: what was raised in English, found again among the texts.

Whoever raises an error writes it in English. A text of `errors.zh.toml` is that English with `{}` for its values, so
that a message is known by the words around them; a value may be such a message itself, as in "nothing was changed: …".
What no text stands for, such as an API server's own words, stays as it is.
"""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from bot.texts import Language

_HOLE = "{}"
_NUMBERED = re.compile(r"\{(\d*)\}")
_DEEPEST = 4
_LONGEST = 2000
_BETWEEN = ("; ", ". ", ": ")
_CHINESE = {"; ": "；", ". ": "。", ": ": "："}
_ENDS = re.compile(r"[。？！：；]$")


class _Text(NamedTuple):
    pieces: tuple[str, ...]
    """The English around the values."""
    chinese: str


def in_language(text: str, language: Language) -> str:
    """The text of an error, a hint or a gap in that language, as far as its parts are known."""
    if language == "en" or not text:
        return text
    return "\n".join(_told(line, _DEEPEST) for line in text.split("\n"))


def _told(text: str, depth: int) -> str:
    if depth == 0 or len(text) > _LONGEST or not re.search("[A-Za-z]{2}", text):
        return text
    found = [(known, values) for known in _texts() if (values := _values(known.pieces, text)) is not None]
    # `{} is empty` is not what "FILE: the profile is empty" means: its parts say it.
    sure = [match for match in found if not (match[1] and match[0].pieces[0] == "" and ": " in match[1][0])]
    if not sure and (parted := _parted(text, depth)) != text:
        return parted
    for known, values in sure or found:
        return _filled(known.chinese, [_told(value, depth - 1) for value in values])
    return text


def _values(pieces: tuple[str, ...], text: str) -> list[str] | None:
    """What stands between the pieces, as little as can be; None where the text has others.

    One pass over the text: an API server's words may be long, and made to be slow to match.
    """
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return [] if text == first else None
    at, end, values = len(first), len(text) - len(last), list[str]()
    if not (text.startswith(first) and text.endswith(last)):
        return None
    for piece in pieces[1:-1]:
        found = text.find(piece, at + 1, end)
        if found < 0:
            return None
        values.append(text[at:found])
        at = found + len(piece)
    return [*values, text[at:end]] if at < end else None


def _filled(chinese: str, values: list[str]) -> str:
    order = iter(range(len(values)))
    return _NUMBERED.sub(lambda found: values[int(found[1]) if found[1] else next(order)], chinese)


def _parted(text: str, depth: int) -> str:
    """Several texts in one, such as a path before its message, or two sentences."""
    for between in _BETWEEN:
        head, separator, tail = text.partition(between)
        if not tail:
            continue
        first = _told(head + separator.strip(), depth - 1) if separator == ". " else _told(head, depth - 1)
        second = _told(tail, depth - 1)
        if second != tail or first not in (head, head + "."):
            return f"{first}{'' if _ENDS.search(first) else _CHINESE[between]}{second}"
    return text


@lru_cache(maxsize=1)
def _texts() -> tuple[_Text, ...]:
    """Those with the most words of their own first: `there is no verb {}` before `there is no {}`."""
    document = tomllib.loads(files("bot.texts").joinpath("errors.zh.toml").read_text(encoding="utf-8"))
    known = [
        _Text(tuple(english.split(_HOLE)), chinese) for part in document.values() for english, chinese in part.items()
    ]
    return tuple(sorted(known, key=lambda template: -sum(map(len, template.pieces))))
