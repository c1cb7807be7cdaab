"""Who is answered at all: people of the bot's own workspace, and nobody of another organisation. Every payload of Slack
passes the gate before a listener gets it; work that an earlier process took passes again when it is resumed.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast

import msgspec

from bot.settings.schema import AccessSettings
from bot.slack.gateway import Identity
from bot.slack.message import Message
from bot.slack.people import People
from bot.slack.responder import Responder
from handlers.deps import Deps
from handlers.parsing.question import SENT_BY, Origin, is_direct, persons_message

WhyNot = Literal["", "stranger", "stranger-unread", "stranger-guest"]
_REFUSALS: Mapping[WhyNot, str] = {
    "stranger": "desk.stranger",
    "stranger-unread": "desk.stranger-unread",
    "stranger-guest": "desk.stranger-guest",
}
log = logging.getLogger(__name__)


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


class Gate:
    """Lets in payloads of people whom `home` allows. Tells others once, where only they can read it."""

    def __init__(self, deps: Deps, home: Home) -> None:
        self._deps = deps
        self._home = home
        self._people = People(deps.gateway)

    async def lets_in(self, body: dict[str, Any]) -> bool:
        """Whether listeners may have the payload. Work that they begin is recorded as sent by that person."""
        origin = origin_of(body)
        SENT_BY.set(origin)
        is_event = body.get("type") == "event_callback"
        if not origin.user:  # news of Slack's own, in which listeners hear nobody, or nothing at all
            return is_event or not (body.get("type") or body.get("command"))
        event: dict[str, Any] = body.get("event") or {}
        is_said = (event.get("type") == "app_mention" or is_direct(event)) and persons_message(event) is not None
        if is_event and not is_said and event.get("type") != "app_home_opened":
            # Most that is written in a channel is not for the bot: Slack is not asked about it.
            return self._home.is_of(origin) is True
        why = await self.why_not(origin)
        if why:
            url, thread_ts = str(body.get("response_url") or ""), str(event.get("thread_ts") or "")
            self.refuse(origin, why, channel_of(body), url=url, thread_ts=thread_ts)
        return not why

    async def why_not(self, origin: Origin) -> WhyNot:
        """Why the person is not answered, or "". It asks Slack about guests, and if the payload does not decide."""
        is_ours = self._home.is_of(origin)
        if is_ours is False:
            return "stranger"
        if is_ours and self._home.guests:
            return ""
        person = await self._people.person(origin.user)
        if person is None:
            return "stranger-unread"
        if not is_ours and not self._home.teams & person.teams:
            return "stranger"
        return "stranger-guest" if person.is_guest and not self._home.guests else ""

    def refuse(self, origin: Origin, why: WhyNot, channel: str, *, url: str = "", thread_ts: str = "") -> None:
        """Tells the person alone why they are not answered, at most once an hour over all replicas."""
        deps, message, key = self._deps, Message(self._deps.say(_REFUSALS[why])), f"stranger:{origin.user}"
        log.warning("%s is not answered (%s): %s", origin.user, why, origin.claims)

        async def tell() -> None:
            if not (channel or url):
                await deps.outbox.put(key, origin.user, message)
                return
            way = (deps.gateway, deps.outbox, url, channel, origin.user)
            await Responder(*way, key=key, thread_ts=thread_ts, now=deps.now, say=deps.say).answer(message)

        deps.work.start(key, tell, regardless=True)


def home_of(access: AccessSettings, bot: Identity) -> Home:
    """The Slack teams whose people the bot answers; no team if neither Slack nor the settings name one."""
    own = bot.enterprise_id if bot.is_org_wide else bot.team_id
    return Home(frozenset({own, *access.teams}), bot.enterprise_id, access.guests)


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
