"""Puts together what alerts and triage threads need, from the settings."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from bot.intake import Intake
from bot.settings.schema import ClusterSettings, OncallSettings, Settings
from bot.slack.failures import Problem, SlackFailure
from bot.triage.state import Terms
from bot.triage.webhook import Alert
from handlers.desk import Lent
from handlers.oncall.desk import TriageDesk
from handlers.oncall.digests import Digests
from handlers.oncall.passes import Keeper, Plan
from handlers.oncall.watcher import Patience, Watcher

log = logging.getLogger(__name__)


class Oncall(NamedTuple):
    """What listens for people, and what takes alerts. Without settings for alerts there are digests only."""

    digests: Digests
    triage: TriageDesk | None = None
    intake: Intake | None = None


@asynccontextmanager
async def oncall_desk(
    settings: Settings, lent: Lent, *, identity: str, stopping: Callable[[], bool], pace: float
) -> AsyncGenerator[Oncall]:
    """While it lasts, digests are posted and incidents looked after, these every `pace` seconds.

    `identity` is this process's alone.
    """
    digests, given = Digests(lent), settings.oncall
    working = [asyncio.create_task(digests.run())]
    try:
        if given is None:
            yield Oncall(digests)
            return
        keeper = Keeper(lent, _plan(given, settings.clusters, identity, pace))
        patience = Patience(given.pending_minutes, given.pending_minutes_in)
        watcher = Watcher(lent, keeper, tuple(settings.clusters) or ("",), patience, identity)
        works = keeper.run(), watcher.run(), _told_if_no_member(lent, given.channel)
        working += map(asyncio.create_task, works)
        secrets = given.token.get_secret_value(), given.user, given.password.get_secret_value()
        triage = TriageDesk(lent, keeper, given.responders, given.rota)
        yield Oncall(digests, triage, Intake(keeper.take, stopping, *secrets))
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def _told_if_no_member(lent: Lent, channel: str) -> None:
    """What nobody could read in Slack has to be in the log."""
    try:
        await lent.gateway.find(channel, "triage", oldest=lent.now())
    except SlackFailure as failure:
        if failure.problem in {Problem.FORBIDDEN, Problem.GONE}:
            log.warning("no triage thread can be opened in oncall.channel %s, invite me: %s", channel, failure.message)


def _plan(given: OncallSettings, clusters: Mapping[str, ClusterSettings], identity: str, pass_s: float) -> Plan:
    terms = Terms(given.settled_minutes * 60.0, given.reopen_minutes * 60.0, given.call_minutes * 60.0, given.rota)

    def cluster_of(one: Alert) -> str:
        return one.cluster if one.cluster in clusters else given.cluster

    return Plan(given.channel, terms, cluster_of, identity, pass_s)
