"""The start of the bot: what its port answers from the first moment, and how it waits for the store and for Slack."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from slack_bolt.app.async_app import AsyncApp

from bot.endpoint import Take
from bot.errors import BotError, SourceError
from bot.metrics import Exposition, Figures
from bot.pager import Hear, PagerAction
from bot.settings.schema import Settings, SlackSettings
from bot.slack.app import WrongInstall, check_scopes
from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway, Identity
from bot.store import Store, StoreError
from bot.texts import Prose, Text, in_english
from bot.triage.webhook import Alert


class Receivers(NamedTuple):
    """The functions that store what arrives at the bot's port: `take` alerts, `hear` what a pager posts."""

    take: Take
    hear: Hear


class Front:
    """What the bot's port needs, set as the start goes on: `app` for Slack's requests, `ears` for alerts and pagers."""

    def __init__(self) -> None:
        self.why_not_ready: Callable[[], str] = lambda: "starting"
        self.notes: Callable[[], str] = str
        self.app: AsyncApp | None = None
        self.ears: Receivers | None = None
        self.stopping = asyncio.Event()
        self.exposition = Exposition(Figures(lambda: not self.readiness()))

    def is_not_ready(self, why: str) -> None:
        """Sets the reason that /readyz gives, until something else is set."""
        self.why_not_ready = lambda: why

    def readiness(self) -> str:
        """Why the bot is not ready now; empty where it is ready."""
        return self.why_not_ready()

    async def take(self, alerts: list[Alert]) -> None:
        """Stores alerts. Raises BotError where they cannot be stored."""
        await self._ears().take(alerts)

    async def hear(self, heard: PagerAction) -> None:
        """Stores a pager's acknowledgement or close. Raises BotError where it cannot be stored."""
        await self._ears().hear(heard)

    def _ears(self) -> Receivers:
        if self.ears is None:
            raise SourceError(self.readiness())
        return self.ears


GET_BOT_KEY = Text("error-slack.get-bot-token")
GET_APP_KEY = Text("error-slack.get-app-token")

log = logging.getLogger(__name__)


class SlackIdentity(NamedTuple):
    """The bot's identity in Slack; `ticket` is its first Socket Mode connection's address, `app_id` may be empty."""

    identity: Identity
    ticket: str = ""
    app_id: str = ""


class Start(NamedTuple):
    """What the start needs to wait for the store or Slack. `pace_s` is between two tries. `has_changes`: whether
    temporary changes can be reverted meanwhile; `without_store` tells their channels that the store cannot be opened.
    """

    front: Front
    pace_s: float
    has_changes: Callable[[], Awaitable[bool]]
    without_store: Callable[[Gateway, BotError], Awaitable[None]]

    async def wait(self, why: BotError, at_least_s: float = 0.0) -> None:
        """Waits until the next try; /readyz and the log say why."""
        told = in_english(why.message)
        if self.front.readiness() != told:
            log.error("the start waits: %s", why)
        self.front.is_not_ready(told)
        await asyncio.sleep(max(self.pace_s, at_least_s))


@asynccontextmanager
async def store_opened(
    opening: Callable[[], AbstractAsyncContextManager[Store]], gateway: Gateway, start: Start
) -> AsyncGenerator[Store]:
    """The open store. Opening is tried again and again where the bot can revert temporary changes meanwhile, whose
    channels are told; elsewhere the store's error is raised: whoever started the bot should see it end.
    """
    while True:
        async with AsyncExitStack() as stack:
            try:
                store = await stack.enter_async_context(opening())
            except StoreError as error:
                why = error
            else:
                yield store
                return
        try:
            await gateway.identity()
            await start.without_store(gateway, why)
        except BotError as error:
            log.warning("nobody is told about the store: %s", in_english(error.message))
        if not await start.has_changes():
            raise why
        await start.wait(why)


async def slack_reached(gateway: Gateway, slack: SlackSettings, settings: Settings, start: Start) -> SlackIdentity:
    """The bot's identity in Slack, and with Socket Mode the address of its first connection. Slack is tried again as
    long as there is work to do meanwhile, alerts to take or changes to look after, or Slack asks to wait; else raises
    WrongInstall.
    """
    while True:
        try:
            return await _proven(gateway, slack, settings)
        except WrongInstall as error:
            failure = error.failure
            takes_alerts = settings.oncall is not None and failure is not None and failure.problem is Problem.TRANSIENT
            retry_after = failure.retry_after if failure else 0.0
            if not (takes_alerts or retry_after or await start.has_changes()):
                raise
            why = error
        await start.wait(why, retry_after)


async def _proven(gateway: Gateway, slack: SlackSettings, settings: Settings) -> SlackIdentity:
    """Who the bot is, and its first connection's address. Raises WrongInstall for tokens that do not serve."""
    try:
        identity = await gateway.identity()
    except SlackFailure as failure:
        raise refused(failure, GET_BOT_KEY) from failure
    check_scopes(identity.scopes, guests=settings.access.guests)
    if slack.mode == "http":
        return SlackIdentity(identity, app_id=await _app_of(gateway, identity))
    try:
        return SlackIdentity(identity, await gateway.open_socket(slack.app_token.get_secret_value()))
    except SlackFailure as failure:
        raise refused(failure, GET_APP_KEY) from failure


async def _app_of(gateway: Gateway, identity: Identity) -> str:
    """The app's id, if Slack tells it: without the scope the signature alone says whose a request is."""
    try:
        return (await gateway.person(identity.user_id)).app_id
    except SlackFailure:
        return ""


def refused(failure: SlackFailure, about_token: Prose) -> WrongInstall:
    """The error that Slack does not accept a token; `about_token` is the hint where the token itself is at fault."""
    unreached = failure.problem is Problem.TRANSIENT
    message = Text("error-slack.not-reached", why=failure.message) if unreached else failure.message
    hint = about_token if failure.problem is Problem.AUTH else failure.hint
    return WrongInstall(message, hint=hint, failure=failure)
