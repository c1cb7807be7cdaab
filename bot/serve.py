"""The Slack bot as a process: proves its tokens, listens, answers, and stops without losing what it had taken."""

import asyncio
import contextlib
import hashlib
import logging
import signal
import socket
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from bot.errors import BotError, UsageError
from bot.front import Front
from bot.http import Slack, serve_http
from bot.settings.schema import Settings, SlackSettings
from bot.slack.app import App, Grouped, WrongInstall, build_app, check_scopes
from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway, Identity, open_client
from bot.slack.outbox import Outbox
from bot.slack.sockets import PING_INTERVAL_S, WATCH_S, Sockets
from bot.slack.work import DEED_S, KEEPING_S, LONGEST_S, Work
from bot.store import Store, StoreError, open_store
from bot.texts import Texts
from bot.troubles import Facts
from handlers import buttons, command, diagnose, fit_form, home, mention, unheard
from handlers.changes import listeners
from handlers.changes.desk import ChangeDesk
from handlers.changes.lead import Pace
from handlers.changes.setup import READ_ONLY, Changing, LookedAfter
from handlers.desk import Desk
from handlers.kept_open import KeptOpen, Opener
from handlers.leftovers import Leftovers
from handlers.lent import Lent
from handlers.oncall import digest_form
from handlers.oncall import listeners as triage
from handlers.oncall.setup import Oncall, incidents_kept, intake_of, oncall_desk
from handlers.profiles import listeners as profiling
from handlers.profiles.desk import ProfileDesk
from handlers.troubles import PACE_S, Lookout, watched

FLUSH_S = 5.0
_RESUME_EVERY_S = 60.0
_LONGEST_NAME = 64  # of the outbox's owner
_GET_BOT_KEY = (
    "Install the app to the workspace (again) and set HAMI_BOT_SLACK__BOT_TOKEN to its Bot User OAuth Token, xoxb-…"
)
_GET_APP_KEY = (
    "Make an app-level token with the scope connections:write in the app's Basic Information and set "
    "HAMI_BOT_SLACK__APP_TOKEN to it, xapp-…"
)

log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """How long an answer may take, how long the end waits for answers, and how long an ack waits until the store has
    what it accepts, and (`deed_s`) what a person did; of the connections, how often they are asked for a sign of life
    and looked at, and their clock. `now` is the time of day, in seconds since 1970, the store's by default; `pace` that
    of looking after temporary changes, `oncall` between two looks at incidents, `look_s` at the bot itself. In seconds.
    """

    answer_s: float = LONGEST_S
    drain_s: float = 20.0
    keeping_s: float = KEEPING_S
    deed_s: float = DEED_S
    ping_interval_s: float = PING_INTERVAL_S
    watch_s: float = WATCH_S
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] | None = None
    pace: Pace = Pace()
    oncall: float = 5.0
    look_s: float = PACE_S


AS_USUAL = Limits()


async def serve(settings: Settings | None, open_sources: Opener, changing: Changing, usual: str = "") -> None:
    """Runs until SIGTERM or SIGINT. Raises BotError when it cannot start: settings, tokens, scopes, port or store.

    `usual` is the cluster that is meant where nothing names one.
    """
    if settings is None or settings.slack is None:
        raise UsageError(
            "no Slack tokens are set",
            hint="Set HAMI_BOT_SLACK__BOT_TOKEN and HAMI_BOT_SLACK__APP_TOKEN; docs/slack.md tells how to get them.",
        )
    if settings.replicas > 1 and settings.store.is_one_process_own:
        raise UsageError(
            f"{settings.replicas} replicas cannot share a SQLite file",
            hint="Set HAMI_BOT_STORE__URL to postgresql://USER:PASSWORD@HOST/DATABASE, or HAMI_BOT_REPLICAS to 1.",
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stopped, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(_serve(settings, settings.slack, open_sources, changing, usual, ready, stopped))

    def stop() -> None:
        stopped.set()
        # It may wait for Slack for long. Alerts that it took meanwhile are in the store.
        if not ready.is_set():
            serving.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def _serve(  # noqa: PLR0917  # only `serve` calls it
    settings: Settings,
    slack: SlackSettings,
    open_sources: Opener,
    changing: Changing,
    usual: str,
    ready: asyncio.Event,
    stopped: asyncio.Event,
) -> None:
    async with running(settings, slack, open_sources, changing=changing, usual=usual) as address:
        ready.set()
        log.info("ready at %s", address)
        await stopped.wait()
        log.info("stopping")


@asynccontextmanager
async def running(
    settings: Settings,
    slack: SlackSettings,
    open_sources: Opener,
    limits: Limits = AS_USUAL,
    changing: Changing = READ_ONLY,
    *,
    usual: str = "",
) -> AsyncGenerator[str]:
    """The bot while the context lasts; yields the address of its own port when it is connected to Slack.

    Without `changing` it can only read. `usual`: see `serve`.
    """
    async with AsyncExitStack() as stack:
        store_url = settings.store.url.get_secret_value()
        sender = stack.enter_context(_sender(store_url))
        meant = usual or _only(settings)
        names = tuple(settings.clusters) if not meant else tuple({**dict.fromkeys(settings.clusters), meant: None})
        clusters = await stack.enter_async_context(KeptOpen(open_sources, names, meant))
        looked_after = LookedAfter(settings, names, clusters.get, changing, limits.now or time.time)
        await stack.enter_async_context(looked_after.leading(f"{sender.name}-{uuid.uuid4().hex[:8]}", limits.pace))
        front = Front()
        port = await stack.enter_async_context(_port(settings, slack, front, looked_after))
        client, session = await stack.enter_async_context(
            open_client(slack.api_url, slack.bot_token.get_secret_value())
        )
        gateway = Gateway(client, session)
        start = _Start(front, looked_after, limits.pace.pass_s)
        opening = partial(open_store, store_url, alone=sender.alone, now=limits.now)
        store = await stack.enter_async_context(_opened(opening, gateway, start))
        stack.callback(front.stopping.set)  # before the store is closed
        outbox = Outbox(store, gateway, owner=sender.name)
        work = Work(store, longest_s=limits.answer_s, keeping_s=limits.keeping_s, deed_s=limits.deed_s)
        lent = Lent(
            gateway=gateway,
            outbox=outbox,
            store=store,
            work=work,
            open_sources=clusters.get,
            clusters=names,
            channels={channel: one.cluster for channel, one in settings.channels.items()},
            say=Texts(settings.language),
            bot_user="",
            now=store.now,
            usual=meant,
        )
        oncall_id = uuid.uuid4().hex
        async with incidents_kept(settings, lent, identity=oncall_id, pace=limits.oncall) as kept:
            front.ears = kept and kept.ears
            reached = await _reached(gateway, slack, settings, start)
        lent = lent._replace(bot_user=reached.identity.user_id, workspace=reached.identity.url)
        parts = _Parts(settings, slack, limits, front, looked_after, lent, reached, oncall_id)
        async with _answering(parts):
            yield port


class _Reached(NamedTuple):
    """Who the bot is in Slack, and the address of its first connection in Socket Mode."""

    identity: Identity
    ticket: str = ""


class _Parts(NamedTuple):
    settings: Settings
    slack: SlackSettings
    limits: Limits
    front: Front
    looked_after: LookedAfter
    lent: Lent
    reached: _Reached
    oncall_id: str


@asynccontextmanager
async def _answering(parts: _Parts) -> AsyncGenerator[None]:
    """The bot once Slack and the store are reached; what it had taken is done, or kept, when it returns."""
    settings, slack, limits, front, looked_after, lent, reached, oncall_id = parts
    async with AsyncExitStack() as stack:
        desk = Desk(lent)
        change = looked_after.begin(lent)
        stack.push_async_callback(looked_after.stop)  # before what it was lent is closed
        oncall = await stack.enter_async_context(oncall_desk(settings, desk, identity=oncall_id, pace=limits.oncall))
        front.ears = oncall.ears
        app = build_app(slack.api_url, slack.bot_token.get_secret_value(), reached.identity, lent.work.kept)
        profiling.register(app, desk, ProfileDesk(desk, settings.profiles))
        listen(app, desk, change, oncall)
        sending = await stack.enter_async_context(_background(lent.outbox.run()))
        sockets: Sockets | None = None
        if slack.mode == "socket":
            sockets = Sockets(
                app,
                slack.app_token.get_secret_value(),
                slack.api_url,
                ticket=reached.ticket,
                ping_interval_s=limits.ping_interval_s,
                watch_s=limits.watch_s,
                clock=limits.clock,
            )
            stack.push_async_callback(sockets.close)
        lookout = Lookout(
            lent,
            watched(settings, reached.identity.scopes),
            partial(_live, sockets, lent.outbox, sending),
            owner=uuid.uuid4().hex,
            pace_s=limits.look_s,
        )
        front.why_not_ready, front.notes = lookout.why_not_ready, lookout.notes
        front.app = app
        async with lookout.looking(), _background(_resume(Leftovers(desk), lent.store)) as resuming:
            try:
                if sockets:
                    await sockets.connected()
                yield
            finally:
                front.stopping.set()
                resuming.cancel()
                if sockets:
                    await sockets.close()
                cut = await lent.work.drain(limits.drain_s)
                if cut.kept:
                    text = (
                        "%d questions and deeds were not done in time; after the next start each is done or told about"
                    )
                    log.warning(text, cut.kept)
                if cut.lost:
                    log.error("%d questions and deeds are lost: the store has not kept them", cut.lost)
                await _flush(lent.outbox)


def _port(
    settings: Settings, slack: SlackSettings, front: Front, looked_after: LookedAfter
) -> AbstractAsyncContextManager[str]:
    """The bot's own port, from the start to the end."""
    stopping = front.stopping.is_set
    taking = Slack(lambda: front.app, slack.signing_secret.get_secret_value(), stopping)
    return serve_http(
        settings.http.bind,
        front.readiness,
        taking if slack.mode == "http" else None,
        settings.oncall and intake_of(settings.oncall, front.take, stopping, front.hear),
        notes=lambda: front.notes() + looked_after.trouble(),
    )


class _Start(NamedTuple):
    """What waiting for Slack and the store needs; `pace_s` is between two tries."""

    front: Front
    looked_after: LookedAfter
    pace_s: float

    async def wait(self, why: BotError, at_least_s: float = 0.0) -> None:
        """Until the next try; /readyz and the log say why."""
        if self.front.readiness() != why.message:
            log.error("the start waits: %s", why)
        self.front.is_not_ready(why.message)
        await asyncio.sleep(max(self.pace_s, at_least_s))


@asynccontextmanager
async def _opened(
    opening: Callable[[], AbstractAsyncContextManager[Store]], gateway: Gateway, start: _Start
) -> AsyncGenerator[Store]:
    """The store; it is tried again and again as long as there are changes to be looked after meanwhile.

    Their channels are told. Else, and where the settings make no sense, its error is raised: whoever started the bot
    should see it end.
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
            await start.looked_after.without_store(gateway, why)
        except BotError as error:
            log.warning("nobody is told about the store: %s", error.message)
        if not await start.looked_after.are_possible():
            raise why
        await start.wait(why)


async def _reached(gateway: Gateway, slack: SlackSettings, settings: Settings, start: _Start) -> _Reached:
    """Who the bot is, and with Socket Mode the address of its first connection. Raises WrongInstall.

    It is tried again and again as long as there is something to do meanwhile, alerts to take or changes to look after,
    or Slack asks to wait.
    """
    while True:
        try:
            return await _proven(gateway, slack)
        except WrongInstall as error:
            failure = error.failure
            takes_alerts = settings.oncall is not None and failure is not None and failure.problem is Problem.TRANSIENT
            retry_after = failure.retry_after if failure else 0.0
            if not (takes_alerts or retry_after or await start.looked_after.are_possible()):
                raise
            why = error
        await start.wait(why, retry_after)


async def _proven(gateway: Gateway, slack: SlackSettings) -> _Reached:
    """Who the bot is, and the address of its first connection. Raises WrongInstall if that cannot be learnt, or the
    tokens are not what is needed.
    """
    try:
        identity = await gateway.identity()
    except SlackFailure as failure:
        raise _cannot_start(failure, _GET_BOT_KEY) from failure
    check_scopes(identity.scopes)
    if slack.mode == "http":
        return _Reached(identity)
    try:
        return _Reached(identity, await gateway.open_socket(slack.app_token.get_secret_value()))
    except SlackFailure as failure:
        raise _cannot_start(failure, _GET_APP_KEY) from failure


def _cannot_start(failure: SlackFailure, about_token: str) -> WrongInstall:
    unreached = "Slack was not reached: " if failure.problem is Problem.TRANSIENT else ""
    hint = about_token if failure.problem is Problem.AUTH else failure.hint
    return WrongInstall(f"{unreached}{failure.message}", hint=hint, failure=failure)


def listen(app: App, desk: Desk, change: ChangeDesk, oncall: Oncall) -> None:
    """Registers every feature. The order counts: bolt takes the first listener that matches."""
    features = Grouped()
    listeners.register(features, desk, change)
    triage.register(features, desk, oncall.triage, oncall.digests)
    digest_form.register(features, desk, oncall.digests)
    for feature in (command, mention, buttons, diagnose, fit_form):
        feature.register(features, desk)
    home.register(features, desk, change.access, oncall.triage)
    unheard.register(features)
    features.register(app)


class _Sender(NamedTuple):
    name: str
    alone: bool


@contextlib.contextmanager
def _sender(store_url: str) -> Generator[_Sender]:
    """What this process calls itself in the outbox, and whether it is the only one here that uses the store.

    Alone it has this machine's name, so that after a crash its successor here goes on at once with what was being done,
    and not when the lease has lapsed.

    That is right only while nobody else bears the name: two living senders would take a message out of each other's
    hands and post it twice. Pods are named apart, but two processes of one machine are not, as when the new one starts
    while the old one drains. So whoever bears the name holds a lock, which the kernel frees when a process ends,
    however it ends; who finds it held, or cannot lock here, gets a name of its own and waits for leases like any other
    replica. The lock is an abstract socket, which needs no file: hosts that share a name share their network as well,
    or are separate pods with names of their own.
    """
    name = socket.gethostname()[:_LONGEST_NAME]
    digest = hashlib.sha256(f"{name} {store_url}".encode()).hexdigest()
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0hami-bot-{digest}")
        except OSError as error:
            log.info("another process sends as %s (%s): this one waits for leases", name, error.strerror)
            yield _Sender(uuid.uuid4().hex, alone=False)
            return
        yield _Sender(name, alone=True)


def _live(sockets: Sockets | None, outbox: Outbox, sending: asyncio.Task[None]) -> Facts:
    return Facts(sending.done(), not outbox.ready, sockets.down_for_s() if sockets else 0.0)


async def _resume(leftovers: Leftovers, store: Store) -> None:
    """Answers, now and then, what a process that died left unanswered; forgets what is of no use any more."""
    while True:
        try:
            await store.read_clock()
            await leftovers.resume()
            await store.sweep(store.now())
        except StoreError as error:
            log.warning("%s", error)
        await asyncio.sleep(_RESUME_EVERY_S)


async def _flush(outbox: Outbox) -> None:
    """Gives what is waiting a moment; what stays is sent after the next start."""
    try:
        async with asyncio.timeout(FLUSH_S):
            await outbox.settled()
    except TimeoutError:
        log.warning("%d messages wait in the store for the next start", outbox.waiting())
    except StoreError as error:
        log.warning("what waits in the store for the next start cannot be counted: %s", error)


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None]]:
    """A task for as long as the context lasts; what ends it before stands in the log."""
    task = asyncio.create_task(work)
    task.add_done_callback(_told)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _told(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("%s has stopped", task.get_coro(), exc_info=error)


def _only(settings: Settings) -> str:
    """The one cluster of the settings; empty if there is none, or several."""
    return next(iter(settings.clusters)) if len(settings.clusters) == 1 else ""
