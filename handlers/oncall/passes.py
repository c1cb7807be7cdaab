"""What is done about incidents by itself: alerts sorted by cause, time passing, threads kept up to date.

Every step can be done again: what it does stands in the store before it is told, and what is told has a key in the
outbox. Killed anywhere, or done by two replicas at once, it comes to the same.
"""

import asyncio
import hashlib
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import msgspec

from bot import request_ids
from bot.errors import BotError, SourceError
from bot.periodic_jobs import Clock
from bot.report import SEVERITIES
from bot.settings.oncall import PagerDutySettings
from bot.slack.message import Message
from bot.slack.outbox import Severity
from bot.slack.render.prose import progress
from bot.slack.render.storm import digest_of
from bot.slack.render.triage_head import Head, details, render_head
from bot.store import StoreError
from bot.store.alert_rows import Counts
from bot.store.incidents import Event, Row, evidence_key, head_key
from bot.store.storms import Limit
from bot.triage.cause import Cause, gathering, severest
from bot.triage.mute import UNSEEN, Nodes
from bot.triage.routes import Route
from bot.triage.state import CALLS, IncidentTimes, passed
from bot.triage.webhook import ALERTMANAGER, Alert
from bot.unexpected_errors import bugs_as_errors
from handlers.deps import Deps
from handlers.oncall.afterwards import reply_of
from handlers.oncall.calling import call_to_come, extent_of, is_asked_for, terms_now, told_elsewhere
from handlers.oncall.causes import AlertCauses, Sorted, find_causes, registration_state, told_alone
from handlers.oncall.evidence import EvidenceRequest, evidence
from handlers.oncall.on_call_now import Rota
from handlers.oncall.routing import routed, without_ignored
from handlers.task_lease import TaskLease

DEBOUNCE_S = 45.0
"""Seconds between two edits of a head in which nothing but counts changed."""
NOT_POSTED_S = 120.0
"""So long after a head was given to the outbox it is given once more: what waits there stays as it is, and what was
given up, since the bot was no member of the channel, is tried again."""
PATIENCE_S = 60.0
"""So long a cluster that cannot be read keeps alerts waiting for their cause."""
LISTENED_S = 900.0
"""So long after its start a process has heard what Alertmanager could not send before: that tries again for as long
as it fires, at least each `group_interval`, which is 5 minutes unless somebody set it."""
LOOKED_S = 60.0
"""Between two looks at a node whose registration ends a mute."""
SORTED_AT_ONCE = 2000
"""Alerts of one cluster."""
LEASE = "triage"
LEASE_S = 30.0

log = logging.getLogger(__name__)


class Plan(NamedTuple):
    """How incidents are looked after. An alert is about the one of `clusters` that it names, else about `usual`.

    `owner` is this process's name and no other's, `pass_s` is in seconds; for `pagerduty` see `Rota`. If more than
    `threads_per_minute` open in a channel, one thread there gathers the rest; 0 is no limit. New alerts go where the
    first of the `routes` sends them that matches their labels, else to `channel`; a thread stays where it is.
    """

    channel: str
    terms: IncidentTimes
    clusters: tuple[str, ...]
    usual: str
    owner: str
    pass_s: float = 5.0
    clock: Callable[[], float] = time.monotonic
    pagerduty: PagerDutySettings | None = None
    threads_per_minute: int = 0
    routes: tuple[Route, ...] = ()


class _Looked(NamedTuple):
    """When a look at nodes began, and what was seen of them."""

    at: float
    nodes: Nodes = UNSEEN


_NEVER = _Looked(-math.inf)


class Keeper:
    """Looks after the incidents, each in its channel."""

    def __init__(self, deps: Deps, plan: Plan) -> None:
        self._deps = deps
        self._rows = deps.store.incidents
        self._plan = plan
        self.terms = plan.terms
        self.rota = Rota(plan.terms.rota, plan.pagerduty, plan.clock)
        self._looked: dict[str, _Looked] = {}
        self._wake = asyncio.Event()
        self._asking: dict[tuple[str, str], asyncio.Task[bool]] = {}
        self._unread_since: dict[str, float] = {}
        self._lease = TaskLease(deps, LEASE, plan.owner, LEASE_S)
        self._began = plan.clock()
        self._has_reconsidered = False

    async def take(self, given: list[Alert]) -> None:
        """Keeps alerts, which is all that whoever sends them waits for. Raises StoreError."""
        if await self._rows.take(given):
            self._wake.set()

    def soon(self) -> None:
        """A person did something: the thread is to tell it now."""
        self._wake.set()

    async def run(self, clock: Clock) -> None:
        """One pass after the other, until it is cancelled; in one replica at a time, as long as that one lives."""
        self._wake.set()
        try:
            await clock.repeat(self._plan.pass_s, "a pass over the incidents ended early", self._pass, self._wake)
        finally:
            for task in self._asking.values():
                task.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _pass(self) -> None:
        if await self._lease.is_mine():
            await self.look(0)

    async def look(self, patience_s: float | None = None) -> None:
        """One pass. Clusters are waited for so long, None: until they answered; then they are asked on beside it."""
        self._asking = {key: task for key, task in self._asking.items() if not task.done()}
        await self._notice_silence()
        await self._reconsider()
        asking = await self._ask(await self._threads())
        if not asking:
            return
        answered, _ = await asyncio.wait(asking, timeout=patience_s)
        if True in {task.result() for task in answered}:
            await self._threads()

    async def _notice_silence(self) -> None:
        """Alertmanager repeats what fires. Who was not there to hear it concludes nothing from that it was silent."""
        longest = self._plan.terms.silent_s
        if longest and self._plan.clock() - self._began >= LISTENED_S:
            await self._rows.silence(ALERTMANAGER, self._deps.now() - longest)

    async def _reconsider(self) -> None:
        """What was ignored and fires is routed once more after a start, since the routes may be others now."""
        if not self._has_reconsidered:
            await self._deps.store.ignored.reconsider()
            self._has_reconsidered = True

    async def _threads(self) -> list[Row]:
        """Keeps the threads up to date with the store, which no cluster can hold up."""
        rows = await self._rows.opened()
        if any(not row.thread_ts for row in rows):
            await self._rows.find_threads()
            rows = await self._rows.opened()
        if not rows:
            return rows
        counts = await self._rows.counts([row.id for row in rows])
        untold = await self._rows.untold()
        if is_asked_for(rows, counts, self.terms, self.rota, self._deps.now()):
            self._begin("the rota", "", self._ask_rota)
        terms = terms_now(self.terms, self.rota)
        for row in rows:
            try:
                with bugs_as_errors():
                    await self._keep(row, terms, counts.get(row.id, Counts()), untold.get(row.id, ()))
            except StoreError:
                raise
            except BotError as error:  # of one incident: the others are looked after
                log.warning("the incident %s: %s", row.id, error)
        return rows

    async def _ask_rota(self) -> bool:
        await self.rota.now()
        self._wake.set()
        return True

    # ------------------------------------------------------------------------------------------ asking clusters

    async def _ask(self, rows: Sequence[Row]) -> list[asyncio.Task[bool]]:
        """Begins what needs a cluster, for each by itself: one that hangs holds up no other, and no person."""
        labels = await self._rows.unsorted_labels()
        for cluster in {label if label in self._plan.clusters else self._plan.usual for label in labels}:
            self._begin("causes", cluster, partial(self._sort, cluster))
        unproven: defaultdict[str, list[Row]] = defaultdict(list)
        lost: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            if row.thread_ts and not row.proven:
                unproven[row.cluster].append(row)
            if row.incident.state == "muted" and row.incident.muted_until.node:
                lost[row.cluster].add(row.incident.muted_until.node)
        for cluster, these in unproven.items():
            self._begin("evidence", cluster, partial(self._prove, these))
        for cluster, nodes in lost.items():
            if self._deps.now() - self._looked.get(cluster, _NEVER).at >= LOOKED_S:
                self._begin("nodes", cluster, partial(self._look_for, cluster, nodes))
        return list(self._asking.values())

    def _begin(self, what: str, cluster: str, work: Callable[[], Awaitable[bool]]) -> None:
        if (what, cluster) not in self._asking or self._asking[what, cluster].done():
            subject = f"{what} in {cluster}" if cluster else what
            self._asking[what, cluster] = asyncio.create_task(_guarded(subject, work))

    async def _look_for(self, cluster: str, nodes: Collection[str]) -> bool:
        """Which of the nodes are registered by now, or gone; whether any is."""
        began, say = self._deps.now(), self._deps.say
        self._looked[cluster] = _Looked(began)
        try:
            async with asyncio.timeout(PATIENCE_S), self._deps.open_sources(cluster) as sources:
                found = {node: await registration_state(sources, node, say) for node in sorted(nodes)}
        except TimeoutError as error:
            raise SourceError(f"no answer within {PATIENCE_S:g} s") from error
        registered = frozenset(node for node, state in found.items() if state == "registered")
        gone = frozenset(node for node, state in found.items() if state == "unknown")
        self._looked[cluster] = _Looked(began, Nodes(registered, gone))
        if registered or gone:
            self._wake.set()
        return bool(registered or gone)

    async def _sort(self, cluster: str) -> bool:
        """Whether there are causes; without any the alerts stay as they are."""
        ours = self._plan.clusters if cluster == self._plan.usual else None
        some = await self._without_ignored(await self._rows.unsorted(SORTED_AT_ONCE, cluster, ours))
        found, needs = await self._causes(cluster, some) if some else AlertCauses([])
        if found:
            log.info("%d alerts in %s have %d causes", len(some), cluster or "the cluster", len(found))
        for channel, here in routed(found, self._plan.routes, self._plan.channel).items():
            limit = self._limit(channel)
            for cause, members in await self._in_turn(cluster, here, limit) if limit else here:
                await self._rows.sort(cluster, cause, members, channel, limit=limit, needs=needs)
        if found:
            self._wake.set()
        return bool(found)

    async def _without_ignored(self, some: list[Alert]) -> list[Alert]:
        wanted, unwanted = without_ignored(some, self._plan.routes)
        if unwanted:
            await self._deps.store.ignored.add(unwanted)
            names = ", ".join(
                f"{name!r}: {count}" for name, count in Counter(alert.name for alert in unwanted).most_common(5)
            )
            log.info("%d alerts are ignored by oncall.routes: %s", len(unwanted), names)
        return wanted

    async def _in_turn(self, cluster: str, found: Sorted, limit: Limit) -> Sorted:
        """The worst first, for they shall have their own threads; those that cannot have one together: of each severity
        the first alone are more than may open.
        """
        known = await self._rows.known(cluster, [cause for cause, _ in found])
        seen, turns, rest = Counter[int](), Sorted(), list[Alert]()
        for cause, members in sorted(found, key=_severity, reverse=True):
            seen[severity := _severity((cause, members))] += cause.signature not in known
            if cause.signature in known or seen[severity] <= limit.most:
                turns.append((cause, members))
            else:
                rest += members
        return [*turns, (limit.gathered, rest)] if rest else turns

    def _limit(self, channel: str) -> Limit | None:
        most = self._plan.threads_per_minute
        claim = self._deps.say("triage.storm", most=most)
        return Limit(most, gathering(channel, claim)) if most else None

    async def open_cause(self, row: Row, named: str) -> bool:
        """Gives alerts out of those that were gathered a thread of their cause; whether there are any. `named` is the
        `digest_of` their name. Raises BotError.
        """
        counts = (await self._rows.counts([row.id])).get(row.id, Counts())
        name = next((name for name, _, _ in counts.by_name if digest_of(name) == named), "")
        some = await self._rows.firing_in(row.id, name)
        found, needs = await self._causes(row.cluster, some)
        found = found or [(told_alone(alert), [alert]) for alert in some]
        for here in routed(found, self._plan.routes, self._plan.channel, into=row.channel).values():
            for cause, members in here:
                await self._rows.sort(row.cluster, cause, members, row.channel, out_of=row.id, needs=needs)
        self._wake.set()
        return bool(some)

    async def _causes(self, cluster: str, some: Sequence[Alert]) -> AlertCauses:
        """None yet while the cluster cannot be read; after a while, what the alerts say themselves."""
        since = self._unread_since.setdefault(cluster, self._plan.clock())
        try:
            async with asyncio.timeout(PATIENCE_S), self._deps.open_sources(cluster) as sources:
                with bugs_as_errors():
                    found = await find_causes(sources, some, self._deps.say)
        except (BotError, TimeoutError) as error:
            why = error.message if isinstance(error, BotError) else f"no answer within {PATIENCE_S:g} s"
            log.warning("no causes of %d alerts in %s: %s", len(some), cluster or "the cluster", why)
            if self._plan.clock() - since < PATIENCE_S:
                return AlertCauses([])
            return AlertCauses([(told_alone(alert, why), [alert]) for alert in some])
        self._unread_since.pop(cluster, None)
        return found

    # ----------------------------------------------------------------------------------------------- one incident

    async def _keep(self, row: Row, terms: IncidentTimes, counts: Counts, untold: Sequence[Event]) -> None:
        now = self._deps.now()
        incident = row.incident
        looked = self._looked.get(row.cluster, _NEVER)
        seen = looked.nodes if looked.at >= incident.since else UNSEEN  # else it was before the mute
        extent = extent_of(row, counts)
        due = passed(incident, now, terms, firing=counts.firing > 0, nodes=seen, extent=extent)
        if due.incident != incident or due.news:
            step = await self._rows.change(
                row.id, lambda incident, firing: passed(incident, now, terms, firing=firing, nodes=seen, extent=extent)
            )
            if step is not None and not isinstance(step, str):
                incident = step.incident
                if step.news:
                    self._wake.set()  # it is told in the next pass
        await self._show(row._replace(incident=incident), counts)
        if row.thread_ts:
            await self._reply(row, counts, untold)

    async def _show(self, row: Row, counts: Counts) -> None:
        """Posts the head, or edits it: at once when its state or owner changed, else now and then."""
        head = head_of(row, counts)
        if row.thread_ts:  # an edit calls nobody, as the first post would
            head = head._replace(call=call_to_come(row, counts, self.terms, self.rota.expected()))
        message = render_head(head, self._deps.say)
        said = _digest([row.incident.state, row.incident.owner, row.incident.called, head.severity])
        looks = _digest([message.text, message.blocks])
        waited = self._deps.now() - row.shown_at
        if row.shown.endswith(looks) and (row.thread_ts or waited < NOT_POSTED_S):
            return
        if waited < DEBOUNCE_S and row.shown.startswith(said):
            return
        shown = f"{said}:{looks}"
        await self._put(row, head_key(row.id), message, severity=head.severity, update_ts=row.thread_ts)
        await self._rows.show(row.id, shown)

    async def _prove(self, rows: Sequence[Row]) -> bool:
        """The evidence of these incidents, of one after the other, of the most severe first."""
        counts = await self._rows.counts([row.id for row in rows])
        heads = [(row, head_of(row, counts.get(row.id, Counts()))) for row in rows]
        heads.sort(key=lambda head: SEVERITIES.index(head[1].severity), reverse=True)
        return any(
            [await _guarded(f"the incident {row.id}", partial(self._prove_one, row, head)) for row, head in heads]
        )

    async def _prove_one(self, row: Row, head: Head) -> bool:
        """The evidence, once: what a person who asked about the first pod would be answered, and what the head has no
        room for.

        A recording that is made again is another file. What was given before this was interrupted stays as it is.
        """
        if not await self._rows.has_evidence(row):
            message, more = await self._found(row, head), details(head, self._deps.say)
            if message.blocks or more:
                message = message._replace(blocks=(*message.blocks, *more), newer=())
                await self._put(row, evidence_key(row.id), message, severity=head.severity, thread_ts=row.thread_ts)
        await self._rows.proven(row.id)
        return False

    async def _found(self, row: Row, head: Head) -> Message:
        """What is known of the cause; without blocks where none was found."""
        if not (row.cause.code and row.cause.subject):
            return progress(self._deps.say("triage.alerts-say"))
        verb = "why" if "/" in row.cause.subject else "nodes"
        asked = EvidenceRequest(verb, row.cause.subject, f"incident-{row.id}.tar.gz", row.cause.nodes, head.severity)
        return await evidence(self._deps, row.cluster, asked)

    async def _reply(self, row: Row, counts: Counts, untold: Sequence[Event]) -> None:
        for event in untold:
            severity: Severity = "critical" if event.news.turn in CALLS else "warning"
            message = await reply_of(self._deps.store, head_of(row, counts), event, self._deps.say)
            key = f"{head_key(row.id)}:{event.seq}"
            link = self._deps.permalink(row.channel, row.thread_ts)
            if elsewhere := told_elsewhere(row, event.news, link, self._deps.say):
                await self._deps.outbox.put(key, *elsewhere, severity=severity)
            await self._put(row, key, message, severity=severity, thread_ts=row.thread_ts)
            await self._rows.mark_told(row.id, event.seq)

    async def _put(
        self,
        row: Row,
        key: str,
        message: Message,
        *,
        severity: Severity = "info",
        thread_ts: str = "",
        update_ts: str = "",
    ) -> None:
        put = self._deps.outbox.put
        await put(key, row.channel, message, severity=severity, thread_ts=thread_ts, update_ts=update_ts)


def head_of(row: Row, counts: Counts) -> Head:
    """What the incident's head tells."""
    return Head(
        row.id,
        row.cluster,
        row.cause,
        row.incident,
        counts.pods_firing,
        counts.pods,
        counts.alerts,
        counts.subjects,
        counts.names,
        row.created_at,
        counts.namespaces,
        counts.severities,
        counts.runbooks,
        nodes_firing=counts.nodes_firing,
        nodes=counts.nodes,
        cut=counts.cut,
        by_name=counts.by_name,
    )


def _severity(found: tuple[Cause, list[Alert]]) -> int:
    cause, members = found
    return SEVERITIES.index(severest(cause.severity, [member.severity for member in members]))


async def _guarded(what: str, work: Callable[[], Awaitable[bool]]) -> bool:
    """What it gives: whether threads have something new to tell. What goes wrong is tried again in another pass.

    In a task of its own: its lines in the log, and its calls to the cluster, have an id of their own.
    """
    request_ids.begin(uuid4().hex)
    try:
        with bugs_as_errors():
            return await work()
    except BotError as error:
        log.warning("%s: %s", what, error)
        return False


def _digest(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:24]
