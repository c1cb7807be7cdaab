"""Rich text: raw strings of which Slack parses nothing, so this is where quotes, names and commands stand.

Every function gives a part of a `rich_text` block and takes text that `inert` made, or a text that is no words yet.
"""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, overload

from bot.kube.times import format_time, parse_time
from bot.slack.message import Block
from bot.slack.render.text import Mrkdwn, MrkdwnText, escape
from bot.texts import Prose, Text, made

Part = dict[str, Any]

_USER, _GROUP = re.compile(r"[UW][A-Z0-9]{2,}"), re.compile(r"S[A-Z0-9]{2,}")
_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,}")
_WHEN = "{date_short_pretty} {time_secs}"
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\u200b?\d\dZ")
"""As `utc` writes it; `escape` may have put a blank of no width into it."""


def rich_text(*parts: Part) -> Block:
    return {"type": "rich_text", "elements": list(parts)}


def span(text: Prose, *styles: str) -> Part:
    """Text with styles: `bold`, `italic`, `code`. A text must not be empty."""
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
    """A list of what `line` gives."""
    return {"type": "rich_text_list", "style": "bullet", "elements": list(items)}


def somebody(who: str) -> Part:
    """A user or user group of Slack's by id, which calls them where it is posted; any other name as it is."""
    if _USER.fullmatch(who):
        return {"type": "user", "user_id": who}
    return {"type": "usergroup", "usergroup_id": who} if _GROUP.fullmatch(who) else span(who)


def mention(who: str) -> str:
    """Somebody in mrkdwn, who is called there as well; a name that is no id of Slack's is escaped."""
    if _USER.fullmatch(who):
        return f"<@{who}>"
    return f"<!subteam^{who}>" if _GROUP.fullmatch(who) else escape(who)


def told(text: Prose, *styles: str, ids: Collection[str] = ()) -> list[Part]:
    """Text with each time in UTC in the reader's own zone, and each of these users of Slack as who that is.

    Whoever is named so is called, but by what one person alone sees. Of a text that is no words yet, one part stands
    for all: `blocks.in_words` puts them in its place.
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
    """Escaped text with times and users of Slack as `told` has them."""
    if isinstance(text, Text):
        return MrkdwnText(made(partial(told_mrkdwn, ids=ids), text))
    return Mrkdwn(_to_tell(ids).sub(lambda found: _token(found[0], ids), text))


def told_plain(text: Text) -> Text:
    """Text for where nothing is parsed: each time as `05:00 UTC`, for what is soon."""
    return made(partial(_TIME.sub, lambda found: f"{found[0][11:16]} UTC"), text)


def link(url: str, text: Prose = "") -> Part:
    """An http(s) address, shown as it is or as the text."""
    return {"type": "link", "url": url, "text": text} if text else {"type": "link", "url": url}


def channel(name: str) -> Part:
    """A channel by id; any other name as it is."""
    return {"type": "channel", "channel_id": name} if _CHANNEL.fullmatch(name) else span(name)


def moment(at: float) -> Part:
    """A time (unix seconds) in the reader's own zone; in UTC where that cannot be shown."""
    return {"type": "date", "timestamp": round(at), "format": _WHEN, "fallback": utc(at)}


def utc(at: float) -> str:
    """A time (unix seconds), to the nearest second: `2026-11-21T05:00:00Z`."""
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
