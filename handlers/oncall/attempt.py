"""One try of something that is done again in another pass."""

import logging
from collections.abc import Awaitable, Callable
from uuid import uuid4

from bot import request_ids
from bot.errors import BotError
from bot.unexpected_errors import bugs_as_errors

log = logging.getLogger(__name__)


async def attempt(what: str, work: Callable[[], Awaitable[bool]]) -> bool:
    """What it gives: whether threads have something new to tell. What goes wrong is tried again in another pass.

    In a task of its own: its lines in the log, and its calls to the cluster, have an id of their own.
    """
    request_ids.begin(uuid4().hex)
    try:
        with bugs_as_errors():
            return await work()
    except BotError as error:
        log.warning("%s: %s", what, error)
        return False
