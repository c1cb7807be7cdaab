"""The links to Slack: token, scopes, connection, and the channels that the settings name."""

import time

from bot.errors import BotError
from bot.readiness import GET_APP_KEY, GET_BOT_KEY, refused
from bot.settings.schema import Settings, SlackSettings, channels_of
from bot.slack.app import WISHED_SCOPES, WrongInstall, check_scopes
from bot.slack.calls import open_client
from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway, Identity
from bot.texts import Text
from handlers.doctor.links import Link, broken, has_failed

_PROBE = "hami-bot-doctor"


async def examine_slack(settings: Settings, slack: SlackSettings) -> list[Link]:
    """Nothing is posted, and no channel is joined."""
    try:
        async with open_client(slack.api_url, slack.bot_token.get_secret_value()) as (client, session):
            return await _examine(Gateway(client, session), settings, slack)
    except BotError as error:
        return [broken("slack-token", error)]


async def _examine(gateway: Gateway, settings: Settings, slack: SlackSettings) -> list[Link]:
    links, scopes = await examine_token(gateway, guests=settings.access.guests)
    if has_failed(links[:1]):
        return links
    if slack.mode == "http":
        links.append(Link("http-mode", "ok", Text("doctor.http-mode")))
    else:
        links.append(await examine_socket(gateway, slack.app_token.get_secret_value()))
    may_join = "channels:join" in scopes
    channels = [await examine_channel(gateway, channel, may_join=may_join) for channel in channels_of(settings)]
    return [*links, *channels]


async def examine_token(gateway: Gateway, *, guests: bool = True) -> tuple[list[Link], frozenset[str]]:
    """The links of the bot token, and its scopes; of a token that Slack refuses only the first. `guests` may ask."""
    try:
        who = await gateway.identity()
    except SlackFailure as failure:
        return [broken("slack-token", refused(failure, GET_BOT_KEY))], frozenset()
    token = Link("slack-token", "ok", Text("doctor.token", team=who.team, user=who.user_id))
    return [token, _scopes(who, guests=guests)], who.scopes


def _scopes(who: Identity, *, guests: bool) -> Link:
    try:
        check_scopes(who.scopes, guests=guests)
    except WrongInstall as error:
        return broken("slack-scopes", error)
    if wished := ", ".join(sorted(WISHED_SCOPES.keys() - who.scopes)):
        return Link("slack-scopes", "ok", Text("doctor.scopes-wished", scope=wished))
    return Link("slack-scopes", "ok", Text("doctor.scopes"))


async def examine_socket(gateway: Gateway, app_token: str) -> Link:
    """Whether Slack gives the address of a connection. None is opened: Slack would send it what is the bot's."""
    try:
        await gateway.open_socket(app_token)
    except SlackFailure as failure:
        return broken("socket-mode", refused(failure, GET_APP_KEY))
    return Link("socket-mode", "ok", Text("doctor.socket-mode"))


async def examine_channel(gateway: Gateway, channel: str, *, may_join: bool) -> Link:
    """Whether the bot may post to the channel of that id."""
    try:
        await gateway.find(channel, _PROBE, oldest=time.time())
    except SlackFailure as failure:
        if failure.error == "not_in_channel" and may_join:
            return Link("slack-channel", "ok", Text("doctor.channel-joins"), about=channel)
        state = "failed" if failure.problem in {Problem.FORBIDDEN, Problem.GONE} else "degraded"
        return broken("slack-channel", failure, channel, state)
    return Link("slack-channel", "ok", Text("doctor.channel"), about=channel)
