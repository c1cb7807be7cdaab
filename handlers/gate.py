"""Who is answered at all: people of the bot's own workspace, and nobody of another organisation. Every payload of Slack
passes the gate before a listener gets it; work that an earlier process took passes again when it is resumed.
"""

import logging
from collections.abc import Mapping
from typing import Any, Literal

from bot.settings.schema import AccessSettings
from bot.slack.gateway import Identity
from bot.slack.message import Message
from bot.slack.people import SENT_BY, Home, Origin, People, channel_of, origin_of
from bot.slack.responder import Responder
from handlers.deps import Deps
from handlers.parsing.question import is_direct, persons_message

WhyNot = Literal["", "stranger", "stranger-unread", "stranger-guest"]
_REFUSALS: Mapping[WhyNot, str] = {
    "stranger": "desk.stranger",
    "stranger-unread": "desk.stranger-unread",
    "stranger-guest": "desk.stranger-guest",
}
log = logging.getLogger(__name__)


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
