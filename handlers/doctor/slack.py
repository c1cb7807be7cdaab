"""The links to Slack: token, scopes, connection, and channels. Nothing is posted."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from bot.readiness import GET_APP_KEY, GET_BOT_KEY, refused
from bot.slack.app import WISHED_SCOPES, WrongInstall, check_scopes
from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.texts import Text
from handlers.doctor.links import Link, State, broken

_PROBE = "hami-bot-doctor"


class Workspace(NamedTuple):
    """Slack. `app_token`: of a bot that opens connections; `joins`: the bot may join public channels while asking."""

    gateway: Gateway
    app_token: str = ""
    channels: Sequence[str] = ()
    guests: bool = True
    joins: bool = False


async def token(place: Workspace) -> list[Link]:
    """Whether Slack takes it. Raises WrongInstall."""
    try:
        who = await place.gateway.identity()
    except SlackFailure as failure:
        raise refused(failure, GET_BOT_KEY) from failure
    return [Link("slack-token", "ok", Text("doctor.token", team=who.team, user=who.user_id))]


async def scopes(place: Workspace) -> list[Link]:
    """Whether the app has those that the bot needs. Raises WrongInstall."""
    granted = (await place.gateway.identity()).scopes
    check_scopes(granted, guests=place.guests)
    if wished := ", ".join(sorted(WISHED_SCOPES.keys() - granted)):
        return [Link("slack-scopes", "ok", Text("doctor.scopes-wished", scope=wished))]
    return [Link("slack-scopes", "ok", Text("doctor.scopes"))]


async def connection(place: Workspace) -> list[Link]:
    """Whether Slack gives the address of a connection. None is opened: Slack would send it what is the bot's."""
    if not place.app_token:
        return [Link("http-mode", "ok", Text("doctor.http-mode"))]
    try:
        await place.gateway.open_socket(place.app_token)
    except SlackFailure as failure:
        raise refused(failure, GET_APP_KEY) from failure
    return [Link("socket-mode", "ok", Text("doctor.socket-mode"))]


async def channels(place: Workspace) -> list[Link]:
    """Whether the bot may post to each of them."""
    return [await _channel(place, channel) for channel in place.channels]


async def _channel(place: Workspace, channel: str) -> Link:
    gateway = place.gateway
    try:
        await gateway.find(channel, _PROBE, oldest=time.time())
    except SlackFailure as failure:
        if failure.error != "not_in_channel" or "channels:join" not in (await gateway.identity()).scopes:
            return _closed(channel, failure, "degraded")
    else:
        return Link("slack-channel", "ok", Text("doctor.channel"), about=channel)
    try:
        if place.joins:
            await gateway.join(channel)
    except SlackFailure as failure:
        return _closed(channel, failure, "failed")
    return Link("slack-channel", "ok", Text("doctor.channel-joins"), about=channel)


def _closed(channel: str, failure: SlackFailure, otherwise: State) -> Link:
    state = "failed" if failure.problem in {Problem.FORBIDDEN, Problem.GONE} else otherwise
    return broken("slack-channel", failure, channel, state)


def is_of_token(link: Link) -> bool:
    """Whether it is broken because Slack takes the token no more."""
    failure = link.error.failure if isinstance(link.error, WrongInstall) else link.error
    return isinstance(failure, SlackFailure) and failure.problem is Problem.AUTH
