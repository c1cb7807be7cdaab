"""Runs code of somebody's own beside the bot's event loop: what blocks or never ends there holds up nobody else."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import TypeVar

T = TypeVar("T")

LONGEST_S = 20.0
"""How long a `diagnose` may take: it reads nothing, so that a second is a long time for it."""


class TookTooLongError(RuntimeError):
    """It was not done in time. Its thread cannot be ended."""


async def awaited_aside(work: Callable[[], Awaitable[T]]) -> T:
    """What the work gives, awaited in a thread and an event loop of its own."""

    async def awaited() -> T:
        return await work()

    return await asyncio.wrap_future(begun_aside(lambda: asyncio.run(awaited())))


def done_aside(step: Callable[[], T]) -> T:
    """What the step returns, within `LONGEST_S`. Raises TookTooLongError."""
    return done_within(begun_aside(step), LONGEST_S)


def done_within(done: "Future[T]", within_s: float) -> T:
    """What was begun aside has returned. Raises TookTooLongError; it goes on nevertheless."""
    try:
        return done.result(within_s)
    except TimeoutError as error:
        if done.done():  # the step's own
            raise
        raise TookTooLongError(f"it took longer than {within_s:g} s") from error


def begun_aside(step: Callable[[], T]) -> "Future[T]":
    """What the step will return, from a daemon's thread: one that never ends keeps no process from ending."""
    done = Future[T]()

    def run() -> None:
        try:
            result = step()
        except BaseException as error:  # noqa: BLE001  # SystemExit is raised where it is waited for
            _settle(partial(done.set_exception, error))
        else:
            _settle(partial(done.set_result, result))

    # The context goes along, so that the log shows which question caused what is read.
    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return done


def _settle(tell: Callable[[], None]) -> None:
    try:
        tell()
    except InvalidStateError:  # whoever asked has given up
        return
