"""Deeds of people: kept before Slack is told that they were taken, and carried out once, also over a restart.

A deed is a value: its kind, who did it, where and when, and what Slack delivered, as far as that is needed. A kind says
how its deeds are carried out, and whether that is possible after a restart. A deed that was carried out before a crash
is known by its key: whoever writes an effect notes the key in the same transaction (`bot.store.facts`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from bot.errors import BotError
from bot.texts import Prose, Text
from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import with_program

D = TypeVar("D")

TOO_LATE_S = 30 * 60.0
"""Seconds after which a deed is too late: the situation has changed, and its response_url has expired."""


Why = Literal[
    "live", "late", "tries", "version", "unkept", "moved", "interrupted", "edited", "unmade",
]  # fmt: skip
"""Why a deed is not carried out."""

_MESSAGES: dict[Why, Text] = {
    "live": Text("error-not-done.live"),
    "late": Text("error-not-done.late"),
    "tries": Text("error-not-done.tries"),
    "version": Text("error-not-done.version"),
    "moved": Text("error-not-done.moved"),
    "interrupted": Text("error-not-done.interrupted"),
    "edited": Text("error-not-done.edited"),
    "unmade": Text("error-not-done.unmade"),
}


class NotDone(BotError):  # noqa: N818  # what the person is told
    """A deed is not carried out. The hint has the words that repeat it. `detail`: why the store could not keep it."""

    def __init__(self, why: Why, detail: Prose = "", *, again: str = "") -> None:
        words = Text("error-not-done.in-new-message" if why == "edited" else "error-not-done.to-do-it-now", again=again)
        message = _MESSAGES.get(why) or Text("error-not-done.unkept", detail=detail)
        super().__init__(message, hint=words if again else "")
        self._why: Why = why
        self._detail = detail

    def with_words(self, again: str) -> "NotDone":
        """A copy of the error with the words that repeat the deed."""
        return NotDone(self._why, self._detail, again=again)


class Nothing(msgspec.Struct, frozen=True):
    """The details of a deed that needs none beside its question."""


NOTHING = Nothing()


class AcceptedDeed(NamedTuple, Generic[D]):
    """A deed to carry out. `key` is Slack's id of its delivery; `resumed`: an earlier process may have done it."""

    key: str
    asked: Question
    details: D
    resumed: bool = False


class Deed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A deed as kept in the store. The question's `asked_at` is when it was done; `lasts_s` later it is too late."""

    kind: str
    asked: Question
    details: msgspec.Raw = msgspec.Raw(b"{}")
    lasts_s: float = TOO_LATE_S


class ActionKind(Generic[D]):
    """One kind of deed. `carry_out` raises BotError with what to tell, NotDone if the person has to repeat the deed.

    `is_live`: the deed needs something that is gone after a restart, such as the trigger that lets a form be opened.
    `again` gives the exact words that repeat a deed, or nothing if only its button can. `may_be_question`: `carry_out`
    itself finds out whether the words are a question, and asks `Inbox.is_asked`.
    """

    def __init__(
        self,
        name: str,
        details: type[D],
        carry_out: Callable[[AcceptedDeed[D]], Awaitable[None]],
        *,
        is_live: bool = False,
        may_be_question: bool = False,
        again: Callable[[Question, D], str] | None = None,
    ) -> None:
        self.name = name
        self.may_be_question = may_be_question
        self.carry_out = carry_out
        self.is_live = is_live
        self._details = details
        self._again = again

    def written(self, asked: Question, details: D, lasts_s: float) -> str:
        """The deed as text for the store."""
        return msgspec.json.encode(Deed(self.name, asked, msgspec.Raw(msgspec.json.encode(details)), lasts_s)).decode()

    def taken(self, key: str, deed: Deed) -> AcceptedDeed[D]:
        """The deed to carry out, read from the store. Raises msgspec.DecodeError for one of another version."""
        return AcceptedDeed(key, deed.asked, msgspec.json.decode(deed.details, type=self._details), resumed=True)

    def words(self, taken: AcceptedDeed[D]) -> str:
        """The words that a person types to repeat the deed; empty if there is a button for it."""
        if self._again:
            return self._again(taken.asked, taken.details)
        return with_program(taken.asked.words, taken.asked.program) if taken.asked.words else ""


class Kinds:
    """The kinds of deeds by name."""

    def __init__(self) -> None:
        self._kinds: dict[str, ActionKind[Any]] = {}

    def add(self, kind: ActionKind[D]) -> ActionKind[D]:
        """Registers the kind of deed; its name must be new."""
        assert kind.name not in self._kinds, kind.name
        self._kinds[kind.name] = kind
        return kind

    def read(self, key: str, deed: Deed) -> tuple[ActionKind[Any], AcceptedDeed[Any]] | None:
        """The kind of a stored deed, and the deed to carry out; None for one of another version."""
        kind = self._kinds.get(deed.kind)
        if kind is None:
            return None
        try:
            return kind, kind.taken(key, deed)
        except msgspec.DecodeError:
            return None


def read_deed(payload: str) -> Deed | None:
    """The deed in a stored payload; None for anything else, such as a question."""
    try:
        return msgspec.json.decode(payload, type=Deed)
    except msgspec.DecodeError:
        return None
