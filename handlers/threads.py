"""What a message in Slack means, by its words, by its thread and by what is in the cluster. A question below an answer
need not repeat its pod or its cluster. A message is one question, however often it is edited.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal

import msgspec

from bot.errors import SourceError, WhichCluster
from bot.report import Report, one_line
from bot.slack.failures import SlackFailure
from bot.slack.message import Message
from bot.slack.people import Groups
from bot.slack.render.blocks import render_choice
from bot.slack.render.prose import render_told
from bot.store import Store, StoreError
from bot.triage.state import News
from handlers.deps import Deps
from handlers.parsing.grammar import meaning_of
from handlers.parsing.question import Question, command_in, plain_text, split_words
from handlers.parsing.sentences import Meant, meant
from handlers.parsing.slack_grammar import (
    in_thread,
    lacks_pod,
    language_of,
    names_somebody,
    subject_in,
    with_program,
)
from playbooks.gather.pods import gather_waiting, is_of
from playbooks.gather.subject import NOBODY_KNOWN, KnownNames, gather_names, pods_named_in
from playbooks.playbook import Sources

_SHOWN = 80
"""How many characters of a message are repeated to its author."""
_MOST_BUTTONS = 10

log = logging.getLogger(__name__)


class ForAskerAlone(Exception):  # noqa: N818  # no error: what is shown instead
    """Raised with a message that only the person who asked may see; None: a reaction on their message says enough."""

    def __init__(self, shown: Message | None, *, is_answer: bool = True) -> None:
        super().__init__("the answer is for one person")
        self.shown = shown
        self.is_answer = is_answer


class Meanings:
    """Finds out what messages mean. `reading` opens the cluster that a question is about."""

    def __init__(self, deps: Deps, reading: Callable[[Question], AbstractAsyncContextManager[Sources]]) -> None:
        self._deps = deps
        self._reading = reading
        self._groups = Groups(deps.gateway, [named for named in deps.mine if named.startswith("S")])

    async def of(self, question: Question, command: list[str] | None) -> Meant:
        """What the question's words ask for: a `command` in a thread, or a sentence, perhaps about what its thread is
        about.
        """
        known = await self._deps.thread(question)
        last, _, pod = known[0].partition("\n") if known else ("", "", "")
        about = split_words(last)
        if command is not None and (not lacks_pod(command) or about):
            return Meant(in_thread(command, about, pod))
        pods = await self._pods_above(question) if question.in_thread and not about else []
        about = about or [*(["why", pods[0]] if pods else [])]
        if command is not None:
            meaning = Meant(in_thread(command, about))
        else:
            meaning = meant(plain_text(question.words), await self._names(question), about, pod)
        if len(pods) > 1 and pods[0] in meaning.words:
            return Meant([], tuple(f"{meaning.words[0]} {pod}" for pod in pods), "several")
        return meaning

    async def said_back(self, question: Question, meaning: Meant) -> Message:
        """The reply to a message that is no single command. Raises ForAskerAlone if it concerns only the asker."""
        say = self._deps.texts(language_of(question.words))
        match meaning.says:
            case "thanks":
                raise ForAskerAlone(None)
            case "unsure":
                words = one_line(plain_text(question.words), _SHOWN)
                shown = await self.choice(question, say("desk.not-understood", words=words), meaning.offers)
                raise ForAskerAlone(shown, is_answer=False)
            case "mine":
                pods = await self._waiting(question)
                found = say("desk.your-pods") if pods else say("desk.none-of-yours")
                raise ForAskerAlone(await self.choice(question, found, [f"why {pod}" for pod in pods]))
            case "pasted":
                told = [say.words(prose) for code in meaning.codes if (prose := meaning_of(code))]
                which = say("desk.which-pod-said", example=with_program("why ml/trainer-0", question.program))
                return render_told([*told, which])
            case _:
                return await self.choice(question, say("desk.several"), meaning.offers)

    async def choice(self, question: Question, says: str, asks: Sequence[str]) -> Message:
        """A message with buttons for questions to choose from."""
        return render_choice(says, asks, await self._deps.usual_cluster(question))

    async def pods_in(self, question: Question, text: str) -> list[str]:
        """The pods of the question's cluster that the text names, as `namespace/name`."""
        async with self._reading(question) as sources:
            named = await pods_named_in(sources.cluster, plain_text(text))
        return [f"{subject.namespace}/{subject.name}" for subject in named]

    async def whose(self, user: str) -> tuple[str, ...]:
        """The namespaces and labels of the person's pods, by the settings."""
        mine = self._deps.mine
        return tuple(word for named in (user, *await self._groups.of(user)) for word in mine.get(named, ()))

    async def _pods_above(self, question: Question) -> list[str]:
        try:
            head = await self._deps.gateway.head(question.channel, question.thread_ts)
        except SlackFailure as failure:
            log.warning("the head of a thread: %s", failure)
            return []
        return await self.pods_in(question, head) if head else []

    async def _names(self, question: Question) -> KnownNames:
        """The names in the cluster that it is about; none where it cannot be read, or is not known yet."""
        try:
            async with self._reading(question) as sources:
                return await gather_names(sources.cluster)
        except (SourceError, WhichCluster) as error:
            log.warning("the names in a message: %s", error)
            return NOBODY_KNOWN

    async def _waiting(self, question: Question) -> list[str]:
        whose = await self.whose(question.user)
        async with self._reading(question) as sources:
            _, waiting = await gather_waiting(sources, "")
        return [f"{pod.namespace}/{pod.name}" for pod in waiting.pods if is_of(pod, whose)][:_MOST_BUTTONS]


async def remember(deps: Deps, key: str, question: Question, words: str, report: Report) -> None:
    """Stores what the thread is about: its last question that names somebody, or else its last, and its last pod."""
    store, thread = deps.store, question.thread_ts or key
    try:
        if report.subject.name and lacks_pod([report.playbook]):  # a verb about one pod
            about = report.subject
            kind = "" if about.kind == "Pod" else about.kind.lower()
            words = f"{report.playbook} {'/'.join(filter(None, (about.namespace, kind, about.name)))}"
        elif known := await store.thread(question.channel, thread):
            last, _, pod = known[0].partition("\n")
            before = subject_in(split_words(last))
            if names_somebody(command_in(question.words) or split_words(words)):
                words = "\n".join(filter(None, (words, before.of("pod") or pod)))
            elif names_somebody(split_words(last)):
                words = known[0]
        await store.remember_thread(question.channel, thread, words, report.cluster)
    except StoreError as error:
        log.warning("a thread could not be stored: %s", error)


async def note_done(deps: Deps, channel: str, thread_ts: str, news: News, key: str) -> None:
    """Notes a deed in the thread's incident, if it has one; `key` is the deed's. A failure is only logged."""
    try:
        await deps.store.incidents.note_in_thread(channel, thread_ts, news, f"{key}/incident")
    except StoreError as error:
        log.warning("a summary lacks what %s did (%s: %s): %s", news.by, news.turn, news.detail, error)


EditNews = Literal["first", "same", "changed"]


class _Words(msgspec.Struct, frozen=True):
    """The words of a message, the key of what asked them last, and when that was edited, empty for the first words."""

    key: str
    words: str
    edited_ts: str = ""


class Edits:
    """Tells whether messages were edited. Raises nothing: while the store cannot be asked, every message is new."""

    def __init__(self, store: Store) -> None:
        self._facts = store.facts

    async def news(self, key: str, question: Question) -> EditNews:
        """Whether the message asks for the first time, also if the stored words have this key, as after a crash; the
        same again, also for older words that come late; or something else (`changed`).
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
        """Stores the present words of the message."""
        try:
            await self._facts.put(_fact(question), _written(key, question))
        except StoreError as error:
            log.warning("an edited message could not be stored: %s", error)

    async def is_newest(self, key: str, question: Question) -> bool:
        """Whether the question has the message's newest words."""
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
