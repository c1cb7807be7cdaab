"""Looks after incidents without people: sorts alerts by cause, does what is due, keeps threads up to date.

Every step can be repeated: its result stands in the store before it is told, and each message has a key in the outbox.
If it is killed anywhere, or two replicas do it at once, the result is the same.
"""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import msgspec

from bot.errors import BotError, SourceError, bugs_as_errors
from bot.periodic_jobs import Clock, Job, retried
from bot.slack.render.triage_head import render_reminder
from bot.store import StoreError
from bot.store.incidents import IncidentRow
from bot.texts import Text
from bot.triage.state import NO_NODES, Nodes
from bot.triage.webhook import ALERTMANAGER, Alert
from handlers.deps import Deps, TaskLease
from handlers.oncall.alert_sorter import AlertSorter
from handlers.oncall.calling import PATIENCE_S, OncallPlan, Rota, incidents_acted_on, needs_rota, terms_now
from handlers.oncall.causes import registration_state
from handlers.oncall.incident_threads import IncidentThreads, attempt

LISTENED_S = 900.0
"""Seconds after which a new process has got what Alertmanager could not send before: Alertmanager repeats it while the
alert fires, at least each `group_interval`, which is 5 minutes unless somebody set it.
"""
LOOKED_S = 60.0
"""Seconds between two looks at a node whose registration ends a mute."""
REMINDERS = "remind:"
"""The prefix of the marks of reminders; then come the incident and the person. A mark's text is when it is due."""
LEASE = "triage"
LEASE_S = 8.0
_NEVER = -math.inf, NO_NODES

log = logging.getLogger(__name__)


class Keeper:
    """Looks after all open incidents, each in its channel."""

    def __init__(self, deps: Deps, plan: OncallPlan) -> None:
        self._deps = deps
        self._store = deps.store
        self._plan = plan
        self.terms = plan.terms
        self.rota = Rota(plan.terms.rota, plan.pagerduty, plan.clock)
        self._looked: dict[str, tuple[float, Nodes]] = {}
        """By cluster, when a look at its nodes began, and what was seen of them."""
        self._passes = Job(retried("a pass over the incidents ended early", self._pass))
        self._asking: dict[tuple[str, str], asyncio.Task[bool]] = {}
        self.soon = self._passes.soon
        """Begins the next pass now: a person did something that the thread is to tell."""
        self.sorter = AlertSorter(deps, plan, self.soon)
        self._incident_threads = IncidentThreads(deps, plan.terms, self.rota, self.soon)
        self._lease = TaskLease(deps, LEASE, plan.owner, LEASE_S)
        self._began = plan.clock()
        self._has_reconsidered = False

    async def take(self, given: list[Alert]) -> None:
        """Stores alerts, and returns once they are kept: their sender waits for nothing else. Raises StoreError."""
        if await self._store.alerts.take(given):
            self.soon()

    async def run(self, clock: Clock) -> None:
        """Makes one pass after the other, until it is cancelled; in one replica at a time, as long as it lives."""
        try:
            await self._passes.run(clock, self._plan.pass_s)
        finally:
            for task in self._asking.values():
                task.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _pass(self) -> None:
        if await self._lease.is_mine():
            await self.look(0)

    async def look(self, patience_s: float | None = None) -> None:
        """Makes one pass over open incidents. Waits `patience_s` seconds for clusters, which go on (None: for all)."""
        self._asking = {key: task for key, task in self._asking.items() if not task.done()}
        longest = self._plan.terms.silent_s
        # Alertmanager repeats what fires. Who was not there to hear it concludes nothing from that it was silent.
        if longest and self._plan.clock() - self._began >= LISTENED_S:
            await self._store.alerts.silence(ALERTMANAGER, self._deps.now() - longest)
        if not self._has_reconsidered:  # after a start the routes may be others
            await self._store.alerts.reconsider()
            self._has_reconsidered = True
        asking = await self._ask(await self._threads())
        await self._remind()
        if not asking:
            return
        answered, _ = await asyncio.wait(asking, timeout=patience_s)
        if True in {task.result() for task in answered}:
            await self._threads()

    async def _remind(self) -> None:
        """Reminds people in the thread, once, and only while the incident is open."""
        for mark in await self._store.marks.all(REMINDERS):
            if float(mark.text) > self._deps.now():
                continue
            incident, user = mark.name.removeprefix(REMINDERS).split(":")
            row = await self._store.incidents.get(incident)
            if row and row.thread_ts and row.incident.is_open:
                message = render_reminder(user, row.incident.state).in_words(self._deps.say)
                await self._deps.outbox.put(f"{mark.name}:{mark.text}", row.channel, message, thread_ts=row.thread_ts)
            await self._store.marks.drop(mark.name, mark.text)

    async def _threads(self) -> list[IncidentRow]:
        """Keeps the threads up to date with the store, which no cluster can hold up."""
        rows = await self._store.incidents.opened()
        if any(not row.thread_ts for row in rows):
            await self._store.incidents.find_threads()
            rows = await self._store.incidents.opened()
        if not rows:
            return rows
        counts = await self._store.alerts.counts([row.id for row in rows])
        untold = await self._store.timeline.to_tell()
        if needs_rota(rows, counts, self.terms, self.rota, self._deps.now()):
            self._begin("the rota", "", self._ask_rota)
        terms = terms_now(self.terms, self.rota)
        acted = incidents_acted_on(await self._store.unfinished_payloads())
        for row in rows:
            try:
                with bugs_as_errors():
                    looked_at, nodes = self._looked.get(row.cluster, _NEVER)
                    # A look before the incident was muted ends no mute.
                    seen = nodes if looked_at >= row.incident.since else NO_NODES
                    is_acted_on = row.id in acted or (row.channel, row.thread_ts) in acted
                    its = msgspec.structs.replace(terms, call_s=0.0) if is_acted_on else terms
                    await self._incident_threads.keep(row, its, counts[row.id], seen, untold.get(row.id, ()))
            except StoreError:
                raise
            except BotError as error:  # of one incident: the others are looked after
                log.warning("the incident %s: %s", row.id, error)
        return rows

    async def _ask_rota(self) -> bool:
        await self.rota.now()
        self.soon()
        return True

    async def _ask(self, rows: Sequence[IncidentRow]) -> list[asyncio.Task[bool]]:
        """Begins what needs a cluster, for each by itself: one that hangs holds up no other, and no person."""
        labels = await self._store.alerts.unsorted_labels()
        for cluster in {label if label in self._plan.clusters else self._plan.usual for label in labels}:
            self._begin("causes", cluster, partial(self.sorter.sort, cluster))
        unproven: defaultdict[str, list[IncidentRow]] = defaultdict(list)
        lost: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            if row.thread_ts and not row.proven:
                unproven[row.cluster].append(row)
            if row.incident.state == "muted" and row.incident.muted_until.node:
                lost[row.cluster].add(row.incident.muted_until.node)
        for cluster, these in unproven.items():
            self._begin("evidence", cluster, partial(self._incident_threads.prove, these))
        for cluster, nodes in lost.items():
            if self._deps.now() - self._looked.get(cluster, _NEVER)[0] >= LOOKED_S:
                self._begin("nodes", cluster, partial(self._look_for, cluster, nodes))
        return list(self._asking.values())

    def _begin(self, what: str, cluster: str, work: Callable[[], Awaitable[bool]]) -> None:
        if (what, cluster) not in self._asking or self._asking[what, cluster].done():
            subject = f"{what} in {cluster}" if cluster else what
            self._asking[what, cluster] = asyncio.create_task(attempt(subject, work))

    async def _look_for(self, cluster: str, nodes: Collection[str]) -> bool:
        """Which of the nodes are registered by now, or gone; returns whether any is."""
        began = self._deps.now()
        self._looked[cluster] = began, NO_NODES
        try:
            async with asyncio.timeout(PATIENCE_S), self._deps.open_sources(cluster) as sources:
                found = {node: await registration_state(sources, node) for node in sorted(nodes)}
        except TimeoutError as error:
            raise SourceError(Text("error-usage.no-answer-within", seconds=f"{PATIENCE_S:g}")) from error
        registered = frozenset(node for node, state in found.items() if state == "registered")
        gone = frozenset(node for node, state in found.items() if state == "unknown")
        self._looked[cluster] = began, Nodes(registered, gone)
        if registered or gone:
            self.soon()
        return bool(registered or gone)
