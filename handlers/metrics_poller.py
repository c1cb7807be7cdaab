"""Reads the clusters and the store every minute, for /metrics: a scrape itself reads nothing."""

import asyncio
import logging
import time
from collections import Counter
from datetime import UTC, datetime
from typing import cast

from bot import process_counters
from bot.errors import BotError, bugs_as_errors
from bot.finding_codes import Code
from bot.hami.scheduler_logs.filter_runs import EVENT, SchedulerCall, read_calls
from bot.hami.scheduler_logs.log_lines import NODE_UNFIT
from bot.hami.scheduler_logs.scheduling_latency import NEEDLE
from bot.health import SteadyAge
from bot.metrics import BotFigures, ClusterFigures, Figures, PendingPod, count_pending, gaps_by_source, largest_by_type
from bot.periodic_jobs import Clock
from bot.report import Report
from bot.rows import GpuRow
from bot.store import StoreError
from bot.texts import in_english
from bot.triage.summary import ENDS
from handlers.deps import Deps
from handlers.doctor.checks import blind_marks
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines
from playbooks.gather.scheduling import gather_install
from playbooks.own.discovery import find
from playbooks.pending.rows import PendingRow
from playbooks.playbook import Sources

PACE_S = 60.0
_WITHIN_S = 120.0
_LOG_S = 180
"""Seconds of log that are read: enough for a filter that began before the last look, and for a look that is late."""

log = logging.getLogger(__name__)


class Observer:
    """Fills the metrics of /metrics. Each replica reads for itself: what it reads of a cluster is in memory already."""

    def __init__(self, deps: Deps, figures: Figures) -> None:
        self._deps = deps
        self._figures = figures
        self._turn = asyncio.Lock()
        self._waiting = SteadyAge()
        self._calls = SchedulerCalls()

    async def run(self, clock: Clock) -> None:
        """Looks at once, and then every `PACE_S` seconds until it is cancelled."""
        await clock.repeat(PACE_S, "a look for the metrics ended early", self.look)

    async def look(self) -> None:
        """Reads the store and all clusters at once, so that a cluster that hangs does not delay the others' metrics."""
        await asyncio.gather(self._ask_store(), *map(self._see, self._deps.clusters or ("",)))

    async def _ask_store(self) -> None:
        try:
            self._figures.bot = await self._own()
            self._figures.blind = frozenset(await blind_marks(self._deps.store.marks))
        except StoreError as error:
            if self._figures.bot:
                log.warning("no metrics of the store: %s", in_english(error.message))
            self._figures.bot = None

    async def _see(self, cluster: str) -> None:
        seen: ClusterFigures | None = None
        try:
            async with asyncio.timeout(_WITHIN_S):
                with bugs_as_errors():
                    async with self._deps.open_sources(cluster) as sources:
                        seen = await look_at(sources, self._turn)
                        await self._calls.look(cluster, sources, self._turn)
        except (BotError, TimeoutError) as error:
            log.warning("no metrics of the cluster %s: %s", cluster or "(default)", error)
        self._figures.clusters = {**self._figures.clusters, cluster: seen}

    async def _own(self) -> BotFigures:
        store, work = self._deps.store, self._deps.work
        now, at = self._deps.now(), time.monotonic()
        changes = [change for name in self._deps.clusters or ("",) for change in await store.changes(name).opened()]
        oldest = await store.outbox.oldest()
        states = [row.incident.state for row in await store.incidents.opened()]
        return BotFigures(
            open_changes=len(changes),
            overdue_changes=sum(change.record.deadline < now for change in changes),
            incidents=Counter(state for state in states if state not in ENDS),
            unsent_messages=await store.outbox.waiting(),
            oldest_unsent_s=self._waiting.of(now - oldest[1] if oldest else 0.0, at),
            questions=len(work),
            oldest_question_s=work.oldest_s,
        )


class SchedulerCalls:
    """Counts the filters and binds in the logs of HAMi's scheduler, each once. Calls that ended before the first look
    do not count: a bot that ran before has counted them.
    """

    def __init__(self) -> None:
        self._counted: dict[str, dict[tuple[str, ...], SchedulerCall]] = {}
        """By cluster: the calls that the log still shows."""

    async def look(self, cluster: str, sources: Sources, turn: asyncio.Lock) -> None:
        """Counts new calls in the scheduler's log. Logs that cannot be read are left out, without an error."""
        install, now = (await gather_install(sources)).install, sources.cluster.now()
        read = await gather_extender_lines(sources.cluster, install, (NEEDLE, EVENT, *NODE_UNFIT), since_s=_LOG_S)
        async with turn:
            calls = await asyncio.to_thread(_calls_of, read, now)
        for verb in ("filter", "bind"):
            process_counters.SCHEDULER_CALLS.begin(cluster, verb)
        known = self._counted.get(cluster, calls)
        for call in (call for key, call in calls.items() if key not in known):
            process_counters.SCHEDULER_CALLS.observe(call.seconds, cluster, call.verb)
            process_counters.REFUSALS.update((cluster, code) for code in call.codes)
        oldest = min((call.at for call in calls.values()), default=datetime.min.replace(tzinfo=UTC))
        self._counted[cluster] = {key: call for key, call in {**known, **calls}.items() if call.at >= oldest}


def _calls_of(read: ExtenderLines, now: datetime) -> dict[tuple[str, ...], SchedulerCall]:
    by_pod: dict[str, list[str]] = {}
    for scheduler, raw in read.lines:
        by_pod.setdefault(scheduler.name, []).append(raw)
    found = ((name, call) for name, lines in by_pod.items() for call in read_calls(lines, now))
    return {(name, call.verb, call.pod, call.at.isoformat()): call for name, call in found}


async def look_at(sources: Sources, turn: asyncio.Lock) -> ClusterFigures:
    """Reads the cluster's figures from the playbooks `pending` and `gpus`. Raises SourceError if one cannot answer.
    `turn` is held while a processor is busy with it: one cluster at a time, or many would hold up acks.
    """
    began = time.monotonic()
    pending, gpus = await _asked(sources, "pending", turn), await _asked(sources, "gpus", turn)
    now = sources.cluster.now()
    cards = gpus.typed(GpuRow)
    waiting: list[PendingPod] = []
    for row in pending.typed(PendingRow):
        age_s = (now - row.waiting_since).total_seconds() if row.waiting_since else 0.0
        waiting.append(PendingPod(row.namespace, cast("Code | None", row.cause), max(0.0, age_s), row.waits_for))
    return ClusterFigures(
        waiting=count_pending(waiting),
        gpus=Counter(card.state for card in cards),
        largest_free_mib=largest_by_type((card.type, card.room) for card in cards),
        gaps=gaps_by_source(gap.source for gap in (*pending.gaps, *gpus.gaps)),
        took_s=time.monotonic() - began,
        at=now.timestamp(),
        cache_age_s=sources.cluster.cache_age_s,
    )


async def _asked(sources: Sources, verb: str, turn: asyncio.Lock) -> Report:
    playbook = find(verb)
    snapshot = await playbook.gather(playbook.request(all=True), sources)
    async with turn:
        return await asyncio.to_thread(playbook.diagnose, snapshot)
