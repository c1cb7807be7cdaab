"""Who a person is in Slack, and which of the named user groups they are in: asked of Slack, kept for five minutes."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import msgspec

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


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a payload says about a person's home: `claims` are pairs of a team (`T…`, or `E…` for a whole Grid) and its
    enterprise, empty where it is not said. `is_said`: the pairs are enough to decide, if none is foreign.
    """

    user: str
    claims: tuple[tuple[str, str], ...] = ()
    is_said: bool = False


class Home(NamedTuple):
    """Whose people the bot answers: `teams` are ids of workspaces and enterprises, `enterprise` is the Grid of the
    bot's own workspace, or empty. `guests`: guests of Slack may ask, too.
    """

    teams: frozenset[str]
    enterprise: str = ""
    guests: bool = True

    def is_of(self, origin: Origin) -> bool | None:
        """Whether the person belongs to the home's teams; None where Slack has to be asked."""
        found = [self._is_one(team, enterprise) for team, enterprise in origin.claims]
        if False in found:
            return False
        return None if None in found or not origin.is_said else True

    def _is_one(self, team: str, enterprise: str) -> bool | None:
        if self.teams & ({team, enterprise} - {""}):
            return True
        if self.enterprise and self.enterprise in {team, enterprise}:  # another workspace of the same Grid
            return None
        is_grid = any(entry.startswith("E") for entry in self.teams)
        return None if is_grid and not enterprise and not team.startswith("E") else False


SENT_BY: ContextVar[Origin | None] = ContextVar("sent_by", default=None)
"""Who sent the payload that the current task is about; None for a task that nobody's payload began."""


def origin_of(body: Mapping[str, Any]) -> Origin:
    """The origin of an event, a command or an interaction; `user` is empty where no person acted. Raises nothing."""
    event = _part(body, "event")
    if not event:  # an interaction
        person, team = _part(body, "user"), _id(body.get("team"))
        enterprise = _text(_part(body, "team").get("enterprise_id")) or _id(body.get("enterprise"))
        claims = [(_text(body.get("team_id")), _text(body.get("enterprise_id"))), (team, enterprise)]
        others = (_text(person.get("team_id")), _text(_part(body, "view").get("team_id")))
        claims += [(other, enterprise if other == team else "") for other in others]
        return _origin(_id(body.get("user")) or _text(body.get("user_id")), claims)
    parts = [event, _part(event, "message")]  # an edit's author stands in its message
    user = _id(parts[1].get("user")) or _id(event.get("user"))
    said = [_text(part.get(name)) for part in parts for name in ("user_team", "source_team")]
    said += [_text(_part(part, "user_profile").get("team")) for part in parts]
    placed = [_id(part.get("team")) for part in parts]
    envelope, enterprise = _text(body.get("team_id")), _text(body.get("enterprise_id"))
    persons = [(team, enterprise if team == envelope else "") for team in said]
    if not body.get("is_ext_shared_channel"):
        here = [(team, enterprise) for team in (*placed, envelope)]
        return _origin(user, [*persons, *here])
    if any(said):
        return _origin(user, persons)
    # Whose side these are of, nothing tells: they count against a person, and not for one.
    return msgspec.structs.replace(_origin(user, [(team, "") for team in placed]), is_said=False)


def channel_of(body: Mapping[str, Any]) -> str:
    """The id of the conversation that the payload comes from; empty for a form or a global shortcut."""
    event, container = _part(body, "event"), _part(body, "container")
    found = (_id(event.get("channel")), _id(body.get("channel")), _text(body.get("channel_id")))
    return next(filter(None, found), _text(container.get("channel_id")))


def _origin(user: str, claims: Iterable[tuple[str, str]]) -> Origin:
    named = tuple(dict.fromkeys(claim for claim in claims if claim[0]))
    return Origin(user, named, is_said=bool(named))


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _id(value: Any) -> str:
    """What Slack gives as an id, or as an object that has one."""
    return _text(cast("Mapping[str, Any]", value).get("id")) if isinstance(value, dict) else _text(value)
