"""How long playbooks take, for /metrics and the log."""

import asyncio
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager

from bot import process_counters
from bot.errors import BotError, Bug

log = logging.getLogger(__name__)


@contextmanager
def timed(verb: str) -> Generator[None]:
    """Counts and logs what happens inside under its outcome: answered, failed, given-up (it took too long), or bug."""
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
