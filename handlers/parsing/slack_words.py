"""The words of a question as Slack delivers them: escaped, with links and mentions, as people type them."""

import re
import shlex
import string
import unicodedata
from collections.abc import Sequence
from typing import Any

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.slack.render.text import LOOKALIKES
from bot.texts import Text
from handlers.parsing.grammar import DASHES, straight_option
from handlers.parsing.slack_grammar import BOT, COMMAND

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


_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, and what Unicode calls default ignorable (DerivedCoreProperties.txt)."""
_MARKUP = str.maketrans({"＜": "&lt;", "﹤": "&lt;", "＞": "&gt;", "﹥": "&gt;", "＆": "&amp;", "﹠": "&amp;"})
"""Of these NFKC would make Slack's own markup."""
QUOTES = str.maketrans({**dict.fromkeys("“”„", '"'), **dict.fromkeys("‘’", "'")})
"""What phones write by themselves."""
_ENGLISH = QUOTES | str.maketrans(
    {
        **dict.fromkeys("‟«»「」『』《》〈〉【】", '"'),
        **dict.fromkeys("‚‛", "'"),
        **dict.fromkeys("‐‑‒–−﹘", "-"),
        "—": "--",
        "×": "x",
        "。": ".",
        "、": ",",
        **{shown: typed for typed, shown in LOOKALIKES.items()},
    }
)
"""What an English keyboard has instead. Two hyphens become one long dash on a phone."""
_PIECE = re.compile(r"(\s*)(\S+)")
_OTHER_SPACE = re.compile(r"[^\S \t\n]")
_LEAD = re.compile(
    rf"(?:\s|&gt;|[›•·◦▪‣⁃●○■]|[-*{DASHES}](?=\s)|{re.escape(COMMAND)}(?=\s|$)|@{re.escape(BOT)}(?=\s|$))*",
    re.IGNORECASE,
)
"""Marks of lists and quotes, and what stands before a question elsewhere."""
_MARKED = re.compile(r"([`*_~]{1,6})([^`*_~](?:.*[^`*_~])?)([`*_~]{1,6})", re.DOTALL)
_VERB = re.compile(r"[`*_~]*([A-Za-z]+(?:-[A-Za-z]+)*)[`*_~?!.,:]*")
_END = "?!.,"
_END_OR_SPACE = f"{_END}{string.whitespace}"
LONGEST = 2000
"""Of a question in its normal form. What stands behind so many characters is left as it is: it is not read."""
_MOST_BEFORE = 8
"""So many words of options before a verb are looked through."""


def normalise(text: str) -> str:
    """The text of a question, as Slack delivers it, in the form that all else reads; twice is the same as once.

    The verb is in lower case, characters are those of an English keyboard, marks around the question are gone. A valid
    name of Kubernetes stays as it is. A reason and a note lose only characters that nobody sees.
    """
    text = without_invisible(text)
    while (simpler := _simpler(text)) != text:
        text = simpler
    return text


def without_invisible(text: str) -> str:
    """The text without the characters that nobody sees; spaces and ends of lines stay."""
    return _INVISIBLE.sub("", text)


def _simpler(text: str) -> str:
    text = _unmarked(_LEAD.sub("", text, count=1).strip())
    words: list[str] = []
    shown: list[str] = []
    for found in _PIECE.finditer(text):
        if found.end() > LONGEST:
            return "".join(shown) + text[found.start() :]
        word = _simpler_word(found[2], words)
        if not word:
            continue
        words.append(word)
        shown += [_OTHER_SPACE.sub(" ", found[1]), word]
        if _free_text_follows(words):
            return "".join([*shown[:-1], word.lower()]) + text[found.end() :]
    return _without_end("".join(shown), words)


def _unmarked(text: str) -> str:
    """The text out of marks that format the whole of it."""
    found = _MARKED.fullmatch(text)
    is_whole = found and found[3] == found[1][::-1] and not set(found[1]) & set(found[2])
    return found[2] if found and is_whole else text


def _simpler_word(piece: str, before: list[str]) -> str:
    """The word behind those; empty for a dash that stands alone between words."""
    word = unicodedata.normalize("NFKC", piece.translate(_MARKUP))
    if not word.isascii() and not word.strip(DASHES):
        return ""
    word = straight_option(word).translate(_ENGLISH)
    verb = _VERB.fullmatch(word) if _verb_at(before) == len(before) else None
    return verb[1].lower() if verb else word


def _verb_at(words: list[str]) -> int:
    """Where the verb stands: options may come before it, each with its value."""
    at = 0
    while at < min(len(words), _MOST_BEFORE) and words[at].startswith("--"):
        at += 1 if "=" in words[at] else 2
    return at


def _free_text_follows(words: list[str]) -> bool:
    """Whether a reason or a note begins behind the words."""
    at = _verb_at(words)
    match [word.lower() for word in words[at : at + 3]]:
        case [verb, word, *_] if verb in VERBS or f"{verb} {word}" in VERBS:
            return words[-1].lower() == "because"
        case ["note" | "close"] | ["triage", "note" | "close"]:
            return True
        case _:
            return False


def _without_end(text: str, words: list[str]) -> str:
    """The text without what ends its sentence. An expression of Go's may end so, and `?` alone asks for help."""
    asked = words[_verb_at(words) :]
    if asked[:1] == ["profile"] or (len(asked) < 3 and not "".join(asked[-1:]).strip(_END)):
        return text
    return text.rstrip(_END_OR_SPACE)
