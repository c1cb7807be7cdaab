"""The pass over one cluster's open changes, made by the one replica that leads, or by several without harm.

APScheduler is the clock alone, with nothing kept: what is due stands on the objects.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC
from functools import partial
from typing import Any, NamedTuple

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from bot.errors import BotError, NotFound, UsageError
from bot.kube.leader import Leader
from handlers.changes.sites import Site, Sites

LEASE = "hami-bot"

log = logging.getLogger(__name__)
logging.getLogger("apscheduler").setLevel(logging.WARNING)  # it tells every tick


class Pace(NamedTuple):
    """In seconds: between two passes, until a cluster that may not be written to is tried again, and how long what is
    done beside a pass may take: a database that hangs must not keep the next pass waiting.
    """

    pass_s: float = 15.0
    again_s: float = 60.0
    beside_s: float = 10.0


class Watch(NamedTuple):
    """What leading one cluster needs. `lease_namespace` finds where the Lease is; `beside` is done after each pass."""

    cluster: str
    sites: Sites
    lease_namespace: Callable[[Site], Awaitable[str]]
    beside: Callable[[], Awaitable[None]]
    identity: str
    pace: Pace


async def lead(watch: Watch) -> None:
    """Until it is cancelled, or the cluster turns out to be none that could ever be changed."""
    last = ""
    while True:
        try:
            await _candidate(watch)
        except UsageError as error:
            log.info("cluster %s: %s", watch.cluster or "(default)", error.message)
            return
        except BotError as error:
            if error.message != last:
                log.warning("no temporary changes are led in %s, reading goes on: %s", watch.cluster or "here", error)
            last = error.message
        await asyncio.sleep(watch.pace.again_s)


async def _candidate(watch: Watch) -> None:
    site = await watch.sites.of(watch.cluster)
    namespace = await watch.lease_namespace(site)
    with contextlib.suppress(NotFound):  # whoever leads first makes it
        await site.writer.lease(namespace, LEASE)
    leader = Leader(site.writer, namespace, LEASE, watch.identity)
    await leader.run(partial(_passes, site, watch))


async def _passes(site: Site, watch: Watch) -> None:
    due = asyncio.Event()
    due.set()

    async def tick() -> None:
        due.set()

    clock: Any = AsyncIOScheduler(timezone=UTC)  # no annotations
    trigger: Any = IntervalTrigger(seconds=watch.pace.pass_s)  # pyright: ignore[reportArgumentType]  # a timedelta's
    clock.add_job(tick, trigger, misfire_grace_time=None, coalesce=True, max_instances=1)
    clock.start()
    try:
        while True:
            await due.wait()
            due.clear()
            async with site.busy:
                await site.changer.reconcile()
            try:
                async with asyncio.timeout(watch.pace.beside_s):
                    await watch.beside()
            except (BotError, TimeoutError) as error:
                log.warning("beside the pass: %s", error or f"nothing came of it in {watch.pace.beside_s:g} s")
    finally:
        clock.shutdown(wait=False)
