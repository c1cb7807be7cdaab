"""The bot's work in progress: every accepted question as a task that is kept, limited in time, and told if it fails."""

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from bot.errors import BotError, begin_request, bugs_as_errors
from bot.store import Store, StoreError
from bot.texts import Text

T = TypeVar("T")
V = TypeVar("V")

LONGEST_S = 120.0
KEEPING_S = 0.025
"""Seconds that an ack waits until the question is kept: enough for an idle machine, and little in a storm, when a busy
store would hold up every ack. A question acked before it is kept is lost if the process is killed in that moment."""
DEED_S = 2.0
"""Seconds that an ack waits until a person's deed (a button, a form) is stored. Slack waits 3 s for the ack."""
BUSY_AT_ONCE = 2
"""How many steps may keep a processor busy at once: one that takes a second does not hold up every other answer."""
OF_ONE = 12
"""How many questions of one person are worked on at once. More would keep the store busy, and everybody else waiting;
with fewer, those that a cluster leaves hanging would soon hold up the same person's questions about another.
"""
_UNCLAIMED_KEPT = 1000
_SLOW_CLUSTER, _NO_PLACE = Text("error-overdue.cluster"), Text("error-overdue.place")
_NO_TURN, _SLOW_STEP = Text("error-overdue.turn"), Text("error-overdue.step")
"""Texts that say what held an answer up, and what to do about it."""

log = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]
Tell = Callable[[BotError], Awaitable[None]]


async def tell_log(error: BotError) -> None:
    """Logs the error and tells nobody: no person is known, or it is not worth a second try."""
    log.warning("%s", error)


class _Task(msgspec.Struct):
    """A job under way. `claim` ends with the keys that the store has kept for this process; see `Work.start`."""

    key: str
    job: Job
    tell: Tell
    regardless: bool
    within_s: float | None
    longest_s: float
    claim: asyncio.Future[set[str]]
    begun_at: float
    running: asyncio.Task[None] | None = None


class NotKept(BotError):  # noqa: N818  # what the person is told
    """The store could not keep what a person did, and so it was not done."""


class CutOffJobs(NamedTuple):
    """How many jobs were cut off: those that the store has kept, and those that are lost."""

    kept: int
    lost: int


class Asker(NamedTuple):
    """The ids of the person who asks, and of the channel in which they ask."""

    user: str = ""
    channel: str = ""


NOBODY = Asker()
"""The asker of work that the bot does by itself."""


class Turns:
    """Places that people who ask share: `places` are held at once, and by one person at most `of_one`. A free place
    goes to the next person who waits, however much another one asked before; one person's channels take turns.
    """

    def __init__(self, places: float = math.inf, *, of_one: float = math.inf) -> None:
        self._places = places
        self._of_one = of_one
        self._held = Counter[str]()
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        """By person and by channel, those whose turn is next first."""

    async def take(self, asker: Asker) -> None:
        """Waits for a place, which the caller gives back with `leave`."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(asker.user, {}).setdefault(asker.channel, deque()).append(place)
        self._give()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given in that moment
                self.leave(asker)
            raise

    def leave(self, asker: Asker) -> None:
        """Gives the asker's place to the next who waits."""
        self._held -= Counter([asker.user])
        self._give()

    @asynccontextmanager
    async def turn(self, asker: Asker) -> AsyncGenerator[None]:
        """Holds a place while the context lasts."""
        await self.take(asker)
        try:
            yield
        finally:
            self.leave(asker)

    def _give(self) -> None:
        while self._held.total() < self._places:
            free = (person for person in self._waiting if not person or self._held[person] < self._of_one)
            person = next(free, None)
            if person is None:
                return
            channels = self._waiting[person]
            channel, line = next(iter(channels.items()))
            place = line.popleft()
            if not place.cancelled():
                place.set_result(None)
                self._held[person] += 1
                channels[channel] = channels.pop(channel)  # now the last
                self._waiting[person] = self._waiting.pop(person)
            if not line:
                del channels[channel]
            if not channels:
                del self._waiting[person]


class Work:
    """Runs jobs once per key, over restarts and replicas that share the store. Slack delivers at least once: `key` is
    the event's or trigger's id, and a job whose key is running or done is not run again. No error of a job is raised:
    `tell` is called with it instead.
    """

    def __init__(
        self,
        store: Store,
        *,
        longest_s: float = LONGEST_S,
        keeping_s: float = KEEPING_S,
        deed_s: float = DEED_S,
    ) -> None:
        self._longest_s = longest_s
        self._keeping_s = keeping_s
        self._deed_s = deed_s
        self._tasks: dict[str, _Task] = {}
        self._claims = _Together(store.claim_all)
        self._ends = _Together[None, None](store.done_all)
        self._one_goes_on = asyncio.Lock()
        self._busy = Turns(BUSY_AT_ONCE)
        self._people = Turns(of_one=OF_ONE)
        self._given_up = WeakKeyDictionary[asyncio.Task[Any] | None, Text]()
        self._unclaimed: deque[str] = deque(maxlen=_UNCLAIMED_KEPT)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def oldest_s(self) -> float:
        """Seconds that the oldest of the running jobs has been running; 0 where none runs."""
        now = time.monotonic()
        return now - min((task.begun_at for task in self._tasks.values()), default=now)

    def start(
        self,
        key: str,
        job: Job,
        tell: Tell = tell_log,
        *,
        payload: str = "",
        regardless: bool = False,
        is_deed: bool = False,
        longest_s: float | None = None,
    ) -> None:
        """Begins the job unless its key is known. `payload` is kept until the job is done, for `Store.unfinished`.
        After `longest_s` seconds (None: those of the constructor) the job is given up. While the store fails, `tell`
        gets NotKept and the job is not done; with `regardless` it is done once by this process, so by several replicas
        perhaps twice. `is_deed`: a store that has not answered within `deed_s` counts as failing.
        """
        if key in self._tasks or key in self._unclaimed:
            return
        claim = asyncio.ensure_future(self._claims.write(key, payload))
        within_s, longest_s = self._deed_s if is_deed else None, longest_s or self._longest_s
        task = _Task(key, job, tell, regardless, within_s, longest_s=longest_s, claim=claim, begun_at=time.monotonic())
        self._tasks[key] = task
        task.running = asyncio.create_task(self._once(task), name=key)
        task.running.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def settled(self, key: str) -> None:
        """Waits, at most `deed_s`, until the store has kept the job or could not; call it before acking a deed."""
        if task := self._tasks.get(key):
            await asyncio.wait({task.claim}, timeout=self._deed_s)

    async def kept(self) -> None:
        """Waits, at most `keeping_s`, until the store has every job begun so far; call it before acking a request."""
        await self._claims.written(within_s=self._keeping_s)

    async def acks_first(self) -> None:
        """Lets acks that wait for the store go first, and one caller go on at each turn of the event loop. To be
        awaited before each step that keeps this process busy, or many answers at once hold up every ack.
        """
        async with self._one_goes_on:
            await asyncio.sleep(0)
            await self.kept()

    async def beside(self, step: Callable[[], T], asker: Asker = NOBODY) -> T:
        """The result of a step that keeps a processor busy: run in a thread, after acks, and few at once, in turn. One
        thread runs Python at a time: more threads give no answer sooner, and each makes the event loop wait for one
        more turn (`bot.main._TURN_S`) whenever it reads or writes. So a step that is given up keeps its place until its
        thread is done: threads cannot be ended.
        """
        leave = partial(self._busy.leave, asker)
        with self._noted(_NO_PLACE), contextlib.ExitStack() as place:
            await self._busy.take(asker)
            place.callback(leave)
            await self.acks_first()
            begun = _threaded(step, leave)
            place.pop_all()
        with self._noted(_SLOW_STEP):
            return await asyncio.wrap_future(begun)

    @asynccontextmanager
    async def turn(self, asker: Asker) -> AsyncGenerator[None]:
        """Holds one of the person's `OF_ONE` places to work on a question, after waiting for it."""
        with self._noted(_NO_TURN):
            await self._people.take(asker)
        try:
            yield
        finally:
            self._people.leave(asker)

    @contextlib.contextmanager
    def _noted(self, why: Text) -> Generator[None]:
        """Notes `why` for a task that is given up inside."""
        try:
            yield
        except asyncio.CancelledError:
            self._given_up[asyncio.current_task()] = why
            raise

    @property
    def keys(self) -> set[str]:
        """The keys of the jobs that are running."""
        return set(self._tasks)

    async def ended(self, key: str, within_s: float) -> None:
        """Waits until the job with this key has ended, at most `within_s` seconds."""
        if (task := self._tasks.get(key)) and task.running:
            await asyncio.wait({task.running}, timeout=within_s)

    async def drain(self, patience_s: float) -> CutOffJobs:
        """Waits `patience_s`, then cuts off the jobs that still run; gives how many. Kept ones stay in the store."""
        running = {task.running: task for task in self._tasks.values() if task.running}
        if not running:
            return CutOffJobs(0, 0)
        _, late = await asyncio.wait(running, timeout=patience_s)
        # A store answers or fails: what was taken is not lost because it was slow.
        claims = await asyncio.gather(*(running[task].claim for task in late), return_exceptions=True)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        lost = sum(isinstance(claim, BaseException) for claim in claims)
        return CutOffJobs(len(late) - lost, lost)

    async def _once(self, task: _Task) -> None:
        begin_request(task.key)
        try:
            with bugs_as_errors():
                try:
                    mine = await self._is_mine(task)
                except NotKept as error:
                    log.warning("%s is not begun: %s", task.key, error)
                    await task.tell(error)
                    await self._withdraw(task)
                    return
                if mine:
                    await self.acks_first()
                    try:
                        with bugs_as_errors():
                            await self._in_time(task)
                    except BotError as error:
                        await task.tell(error)
                    await self.acks_first()
                    await self._withdraw(task)
        except BotError as error:
            log.warning("%s: %s", task.key, error)

    async def _is_mine(self, task: _Task) -> bool:
        """Whether this process is to do the job. Raises NotKept where the store failed, or has not answered in time."""
        try:
            async with asyncio.timeout(task.within_s):
                return task.key in await asyncio.shield(task.claim)
        except TimeoutError:
            why = NotKept(Text("error-slack.store-did-not-answer", seconds=f"{task.within_s:g}"))
        except StoreError as error:
            why = NotKept(error.message, hint=error.hint)
        if not task.regardless:
            raise why
        log.warning("%s is done without the store: %s", task.key, why)
        self._unclaimed.append(task.key)
        return True

    async def _withdraw(self, task: _Task) -> None:
        """Notes that nothing is to be done any more, also where the store keeps it only now."""
        try:
            is_kept = task.key in await asyncio.shield(task.claim)
        except StoreError:
            return
        if is_kept:
            await self._ends.write(task.key, None)

    async def _in_time(self, task: _Task) -> None:
        limit = asyncio.timeout(task.longest_s)
        try:
            async with limit:
                await task.job()
        except TimeoutError as error:
            if not limit.expired():
                raise
            hint, seconds = self._given_up.get(asyncio.current_task(), _SLOW_CLUSTER), f"{task.longest_s:.0f}"
            raise BotError(Text("error-overdue.gave-up", seconds=seconds), hint=hint) from error


def _threaded(step: Callable[[], T], done: Callable[[], None]) -> Future[T]:
    """The step's result or BotError, from a thread of its own; `done` is then called in the event loop. The thread is a
    daemon: the process ends without waiting for what was given up.
    """
    loop, result = asyncio.get_running_loop(), Future[T]()
    result.set_running_or_notify_cancel()  # begun, nobody who gives it up can cancel it

    def run() -> None:
        try:
            with bugs_as_errors():
                result.set_result(step())
        except BotError as error:
            result.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits for the place
            loop.call_soon_threadsafe(done)

    Thread(target=copy_context().run, args=(run,), name="busy", daemon=True).start()
    return result


class _Together(Generic[V, T]):
    """What many want written at once is one transaction: a commit takes as long for fifty as for one."""

    def __init__(self, write: Callable[[dict[str, V]], Awaitable[T]]) -> None:
        self._write = write
        self._waiting: dict[str, V] = {}
        self._next: asyncio.Task[T] | None = None
        self._begun = set[asyncio.Task[T]]()
        self._one_at_a_time = asyncio.Lock()

    def write(self, key: str, value: V) -> Awaitable[T]:
        """The result of the transaction that has this entry, which is made even if a caller is cancelled."""
        self._waiting[key] = value
        if self._next is None:
            self._next = asyncio.create_task(self._all())
            self._begun.add(self._next)
            self._next.add_done_callback(self._begun.discard)
        return asyncio.shield(self._next)

    async def written(self, *, within_s: float | None = None) -> None:
        """Waits until all entries given so far are written or could not be, at most `within_s` seconds."""
        if self._begun:
            await asyncio.wait(self._begun, timeout=within_s)

    async def _all(self) -> T:
        async with self._one_at_a_time:
            entries, self._waiting, self._next = self._waiting, {}, None
            return await self._write(entries)
