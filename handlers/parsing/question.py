"""A question as it was asked in Slack, read from the payload that a listener gets.

A command, a mention, a direct message and a button under an answer become one `HeardWords`: its words are normalised
here, once. `handlers.question_listeners` gives it to the first `Verb` of the table that takes it, else it is a
question. `normalise` and `split_words` read text as Slack delivers it: escaped, with links and mentions.
"""

import hashlib
import re
import shlex
import string
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import msgspec

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.slack.render.blocks import AskButton, read_value
from bot.slack.render.text import LOOKALIKES
from bot.texts import Text
from handlers.parsing.grammar import DASHES, straight_option
from handlers.parsing.slack_grammar import BOT, COMMAND, as_command, begins_as_command


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a payload says about a person's home: `claims` are pairs of a team (`T…`, or `E…` for a whole Grid) and its
    enterprise, empty where it is not said. `is_said`: the pairs are enough to decide, if none is foreign.
    """

    user: str
    claims: tuple[tuple[str, str], ...] = ()
    is_said: bool = False


SENT_BY: ContextVar[Origin | None] = ContextVar("sent_by", default=None)
"""Who sent the payload that the current task is about; None for a task that nobody's payload began."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question as asked, complete enough to be answered by another process after a restart.

    `public` answers stand in the channel or thread for everyone, others are shown to `user` alone. `asked_ts` is the
    message that asked, if one did. `asked_at` is in unix seconds. `beside`: the answer does not replace the message of
    the response_url (a command's never does). `everything`: the answer comes with its files, also if one person alone
    sees it. `manifest` is the pod of a `fit`; `about` is a message that names a pod, for a question without words.
    `edited_ts`: the message was edited then, and these are its words since. `read` is the gist of the answer that is to
    be posted: it is not posted if the answer has changed. `sent_by`: who sent the question, to be checked again after a
    restart.
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
        """The name of the message that asked (`channel:ts`), the same after an edit; empty if no message did."""
        return f"{self.channel}:{self.asked_ts}" if self.asked_ts else ""

    @property
    def program(self) -> str:
        """The words to type before a question in that place: a mention in threads, nothing in direct messages."""
        if self.is_direct:
            return ""
        return f"@{BOT}" if self.asked_ts or self.thread_ts else COMMAND

    @property
    def is_direct(self) -> bool:
        """Whether the question was asked in direct messages, whose channel may be given as the user's id."""
        return self.channel.startswith(("D", "U", "W"))

    @property
    def in_thread(self) -> bool:
        """Whether the question was asked below an earlier message; one that begins its thread was not."""
        return self.thread_ts not in {"", self.asked_ts}

    def for_who_asked(self) -> "Question":
        """The question, answered to the asker alone if it was to post an answer that they had read."""
        return msgspec.structs.replace(self, public=False, beside=True, read="") if self.read else self


def read_question(payload: str) -> Question | None:
    """The question in a stored payload; None for one of another version."""
    try:
        return msgspec.json.decode(payload, type=Question)
    except msgspec.DecodeError:
        return None


class HeardWords(msgspec.Struct, frozen=True):
    """A person's words, from any surface: `question` is answered to the asker alone, in their thread if any. `key` is
    Slack's id of the delivery; `body` is the payload of a command or a button, `button` the button's value.
    """

    surface: Literal["command", "mention", "direct", "button"]
    key: str
    question: Question
    body: Mapping[str, Any] = {}
    button: AskButton | None = None

    @property
    def words(self) -> str:
        """The words, still escaped as Slack delivers them; normalised, unless they are a button's."""
        return self.question.words

    @property
    def trigger_id(self) -> str:
        """Slack's trigger that opens a form; empty for a message."""
        return self.body.get("trigger_id", "")

    def publicly(self) -> Question:
        """The question, to be answered for everyone in its thread; a mention without a thread begins one."""
        begun = self.question.asked_ts if self.surface == "mention" else ""
        thread_ts = self.question.thread_ts or begun
        return msgspec.structs.replace(self.question, thread_ts=thread_ts, public=True, beside=False)


class Verb(NamedTuple):
    """One row of the table of verbs: how the words begin, their handler, and whether it takes all that begin so."""

    begins: re.Pattern[str]
    answer: Callable[[HeardWords], Awaitable[None]]
    takes: Callable[[HeardWords], bool] | None = None


def begins_with(*verbs: str) -> re.Pattern[str]:
    """The pattern of words that begin with one of the verbs, perhaps after options."""
    one = "|".join(r"\s+".join(verb.split()) for verb in verbs)
    return re.compile(rf"\s*(?:--(?:cluster|lang)[= ]\S+\s+)*(?:{one})\b", re.IGNORECASE)


def by_command(body: dict[str, Any], now: float) -> HeardWords:
    """A slash command as `HeardWords`."""
    question = Question(
        words=normalise(body.get("text") or ""),
        user=body["user_id"],
        channel=body["channel_id"],
        asked_at=now,
        response_url=body.get("response_url", ""),
        beside=True,
    )
    return HeardWords("command", body["trigger_id"], question, body)


def by_message(event: Mapping[str, Any], now: float, bot_user: str, *, is_mention: bool) -> HeardWords | None:
    """A mention or a direct message as `HeardWords`; None for a message that no person wrote to the bot."""
    message = persons_message(event)
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
    """A click on a button under an answer, as `HeardWords`."""
    value = read_value(first_action(body).get("value", ""), AskButton)
    question = clicked(body, now, as_delivered(value.words) if value else "")
    return HeardWords("button", body["trigger_id"], question, body, value)


def clicked(body: Mapping[str, Any], now: float, words: str = "", thread_ts: str = "") -> Question:
    """A click as a question, answered to that person alone beside its message; without a channel in direct messages."""
    room: Mapping[str, Any] = body.get("channel") or {}
    user: str = body["user"]["id"]
    channel, url = room.get("id") or user, body.get("response_url", "")
    return Question(words, user, channel, asked_at=now, thread_ts=thread_ts, response_url=url, beside=True)


def is_ephemeral(body: Mapping[str, Any]) -> bool:
    """Whether the button's message is one that a single person sees."""
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
    """The action in a payload of a button or menu; empty if the payload has none."""
    actions: list[dict[str, Any]] = body.get("actions") or [{}]
    return actions[0]


_WRITTEN = (None, "file_share", "thread_broadcast")
"""Subtypes of messages that a person wrote; `thread_broadcast` is a reply that is also sent to the channel."""


def persons_message(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message as its author left it: `user`, `channel`, `text`, `ts`, and after an edit `edited`.
    None for messages that no person wrote (two bots would talk for ever), for joins and deletions, and for edits that
    Slack itself makes, as for the preview of a link.
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
    """Whether the message was sent to the bot alone."""
    return event.get("channel_type") == "im" or str(event.get("channel", "")).startswith("D")


def key_of(message: Mapping[str, Any]) -> str:
    """The key of the question that a message asks, other after each edit but the same for each delivery of one.
    `edited.ts` is in whole seconds, so the text counts as well. Slack's own ids of deliveries differ for one edit.
    """
    key = f"{message['channel']}:{message['ts']}"
    if not (edited := edited_ts(message)):
        return key
    return f"{key}:{edited}:{hashlib.sha256(str(message.get('text')).encode()).hexdigest()[:8]}"


def edited_ts(message: Mapping[str, Any]) -> str:
    """When the message was edited, as Slack's ts; empty if it was not."""
    edited: Mapping[str, Any] = message.get("edited") or {}
    return str(edited.get("ts") or "")


_APOSTROPHE = re.compile("(?<=[A-Za-z])'(?=[A-Za-z])")
"""An apostrophe as in `isn't`, which is no quote. Joined words have none between letters."""
_ENTITY = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
_ESCAPES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
"""The only three escapes that Slack writes; any other was typed so. (Slack's page "Formatting message text")"""
_ESCAPE = re.compile("|".join(_ESCAPES))


def split_words(text: str) -> list[str]:
    """The words of a text, normalised. Slack's own markup is undone: `<http://a.b|a.b>` is `a.b`, `<#C1|ops>` is `ops`.
    Raises UsageError for text that is too long, or whose quotes do not match.
    """
    if len(text) > LONGEST:
        raise UsageError(Text("error-command.too-long", got=f"{len(text):,}", most=f"{LONGEST:,}"))
    straight = plain_text(normalise(text)).translate(QUOTES)  # in a reason too
    try:
        return [word.replace("’", "'") for word in shlex.split(_APOSTROPHE.sub("’", straight))]
    except ValueError as error:
        raise UsageError(Text("error-command.quotes-do-not-match")) from error


def command_in(text: str) -> list[str] | None:
    """The words of the text if they are a command, or none at all; None for a sentence. Raises UsageError for text that
    is too long, and for a command whose quotes do not match.
    """
    try:
        words = split_words(text)
    except UsageError:
        if len(text) > LONGEST or begins_as_command(text):
            raise
        return None
    return as_command(words) if words else []


def plain_text(text: str) -> str:
    """The text as a person reads it, without Slack's markup and escapes."""
    without_markup = _ENTITY.sub(lambda found: found[2] or found[1].lstrip("@#!"), text)
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], without_markup)


def join_words(words: Sequence[str]) -> str:
    """The words as one text, quoted as a person types them."""
    return shlex.join(words)


def as_delivered(typed: str) -> str:
    """Typed text escaped as Slack delivers it, for `split_words` and `plain_text`."""
    for escape, character in _ESCAPES.items():  # the ampersand comes first
        typed = typed.replace(character, escape)
    return typed


def mentioned_words(event: dict[str, Any], bot_user: str) -> str:
    """The words of a message, normalised and still escaped: without the bot's own mention, wherever that is."""
    return normalise(re.sub(rf"<@{re.escape(bot_user)}(\|[^<>]*)?>", " ", event.get("text") or ""))


_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, and what Unicode calls default ignorable (DerivedCoreProperties.txt)."""
_MARKUP = str.maketrans({"＜": "&lt;", "﹤": "&lt;", "＞": "&gt;", "﹥": "&gt;", "＆": "&amp;", "﹠": "&amp;"})
"""Characters that NFKC would turn into Slack's own markup."""
QUOTES = str.maketrans({**dict.fromkeys("“”„", '"'), **dict.fromkeys("‘’", "'")})
"""A translation table from the quotation marks that phones write to plain ones."""
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
"""Characters as an English keyboard has them. Two hyphens become one long dash on a phone."""
_PIECE = re.compile(r"(\s*)(\S+)")
_OTHER_SPACE = re.compile(r"[^\S \t\n]")
_LEAD = re.compile(
    rf"(?:\s|&gt;|[›•·◦▪‣⁃●○■]|[-*{DASHES}](?=\s)|{re.escape(COMMAND)}(?=\s|$)|@{re.escape(BOT)}(?=\s|$))*",
    re.IGNORECASE,
)
"""Marks of lists and quotes before a question, and the bot's name or command."""
_MARKED = re.compile(r"([`*_~]{1,6})([^`*_~](?:.*[^`*_~])?)([`*_~]{1,6})", re.DOTALL)
_VERB = re.compile(r"[`*_~]*([A-Za-z]+(?:-[A-Za-z]+)*)[`*_~?!.,:]*")
_OF_KUBERNETES = re.compile(r"[a-z]{2}[A-Z][a-z]")
_END = "?!.,"
_END_OR_SPACE = f"{_END}{string.whitespace}"
LONGEST = 2000
"""The longest question in characters, once normalised. Text beyond them is left as it is: it is not read."""
_MOST_BEFORE = 8
"""How many words of options before a verb are looked through."""


def normalise(text: str) -> str:
    """The text of a question as Slack delivers it in the one form that the bot reads; twice changes nothing.
    The verb is in lower case, characters are those of an English keyboard, marks around the question are gone. A valid
    name of Kubernetes stays as it is. A reason and a note lose only invisible characters.
    """
    text = without_invisible(text)
    while (simpler := _simpler(text)) != text:
        text = simpler
    return text


def without_invisible(text: str) -> str:
    """The text without invisible characters; spaces and ends of lines stay."""
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
    return verb[1].lower() if verb and not _OF_KUBERNETES.search(word) else word


def _verb_at(words: list[str]) -> int:
    """Where the verb stands: options may come before it, each with its value."""
    at = 0
    while at < min(len(words), _MOST_BEFORE) and words[at].startswith("--"):
        at += 1 if "=" in words[at] else 2
    return at


def _free_text_follows(words: list[str]) -> bool:
    at = _verb_at(words)
    match [word.lower() for word in words[at : at + 3]]:
        case [verb, word, *_] if verb in VERBS or f"{verb} {word}" in VERBS:
            return words[-1].lower() == "because"
        case ["note" | "close"] | ["triage", "note" | "close"]:
            return True
        case _:
            return False
