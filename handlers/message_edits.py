"""Which words a message has: it is one question, however often it is edited."""

import logging
from typing import Literal

import msgspec

from bot.store import Store, StoreError
from handlers.parsing.question import Question

News = Literal["first", "same", "changed"]

log = logging.getLogger(__name__)


class _Words(msgspec.Struct, frozen=True):
    """The words of a message, the key of what asked them last, and when that was edited, empty for the first words."""

    key: str
    words: str
    edited_ts: str = ""


class Edits:
    """Raises nothing: while the store cannot be asked, every message is a new one."""

    def __init__(self, store: Store) -> None:
        self._facts = store.facts

    async def news(self, key: str, question: Question) -> News:
        """Whether nobody asked by that message before, or the same words, or others. Asked again by one key after a
        crash it is the same. Words that were edited since, and come late, ask nothing either.
        """
        try:
            known = await self._known(question)
            if known is None and question.message:
                known = _read(await self._facts.first(_fact(question), _written(key, question)))
        except StoreError as error:
            log.warning("cannot tell whether a message was edited: %s", error)
            return "first"
        if known is None or known.key == key:
            return "first"
        is_late = question.edited_ts < known.edited_ts or not question.edited_ts
        return "same" if is_late or known.words == question.words else "changed"

    async def note(self, key: str, question: Question) -> None:
        """The message has these words now."""
        try:
            await self._facts.put(_fact(question), _written(key, question))
        except StoreError as error:
            log.warning("an edited message could not be stored: %s", error)

    async def is_newest(self, key: str, question: Question) -> bool:
        """Whether the message still has these words."""
        try:
            known = await self._known(question)
        except StoreError:
            return True
        return known is None or known.key == key

    async def _known(self, question: Question) -> _Words | None:
        text = await self._facts.get(_fact(question)) if question.message else None
        return _read(text) if text else None


def _fact(question: Question) -> str:
    return f"words:{question.message}"


def _read(text: str) -> _Words:
    return msgspec.json.decode(text, type=_Words)


def _written(key: str, question: Question) -> str:
    return msgspec.json.encode(_Words(key, question.words, question.edited_ts)).decode()
