"""The Slack bot as a process: proves its tokens, listens, answers, and stops without losing what it had taken."""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Self

from bot.errors import UsageError
from bot.http import Slack, serve_http
from bot.settings.schema import Settings, SlackSettings
from bot.slack.app import App, build_app, check_scopes
from bot.slack.gateway import Gateway, open_client
from bot.slack.outbox import Outbox
from bot.slack.sockets import Sockets
from bot.slack.work import Work
from bot.store import Store, StoreError, open_store
from bot.texts import Texts
from handlers import buttons, command, diagnose, fit_form, home, mention, unheard
from handlers.desk import Desk, Lent
from playbooks._playbook import Sources

DRAIN_S = 20.0
FLUSH_S = 5.0
_DEAF_S = 30.0
_RESUME_EVERY_S = 60.0

log = logging.getLogger(__name__)

Opener = Callable[[str], AbstractAsyncContextManager[Sources]]


async def serve(settings: Settings | None, open_sources: Opener) -> None:
    """Runs until SIGTERM or SIGINT. Raises BotError when it cannot start: settings, tokens, scopes, port or store."""
    if settings is None or settings.slack is None:
        raise UsageError(
            "no Slack tokens are set",
            hint="Set HAMI_BOT_SLACK__BOT_TOKEN and HAMI_BOT_SLACK__APP_TOKEN; the README says where they come from.",
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        bot = await stack.enter_async_context(running(settings, settings.slack, open_sources))
        log.info("ready at %s", bot)
        await stopped.wait()
        log.info("stopping")


@asynccontextmanager
async def running(settings: Settings, slack: SlackSettings, open_sources: Opener) -> AsyncGenerator[str]:
    """The bot while the context lasts; yields the address of its own port when it is connected to Slack."""
    token, app_token = slack.bot_token.get_secret_value(), slack.app_token.get_secret_value()
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(_proven_gateway(slack))
        identity = await gateway.identity()
        check_scopes(identity.scopes)
        if slack.mode == "socket":
            await gateway.probe_socket(app_token)
        store = await stack.enter_async_context(open_store(settings.store.url.get_secret_value()))
        outbox, work = Outbox(store, gateway), Work(store)
        clusters = await stack.enter_async_context(_KeptOpen(open_sources))
        desk = Desk(
            Lent(
                gateway=gateway,
                outbox=outbox,
                store=store,
                work=work,
                open_sources=clusters.get,
                clusters=tuple(settings.clusters),
                say=Texts(settings.language),
                bot_user=identity.user_id,
                now=time.time,
            )
        )
        secret = slack.signing_secret.get_secret_value() if slack.mode == "http" else ""
        app = build_app(slack.api_url, token, identity, signing_secret=secret)
        listen(app, desk)
        stopping = asyncio.Event()
        sending = asyncio.create_task(outbox.run())
        sockets = Sockets(app, app_token, slack.api_url) if slack.mode == "socket" else None
        front = Slack(app, stopping.is_set) if sockets is None else None
        async with serve_http(settings.http.bind, lambda: _why_not_ready(sockets, sending), front) as address:
            resuming = asyncio.create_task(_resume(desk, store))
            if sockets:
                await sockets.connected()
            try:
                yield address
            finally:
                stopping.set()
                resuming.cancel()
                if sockets:
                    await sockets.close()
                cut = await work.drain(DRAIN_S)
                if cut:
                    log.warning("%d questions were not answered in time; they are answered after the next start", cut)
                await _flush(outbox, sending)


def listen(app: App, desk: Desk) -> None:
    """Registers every feature. The order counts: bolt takes the first listener that matches."""
    for feature in (command, mention, buttons, diagnose, fit_form, home):
        feature.register(app, desk)
    unheard.register(app)


@asynccontextmanager
async def _proven_gateway(slack: SlackSettings) -> AsyncGenerator[Gateway]:
    async with open_client(slack.api_url, slack.bot_token.get_secret_value()) as (client, session):
        yield Gateway(client, session)


def _why_not_ready(sockets: Sockets | None, sending: asyncio.Task[None]) -> str:
    if sending.done():
        return "the outbox has stopped"
    if sockets and sockets.down_for_s() > _DEAF_S:
        return f"no connection to Slack for {sockets.down_for_s():.0f} s"
    return ""


async def _resume(desk: Desk, store: Store) -> None:
    """Answers, now and then, what a process that died left unanswered; forgets what is of no use any more."""
    while True:
        try:
            await desk.resume()
            await store.sweep(time.time())
        except StoreError as error:
            log.warning("%s", error)
        await asyncio.sleep(_RESUME_EVERY_S)


async def _flush(outbox: Outbox, sending: asyncio.Task[None]) -> None:
    """Gives what is waiting a moment; what stays is sent after the next start."""
    try:
        async with asyncio.timeout(FLUSH_S):
            await outbox.settled()
    except TimeoutError:
        log.warning("%d messages wait in the store for the next start", outbox.waiting())
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


class _KeptOpen:
    """Every cluster is opened at its first question and stays open: a login can take seconds."""

    def __init__(self, open_sources: Opener) -> None:
        self._open = open_sources
        self._stack = AsyncExitStack()
        self._sources: dict[str, Sources] = {}
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def get(self, cluster: str) -> AsyncGenerator[Sources]:
        async with self._opening:
            if cluster not in self._sources:
                self._sources[cluster] = await self._stack.enter_async_context(self._open(cluster))
        yield self._sources[cluster]
