"""Where the person is from who sent the bot something, as far as Slack's payload says it.

In a channel that two organisations share (Slack Connect), Slack delivers what the other's people do as well. Which
fields tell their team is in slack-bolt's own tests: `user_team` and `source_team` of an event, `team_id` of a command,
`user.team_id` and `team.id` of a click, a form or a shortcut. In a shared channel an event's `team`, and its
envelope's, may be either side's.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import msgspec


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a payload says of a person: pairs of a team (`T…`, or `E…` for a whole Grid) and that team's enterprise.

    The enterprise is empty where it is not said. `is_said`: the pairs are enough to decide, if none is foreign.
    """

    user: str
    claims: tuple[tuple[str, str], ...] = ()
    is_said: bool = False


class Home(NamedTuple):
    """Whose people are answered: `teams` are ids of workspaces and enterprises, `enterprise` is the Grid of the bot's
    own workspace, or empty. `guests`: those of Slack may ask, too.
    """

    teams: frozenset[str]
    enterprise: str = ""
    guests: bool = True

    def is_of(self, origin: Origin) -> bool | None:
        """Whether the person is from here; None where Slack has to be asked."""
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
"""Who sent what the current task is about; None for what nobody sent."""


def origin_of(body: Mapping[str, Any]) -> Origin:
    """The origin of an event, a command or an interaction; `user` is empty for what no person did. Raises nothing."""
    event = _part(body, "event")
    return _of_event(body, event) if event else _of_interaction(body)


def channel_of(body: Mapping[str, Any]) -> str:
    """The conversation that it happened in; empty for a form or a global shortcut."""
    event, container = _part(body, "event"), _part(body, "container")
    found = (_id(event.get("channel")), _id(body.get("channel")), _text(body.get("channel_id")))
    return next(filter(None, found), _text(container.get("channel_id")))


def _of_event(body: Mapping[str, Any], event: Mapping[str, Any]) -> Origin:
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


def _of_interaction(body: Mapping[str, Any]) -> Origin:
    person, team = _part(body, "user"), _id(body.get("team"))
    user = _id(body.get("user")) or _text(body.get("user_id"))
    enterprise = _text(_part(body, "team").get("enterprise_id")) or _id(body.get("enterprise"))
    claims = [(_text(body.get("team_id")), _text(body.get("enterprise_id"))), (team, enterprise)]
    others = (_text(person.get("team_id")), _text(_part(body, "view").get("team_id")))
    claims += [(other, enterprise if other == team else "") for other in others]
    return _origin(user, claims)


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
