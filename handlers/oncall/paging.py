"""Tells pagers what happened to incidents, one page after the other, and takes over what people did at a pager.

A page stands in the store with the event that it is about. It is sent again after a crash, which does not matter to the
pager: every page has its key there.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from bot.pager import PageEvent, PagerAction, post, request_of, services_of
from bot.periodic_jobs import Clock
from bot.report import one_line
from bot.settings.oncall import PagingSettings
from bot.store.audit import AuditLine
from bot.store.timeline import PageRow
from bot.triage.state import Act, Incident, Step, act, incident_of, key_of
from handlers.deps import Deps, TaskLease
from handlers.oncall.calling import extent_of

FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
LASTING_S = 300.0
"""Seconds for which a pager may fail before the thread is told."""
LEASE = "pages"
LEASE_S = 30.0

_LONGEST_SUMMARY = 400

log = logging.getLogger(__name__)


class Paging:
    """Sends queued pages to their pagers, and records what people did there; after each such act `soon` is called."""

    def __init__(
        self, deps: Deps, settings: PagingSettings, owner: str, pace_s: float, soon: Callable[[], None]
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._leases = {
            service: TaskLease(deps, f"{LEASE}:{service}", owner, LEASE_S) for service in services_of(settings)
        }
        self._pace_s = pace_s
        self._soon = soon
        self._failing: set[str] = set()

    async def run(self, clock: Clock) -> None:
        """Sends pages until it is cancelled; in one replica at a time. A pager that fails holds up no other."""
        async with asyncio.TaskGroup() as group:
            for service in self._leases:
                work = partial(self._tell_all, service)
                group.create_task(clock.repeat(self._pace_s, f"{service} is told nothing for now", work))

    async def _tell_all(self, service: str) -> None:
        while await self.step(service) == 0.0:
            pass

    async def step(self, service: str) -> float | None:
        """Sends the pager its next page. Returns the seconds until it may get another; None: this process sends none.
        The lease is asked for only when a page is due: that writes, and every few seconds would wear a disk out.
        """
        page = await self._deps.store.pages.next(service)
        if page is None:
            return None
        if (wait := page.next_try_at - self._deps.now()) > 0:
            return min(wait, self._pace_s)
        if not await self._leases[service].is_mine():
            return None
        page = await self._deps.store.pages.next(service)  # whoever had the lease may have told the first
        return await self._tell(page) if page else None

    async def _tell(self, page: PageRow) -> float:
        rows, now = self._deps.store.pages, self._deps.now()
        event = await self._told(page)
        request = event and request_of(page.service, self._settings, event, now)
        if request is None:
            await rows.fail(page, "")
            return 0.0
        outcome = await post(request)
        if outcome.kind == "taken":
            if page.service in self._failing:
                self._failing.discard(page.service)
                log.info("%s takes pages again", page.service)
            await rows.done(page)
            return 0.0
        complaint = f"{page.service}: {outcome.reason}"
        if page.service not in self._failing:
            self._failing.add(page.service)
            log.warning("cannot page: %s", complaint)
        if outcome.kind == "refused":
            await rows.fail(page, complaint)
            return 0.0
        lasting = outcome.kind == "denied" or now - page.queued_at >= LASTING_S
        wait = min(FIRST_WAIT * 2.0 ** min(page.tries, 10), LONGEST_WAIT)
        await rows.later(page, now + wait, complaint if lasting else "")
        return min(wait, self._pace_s)

    async def _told(self, page: PageRow) -> PageEvent | None:
        row = await self._deps.store.incidents.get(page.incident)
        if row is None:
            return None
        counts = (await self._deps.store.alerts.counts([row.id]))[row.id]
        extent = extent_of(row, counts)
        link = self._deps.permalink(row.channel, row.thread_ts)
        summary = one_line(self._deps.say.words(row.cause.text), _LONGEST_SUMMARY)
        return PageEvent(
            page.action,
            page.key,
            row.id,
            summary,
            severity=extent.severity,
            cluster=row.cluster,
            link=link,
            affected=extent.pods,
            by=page.by,
        )

    async def hear(self, heard: PagerAction) -> None:
        """Takes over a person's act at a pager. Raises StoreError; acts about unknown or old pages are ignored."""
        incident_id, at = incident_of(heard.key), self._deps.now()

        def decide(incident: Incident, _firing: bool) -> Step | str:  # noqa: FBT001  # as the store calls it
            if not incident.is_open or key_of(incident_id, incident.page) != heard.key:
                return "stale"
            if heard.deed == "ack" and incident.state != "open":
                return "same"
            return act(incident, Act(heard.deed, heard.by, at))

        def noted(step: Step | str) -> AuditLine:
            outcome = step if isinstance(step, str) else "done"
            return AuditLine(
                heard.by, f"triage-{heard.deed}", f"incident:{incident_id}", outcome, {"pager": heard.service}
            )

        await self._deps.store.incidents.change(incident_id, decide, noted, knows=heard.service)
        self._soon()
