"""Which user groups a person is in, of those that the settings name: asked of Slack, kept for five minutes."""

import logging
import time
from collections.abc import Callable, Sequence

from bot.slack.failures import SlackFailure
from bot.slack.gateway import Gateway

KEPT_S = 300.0
"""Somebody who was taken out of a group may still do what its members may for so long."""

log = logging.getLogger(__name__)


class Groups:
    """The members of some user groups. A group that cannot be read has none: what is not known is not allowed."""

    def __init__(self, gateway: Gateway, groups: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._groups = groups
        self._clock = clock
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    async def of(self, user: str) -> frozenset[str]:
        """The groups that the user is a member of."""
        return frozenset([group for group in self._groups if user in await self._of(group)])

    async def _of(self, group: str) -> frozenset[str]:
        kept = self._members.get(group)
        if kept and self._clock() - kept[0] < KEPT_S:
            return kept[1]
        try:
            members = await self._gateway.members(group)
        except SlackFailure as failure:
            log.warning("the members of the user group %s cannot be read: %s", group, failure.message)
            return frozenset()
        self._members[group] = (self._clock(), members)
        return members
