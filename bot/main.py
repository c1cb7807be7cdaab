"""The Slack bot as a process: proves its tokens, listens, answers, and stops without losing work it had accepted."""

import asyncio
import contextlib
import logging
import signal
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from bot.errors import UsageError
from bot.gc_tuning import keep_what_is_loaded
from bot.health import HealthFacts
from bot.http import Slack, serve_http
from bot.kube.client.live import LiveCluster
from bot.kube.client.writer import Writer
from bot.kube.watch.cache import CachedCluster, WatchCache
from bot.metrics import metrics_route
from bot.periodic_jobs import Clock, in_background
from bot.readiness import Front, SlackIdentity, Start, slack_reached, store_opened
from bot.settings import load_settings
from bot.settings.schema import Settings, SlackSettings
from bot.slack.app import App, build_app
from bot.slack.calls import open_client
from bot.slack.connection import PING_INTERVAL_S, WATCH_S, Sockets
from bot.slack.gateway import Gateway
from bot.slack.outbox import Outbox
from bot.slack.question_tasks import DEED_S, KEEPING_S, LONGEST_S, Work
from bot.store import StoreError, open_store
from bot.store.base import BEAT_S
from bot.store.engine import sender
from bot.texts import Text, Texts
from handlers import home, question_listeners
from handlers.changes import listeners
from handlers.changes.leader_pass import Pace
from handlers.changes.request import ChangeSnapshot
from handlers.changes.service import ChangeService
from handlers.changes.setup import READ_ONLY, ChangeDeps, ChangeSupervisor
from handlers.cluster_choice import ClusterChoice, open_sources, open_writing
from handlers.deps import Deps, KeptOpen, Opener
from handlers.doctor import slack_command
from handlers.doctor.checks import examine
from handlers.gate import Gate, home_of
from handlers.health_monitor import PACE_S, TEST_PACE_S, HealthMonitor, SelfTest, watched
from handlers.inbox import Inbox
from handlers.metrics_poller import Observer
from handlers.oncall import listeners as triage
from handlers.oncall.setup import Oncall, incidents_kept, oncall_desk, posts_of
from handlers.profiles import service as profiling
from handlers.profiles.service import ProfileService
from handlers.shell_commands import write_capture
from handlers.unfinished_work import Leftovers
from playbooks.own import discovery as own
from playbooks.own.discovery import find
from playbooks.playbook import Sources, load

FLUSH_S = 5.0
_TURN_S = 0.001
"""Seconds that a thread may keep the event loop waiting. Python's 5 ms add up: an ack waits several times."""

log = logging.getLogger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """The times of a bot, in seconds. `answer_s`: the longest answer; `drain_s`: how long the end waits for answers;
    `keeping_s` and `deed_s`: how long an ack waits until the store has a question, or a person's deed.
    `ping_interval_s` and `watch_s`: how often connections are pinged and checked, by `clock`. `now` is the time since
    1970, by default the store's. `pace` says how often temporary changes are looked after; `oncall`, `look_s` and
    `test_s`, how often incidents, the bot's health, and its self-test.
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
    test_s: float = TEST_PACE_S


AS_USUAL = Limits()
BY_ENVIRONMENT: slack_command.Examine = partial(examine, ClusterChoice())


async def serve(where: ClusterChoice) -> None:
    """Runs the bot until SIGTERM or SIGINT. Raises BotError when settings, tokens, port or store prevent the start."""
    settings, slack = _required(load_settings(where.config))
    for verb in load():
        find(verb)  # imported here, no first question holds up the acks of those that come with it
    from bot.logs import set_up  # noqa: PLC0415  # structlog takes 0.1 s, which tests of a bot in their process do without

    set_up(settings.log_format)
    own.use(lambda: settings.playbooks.folder)
    own.import_all()  # whatever does not work is in the log, before the first question
    own.log_left_out()
    keep_what_is_loaded()
    sys.setswitchinterval(_TURN_S)
    stopped, ready = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        def opener(cluster: str) -> AbstractAsyncContextManager[Sources]:
            return open_watched(_named(where, cluster))

        changing, examining = _changing(where), partial(examine, where)
        async with running(
            settings, slack, opener, changing=changing, examining=examining, usual=where.cluster
        ) as address:
            ready.set()
            log.info("ready at %s", address)
            await stopped.wait()
            log.info("stopping")

    serving = asyncio.create_task(run())

    def stop() -> None:
        stopped.set()
        # It may wait for Slack for long. Alerts that it took meanwhile are in the store.
        if not ready.is_set():
            serving.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _required(settings: Settings | None) -> tuple[Settings, SlackSettings]:
    """The settings, if a bot in Slack can run with them; else raises UsageError."""
    if settings is None or settings.slack is None:
        raise UsageError(
            Text("error-serve.no-slack-tokens-are-set"),
            hint=Text("error-serve.set-slack-tokens"),
        )
    if settings.replicas > 1 and settings.store.is_one_process_own:
        raise UsageError(
            Text("error-serve.replicas-share-sqlite", replicas=settings.replicas),
            hint=Text("error-serve.set-store-or-replicas"),
        )
    return settings, settings.slack


@asynccontextmanager
async def open_watched(where: ClusterChoice) -> AsyncGenerator[Sources]:
    """Opens a cluster as `open_sources` does, and keeps in memory what every question reads of a live one."""
    async with open_sources(where) as sources:
        if not isinstance(sources.cluster, LiveCluster):
            yield sources
            return
        async with WatchCache(sources.cluster) as cache:
            yield sources._replace(cluster=CachedCluster(cache))


def _named(where: ClusterChoice, cluster: str) -> ClusterChoice:
    return where._replace(cluster=cluster or where.cluster)


def _changing(where: ClusterChoice) -> ChangeDeps:
    async def keep(cluster: str, found: ChangeSnapshot, out: Path) -> str:
        async with open_sources(_named(where, cluster)) as sources:
            return await write_capture(sources, found, out)

    def writing(cluster: str) -> AbstractAsyncContextManager[Writer | None]:
        return open_writing(_named(where, cluster))

    return ChangeDeps(writing, keep)


@asynccontextmanager
async def running(
    settings: Settings,
    slack: SlackSettings,
    open_sources: Opener,
    limits: Limits = AS_USUAL,
    changing: ChangeDeps = READ_ONLY,
    *,
    examining: slack_command.Examine = BY_ENVIRONMENT,
    usual: str = "",
) -> AsyncGenerator[str]:
    """Runs the bot while the context lasts; yields the address of its own port when it is connected to Slack. Without
    `changing` it can only read; `examining` runs `doctor`'s checks; `usual` is the cluster of a question that names
    none.
    """
    async with AsyncExitStack() as stack:
        store_url = settings.store.url.get_secret_value()
        sending_as = stack.enter_context(sender(store_url))
        meant = usual or (next(iter(settings.clusters)) if len(settings.clusters) == 1 else "")
        names = tuple(dict.fromkeys(filter(None, (*settings.clusters, meant))))
        clusters = await stack.enter_async_context(KeptOpen(open_sources, names, meant))
        change_supervisor = ChangeSupervisor(settings, names, clusters.get, changing, limits.now or time.time)
        clock = await stack.enter_async_context(Clock())
        identity = f"{sending_as.name}-{uuid.uuid4().hex[:8]}"
        await stack.enter_async_context(change_supervisor.leading(identity, limits.pace, clock))
        front = Front()
        port = await stack.enter_async_context(_port(settings, slack, front, change_supervisor))
        client, session = await stack.enter_async_context(
            open_client(slack.api_url, slack.bot_token.get_secret_value())
        )
        gateway = Gateway(client, session, newer=slack.newer_blocks)
        start = Start(front, limits.pace.pass_s, change_supervisor.are_possible, change_supervisor.without_store)
        keys = settings.store.audit_keys
        opening = partial(open_store, store_url, alone=sending_as.alone, now=limits.now, audit_keys=keys)
        store = await stack.enter_async_context(store_opened(opening, gateway, start))
        stack.callback(front.stopping.set)  # before the store is closed
        await stack.enter_async_context(in_background(clock.repeat(BEAT_S, "a sign of life", store.hold)))
        outbox = Outbox(store, gateway, owner=sending_as.name)
        work = Work(store, longest_s=limits.answer_s, keeping_s=limits.keeping_s, deed_s=limits.deed_s)
        deps = Deps(
            gateway=gateway,
            outbox=outbox,
            store=store,
            work=work,
            open_sources=clusters.get,
            clusters=names,
            channels={channel: entry.cluster for channel, entry in settings.channels.items()},
            say=Texts(settings.language),
            bot_user="",
            now=store.now,
            usual=meant,
            mine=settings.mine,
        )
        oncall_id = uuid.uuid4().hex
        async with incidents_kept(settings, deps, clock, identity=oncall_id, pace=limits.oncall) as kept:
            front.ears = kept and kept[1]
            who = await slack_reached(gateway, slack, settings, start)
        deps = msgspec.structs.replace(deps, bot_user=who.identity.user_id, workspace=who.identity.url)
        async with _answering(
            settings,
            slack,
            limits,
            clock,
            front=front,
            change_supervisor=change_supervisor,
            deps=deps,
            who=who,
            oncall_id=oncall_id,
            examining=examining,
        ):
            yield port


@asynccontextmanager
async def _answering(
    settings: Settings,
    slack: SlackSettings,
    limits: Limits,
    clock: Clock,
    *,
    front: Front,
    change_supervisor: ChangeSupervisor,
    deps: Deps,
    who: SlackIdentity,
    oncall_id: str,
    examining: slack_command.Examine,
) -> AsyncGenerator[None]:
    """The bot once Slack and the store are reached; what it had taken is done, or kept, when it returns."""
    async with AsyncExitStack() as stack:
        inbox = Inbox(deps)
        change = change_supervisor.begin(deps)
        stack.push_async_callback(change_supervisor.stop)  # before its dependencies are closed
        keeping = oncall_desk(settings, inbox, clock, identity=oncall_id, pace=limits.oncall)
        oncall = await stack.enter_async_context(keeping)
        front.ears = oncall.ears
        gate = Gate(deps, home_of(settings.access, who.identity))
        bot_token = slack.bot_token.get_secret_value()
        app = build_app(slack.api_url, bot_token, who.identity, deps.work.kept, lets_in=gate.lets_in, app_id=who.app_id)
        profiles = ProfileService(inbox, settings.profiles)
        listen(app, inbox, change, oncall, profiles, examining)
        (sending,) = await stack.enter_async_context(in_background(deps.outbox.run()))
        sockets: Sockets | None = None
        if slack.mode == "socket":
            sockets = Sockets(
                app,
                slack.app_token.get_secret_value(),
                slack.api_url,
                ticket=who.ticket,
                ping_interval_s=limits.ping_interval_s,
                watch_s=limits.watch_s,
                clock=limits.clock,
            )
            stack.push_async_callback(sockets.close)
        health_monitor = HealthMonitor(
            deps,
            watched(settings),
            lambda: HealthFacts(sending.done(), not deps.outbox.ready, sockets.down_for_s() if sockets else 0.0),
            owner=uuid.uuid4().hex,
            pace_s=limits.look_s,
            clock=limits.clock,
        )
        front.why_not_ready, front.notes = health_monitor.why_not_ready, health_monitor.notes
        front.app = app
        if settings.metrics:
            await stack.enter_async_context(in_background(Observer(deps, front.exposition.figures).run(clock)))
        self_test = SelfTest(deps, owner=uuid.uuid4().hex, pace_s=limits.test_s)
        await stack.enter_async_context(in_background(self_test.run(clock)))
        await stack.enter_async_context(in_background(inbox.watches.run(clock)))
        async with in_background(Leftovers(inbox, gate).run(clock), health_monitor.run(clock)) as (resuming, _):
            try:
                if sockets:
                    await sockets.connected()
                yield
            finally:
                front.stopping.set()
                resuming.cancel()
                if sockets:
                    await sockets.close()
                cut = await deps.work.drain(limits.drain_s)
                if cut.kept:
                    text = (
                        "%d questions and deeds were not done in time; after the next start each is done or told about"
                    )
                    log.warning(text, cut.kept)
                if cut.lost:
                    log.error("%d questions and requests are lost: the store did not keep them", cut.lost)
                with contextlib.suppress(StoreError):  # they lapse
                    await deps.store.let_go(await deps.store.held_keys())
                await _flush(deps.outbox)


def _port(
    settings: Settings, slack: SlackSettings, front: Front, change_supervisor: ChangeSupervisor
) -> AbstractAsyncContextManager[str]:
    stopping = front.stopping.is_set
    taking = Slack(lambda: front.app, slack.signing_secret.get_secret_value(), stopping)
    return serve_http(
        settings.http.bind,
        front.readiness,
        taking if slack.mode == "http" else None,
        posts_of(settings.oncall, front.take, stopping, front.hear) if settings.oncall else {},
        notes=lambda: front.notes() + change_supervisor.trouble(),
        metrics=settings.metrics and metrics_route(front.exposition, settings.metrics.token.get_secret_value()),
    )


def listen(  # noqa: PLR0917  # each feature
    app: App,
    inbox: Inbox,
    change: ChangeService,
    oncall: Oncall,
    profiles: ProfileService,
    examining: slack_command.Examine,
) -> None:
    """Registers the listeners of every feature. The order counts: bolt and the table of verbs take the first match."""
    verbs = (
        profiling.register(app, inbox, profiles),
        slack_command.answering(inbox, change.guard, examining),
        listeners.register(app, inbox, change),
        triage.register(app, inbox, oncall.triage, oncall.digests),
    )
    question_listeners.register(app, inbox, verbs)
    home.register(app, inbox, change.access, oncall.triage)
    question_listeners.register_unhandled(app)


async def _flush(outbox: Outbox) -> None:
    """Gives what is waiting a moment; what stays is sent after the next start."""
    try:
        async with asyncio.timeout(FLUSH_S):
            await outbox.settled()
    except TimeoutError:
        log.warning("%d messages are kept in the store for the next start", outbox.waiting())
    except StoreError as error:
        log.warning("the messages kept in the store for the next start cannot be counted: %s", error)
