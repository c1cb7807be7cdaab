"""Which user groups a person is in, of those that the settings name: asked of Slack, kept for five minutes."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.texts import in_english

KEPT_S = 300.0
"""Somebody who was taken out of a group may still do what its members may for so long."""

log = logging.getLogger(__name__)


_PASSING = frozenset({Problem.RATE_LIMITED, Problem.TRANSIENT, Problem.UNKNOWN_OUTCOME})


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
                unread = failure if failure.problem in _PASSING else unread
        return Memberships(frozenset(groups), unread)

    async def _of(self, group: str) -> frozenset[str]:
        kept = self._members.get(group)
        if kept and self._clock() - kept[0] < KEPT_S:
            return kept[1]
        members = await self._gateway.members(group)
        self._members[group] = (self._clock(), members)
        return members
