"""What tuning advice is worked out from: read once, for every topic."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from bot.hami.held import Held, held_by
from bot.hami.install import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.hami.ledger import build_ledger
from bot.hami.rules import NEWEST_READ
from bot.hami.throttling import NEEDLE, Wait, read_waits
from bot.kube.cluster import seen
from bot.kube.models import DAEMON_SETS, NODES, PODS, Holder, Node, Pod, Workload
from bot.report import Gap
from playbooks.gather.scheduler_logs import gather_extender_lines
from playbooks.gather.scheduling import InstallSeen, gather_holders, gather_install, install_unread, nothing_read
from playbooks.gather.usage import UsageSeen, gather_usage
from playbooks.playbook import Sources

_PLUGIN = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"


class Request(NamedTuple):
    """`all`: advice to keep a value, and what cannot be told, is shown as well."""

    all: bool


class Throttled(NamedTuple):
    """The requests that the extender held back within the log that was read; `scheduler` wrote it."""

    waits: tuple[Wait, ...]
    scheduler: Pod | None
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class Facts:
    """The cluster at one moment. Each part says itself what could not be read."""

    request: Request
    cluster: str
    taken_at: datetime
    install: InstallSeen
    nodes: list[Node] | Gap
    holders: list[Holder] | Gap
    waiting: list[Pod] | Gap
    plugin_sets: list[Workload] | Gap
    plugin_pods: list[Pod] | Gap
    throttled: Throttled
    usage: UsageSeen

    @cached_property
    def held(self) -> list[Held]:
        """Who holds GPUs, with what is measured of it; nobody where the pods could not be read."""
        if isinstance(self.holders, Gap):
            return []
        version = self.install.install.version
        ledger = build_ledger(self.holders, version.version if version else NEWEST_READ)
        return held_by((one for some in ledger.by_node.values() for one in some), self.usage.usage)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """All that could not be read."""
        lists = (self.nodes, self.holders, self.waiting, self.plugin_sets, self.plugin_pods)
        unread = [one for one in lists if isinstance(one, Gap)]
        return tuple(dict.fromkeys([*self.install.gaps, *unread, *self.throttled.gaps, *self.usage.gaps]))


async def gather_facts(wanted: Request, sources: Sources) -> Facts:
    """Raises Unusable where nothing at all could be read."""
    cluster = sources.cluster
    install = await gather_install(sources)
    nodes, holders, waiting, plugin_sets, plugin_pods, throttled = await asyncio.gather(
        seen("nodes", cluster.list(NODES)),
        seen("pods", gather_holders(cluster, install.install.scheduler_name)),
        seen("pending pods", cluster.list(PODS, fields="status.phase=Pending")),
        seen("daemon sets", cluster.list(DAEMON_SETS, labels=_PLUGIN)),
        seen("device plugin pods", cluster.list(PODS, labels=_PLUGIN)),
        _gather_throttled(sources, install),
    )
    if isinstance(nodes, Gap) and install_unread(install):
        raise nothing_read(nodes)
    usage = await gather_usage(sources, plugin_pods)
    return Facts(
        wanted,
        cluster.name,
        cluster.now(),
        install,
        nodes,
        holders,
        waiting,
        plugin_sets,
        plugin_pods,
        throttled,
        usage,
    )


async def _gather_throttled(sources: Sources, install: InstallSeen) -> Throttled:
    log = await gather_extender_lines(sources.cluster, install.install, NEEDLE)
    scheduler = log.lines[0][0] if log.lines else None
    return Throttled(tuple(read_waits(line for _, line in log.lines)), scheduler, log.gaps)
