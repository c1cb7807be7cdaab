"""Puts together what alerts and triage threads need, from the settings."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from msgspec.structs import replace

from bot.digest.schedule import Schedule, read_words
from bot.endpoint import ALERTS_PATH, Handler, Take, alerts_route
from bot.pager import Hear, pager_routes, services_of
from bot.periodic_jobs import Clock, in_background
from bot.readiness import Receivers
from bot.settings.oncall import OncallSettings
from bot.settings.schema import Settings
from bot.store.digests import GivenDigest
from bot.triage.hours import read_hours
from bot.triage.state import IncidentTimes
from handlers.deps import Deps
from handlers.health_monitor import noting_watchdog
from handlers.inbox import Inbox
from handlers.oncall.calling import OncallPlan
from handlers.oncall.digests import Digests
from handlers.oncall.keeper import Keeper
from handlers.oncall.paging import Paging
from handlers.oncall.service import TriageService
from handlers.oncall.watcher import Patience, Watcher


class Oncall(NamedTuple):
    """The parts of on-call that take people's requests and alerts; only `digests` without settings for alerts."""

    digests: Digests
    triage: TriageService | None = None
    ears: Receivers | None = None


@asynccontextmanager
async def oncall_desk(
    settings: Settings, inbox: Inbox, clock: Clock, *, identity: str, pace: float
) -> AsyncGenerator[Oncall]:
    """Posts digests and, every `pace` seconds, looks after incidents; `identity` is a name only this process has."""
    deps, given = inbox.deps, settings.oncall
    reading = replace(deps, open_sources=inbox.reading)  # whoever asks for digests waits as for other answers
    async with incidents_kept(settings, deps, clock, identity=identity, pace=pace) as kept:
        keeper, ears = kept or (None, None)
        triage = TriageService(deps, keeper, given.responders) if keeper and given else None
        named = ((room, one.cluster, read_words(one.digest.split())) for room, one in settings.channels.items())
        of_settings = [GivenDigest(room, cluster, when) for room, cluster, when in named if isinstance(when, Schedule)]
        digests = Digests(reading, report=triage and triage.posted_report, given=of_settings)
        async with in_background(digests.run(clock)):
            yield Oncall(digests, triage, ears)


@asynccontextmanager
async def incidents_kept(
    settings: Settings, deps: Deps, clock: Clock, *, identity: str, pace: float
) -> AsyncGenerator[tuple[Keeper, Receivers] | None]:
    """Watches clusters, looks after incidents and tells pagers while the context lasts; None without settings for
    alerts.

    Gives the keeper, and the receivers of alerts and of pagers' posts. Slack need not have been reached: messages wait
    in the outbox, and anything that needs the bot's identity is left out.
    """
    given = settings.oncall
    if given is None:
        yield None
        return
    keeper = Keeper(deps, plan(given, deps, identity, pace))
    patience = Patience(given.pending_minutes, given.pending_minutes_in)
    watcher = Watcher(deps, keeper, deps.clusters or (deps.usual,), patience, identity)
    paging = Paging(deps, given.paging, identity, pace, keeper.soon)
    take = noting_watchdog(keeper.take, deps.store.marks) if given.watchdog_minutes else keeper.take
    async with in_background(keeper.run(clock), watcher.run(clock), paging.run(clock)):
        yield keeper, Receivers(take, paging.hear)


def posts_of(given: OncallSettings, take: Take, stopping: Callable[[], bool], hear: Hear) -> dict[str, Handler]:
    """The HTTP handlers, by path, for alerts (which need the settings' credentials) and for what pagers post."""
    token, password = given.token.get_secret_value(), given.password.get_secret_value()
    alerts = alerts_route(take, stopping, token=token, user=given.user, password=password)
    return {ALERTS_PATH: alerts, **pager_routes(given.paging, hear, stopping)}


def plan(given: OncallSettings, deps: Deps, identity: str, pass_s: float) -> OncallPlan:
    """The plan by which incidents are looked after. An alert that names no cluster is about the usual one."""
    terms = IncidentTimes(
        given.settled_minutes * 60.0,
        given.reopen_minutes * 60.0,
        given.call_minutes * 60.0,
        given.rota,
        silent_s=given.silent_hours * 3600.0,
        last_resort=given.last_resort,
        repeat_s=given.repeat_minutes * 60.0,
        lapse_s=given.lapse_minutes * 60.0,
        hours=read_hours(given.hours),
        critical_at_once=given.critical_at_once,
        pagers=services_of(given.paging),
    )
    usual = given.cluster or deps.usual
    return OncallPlan(
        given.channel,
        terms,
        deps.clusters,
        usual,
        identity,
        pass_s,
        pagerduty=given.pagerduty,
        threads_per_minute=given.threads_per_minute,
        routes=tuple(route.route() for route in given.routes),
    )
