"""Who a person is, as users.info has it: asked of Slack where a payload does not say it, kept for five minutes."""

import asyncio
import logging
import time
from collections.abc import Callable

from bot.slack.failures import SlackFailure
from bot.slack.gateway import Gateway, Person

KEPT_S = 300.0
"""Somebody who left, or became a guest, may still ask for so long."""
_UNKNOWN_S = 30.0
"""So long Slack is not asked again about somebody whom it did not name."""
_MOST = 2000
LONGEST_S = 0.8
"""Slack waits 3 s for an ack. It is known by then who asked, and for up to 2 s more what they did is being kept."""

log = logging.getLogger(__name__)


class People:
    """Persons by id, those who were asked about last. Needs the scope users:read; raises nothing."""

    def __init__(self, gateway: Gateway, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._clock = clock
        self._known: dict[str, tuple[float, Person | None]] = {}

    async def person(self, user: str) -> Person | None:
        """The person; None where Slack does not say, or not within 0.8 s."""
        kept = self._known.get(user)
        if kept and self._clock() - kept[0] < (KEPT_S if kept[1] else _UNKNOWN_S):
            return kept[1]
        found = None
        try:
            async with asyncio.timeout(LONGEST_S):
                found = await self._gateway.person(user)
        except (SlackFailure, TimeoutError) as error:
            log.warning("who %s is cannot be read: %s", user, str(error) or "Slack did not answer in time")
        self._known.pop(user, None)
        self._known[user] = (self._clock(), found)
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return found
