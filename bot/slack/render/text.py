"""Text that nobody can make act in Slack (mention, link, format): a cluster's or person's text is made inert first.

The module also has Slack's limits, and rich text, of which Slack parses nothing: these functions give parts of a
`rich_text` block and take text that `inert` made. `Mrkdwn` is the only type that Slack parses, and only `escape` and
`lines` make it: words that are not our own belong into rich text or `plain_text`. For a `Text`, which is no words yet,
each function gives a `Text`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NewType, cast, overload

from bot.kube.times import format_time, parse_time
from bot.render.words import visible
from bot.report import one_line
from bot.slack.message import Block
from bot.texts import Prose, Text, made

# Slack's limits that the bot keeps to, from docs.slack.dev (block and element pages) and Slack's own type definitions
# in November 2026; `sandbox.slack.rules` has the others, against which the tests hold messages.
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

Mrkdwn = NewType("Mrkdwn", str)
MrkdwnText = NewType("MrkdwnText", Text)
"""A text that becomes Mrkdwn when it is put into words."""

_ELLIPSIS = "…"
_ZERO_WIDTH_SPACE = "\u200b"
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

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
    """The text on one line of at most `most` characters, cut after a whole word."""
    return made(partial(one_line, limit=most), prose)


def pieced(signs: str, *parts: Prose) -> Text:
    """A text of the parts among signs that are the same in every language: `pieced("{}: {}", label, name)`."""
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
    """The text as words alone, on one line: it makes no mention, no link, no formatting, no picture in Slack."""
    if isinstance(raw, Text):
        return MrkdwnText(made(partial(escape, most=most), raw))
    text = visible(raw[: most + 1])
    counted = Counter("".join(_FORMATS.findall(text)))
    acting = {letter: LOOKALIKES[letter] for letter, count in counted.items() if count > 1 or letter == "`"}
    text = _FORMATS.sub(lambda found: found[0].translate(str.maketrans(acting)), text)
    text = _QUOTED.sub("›", text)
    text = _ACTS_AFTER.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, text).translate(_ENTITIES)
    shown = cut(text, most)
    start, entity, rest = shown.rpartition("&")
    return Mrkdwn(start + _ELLIPSIS if shown is not text and entity and ";" not in rest else shown)


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


def total_text(value: Any) -> int:
    """The characters of all strings in the value, keys excepted, to be compared with `TOTAL_BUDGET`."""
    if isinstance(value, str):
        return length(value)
    if isinstance(value, dict):
        return sum(map(total_text, cast("dict[str, Any]", value).values()))
    if isinstance(value, list | tuple):
        return sum(map(total_text, cast("Sequence[Any]", value)))
    return 0


def length(text: str) -> int:
    """The text's characters as JavaScript counts them, which is the most Slack can count: two outside of the BMP."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


Part = dict[str, Any]

_USER, _GROUP = re.compile(r"[UW][A-Z0-9]{2,}"), re.compile(r"S[A-Z0-9]{2,}")
_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,}")
_WHEN = "{date_short_pretty} {time_secs}"
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\u200b?\d\dZ")
"""A time as `utc` writes it; `escape` may have put a space of no width into it."""


def rich_text(*parts: Part) -> Block:
    return {"type": "rich_text", "elements": list(parts)}


def span(text: Prose, *styles: str) -> Part:
    """A piece of rich text with styles: `bold`, `italic`, `code`. The text must not be empty."""
    piece: Part = {"type": "text", "text": text}
    if styles:
        piece["style"] = dict.fromkeys(styles, True)
    return piece


def line(*pieces: Part) -> Part:
    return {"type": "rich_text_section", "elements": list(pieces)}


def quote(text: Prose) -> Part:
    return {"type": "rich_text_quote", "elements": [span(text)]}


def preformatted(text: str) -> Part:
    return {"type": "rich_text_preformatted", "elements": [span(text)]}


def bullets(*items: Part) -> Part:
    """A bulleted list of items, each as `line` gives it."""
    return {"type": "rich_text_list", "style": "bullet", "elements": list(items)}


def somebody(who: str) -> Part:
    """A user or user group by id, as rich text that notifies them where it is posted; any other name as it is."""
    if _USER.fullmatch(who):
        return {"type": "user", "user_id": who}
    return {"type": "usergroup", "usergroup_id": who} if _GROUP.fullmatch(who) else span(who)


def mention(who: str) -> str:
    """A mention of a user or user group in mrkdwn, which notifies them; a name that is no id is escaped."""
    if _USER.fullmatch(who):
        return f"<@{who}>"
    return f"<!subteam^{who}>" if _GROUP.fullmatch(who) else escape(who)


def told(text: Prose, *styles: str, ids: Collection[str] = ()) -> list[Part]:
    """Text with each time in UTC shown in the reader's own zone, and each of the users `ids` by name, which notifies
    them unless one person alone sees the message. For a text that is no words yet, one part stands for all:
    `blocks.in_words` puts them in its place.
    """
    if isinstance(text, Text):
        return [{"type": "told", "text": text, "styles": styles, "ids": ids}]
    words = re.split(f"({_to_tell(ids).pattern})", text)
    return [_part(word, styles, ids) for word in words if word]


@overload
def told_mrkdwn(text: Mrkdwn, ids: Collection[str] = ()) -> Mrkdwn: ...
@overload
def told_mrkdwn(text: MrkdwnText, ids: Collection[str] = ()) -> MrkdwnText: ...
def told_mrkdwn(text: Mrkdwn | MrkdwnText, ids: Collection[str] = ()) -> Mrkdwn | MrkdwnText:
    """Escaped text with times in the reader's own zone and users of Slack by name, as `told` has them."""
    if isinstance(text, Text):
        return MrkdwnText(made(partial(told_mrkdwn, ids=ids), text))
    return Mrkdwn(_to_tell(ids).sub(lambda found: _token(found[0], ids), text))


def told_plain(text: Text) -> Text:
    """The text for places where nothing is parsed: each time as `05:00 UTC`, for times that are soon."""
    return made(partial(_TIME.sub, lambda found: f"{found[0][11:16]} UTC"), text)


def link(url: str, text: Prose = "") -> Part:
    """A link to an http(s) address, shown as the address or as the text."""
    return {"type": "link", "url": url, "text": text} if text else {"type": "link", "url": url}


def channel(name: str) -> Part:
    """A mention of a channel by id; any other name as it is."""
    return {"type": "channel", "channel_id": name} if _CHANNEL.fullmatch(name) else span(name)


def moment(at: float) -> Part:
    """A time (unix seconds) in the reader's own zone; in UTC where that cannot be shown."""
    return {"type": "date", "timestamp": round(at), "format": _WHEN, "fallback": utc(at)}


def utc(at: float) -> str:
    """A time (unix seconds) as text, to the nearest second: `2026-11-21T05:00:00Z`."""
    return format_time(datetime.fromtimestamp(round(at), UTC))


def _to_tell(ids: Collection[str]) -> re.Pattern[str]:
    names = "".join(rf"|\b{re.escape(who)}\b" for who in ids)
    return re.compile(_TIME.pattern + names)


def _part(word: str, styles: Sequence[str], ids: Collection[str]) -> Part:
    at = _at(word)
    return somebody(word) if word in ids else span(word, *styles) if at is None else moment(at)


def _token(word: str, ids: Collection[str]) -> str:
    at = _at(word)
    return mention(word) if word in ids else word if at is None else f"<!date^{round(at)}^{_WHEN}|{utc(at)}>"


def _at(word: str) -> float | None:
    """The time that a word is, in unix seconds; None for any other word, and for a day that no month has."""
    found = parse_time(word.replace("\u200b", "")) if _TIME.fullmatch(word) else None
    return None if found is None else found.timestamp()
