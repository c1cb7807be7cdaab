"""What the bot is doing: every accepted question as a task that is kept, bounded in time, told when it fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bot.bugs import bugs_as_errors
from bot.errors import BotError
from bot.store import Store

LONGEST_S = 120.0

log = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]
Tell = Callable[[BotError], Awaitable[None]]


class Overdue(BotError):  # noqa: N818  # what the person is told
    """The work took longer than it may."""


class Work:
    """Runs jobs once per key, over restarts and replicas that share the store.

    Slack delivers at least once: `key` is the event's or trigger's id, and a key that is running or done is not run
    again. Nothing that a job raises gets past it: `tell` is called with the error instead.
    """

    def __init__(self, store: Store, *, longest_s: float = LONGEST_S) -> None:
        self._store = store
        self._longest_s = longest_s
        self._running: dict[str, asyncio.Task[None]] = {}
        self.failures = 0

    def __len__(self) -> int:
        return len(self._running)

    def start(self, key: str, job: Job, tell: Tell, *, payload: str = "") -> None:
        """Begins the job unless its key is known. `payload` is kept until the job is done, for `Store.unfinished`."""
        if key in self._running:
            return
        task = asyncio.create_task(self._once(key, job, tell, payload), name=key)
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))

    async def drain(self, patience_s: float) -> int:
        """Waits for what is running; how many were cut off when patience ended. Those stay unfinished in the store."""
        tasks = list(self._running.values())
        if not tasks:
            return 0
        _, late = await asyncio.wait(tasks, timeout=patience_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    async def _once(self, key: str, job: Job, tell: Tell, payload: str) -> None:
        try:
            with bugs_as_errors():
                if await self._store.claim(key, payload):
                    await self._bounded(job, tell)
                    await self._store.done(key)
        except BotError as error:
            self.failures += 1
            log.warning("%s: %s", key, error)

    async def _bounded(self, job: Job, tell: Tell) -> None:
        try:
            with bugs_as_errors():
                await self._in_time(job)
        except BotError as error:
            self.failures += 1
            await tell(error)

    async def _in_time(self, job: Job) -> None:
        limit = asyncio.timeout(self._longest_s)
        try:
            async with limit:
                await job()
        except TimeoutError as error:
            if not limit.expired():
                raise
            hint = "Ask again; if it stays so, the cluster answers slowly."
            raise Overdue(f"gave up after {self._longest_s:.0f} s", hint=hint) from error
