"""Work that goes on beside everything else."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

log = logging.getLogger(__name__)


@asynccontextmanager
async def in_background(*work: Coroutine[Any, Any, None]) -> AsyncGenerator[list[asyncio.Task[None]]]:
    """Tasks for as long as the context lasts; what ends one before stands in the log."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("%s has stopped", task.get_coro(), exc_info=error)
