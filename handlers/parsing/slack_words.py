"""The words of a question as Slack delivers them: escaped, with links and mentions, as people type them."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from bot.errors import UsageError
from bot.texts import Text
from handlers.parsing.normalise import LONGEST, QUOTES, normalise

_APOSTROPHE = re.compile("(?<=[A-Za-z])'(?=[A-Za-z])")
"""As in `isn't`: no quote. Joined words have none between letters."""
_ENTITY = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
_ESCAPES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
"""The only three that Slack writes; any other was typed so. (Slack's page "Formatting message text")"""
_ESCAPE = re.compile("|".join(_ESCAPES))


def split_words(text: str) -> list[str]:
    """The words in their normal form. Slack's own markup is undone: `<http://a.b|a.b>` is `a.b`, `<#C1|ops>` is `ops`.

    Raises UsageError for text that is too long, or whose quotes do not match.
    """
    if len(text) > LONGEST:
        raise UsageError(Text("error-command.too-long", got=f"{len(text):,}", most=f"{LONGEST:,}"))
    straight = plain_text(normalise(text)).translate(QUOTES)  # in a reason too
    try:
        return [word.replace("’", "'") for word in shlex.split(_APOSTROPHE.sub("’", straight))]
    except ValueError as error:
        raise UsageError(Text("error-command.quotes-do-not-match")) from error


def plain_text(text: str) -> str:
    """The text as a person reads it, without Slack's markup and escapes."""
    without_markup = _ENTITY.sub(lambda found: found[2] or found[1].lstrip("@#!"), text)
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], without_markup)


def join_words(words: Sequence[str]) -> str:
    """One text, as a person types it."""
    return shlex.join(words)


def as_delivered(typed: str) -> str:
    """The text as Slack delivers it, for `split_words` and `plain_text`, when it did not come that way."""
    for escape, character in _ESCAPES.items():  # the ampersand comes first
        typed = typed.replace(character, escape)
    return typed


def mentioned_words(event: dict[str, Any], bot_user: str) -> str:
    """What a message asks, in its normal form and still escaped: without the bot's own mention, wherever that is."""
    return normalise(re.sub(rf"<@{re.escape(bot_user)}(\|[^<>]*)?>", " ", event.get("text") or ""))


def command_words(body: dict[str, Any]) -> str:
    """What a slash command asks, in its normal form and still escaped."""
    return normalise(body.get("text") or "")
