"""Who a person is in Slack, and which of the named user groups they are in: asked of Slack, kept for five minutes."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from bot.slack.failures import PASSING, SlackFailure
from bot.slack.gateway import Gateway, SlackUser
from bot.texts import in_english

KEPT_S = 300.0
"""Seconds that answers about people are kept: somebody who left, became a guest or left a group may go on that long."""
_UNKNOWN_S = 30.0
"""Seconds for which Slack is not asked again about somebody whom it did not name."""
_MOST = 2000
LONGEST_S = 0.8
"""Seconds that Slack may take to name a person: it waits 3 s for an ack, of which keeping a deed takes up to 2 s."""

log = logging.getLogger(__name__)


class People:
    """Users of Slack by id, the ones asked about last kept in memory. Needs the scope users:read; raises nothing."""

    def __init__(self, gateway: Gateway, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._clock = clock
        self._known: dict[str, tuple[float, SlackUser | None]] = {}

    async def person(self, user: str) -> SlackUser | None:
        """The user with this id; None where Slack does not say, or not within 0.8 s."""
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


class Groups:
    """The members of some user groups. A group that cannot be read has none: what is not known is not allowed."""

    def __init__(self, gateway: Gateway, groups: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._groups = groups
        self._clock = clock
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    async def of(self, user: str) -> frozenset[str]:
        """The user groups that the user is known to be a member of."""
        return (await self.memberships(user))[0]

    async def memberships(self, user: str) -> tuple[frozenset[str], SlackFailure | None]:
        """The user groups that a person is in, and the failure for which some may be missing. Raises nothing."""
        groups: set[str] = set()
        unread: SlackFailure | None = None
        for group in self._groups:
            try:
                if user in await self._of(group):
                    groups.add(group)
            except SlackFailure as failure:
                log.warning("the members of the user group %s cannot be read: %s", group, in_english(failure.message))
                unread = failure if failure.problem in PASSING else unread
        return frozenset(groups), unread

    async def _of(self, group: str) -> frozenset[str]:
        kept = self._members.get(group)
        if kept and self._clock() - kept[0] < KEPT_S:
            return kept[1]
        members = await self._gateway.members(group)
        self._members[group] = (self._clock(), members)
        return members
