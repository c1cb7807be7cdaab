"""A question as it was asked in Slack, and what Slack's payloads say to every listener: one place reads them.

A command, a mention, a direct message and a button under an answer become one `HeardWords`: its words are normalised
here, once. `handlers.question_listeners` gives it to the first `Verb` of the table that takes it, else it is a
question. `normalise` and `split_words` read text as Slack delivers it: escaped, with links and mentions, as people
type it.
"""

import hashlib
import re
import shlex
import string
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.slack.people import Origin
from bot.slack.render.blocks import AskButton, read_value
from bot.slack.render.text import LOOKALIKES
from bot.texts import Text
from handlers.parsing.grammar import DASHES, straight_option
from handlers.parsing.slack_grammar import BOT, COMMAND


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question as asked, complete enough to be answered by another process after a restart.

    `public` answers stand in the channel or thread for everyone, others are shown to `user` alone. `asked_ts` is the
    message that asked, if one did. `asked_at` is in unix seconds. `beside`: what the
    response_url belongs to stays, the answer stands beside it; for a command's, which replaces nothing, always.
    `everything`: the answer comes with its files, also
    where one person alone sees it. `manifest` is the pod of a `fit`; `about` is a
    message that names a pod, for a question without words. `edited_ts`: the message was edited then, and these are its
    words since. `read` is the gist of the answer that is to be posted: if
    the answer is another one by now, it is not. `sent_by`: who sent it, to be checked again after a restart.
    """

    words: str
    user: str
    channel: str
    asked_at: float
    thread_ts: str = ""
    public: bool = False
    response_url: str = ""
    asked_ts: str = ""
    beside: bool = False
    everything: bool = False
    manifest: str = ""
    about: str = ""
    read: str = ""
    edited_ts: str = ""
    sent_by: Origin | None = None

    @property
    def message(self) -> str:
        """What names the message that asked, whatever it became; empty if none did."""
        return f"{self.channel}:{self.asked_ts}" if self.asked_ts else ""

    @property
    def program(self) -> str:
        """What stands before the words of a question there: a mention in threads, nothing in direct messages."""
        if self.is_direct:
            return ""
        return f"@{BOT}" if self.asked_ts or self.thread_ts else COMMAND

    @property
    def is_direct(self) -> bool:
        """Whether it was asked where nobody else reads: a user's id is the channel of their direct messages."""
        return self.channel.startswith(("D", "U", "W"))

    @property
    def in_thread(self) -> bool:
        """Whether it was asked below an earlier message; one that begins its thread was not."""
        return self.thread_ts not in {"", self.asked_ts}

    def for_who_asked(self) -> "Question":
        """Where something is told that is not what was to be posted: beside what the person read."""
        return msgspec.structs.replace(self, public=False, beside=True, read="") if self.read else self


def read_question(payload: str) -> Question | None:
    """A kept question; None for one of another version."""
    try:
        return msgspec.json.decode(payload, type=Question)
    except msgspec.DecodeError:
        return None


class HeardWords(msgspec.Struct, frozen=True):
    """What a person asked in words, whichever way: `question` is for the eyes of who asked, in their thread if any.

    `key` is Slack's id of the delivery; `body` is the payload of a command or a button, `button` the button's value.
    """

    surface: Literal["command", "mention", "direct", "button"]
    key: str
    question: Question
    body: Mapping[str, Any] = {}
    button: AskButton | None = None

    @property
    def words(self) -> str:
        """The words, in their normal form unless a button has them, and still escaped."""
        return self.question.words

    @property
    def trigger_id(self) -> str:
        """What opens a form; empty for a message."""
        return self.body.get("trigger_id", "")

    def publicly(self) -> Question:
        """The question of a message, answered for everyone: a mention in a thread, which it begins if it has none."""
        begun = self.question.asked_ts if self.surface == "mention" else ""
        thread_ts = self.question.thread_ts or begun
        return msgspec.structs.replace(self.question, thread_ts=thread_ts, public=True, beside=False)


class Verb(NamedTuple):
    """One row of the table: how the words begin that a handler takes, the handler, and whether it takes them all."""

    begins: re.Pattern[str]
    answer: Callable[[HeardWords], Awaitable[None]]
    takes: Callable[[HeardWords], bool] | None = None


def beginning(*verbs: str) -> re.Pattern[str]:
    """How words begin that ask for one of the verbs, behind the options."""
    one = "|".join(r"\s+".join(verb.split()) for verb in verbs)
    return re.compile(rf"\s*(?:--(?:cluster|lang)[= ]\S+\s+)*(?:{one})\b", re.IGNORECASE)


def by_command(body: dict[str, Any], now: float) -> HeardWords:
    """What a slash command asks."""
    question = Question(
        words=command_words(body),
        user=body["user_id"],
        channel=body["channel_id"],
        asked_at=now,
        response_url=body.get("response_url", ""),
        beside=True,
    )
    return HeardWords("command", body["trigger_id"], question, body)


def by_message(event: Mapping[str, Any], now: float, bot_user: str, *, is_mention: bool) -> HeardWords | None:
    """What a mention or a direct message asks; None for what no person wrote to the bot."""
    message = heard(event)
    if message is None:
        return None
    question = Question(
        words=mentioned_words(message, bot_user),
        user=message["user"],
        channel=message["channel"],
        asked_at=now,
        thread_ts=message.get("thread_ts", ""),
        asked_ts=message["ts"],
        edited_ts=edited_ts(message),
        beside=True,
    )
    return HeardWords("mention" if is_mention else "direct", key_of(message), question)


def by_button(body: dict[str, Any], now: float) -> HeardWords:
    """What a button under an answer asks."""
    value = read_value(first_action(body).get("value", ""), AskButton)
    question = clicked(body, now, as_delivered(value.words) if value else "")
    return HeardWords("button", body["trigger_id"], question, body, value)


def clicked(body: Mapping[str, Any], now: float, words: str = "", thread_ts: str = "") -> Question:
    """What somebody clicked, for their eyes, where it stands; a user's id is the channel where none is named."""
    room: Mapping[str, Any] = body.get("channel") or {}
    user: str = body["user"]["id"]
    channel, url = room.get("id") or user, body.get("response_url", "")
    return Question(words, user, channel, asked_at=now, thread_ts=thread_ts, response_url=url, beside=True)


def is_ephemeral(body: Mapping[str, Any]) -> bool:
    """Whether the message of a button is one that a single person sees."""
    container: Mapping[str, Any] = body.get("container") or {}
    return bool(container.get("is_ephemeral"))


def thread_below(body: Mapping[str, Any]) -> str:
    """The thread for an answer to a button: that of its message, which begins one if everybody sees it."""
    container: Mapping[str, Any] = body.get("container") or {}
    message: Mapping[str, Any] = body.get("message") or {}
    # An ephemeral message may itself stand in a thread.
    thread_ts: str = message.get("thread_ts") or container.get("thread_ts") or ""
    return thread_ts or ("" if is_ephemeral(body) else container.get("message_ts", ""))


def first_action(body: dict[str, Any]) -> dict[str, Any]:
    """The action that the payload is about; empty where it has none."""
    actions: list[dict[str, Any]] = body.get("actions") or [{}]
    return actions[0]


_WRITTEN = (None, "file_share", "thread_broadcast")
"""Subtypes of messages that a person wrote; `thread_broadcast` is a reply that is also sent to the channel."""


def heard(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message as its author left it: `user`, `channel`, `text`, `ts`, and after an edit `edited`.

    None for what no person wrote (two bots would talk for ever), for joins and deletions, and for edits that Slack
    itself makes, as for the preview of a link.
    """
    message: dict[str, Any] = dict(event)
    if event.get("subtype") == "message_changed":
        message = {**(event.get("message") or {}), "channel": event.get("channel")}
        message["channel_type"] = event.get("channel_type")
        before: Mapping[str, Any] = event.get("previous_message") or {}
        if not (message.get("edited") and message.get("ts")) or before.get("text") == message.get("text"):
            return None
    is_persons = bool(message.get("user")) and not message.get("bot_id") and message.get("subtype") in _WRITTEN
    return message if is_persons else None


def is_direct(event: Mapping[str, Any]) -> bool:
    """Whether it is a message to the bot alone."""
    return event.get("channel_type") == "im" or str(event.get("channel", "")).startswith("D")


def key_of(message: Mapping[str, Any]) -> str:
    """The key of what the message asks: Slack gives every delivery of an edit another id, the message keeps its ts.

    `edited.ts` is in whole seconds, so that two quick edits differ only in their text.
    """
    key = f"{message['channel']}:{message['ts']}"
    if not (edited := edited_ts(message)):
        return key
    return f"{key}:{edited}:{hashlib.sha256(str(message.get('text')).encode()).hexdigest()[:8]}"


def edited_ts(message: Mapping[str, Any]) -> str:
    """When it was edited; empty if it was not."""
    edited: Mapping[str, Any] = message.get("edited") or {}
    return str(edited.get("ts") or "")


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
    text = _LEAD.sub("", text, count=1).strip()
    marked = _MARKED.fullmatch(text)
    if marked and marked[3] == marked[1][::-1] and not set(marked[1]) & set(marked[2]):  # marks format the whole of it
        text = marked[2]
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
    asked = words[_verb_at(words) :]
    # An expression of Go's may end as a sentence does, and `?` alone asks for help.
    if asked[:1] == ["profile"] or (len(asked) < 3 and not "".join(asked[-1:]).strip(_END)):
        return "".join(shown)
    return "".join(shown).rstrip(_END_OR_SPACE)


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
