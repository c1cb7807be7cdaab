"""Who a person is, and in which of the named user groups: asked of Slack, kept for five minutes."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bot.slack.failures import PASSING, SlackFailure
from bot.slack.gateway import Gateway, SlackUser
from bot.texts import in_english

KEPT_S = 300.0
"""Somebody who left, became a guest, or was taken out of a group may still ask, or do what its members may, so long."""
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
        self._known: dict[str, tuple[float, SlackUser | None]] = {}

    async def person(self, user: str) -> SlackUser | None:
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


class Memberships(NamedTuple):
    """The groups that somebody is in, as far as is known: `unread` is why that may not be all of them, for now."""

    groups: frozenset[str]
    unread: SlackFailure | None = None


class Groups:
    """The members of some user groups. One that can never be read has none: what is not known is not allowed."""

    def __init__(self, gateway: Gateway, groups: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._groups = groups
        self._clock = clock
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    async def of(self, user: str) -> frozenset[str]:
        """The groups that the user is known to be a member of."""
        return (await self.memberships(user)).groups

    async def memberships(self, user: str) -> Memberships:
        """The same, and whether that may not be all. Raises nothing."""
        groups: set[str] = set()
        unread: SlackFailure | None = None
        for group in self._groups:
            try:
                if user in await self._of(group):
                    groups.add(group)
            except SlackFailure as failure:
                log.warning("the members of the user group %s cannot be read: %s", group, in_english(failure.message))
                unread = failure if failure.problem in PASSING else unread
        return Memberships(frozenset(groups), unread)

    async def _of(self, group: str) -> frozenset[str]:
        kept = self._members.get(group)
        if kept and self._clock() - kept[0] < KEPT_S:
            return kept[1]
        members = await self._gateway.members(group)
        self._members[group] = (self._clock(), members)
        return members
