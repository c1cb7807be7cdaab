"""How many profiles the bot has in its memory at once: one may take a gigabyte and a minute of computing."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from bot.errors import SourceError

T = TypeVar("T")

AT_ONCE = 2
"""Profiles that are taken, and questions about kept ones that are answered, at the same time."""
PATIENCE_S = 60.0
"""How long one waits until another has been answered."""


class Room:
    """Its threads are its own: a profile that is slow to read holds up nothing else that needs a thread.

    What is given up goes on in its thread until it is done, since threads cannot be ended, and keeps one of the two.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="profile")
        self._captures = asyncio.Semaphore(AT_ONCE)
        self._studies = asyncio.Semaphore(AT_ONCE)

    async def run(self, job: Callable[[], T]) -> T:
        """What the job gives, from a thread; cancelled before its turn has come it is not begun."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    @asynccontextmanager
    async def capture(self) -> AsyncGenerator[None]:
        """For a profile from when it is asked for until it is answered. Raises SourceError where none gets free."""
        async with self._turn(self._captures, "taken"):
            yield

    @asynccontextmanager
    async def study(self) -> AsyncGenerator[None]:
        """The same for a question about kept ones: a capture of two minutes holds up none."""
        async with self._turn(self._studies, "read"):
            yield

    @asynccontextmanager
    async def _turn(self, room: asyncio.Semaphore, what: str) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._patience_s):
                await room.acquire()
        except TimeoutError as error:
            raise SourceError(
                f"{AT_ONCE} other profiles are being {what}, and more at once do not fit into the bot's memory",
                hint="ask again in a minute",
            ) from error
        try:
            yield
        finally:
            room.release()
