"""Puts together what temporary changes in Slack need, and looks after those of every configured cluster."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bot.access import Access, groups_in
from bot.changes.changer import Changer
from bot.errors import SourceError, UsageError
from bot.kube.writer import Writer
from bot.settings.schema import AccessSettings, ClusterSettings, Settings
from bot.slack.groups import Groups
from handlers.changes.desk import Capture, ChangeDesk
from handlers.changes.endings import Endings
from handlers.changes.journal import ChangeJournal
from handlers.changes.lead import Pace, Watch, lead
from handlers.changes.request import Seen
from handlers.changes.sites import OpenWriter, Site, Sites
from handlers.desk import Lent
from playbooks._gather import gather_install


class Changing(NamedTuple):
    """What temporary changes need beside what is read: the way to write, and to keep what a restart destroys."""

    open_writer: OpenWriter
    capture: Capture


@asynccontextmanager
async def _no_writer(cluster: str) -> AsyncGenerator[Writer]:
    raise UsageError(f"this bot only reads the cluster {cluster}".rstrip())
    yield  # pragma: no cover  # what makes it a generator


async def _no_capture(cluster: str, found: Seen, out: Path) -> str:
    raise UsageError(f"{cluster}: {found.target} is not captured to {out}")


READ_ONLY = Changing(_no_writer, _no_capture)
"""Of a bot that changes nothing."""


@asynccontextmanager
async def change_desk(
    settings: Settings, lent: Lent, changing: Changing, *, identity: str, pace: Pace
) -> AsyncGenerator[ChangeDesk]:
    """The desk for changes; while it lasts, open changes are looked after. `identity` is this process's alone."""
    access = _access(settings.access)
    async with AsyncExitStack() as stack:
        sites = await stack.enter_async_context(Sites(changing.open_writer, partial(_site, settings, lent)))
        desk = ChangeDesk(lent, access, Groups(lent.gateway, groups_in(access)), sites, changing.capture)
        watches = [
            Watch(cluster, sites, partial(_lease_namespace, settings, lent), desk.expire, identity, pace)
            for cluster in (settings.clusters or ("",))
        ]
        await stack.enter_async_context(_together([lead(one) for one in watches]))
        yield desk


def _site(settings: Settings, lent: Lent, cluster: str, writer: Writer) -> Site:
    access = settings.access
    journal = ChangeJournal(
        cluster,
        lent.store,
        lent.outbox,
        lent.say,
        channel=next(iter(access.channels), ""),
        approvers=access.approvers,
        now=lent.now,
    )
    endings = Endings(partial(lent.open_sources, cluster))
    namespace = _settings_of(settings, cluster).hami_namespace
    changer = Changer(writer, journal, namespace=namespace, now=lent.now, endings=endings)
    return Site(cluster, writer, changer, journal, asyncio.Lock())


async def _lease_namespace(settings: Settings, lent: Lent, site: Site) -> str:
    """As set, else the bot's own, else HAMi's."""
    known = _settings_of(settings, site.cluster)
    if namespace := known.lease_namespace or site.writer.home or known.hami_namespace:
        return namespace
    async with lent.open_sources(site.cluster) as sources:
        found = await gather_install(sources)
    if not found.install.namespace:
        raise SourceError("HAMi was not found, so nothing says where the Lease is", hint="set lease_namespace")
    return found.install.namespace


def _settings_of(settings: Settings, cluster: str) -> ClusterSettings:
    return settings.clusters.get(cluster) or ClusterSettings()


def _access(given: AccessSettings) -> Access:
    people = frozenset(given.operators), frozenset(given.approvers)
    return Access(*people, frozenset(given.channels), given.two_person, given.changes_per_hour)


@asynccontextmanager
async def _together(works: Sequence[Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
