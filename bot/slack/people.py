"""Who a person is, as users.info has it: asked of Slack where a payload does not say it, kept for five minutes."""

import asyncio
import logging
import time
from collections.abc import Callable

from bot.slack.failures import SlackFailure
from bot.slack.gateway import Gateway, Person

KEPT_S = 300.0
"""Somebody who left, or became a guest, may still ask for so long."""
_MOST = 2000
_LONGEST_S = 2.0
"""Slack waits 3 s for an ack, which is not given before it is known who asked."""

log = logging.getLogger(__name__)


class People:
    """Persons by id, those who were asked about last. Needs the scope users:read; raises nothing."""

    def __init__(self, gateway: Gateway, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._clock = clock
        self._known: dict[str, tuple[float, Person]] = {}

    async def person(self, user: str) -> Person | None:
        """The person; None where Slack does not say, or not within 2 s."""
        kept = self._known.get(user)
        if kept and self._clock() - kept[0] < KEPT_S:
            return kept[1]
        try:
            async with asyncio.timeout(_LONGEST_S):
                found = await self._gateway.person(user)
        except (SlackFailure, TimeoutError) as error:
            log.warning("who %s is cannot be read: %s", user, error or "Slack did not answer in time")
            return None
        self._known.pop(user, None)
        self._known[user] = (self._clock(), found)
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return found
