"""Puts together what alerts and triage threads need, from the settings."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from bot.intake import Intake
from bot.settings.schema import ClusterSettings, OncallSettings, Settings
from bot.triage.state import Terms
from bot.triage.webhook import Alert
from handlers.desk import Lent
from handlers.oncall.desk import TriageDesk
from handlers.oncall.digests import Digests
from handlers.oncall.passes import Keeper, Plan
from handlers.oncall.watcher import Patience, Watcher


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
        working += [asyncio.create_task(keeper.run()), asyncio.create_task(watcher.run())]
        secrets = given.token.get_secret_value(), given.user, given.password.get_secret_value()
        triage = TriageDesk(lent, keeper, given.responders, given.rota)
        yield Oncall(digests, triage, Intake(keeper.take, stopping, *secrets))
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


def _plan(given: OncallSettings, clusters: Mapping[str, ClusterSettings], identity: str, pass_s: float) -> Plan:
    terms = Terms(given.settled_minutes * 60.0, given.reopen_minutes * 60.0, given.call_minutes * 60.0, given.rota)

    def cluster_of(one: Alert) -> str:
        return one.cluster if one.cluster in clusters else given.cluster

    return Plan(given.channel, terms, cluster_of, identity, pass_s)
