"""What is remembered of a thread in Slack and of a message: a question below an answer need not repeat its pod or its
cluster, and a message is one question, however often it is edited.
"""

import logging
from typing import Literal

import msgspec

from bot.report import Report
from bot.store import Store, StoreError
from bot.triage.state import News
from handlers.deps import Deps
from handlers.parsing.question import Question
from handlers.parsing.sentences import from_verb, is_complete, plain_question, wants_pod
from handlers.parsing.slack_words import split_words

log = logging.getLogger(__name__)


async def usual_cluster(deps: Deps, question: Question) -> str:
    """The cluster that a question is about when it names none: its thread's, else its channel's, else empty."""
    known = await _thread(deps, question)
    if known is not None and known[1] in deps.clusters:
        return known[1]
    return deps.channels.get(question.channel, "")


async def _thread(deps: Deps, question: Question) -> tuple[str, str] | None:
    """(words, cluster) of the thread in which it was asked; a question that begins its thread has none."""
    if not question.in_thread:
        return None
    return await deps.store.thread(question.channel, question.thread_ts)


async def words_in_thread(deps: Deps, question: Question) -> list[str]:
    """The words; in a thread about a pod, a question that lacks one is about that pod."""
    words = plain_question(from_verb(split_words(question.words)))
    if words and (not question.in_thread or not wants_pod(words[0]) or is_complete(words)):
        return words
    known = await _thread(deps, question)
    about = split_words(known[0]) if known else []
    if not words:
        return about
    filled = [words[0], *about[1:2], *words[1:]]
    return filled if about and wants_pod(about[0]) and is_complete(filled) else words


async def remember(deps: Deps, key: str, question: Question, words: str, report: Report) -> None:
    """What the thread is about: the last pod, or as long as there was none, the last question."""
    store, thread = deps.store, question.thread_ts or key
    try:
        if wants_pod(report.playbook):
            words = _about_pod(report)
        elif (known := await store.thread(question.channel, thread)) and wants_pod(known[0].partition(" ")[0]):
            words = known[0]
        await store.remember_thread(question.channel, thread, words, report.cluster)
    except StoreError as error:
        log.warning("a thread could not be stored: %s", error)


async def note_done(deps: Deps, channel: str, thread_ts: str, news: News, key: str) -> None:
    """Notes what was done in the thread, if it is an incident's; `key` is the deed's. It is done by then: where it
    cannot be noted, the incident's summary lacks it.
    """
    try:
        await deps.store.incidents.note_in_thread(channel, thread_ts, news, f"{key}/incident")
    except StoreError as error:
        log.warning("a summary lacks what %s did (%s: %s): %s", news.by, news.turn, news.detail, error)


def _about_pod(report: Report) -> str:
    """The verb and whom the answer was about, without the options that were typed."""
    subject = report.subject
    kind = "" if subject.kind == "Pod" else subject.kind.lower()
    return f"{report.playbook} {'/'.join(filter(None, (subject.namespace, kind, subject.name)))}"


EditNews = Literal["first", "same", "changed"]

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

    async def news(self, key: str, question: Question) -> EditNews:
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
