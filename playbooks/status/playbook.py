"""`status`: does every part of HAMi's installation exist, do they agree, is something open that should not be?"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from bot.hami.metrics.exposition import SchedulerCounts
from bot.kube.cluster import Cluster, seen
from bot.kube.hami_pods import PANIC
from bot.kube.models import Holder
from bot.report import Gap, Report, Subject
from playbooks.gather.node_side import MOST_NODES, by_node, gather_drivers, gather_plugin_sets
from playbooks.gather.nodes_in_question import NodesInQuestion, gather_questioned, seem_ill, set_otherwise_on
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines
from playbooks.gather.scheduler_process import (
    SchedulerProcess,
    earlier_panics,
    gather_memory,
    gather_runs,
    panics_in,
    with_ghosts,
)
from playbooks.gather.scheduling import (
    DEPLOYMENTS_SOURCE,
    NEEDLES,
    Components,
    InstallSeen,
    gather_components,
    gather_holders,
    gather_install,
    install_unread,
    nothing_read,
    times_shown,
)
from playbooks.judgement.installation import gaps, judge
from playbooks.playbook import ALL, Playbook, Snapshot, Sources
from playbooks.rules.installation.plugin_coverage import plugins_down
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.scenes.cluster import InstallScene
from playbooks.status.tables import tables


class Request(NamedTuple):
    """The question about the whole installation. `all`: everything instead of an overview."""

    all: bool = False


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, InstallScene]:
    """Reads every part. Raises SourceError if neither the scheduler's Deployment nor its pods could be read."""
    cluster = sources.cluster
    found = await gather_install(sources)
    if install_unread(found):
        raise nothing_read(next(gap for gap in found.gaps if gap.source == DEPLOYMENTS_SOURCE))
    log = await gather_extender_lines(cluster, found.install, [PANIC, *NEEDLES])
    components, (process, held) = await asyncio.gather(
        gather_components(cluster, found.install, log), _process(sources, found, log)
    )
    nodes = [] if isinstance(components.nodes, Gap) else components.nodes
    as_of = cluster.as_of(times_shown(cluster, nodes, found.install))
    questioned = await _questioned(cluster, components, found, as_of)
    scene = InstallScene(
        found,
        components,
        as_of,
        process,
        held=held,
        questioned=questioned,
        clocks=cluster.clocks,
        undecodable=tuple(cluster.undecodable),
    )
    return Snapshot(wanted, cluster.name, cluster.now(), scene)


async def _process(
    sources: Sources, found: InstallSeen, log: ExtenderLines
) -> tuple[SchedulerProcess, Sequence[Holder] | Gap]:
    cluster, install = sources.cluster, found.install
    memory, (earlier, gaps), runs = await asyncio.gather(
        gather_memory(sources, install), earlier_panics(cluster, install), gather_runs(cluster, found)
    )
    held: Sequence[Holder] | Gap = ()
    if isinstance(memory.counted, SchedulerCounts):
        held = await seen("pods", gather_holders(cluster, install.scheduler_name))
    panics, gaps = (*panics_in(log), *earlier), (*gaps, *runs.gaps)
    memory = msgspec.structs.replace(memory, panics=panics, runs=runs.logs, gaps=gaps)
    return await with_ghosts(sources, memory, held), held


async def _questioned(cluster: Cluster, components: Components, seen: InstallSeen, now: datetime) -> NodesInQuestion:
    """The first nodes whose device plugin or driver is down, or that hand out too few GPUs or others than is set. Where
    there are no more nodes than are read, the sound ones too. With the DaemonSets where some of their pods are missing.
    """
    pods, sets = components.plugin_pods, components.plugins
    if isinstance(pods, Gap) or isinstance(sets, Gap) or not sets:
        return NodesInQuestion({})
    names = sorted({pod.spec.node_name for pod in plugins_down(pods, now) if pod.spec.node_name})
    nodes = [] if isinstance(components.nodes, Gap) else components.nodes
    covered = sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})
    drivers = await gather_drivers(cluster)
    down = () if isinstance(drivers, Gap) else [by_node(pods, now).items() for _, pods in drivers]
    names += [name for some in down for name, pod in some if pod.fails(now)]
    names += [*seem_ill(cluster, nodes, seen.config), *set_otherwise_on(nodes, seen)]
    names += covered if len(covered) <= MOST_NODES else ()
    first = [name for name in dict.fromkeys(names) if name in covered][:MOST_NODES]
    found = await gather_questioned(cluster, first)
    wanted = sum(workload.status.desired_number_scheduled for workload in sets)
    return found._replace(sets=await gather_plugin_sets(cluster)) if wanted == 0 or wanted > len(pods) else found


def diagnose(snapshot: Snapshot[Request, InstallScene]) -> Report:
    """The report: the findings, the worst first; a single one if everything is well."""
    scene = snapshot.scene
    if (without := answer_without_hami("status", snapshot, scene.seen)) is not None:
        return without
    install = scene.install
    name = install.deployment.name if install.deployment else ""
    about = Subject("HAMi", install.namespace, name)
    return snapshot.report("status", about, judge(scene), tables=tables(scene), gaps=gaps(scene))


PLAYBOOK = Playbook(
    verb="status",
    summary="Is HAMi itself healthy: scheduler, leader, webhook, configuration, device plugins, versions?",
    example="status",
    parameters=(ALL,),
    request=Request,
    gather=gather,
    diagnose=diagnose,
)
