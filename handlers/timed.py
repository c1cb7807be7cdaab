"""How long playbooks take, for /metrics."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

from bot import tally
from bot.bugs import Bug
from bot.errors import BotError


@contextmanager
def timed(verb: str) -> Generator[None]:
    """Counts what happens inside under its outcome: answered, failed, given-up (it took too long), or bug."""
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
        tally.PLAYBOOKS.observe(time.monotonic() - began, verb, outcome)
