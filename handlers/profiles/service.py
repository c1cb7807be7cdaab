"""Profiles asked for in Slack: taken once for all who ask, kept, answered for everyone with picture, table and file.
`register` handles commands and mentions, buttons under answers, and the button that cancels.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from bot.errors import NotFound, UsageError
from bot.kube.times import format_duration
from bot.report import in_words
from bot.settings.schema import ProfileSettings
from bot.slack.app import App
from bot.slack.message import File, Message
from bot.slack.render.prose import render_help
from bot.slack.render.report import CANCEL, render_report, taking
from bot.slack.responder import PATIENCE_S, ChannelReply, Reply, announced
from bot.store import StoreError
from bot.store.profiles import ProfileRows
from bot.texts import Text, Texts, spaced
from bot.triage.state import News
from handlers.inbox import DONE, Inbox
from handlers.parsing.question import (
    HeardWords,
    Question,
    Verb,
    begins_with,
    clicked,
    first_action,
    join_words,
    split_words,
    thread_below,
)
from handlers.parsing.slack_grammar import Help, example, understand
from handlers.profiles.analyses import explained, profiles_of
from handlers.profiles.answers_in_files import PROGRAM, Words, profiles_named, read_words
from handlers.profiles.captures import PATIENCE_S as ROOM_S
from handlers.profiles.captures import CaptureAnswer, CaptureRequest, Captures, ReadingRoom, answer_capture, audited
from handlers.profiles.kept import Contents, answer_about, contents_of, is_reference, kept_report, loader
from handlers.profiles.words import VERB, ProfileAsked, ShowKept
from handlers.threads import note_done
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, NotDone, Nothing
from playbooks.profile.fetch import FetchedProfile, ProfileSnapshot, gather
from playbooks.profile.request import KINDS, Request

_EVERY_S = 10.0
"""Seconds between two edits of the message that tells how long it takes: Slack allows about 50 edits a minute."""
_AFTERWARDS_S = 90.0
"""Seconds that finding the pod, decoding, drawing and keeping may take, beside the capture and the wait for a turn."""

log = logging.getLogger(__name__)


class ProfileService:
    """Takes questions about profiles from all surfaces of Slack."""

    def __init__(self, inbox: Inbox, settings: ProfileSettings) -> None:
        self._inbox = inbox
        self._deps = inbox.deps
        self._settings = settings
        self._captures = Captures[ProfileSnapshot]()
        self._room = ReadingRoom()
        self._waiting: dict[str, asyncio.Task[CaptureAnswer]] = {}
        self._cancelled_by: dict[str, str] = {}
        self._kind = inbox.kinds.add(ActionKind("profile", Nothing, self._answer))

    async def ask(self, key: str, question: Question) -> None:
        """Answers a question once. A profile that is taken is for everyone; other answers are for the asker."""
        seconds = 0.0
        capture = _capture_in(question.words)
        if capture is not None:
            question = msgspec.structs.replace(question, public=True, beside=True)
            seconds = min(capture.seconds, self._settings.longest_s)
        longest_s = seconds + ROOM_S + _AFTERWARDS_S
        await self._inbox.do(key, self._kind, question, NOTHING, longest_s=longest_s)

    def cancel(self, key: str, user: str) -> bool:
        """Cancels a capture; False if this process does not wait for it (any more)."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.done():
            return False
        self._cancelled_by[key] = user
        waiting.cancel()
        return True

    async def _answer(self, taken: AcceptedDeed[Nothing]) -> None:
        key, question = taken.key, taken.asked
        asked = understand(split_words(question.words))
        reply = self._inbox.reply(key, question)
        if isinstance(asked, Help):
            message = render_help(asked.text)
        elif not isinstance(asked, ProfileAsked):
            raise UsageError(Text("error-profile.that-is-no-profile"), example=example(("profile",)))
        else:
            if taken.resumed and isinstance(asked.request, Request):  # nobody waits through it twice
                if await self._inbox.was_answered(key, question):
                    return
                raise NotDone("interrupted")
            message = await self._message(key, question, asked, reply)
        await reply.answer(message, mark=DONE)

    async def _message(self, key: str, question: Question, asked: ProfileAsked, reply: Reply) -> Message:
        if isinstance(asked.request, Request):
            return await self._capture(key, question, asked, reply)
        say = self._deps.texts(asked.options.get("lang"))
        rows = self._deps.store.profiles
        if isinstance(asked.request, ShowKept):
            report = in_words(kept_report(await rows.listed(), self._deps.now()), say)
            return render_report(report, say, channel_buttons=False, words=question.words, everything=True)
        async with self._room.study():
            return await study(asked.request.words, rows, self._deps.now(), say, self._room.run)

    async def _capture(self, key: str, question: Question, asked: ProfileAsked, reply: Reply) -> Message:
        assert isinstance(asked.request, Request)
        say = self._deps.texts(asked.options.get("lang"))
        settings = self._settings
        request = asked.request.within(
            longest_s=settings.longest_s, limit_bytes=settings.most_bytes, namespaces=settings.namespaces
        )
        cluster = self._deps.cluster_of(asked.options.get("cluster") or await self._deps.usual_cluster(question))
        wanted = CaptureRequest(cluster, str(request.target or ""), request.kind, request.seconds)
        joined = Text("profile.joined") if self._captures.is_running(wanted) else ""
        ends_at = time.monotonic() + request.seconds

        def progress() -> Message:
            left = round(ends_at - time.monotonic())
            values = {"kind": request.kind, "where": request.target or Text("profile.the-scheduler")}
            text = (
                Text("profile.progress-left", left=left, **values) if left > 0 else Text("profile.progress", **values)
            )
            return taking(spaced(text, joined), key).in_words(say)

        waiting = self._taken(wanted, request, question, partial(answer_capture, words=question.words, say=say))
        async with _showing(reply, progress):
            answer = await self._awaited(key, asyncio.create_task(waiting))
        if answer is None:
            return Message(say("profile.cancelled", user=self._cancelled_by.pop(key, "")))
        await self._keep(answer)
        if answer.kept:
            taken = f"{request.kind} {answer.kept.target}"
            taken += f" {format_duration(request.seconds)}" if request.seconds else ""
            news = News("profile-taken", question.user, taken)
            await note_done(self._deps, question.channel, question.thread_ts, news, key)
        return answer.message

    async def _taken(
        self,
        wanted: CaptureRequest,
        request: Request,
        question: Question,
        answer: Callable[[ProfileSnapshot], CaptureAnswer],
    ) -> CaptureAnswer:
        """Asks for a turn last: who shares a capture needs none, and that capture may end meanwhile."""
        async with AsyncExitStack() as stack:
            async with audited(self._deps.store.audit, question, wanted.cluster, request):
                if not self._captures.is_running(wanted):
                    await stack.enter_async_context(self._room.capture())
                snapshot = await self._captures.take(wanted, partial(self._gather, wanted.cluster, request))
            taken = snapshot.scene.outcome
            contents = [taken.content] if isinstance(taken, FetchedProfile) else []
            return await self._room.run(partial(answer, snapshot), contents)

    async def _awaited(self, key: str, waiting: asyncio.Task[CaptureAnswer]) -> CaptureAnswer | None:
        self._waiting[key] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.cancelled() and key in self._cancelled_by:
                return None
            raise
        finally:
            del self._waiting[key]

    async def _gather(self, cluster: str, request: Request) -> ProfileSnapshot:
        async with self._deps.open_sources(cluster) as sources:
            return await gather(request, sources)

    async def _keep(self, answer: CaptureAnswer) -> None:
        """The answer has the file as well, so a store that is out of reach costs only the comparison later."""
        if answer.kept is None:
            return
        settings = self._settings
        try:
            await self._deps.store.profiles.keep(
                answer.kept,
                answer.content,
                most=settings.kept,
                days=settings.kept_days,
                most_bytes=settings.kept_bytes,
            )
        except StoreError as error:
            log.warning("the profile %s is not kept: %s", answer.kept.id, error)


@asynccontextmanager
async def _showing(reply: Reply, message: Callable[[], Message]) -> AsyncGenerator[None]:
    """While it lasts, a message that everyone sees tells how long it still takes; the answer replaces it."""
    if not isinstance(reply, ChannelReply):
        yield
        return
    async with announced(lambda: reply.progress(message()), PATIENCE_S, _EVERY_S):
        yield


def _capture_in(words: str) -> Request | None:
    try:
        asked = understand(split_words(words))
    except UsageError:  # told in its place
        return None
    return asked.request if isinstance(asked, ProfileAsked) and isinstance(asked.request, Request) else None


_SHOWN = 6000
"""How many characters are shown; a longer text is in a file as well."""
_OF_A_SHELL = "source"
_EXAMPLES = {
    "top": "profile top cpu-1a2b3c4d",
    "list": "profile list Filter cpu-1a2b3c4d",
    "compare": "profile compare cpu-1a2b3c4d cpu-5e6f7a8b",
    "hints": "profile hints cpu-1a2b3c4d",
}

Run = Callable[[Callable[[], Message], Sequence[bytes]], Awaitable[Message]]
"""Runs a job that makes a message; besides the job it gets the contents of the profiles that the job reads."""


async def study(words: Sequence[str], rows: ProfileRows, now: float, say: Texts, run: Run) -> Message:
    """The answer about kept profiles, computed by `run`. Raises UsageError and NotFound for words that name none."""
    try:
        asked = read_words(words[1:])
        say = Texts(asked.options["lang"]) if "lang" in asked.options else say
        contents = await _contents(words, asked, rows, now)

        def answer() -> Message:
            again = join_words(["profile", *words])
            if words[0] in ("compare", "hints"):
                taken = profiles_of(words[0], asked, loader(contents))
                report = in_words(explained(words[0], taken, asked, now), say)
                return render_report(report, say, channel_buttons=False, words=again, everything=True)
            text = answer_about(words[0], asked, contents)
            whole = File(f"profile-{words[0]}.txt", text.encode("utf-8", "surrogateescape"), again)
            return render_help(text)._replace(files=(whole,) if len(text) > _SHOWN else ())

        return await run(answer, [content.content for content in contents.values()])
    except UsageError as error:
        if error.example and not error.example.startswith(PROGRAM):  # such a one is for a shell
            raise
        advice = Text("error-profile.kept-lists-them") if error.example else error.advice
        raise UsageError(error.message, hint=advice, example=_EXAMPLES[words[0]]) from error


async def _contents(words: Sequence[str], asked: Words, rows: ProfileRows, now: float) -> Contents:
    if _OF_A_SHELL in asked.options:
        raise UsageError(Text("error-profile.source-is-for-shell"))
    names = profiles_named(words[0], asked)
    if unknown := [name for name in names if not is_reference(name)]:
        hint = Text("error-profile.name-one-by-id", kind=KINDS[0])
        raise NotFound(Text("error-profile.no-profile-is-kept", profile=repr(unknown[0])), hint=hint)
    return await contents_of(names, rows, now)


def register(app: App, inbox: Inbox, profiles: ProfileService) -> Verb:
    """Listens to the button that cancels; returns the row of `profile` for the table of verbs."""

    async def elsewhere(taken: AcceptedDeed[Nothing]) -> None:
        # What is taken here was cancelled by then; so it is taken elsewhere, or not at all.
        told = Message(inbox.deps.say("profile.elsewhere"))
        await inbox.reply(taken.key, taken.asked).answer(told, mark=DONE)

    of_cancel = inbox.kinds.add(ActionKind("profile-cancel", Nothing, elsewhere))

    async def cancelled(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        if profiles.cancel(str(first_action(body).get("value", "")), body["user"]["id"]):
            return
        question = clicked(body, inbox.deps.now(), thread_ts=thread_below(body))
        await inbox.do(body["trigger_id"], of_cancel, question, NOTHING)

    async def ask(asked: HeardWords) -> None:
        question = asked.question if asked.surface == "command" else asked.publicly()
        if value := asked.button:
            words = asked.words
            if value.cluster in inbox.deps.clusters and "--cluster" not in words:
                words = f"--cluster {value.cluster} {words}"
            question = msgspec.structs.replace(asked.question, words=words, thread_ts=thread_below(asked.body))
        await profiles.ask(asked.key, question)

    app.action(CANCEL)(cancelled)
    return Verb(begins_with(VERB), ask)
