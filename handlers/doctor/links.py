"""The links between the bot and what it needs, how they are shown, and the checks of Slack; nothing is posted."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from bot.errors import BotError
from bot.readiness import GET_APP_KEY, GET_BOT_KEY, refused
from bot.render.layout import cells
from bot.slack.app import WISHED_SCOPES, WrongInstall, check_scopes
from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.texts import Prose, Text, Texts

State = Literal["ok", "degraded", "failed"]
STATES: tuple[State, ...] = get_args(State)
"""The states of a link, the best first."""


class Link(NamedTuple):
    """What a check found out about one thing that the bot needs.

    `about` is its cluster or channel; `seen` what was found, `fix` what to do unless it is ok, `error` that of a failed
    check. Degraded: the bot runs, but cannot do something that it should. Failed: it cannot run, or answer.
    """

    name: str
    state: State
    seen: Prose
    fix: Prose = ""
    about: str = ""
    error: BotError | None = None


def broken(name: str, error: BotError, about: str = "", state: State = "failed") -> Link:
    """Makes the link for a check that ended with this error."""
    return Link(name, state, error.message, error.hint, about, error)


def has_failed(links: Iterable[Link]) -> bool:
    """Whether any of the links failed."""
    return any(link.state == "failed" for link in links)


def wrong_with(links: Iterable[Link]) -> Prose:
    """What was found at the first link that failed; empty if none failed."""
    return next((link.seen for link in links if link.state == "failed"), "")


def in_words(links: Iterable[Link], say: Texts) -> list[Link]:
    """The links in the language of `say`."""
    return [link._replace(seen=say.words(link.seen), fix=say.words(link.fix)) for link in links]


def as_text(links: Iterable[Link], say: Texts) -> str:
    """The links as text, a line for each, with its fix under it."""
    shown = [(link, say.name(link.state, "states"), title(link, say)) for link in in_words(links, say)]
    wide = max((cells(name) for _, _, name in shown), default=0)
    lines: list[str] = []
    for link, state, name in shown:
        lines.append(f"{state}{' ' * (10 - cells(state))}{name}{' ' * (wide - cells(name))}  {link.seen}")
        lines += [f"{'':<{wide + 12}}{fix}"] if (fix := fix_of(link, say)) else []
    return "\n".join(lines)


def title(link: Link, say: Texts) -> str:
    """The name of what was checked in the language of `say`, and its cluster or channel."""
    return f"{say.name(link.name, 'states')} {link.about}".strip()


def fix_of(link: Link, say: Texts) -> str:
    """What to do; of a link that is ok, which needs no fix, what can be done."""
    return say("doctor.fix", fix=link.fix) if link.fix and link.state != "ok" else str(link.fix)


def as_json(links: Iterable[Link]) -> str:
    """The links as JSON: `{"links": [{"name": …, "state": …, "seen": …, "fix": …, "about": …}]}`."""
    rows: list[dict[str, Any]] = [dict(zip(Link._fields[:-1], link[:-1], strict=True)) for link in links]
    return msgspec.json.format(msgspec.json.encode({"links": rows})).decode()


class Workspace(NamedTuple):
    """Slack, as the checks need it: `app_token` is empty in HTTP mode, and the bot has to post to `channels`. `guests`:
    guests are answered too, so no scope is needed to recognise them. `joins`: checks may join public channels.
    """

    gateway: Gateway
    app_token: str = ""
    channels: Sequence[str] = ()
    guests: bool = True
    joins: bool = False


async def token(place: Workspace) -> list[Link]:
    """A link that tells whether Slack takes the bot's token. Raises WrongInstall."""
    try:
        who = await place.gateway.identity()
    except SlackFailure as failure:
        raise refused(failure, GET_BOT_KEY) from failure
    return [Link("slack-token", "ok", Text("doctor.token", team=who.team, user=who.user_id))]


async def scopes(place: Workspace) -> list[Link]:
    """A link that tells whether the app has the scopes that the bot needs. Raises WrongInstall."""
    granted = (await place.gateway.identity()).scopes
    check_scopes(granted, guests=place.guests)
    if wished := sorted(WISHED_SCOPES.keys() - granted):
        without = "; ".join(f"{scope} ({WISHED_SCOPES[scope]})" for scope in wished)
        return [Link("slack-scopes", "ok", Text("doctor.scopes-wished", scopes=without))]
    return [Link("slack-scopes", "ok", Text("doctor.scopes"))]


async def connection(place: Workspace) -> list[Link]:
    """A link that tells whether Slack gives a connection's address. None is opened: it would get the bot's events."""
    if not place.app_token:
        return [Link("http-mode", "ok", Text("doctor.http-mode"))]
    try:
        await place.gateway.open_socket(place.app_token)
    except SlackFailure as failure:
        raise refused(failure, GET_APP_KEY) from failure
    return [Link("socket-mode", "ok", Text("doctor.socket-mode"))]


async def channels(place: Workspace) -> list[Link]:
    """Links that tell whether the bot may post to each of the channels."""
    return [await _channel(place, channel) for channel in place.channels]


async def _channel(place: Workspace, channel: str) -> Link:
    gateway = place.gateway
    try:
        await gateway.look_into(channel)
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
    """Whether the link is broken because Slack refuses the token."""
    failure = link.error.failure if isinstance(link.error, WrongInstall) else link.error
    return isinstance(failure, SlackFailure) and failure.problem is Problem.AUTH
