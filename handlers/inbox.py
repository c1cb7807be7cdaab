"""Answers questions from Slack: each is in the store until it is answered, and the answer goes where it was asked."""

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from bot import process_counters
from bot.errors import BotError, Bug, UsageError, WhichCluster
from bot.render.charts import charts
from bot.render.picture import picture
from bot.render.words import visible
from bot.report import Report, one_line
from bot.slack.message import File, Message
from bot.slack.question_tasks import NOBODY, Asker, NotKept, Turns
from bot.slack.render import blocks
from bot.slack.render.blocks import gist, render_clusters
from bot.slack.render.change import render_denied
from bot.slack.render.prose import progress, render_error, render_help
from bot.slack.render.report import render_report
from bot.slack.render.tables import yaml_files
from bot.slack.render.text import escape
from bot.slack.responder import ChannelReply, Reply, Responder
from bot.texts import Text, Texts
from handlers.changes.draft import AccessDenied
from handlers.changes.words import ChangeAsked
from handlers.deps import Deps
from handlers.parsing.grammar import CommandAsked, ParsedQuestion
from handlers.parsing.question import SENT_BY, Question, command_in, join_words, plain_text, split_words
from handlers.parsing.slack_grammar import (
    COMMAND,
    Help,
    ManifestWanted,
    WatchAsked,
    example,
    language_of,
    understand,
    with_program,
)
from handlers.profiles.words import ProfileAsked
from handlers.threads import Edits, ForAskerAlone, Meanings, remember
from handlers.user_actions import TOO_LATE_S, AcceptedDeed, ActionKind, Kinds, NotDone
from handlers.watches import Watches
from playbooks.fit.manifest import Manifest
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from playbooks.scenes.waiting_pod import PodScene

D = TypeVar("D")
DONE, FAILED = "white_check_mark", "x"
SHOWN_WORDS = 80
"""The most characters of a question that are shown with a message about it."""
AT_ONCE = 6
"""How many questions read one cluster at a time. One person has one turn less: others are answered if theirs hang."""

log = logging.getLogger(__name__)


class GaveUp(BotError):  # noqa: N818  # what the person is told
    """A question or a profile will not be answered any more, because it was interrupted or took too long."""


class Inbox:
    """Takes questions and deeds from all surfaces of Slack."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps
        self.kinds = Kinds()
        self.edits = Edits(deps.store)
        self.meanings = Meanings(deps, self._reading_for)
        self.watches = Watches(deps, uuid.uuid4().hex)
        self._turns: defaultdict[str, Turns] = defaultdict(lambda: Turns(AT_ONCE, of_one=AT_ONCE - 1))

    def ask(self, key: str, question: Question) -> None:
        """Answers the question once, however often Slack delivers it (by `key`); without a store, once per replica."""
        question = _signed(question)
        job = partial(self._answer, key, question)
        tell = partial(self.tell_unanswered, key, question.for_who_asked())
        self.deps.work.start(key, job, tell, payload=msgspec.json.encode(question).decode(), regardless=True)

    async def ask_typed(self, key: str, question: Question) -> None:
        """Asks as `ask` does, but returns only when the store has the question: for a form, or at the end of a deed."""
        self.ask(key, question)
        await self.deps.work.settled(key)

    async def do(
        self,
        key: str,
        kind: ActionKind[D],
        asked: Question,
        details: D,
        *,
        regardless: bool = False,
        longest_s: float | None = None,
        lasts_s: float = TOO_LATE_S,
    ) -> None:
        """Carries out a person's deed once, and returns when the store has it; tells a failure where it was asked for.

        If this process ends, another carries the deed out or says why not. A deed that the store cannot keep in time is
        not done, and the person is told; with `regardless` it is done nevertheless, perhaps more than once.
        `longest_s`: see `Work.start`. After `lasts_s` seconds it is too late for the deed.
        """
        asked = _signed(asked)
        payload = kind.written(asked, details, lasts_s)
        self.carry_out(AcceptedDeed(key, asked, details), kind, payload, regardless=regardless, longest_s=longest_s)
        await self.deps.work.settled(key)

    def carry_out(
        self,
        taken: AcceptedDeed[Any],
        kind: ActionKind[Any],
        payload: str,
        *,
        regardless: bool = False,
        longest_s: float | None = None,
    ) -> None:
        """Carries out a deed as `do` does, but returns at once. `payload` is the deed for the store."""
        job, tell = partial(self._as_asked, kind, taken), partial(self.tell_of, kind, taken)
        self.deps.work.start(
            taken.key, job, tell, payload=payload, regardless=regardless, is_deed=True, longest_s=longest_s
        )

    async def _as_asked(self, kind: ActionKind[Any], taken: AcceptedDeed[Any]) -> None:
        if kind.may_be_question or await self.is_asked(taken):
            await kind.carry_out(taken)

    async def is_asked(self, taken: AcceptedDeed[Any]) -> bool:
        """Whether to carry out a deed; False if the message was edited but still asks the same. Raises NotDone if the
        edit asks for something else: the first words were carried out already, and an edit is easily overlooked.
        """
        asked = taken.asked
        if not asked.message or (news := await self.edits.news(taken.key, asked)) == "first":
            return True
        if news == "changed":
            raise NotDone("edited")
        return False

    def again(self, words: str) -> str:
        """How to repeat a deed: its words, or else a hint to press the button again."""
        return words or self.deps.say("desk.press-again")

    async def tell_of(self, kind: ActionKind[Any], taken: AcceptedDeed[Any], error: BotError) -> None:
        """Tells the person what went wrong with a deed, and how to repeat it if it was not done."""
        if isinstance(error, NotKept):
            error = NotDone("unkept", error.message)
        if isinstance(error, NotDone):
            error = error.with_words(self.again(kind.words(taken)))
        await self.tell(taken.key, taken.asked, error)

    async def was_answered(self, key: str, question: Question) -> bool:
        """Whether an earlier process answered where everyone can read it: no error may be told against that answer. It
        restores the reactions on the message that asked. Raises StoreError.
        """
        reply, mark = self.reply(key, question), await self.deps.store.facts.get(_answered(key))
        if mark is None or not isinstance(reply, ChannelReply):
            return False
        await reply.marked(mark)
        return True

    async def _answer(self, key: str, question: Question) -> None:
        reply = self.reply(key, question)
        try:
            async with self.deps.work.turn(_asker(question)):
                message = await self._worked_out(key, question, reply)
        except ForAskerAlone as other:
            mark = DONE if other.is_answer else FAILED
            if other.shown:
                # Slack shows what one person alone may see in a thread only where that has begun.
                thread_ts = question.thread_ts if question.in_thread else ""
                alone = msgspec.structs.replace(question, public=False, beside=True, read="", thread_ts=thread_ts)
                await self.reply(key, question if question.is_direct else alone).answer(other.shown, mark=mark)
            if isinstance(reply, ChannelReply):
                await reply.marked(mark)
        else:
            if message and await self.is_current(key, question):
                await reply.answer(message, mark=DONE)

    async def _worked_out(self, key: str, question: Question, reply: Reply) -> Message | None:
        """The answer; None for what a message asked already."""
        if question.message:
            news = await self.edits.news(key, question)
            if news == "same":
                return None
            if news == "changed":
                await self.edits.note(key, question)

        def waiting() -> str:
            words = one_line(plain_text(question.words), SHOWN_WORDS)
            return escape(self.deps.say("desk.progress" if reply.replaces else "desk.progress-stays", words=words))

        async with nullcontext() if question.read else reply.expecting(waiting):
            return await self._message(key, question)

    async def _message(self, key: str, question: Question) -> Message:
        if question.about:
            return await self._about_message(key, question)
        words = command_in(question.words)
        if words is None or question.in_thread:
            meaning = await self.meanings.of(question, words)
            if meaning.says:
                return await self.meanings.said_back(question, meaning)
            words = meaning.words
        words = words or ["help"]
        asked = understand(words)
        language = language_of(question.words)
        if language and "--lang" not in words and isinstance(asked, ParsedQuestion | Help | WatchAsked):
            words = [*words, "--lang", language]
            asked = understand(words)
        if isinstance(asked, ManifestWanted):
            if not question.manifest:
                raise UsageError(
                    Text("error-fit.needs-number-or-manifest"),
                    hint=Text("error-not-done.hami-fit-opens-form"),
                    example=example(words),
                )
            fit = find("fit")
            manifest = [Manifest("the pasted manifest", question.manifest)]
            asked = ParsedQuestion(fit, fit.request(file=manifest, namespace=asked.namespace), asked.options)
        if isinstance(asked, ChangeAsked | CommandAsked):  # by a form or message of ours, which confirms nothing
            raise UsageError(Text("error-not-done.ask-with-command"), example=example(words))
        if isinstance(asked, ProfileAsked):  # taken over from a process that ended: nobody waits through it twice
            raise GaveUp(Text("profile.interrupted"), example=example(words))
        if not isinstance(asked, ParsedQuestion | WatchAsked):
            return render_help(asked.text.replace(f"{COMMAND} ", f"{question.program} ".lstrip()))
        say = self.deps.texts(asked.options.get("lang"))
        cluster = asked.options.get("cluster") or await self.deps.usual_cluster(question)
        try:
            if isinstance(asked, WatchAsked):
                reading = self.reading(cluster, _asker(question))
                raise ForAskerAlone(await self.watches.answer(question, asked, cluster, reading))
            report, waiting = await self._report(asked, cluster, say, _asker(question))
        except WhichCluster as error:
            if question.manifest:
                raise
            return render_clusters(say("desk.which-cluster"), join_words(words), error.clusters)
        asked_again = "" if question.manifest else join_words(words)
        is_other = bool(question.read) and question.read != gist(report)
        if question.public and asked_again and not is_other:
            first = question.message if question.edited_ts else key
            await remember(self.deps, first, question, asked_again, report)
        rendered = partial(
            render_report,
            report,
            say,
            channel_buttons=is_other or not question.public,
            words=asked_again,
            everything=question.everything,
            direct=question.is_direct,
            names=is_other or not question.public,
            watch=waiting,
        )
        work = partial(with_files, rendered, report, say, everything=question.everything)
        message = await self.deps.work.beside(work, _asker(question))
        if is_other:
            note = say("desk.another-answer")
            raise ForAskerAlone(Message(f"{escape(note)}\n{message.text}", (blocks.context(note), *message.blocks)))
        return message

    async def _report(self, asked: ParsedQuestion, cluster: str, say: Texts, asker: Asker) -> tuple[Report, str]:
        if getattr(asked.request, "mine", False):
            whose = await self.meanings.whose(asker.user)
            asked = asked._replace(request=asked.request._replace(whose=whose))
        async with self.reading(cluster, asker) as sources:
            await self.deps.work.acks_first()
            with timed(asked.playbook.verb):
                snapshot = await asked.playbook.gather(asked.request, sources)
                report = await self.deps.work.beside(partial(asked.playbook.report, snapshot, say), asker)
            age_s = sources.cluster.cache_age_s
        report = report if age_s is None else msgspec.structs.replace(report, cache_age_s=age_s)
        return report, _waiting_pod(snapshot)

    @asynccontextmanager
    async def reading(self, cluster: str, asker: Asker = NOBODY) -> AsyncGenerator[Sources]:
        """Opens the cluster when it is the asker's turn: `AT_ONCE` questions read it at a time."""
        turns = self._turns[cluster if cluster in self.deps.clusters else ""]
        async with turns.turn(asker), self.deps.open_sources(cluster) as sources:
            yield sources

    async def _about_message(self, key: str, question: Question) -> Message:
        pods = await self.meanings.pods_in(question, question.about)
        if len(pods) == 1:
            return await self._message(key, msgspec.structs.replace(question, words=f"why {pods[0]}", about=""))
        if pods:
            return await self.meanings.choice(
                question, self.deps.say("desk.several-pods"), [f"why {pod}" for pod in pods]
            )
        raise BotError(Text("desk.no-pod-named"), example=example(()))

    @asynccontextmanager
    async def _reading_for(self, question: Question) -> AsyncGenerator[Sources]:
        await self.deps.work.acks_first()
        async with self.reading(await self.deps.usual_cluster(question), _asker(question)) as sources:
            yield sources

    async def tell_unanswered(self, key: str, question: Question, error: BotError) -> None:
        """Tells why a question has no answer, unless its message was edited and asks something else."""
        if await self.is_current(key, question):
            await self.tell(key, question, error)

    async def is_current(self, key: str, question: Question) -> bool:
        """Whether the question is still what its message asks; one that no message asked always is."""
        return not question.message or await self.edits.is_newest(key, question)

    async def tell(self, key: str, question: Question, error: BotError) -> None:
        """Tells in Slack what went wrong with a question."""
        shown = error.example
        if isinstance(error, UsageError) and not shown:
            words: list[str] = []
            with suppress(UsageError):  # quotes may not match
                words = split_words(question.words)
            shown = example(words)
        failure = BotError(error.message, hint=error.advice)
        draft = render_error(failure, example=with_program(shown, question.program))
        await self.reply(key, question).answer(
            draft.in_words(self.deps.texts(language_of(question.words))), mark=FAILED
        )

    async def show(self, key: str, question: Question, shown: Awaitable[str | Message | None]) -> None:
        """Shows the awaited answer of a deed, or its error, to the person who asked; None: it is shown elsewhere."""
        try:
            answer = await shown
        except AccessDenied as error:
            denied = error.denied
            said = render_denied(denied.why, denied.who, denied.where)
            answer = said.in_words(self.deps.texts(language_of(question.words)))
        if answer is not None:
            message = progress(answer) if isinstance(answer, str) else answer
            await self.reply(key, question).answer(message, mark=DONE)

    def reply(self, key: str, question: Question) -> Reply:
        """Where and how the question is answered; an edited message is answered where its first words were."""
        deps, answered, say = self.deps, _answered(key), self.deps.texts(language_of(question.words))
        key = question.message if question.edited_ts else key
        if question.public:
            return ChannelReply(
                deps.gateway,
                deps.outbox,
                key,
                question.channel,
                answered=answered,
                asker=question.user,
                thread_ts=question.thread_ts,
                asked_ts=question.asked_ts,
                url=question.response_url,
                clears=not question.beside,
                say=say,
            )
        return Responder(
            deps.gateway,
            deps.outbox,
            question.response_url,
            question.channel,
            question.user,
            key=key,
            thread_ts=question.thread_ts,
            replaces=not question.beside,
            now=deps.now,
            words=lambda: escape(one_line(plain_text(question.words), SHOWN_WORDS)),
            say=say,
        )


def _waiting_pod(snapshot: Any) -> str:
    """The `namespace/name` of the waiting pod that a snapshot of `why` is about; empty for any other snapshot."""
    scene = getattr(snapshot, "scene", None)
    return f"{scene.pod.namespace}/{scene.pod.name}" if isinstance(scene, PodScene) else ""


def _asker(question: Question) -> Asker:
    return Asker(question.user, question.channel)


def _answered(key: str) -> str:
    return f"answered:{key}"


def _signed(question: Question) -> Question:
    """The question with who sent it, so that this can be checked again after a restart."""
    sent_by = SENT_BY.get()
    return msgspec.structs.replace(question, sent_by=sent_by) if sent_by else question


def with_files(rendered: Callable[[], Message], report: Report, say: Texts, *, everything: bool) -> Message:
    """Renders a message with the report's YAML and, with `everything`, its pictures. Slow: not for the event loop."""
    message = rendered()
    files = list(yaml_files(report))
    if everything:
        drawn = picture(report, say)
        files += [File(f"{report.playbook}.png", drawn, report.verdict, visible(report.verdict))] if drawn else []
        files += [File(f"{chart.name}.png", chart.png, chart.alt_text, chart.alt_text) for chart in charts(report, say)]
    return message._replace(files=(*files, *message.files))


@contextmanager
def timed(verb: str) -> Generator[None]:
    """Counts and logs the block under its outcome: answered, failed, given-up (it took too long), or bug."""
    began, outcome = time.monotonic(), "bug"
    try:
        yield
        outcome = "answered"
    except Bug:
        raise
    except BotError:
        outcome = "failed"
        raise
    except asyncio.CancelledError:
        outcome = "given-up"
        raise
    finally:
        took_s = time.monotonic() - began
        process_counters.PLAYBOOKS.observe(took_s, verb, outcome)
        values = {"verb": verb, "outcome": outcome, "ms": round(took_s * 1000)}
        log.info("%s: %s in %.2f s", verb, outcome, took_s, extra=values)
