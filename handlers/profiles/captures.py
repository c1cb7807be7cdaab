"""Profiles that are being taken: equal requests share one, and a program gives one CPU profile at a time. The module
also has what a capture needs: its line in the audit log, threads and memory to read it, its message.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from bot.errors import BotError, NotAllowed, SourceError
from bot.pprof.decode import MAX_BYTES, uncompressed_size
from bot.report import in_words
from bot.slack.message import Message
from bot.slack.render.report import render_report, with_short_names
from bot.store import StoreError
from bot.store.audit import Audit, AuditLine
from bot.store.profiles import KeptProfile
from bot.texts import Text, Texts
from handlers.parsing.question import Question
from handlers.profiles.files import profile_files
from playbooks.profile.fetch import FetchedProfile, ProfileSnapshot
from playbooks.profile.playbook import diagnose, view_of
from playbooks.profile.request import Request, name_of

T = TypeVar("T")


class CaptureRequest(NamedTuple):
    """A profile to take, and where; `seconds` is 0 for a snapshot of one moment."""

    cluster: str
    place: str
    kind: str
    seconds: int


class _Capture(Generic[T]):
    def __init__(self, task: "asyncio.Task[T]", ends_at: float) -> None:
        self.task = task
        self.ends_at = ends_at
        self.waiting = 0


class Captures(Generic[T]):
    """The profiles that are being taken. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[CaptureRequest, _Capture[T]] = {}

    def is_running(self, wanted: CaptureRequest) -> bool:
        """Whether this profile is being taken, so that a further request shares it."""
        return wanted in self._running

    async def take(self, wanted: CaptureRequest, begin: Callable[[], Awaitable[T]]) -> T:
        """The result of `begin`, which is called unless the same profile is being taken already.

        If one caller is cancelled, the capture goes on for the others; with the last of them it is cancelled. Raises
        SourceError if a CPU profile of another length is being taken there, and what `begin` raises.
        """
        capture = self._running.get(wanted)
        if capture is None:
            for other, running in self._running.items():
                if wanted.kind == "cpu" and other._replace(seconds=wanted.seconds) == wanted:
                    left = max(1, round(running.ends_at - self._clock()))
                    text = Text("error-profile.cpu-profile-is-being-taken", seconds=other.seconds)
                    raise SourceError(text, hint=Text("error-profile.done-in-about", left=left, seconds=other.seconds))

            async def run() -> T:
                return await begin()

            capture = _Capture(asyncio.create_task(run()), self._clock() + wanted.seconds)
            self._running[wanted] = capture
            capture.task.add_done_callback(lambda task: self._ended(wanted, task))
        capture.waiting += 1
        try:
            return await asyncio.shield(capture.task)
        finally:
            capture.waiting -= 1
            if not capture.waiting and not capture.task.done():
                self._running.pop(wanted, None)
                capture.task.cancel()

    def _ended(self, wanted: CaptureRequest, task: "asyncio.Task[T]") -> None:
        capture = self._running.get(wanted)
        if capture is not None and capture.task is task:
            del self._running[wanted]
        if not task.cancelled():
            task.exception()  # whoever waited has been told it


AT_ONCE = 2
"""How many profiles are taken at a time, and, apart from them, how many questions about kept profiles are answered."""
PATIENCE_S = 60.0
"""Seconds that a request waits until another has been answered."""


class ReadingRoom:
    """Threads and turns for reading profiles; a profile that is slow to read holds up nothing else that needs a thread.
    A job that is given up keeps one of the `AT_ONCE` threads until it is done: threads cannot be ended.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="profile")
        self._captures = asyncio.Semaphore(AT_ONCE)
        self._studies = asyncio.Semaphore(AT_ONCE)

    async def run(self, job: Callable[[], T], contents: Sequence[bytes]) -> T:
        """The job's result, from a thread; a job that is cancelled before its turn is not begun. `contents` are the
        profiles that it reads. Raises SourceError if they are too much for one answer.
        """
        loop = asyncio.get_running_loop()
        if len(contents) > 1:
            size = await loop.run_in_executor(self._threads, lambda: sum(map(uncompressed_size, contents)))
            if size > MAX_BYTES:
                text = Text("error-profile.these-profiles-hold-mib-together", size=size >> 20, most=MAX_BYTES >> 20)
                raise SourceError(text, hint=Text("error-profile.compare-in-a-shell"))
        return await loop.run_in_executor(self._threads, job)

    def capture(self) -> AbstractAsyncContextManager[None]:
        """A turn to take a profile, until it is answered. Raises SourceError if none gets free in time."""
        return self._turn(self._captures, Text("error-profile.others-being-taken", count=AT_ONCE))

    def study(self) -> AbstractAsyncContextManager[None]:
        """A turn to read for a question about kept profiles, which captures of two minutes do not hold up."""
        return self._turn(self._studies, Text("error-profile.others-being-read", count=AT_ONCE))

    @asynccontextmanager
    async def _turn(self, room: asyncio.Semaphore, full: Text) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._patience_s):
                await room.acquire()
        except TimeoutError as error:
            raise SourceError(full, hint=Text("error-profile.ask-again-in-a-minute")) from error
        try:
            yield
        finally:
            room.release()


log = logging.getLogger(__name__)


@asynccontextmanager
async def audited(audit: Audit, question: Question, cluster: str, request: Request) -> AsyncGenerator[None]:
    """Audits the capture in the block: `requested` is written before, and after it `taken`, `refused` or `failed`.

    A capture that is cancelled, or that the process does not live to take, stays `requested`. Captures without a
    `target`, of HAMi's own programs, are not audited: the bot is there for them. Raises StoreError if `requested`
    cannot be written: nothing is taken then. A failure to write the outcome is only logged.
    """
    if request.target is None:
        yield
        return
    target = f"{cluster}:{request.target}" if cluster else str(request.target)
    detail = {"kind": request.kind, "seconds": request.seconds, "channel": question.channel}

    async def append(outcome: str) -> None:
        await audit.append(AuditLine(question.user, "profile", target, outcome, detail))

    async def note(outcome: str) -> None:
        try:
            await append(outcome)
        except StoreError as error:
            log.error("%s's %s profile of %s was %s: %s", question.user, request.kind, target, outcome, error)  # noqa: TRY400  # it says what to do

    await append("requested")
    try:
        yield
    except BotError as error:
        await note("refused" if isinstance(error, NotAllowed) else "failed")
        raise
    await note("taken")


class CaptureAnswer(NamedTuple):
    """The answer to a capture. `kept` is None if there is no profile, and `content` then empty."""

    message: Message
    kept: KeptProfile | None
    content: bytes


def answer_capture(snapshot: ProfileSnapshot, words: str, say: Texts) -> CaptureAnswer:
    """The answer to a capture; `words` is the question as typed, for its button. Raises SourceError for no profile."""
    seen = view_of(snapshot)
    report = in_words(diagnose(snapshot, seen), say)
    message = render_report(with_short_names(report), say, channel_buttons=False, words=words)
    taken = snapshot.scene.outcome
    if seen is None or not isinstance(taken, FetchedProfile):
        return CaptureAnswer(message, None, b"")
    kind, content = snapshot.request.kind, taken.content
    name = name_of(kind, content)
    kept = KeptProfile(
        id=name,
        cluster=snapshot.cluster,
        target=str(taken.address),
        kind=kind,
        version=taken.version,
        taken_at=snapshot.taken_at.timestamp(),
        seconds=float(snapshot.request.seconds),
        size=len(content),
    )
    files = profile_files(name, kind, taken.wanted.pod, content, seen.profile, say)
    return CaptureAnswer(message._replace(files=(*files, *message.files)), kept, content)
