"""Are the nodes as HAMi needs them: registered, answering, unlocked, with healthy cards that kubelet offers too?"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import click
from msgspec import structs

from bot.errors import SourceError
from bot.hami.nodes.node_state import called_on, wants_own_plugin
from bot.hami.nodes.registration import Registration
from bot.hami.nodes.scaling import read_memory_scaling
from bot.hami.nodes.swept_node import SWEPT_NODES
from bot.kube.cluster import seen
from bot.kube.models import NODES, Node, Pod, ResourceSlice
from bot.kube.times import format_time
from bot.report import VERDICT_LIMIT, Confidence, Evidence, Finding, Gap, Report, Subject, Table, gap, new_report, step
from bot.texts import Prose, Text, fitting
from playbooks import quotes
from playbooks.gather.dra import gather_slices
from playbooks.gather.lock_owners import gather_owners
from playbooks.gather.node_side import MOST_NODES
from playbooks.gather.nodes_in_question import NodesInQuestion, gather_questioned
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG, Capacity, InstallSeen, gather_install, times_shown
from playbooks.nodes.fault import Fault
from playbooks.nodes.faults import (
    SweepFaults,
    by_cause,
    by_classic_rules,
    in_question,
    look_at,
    with_found,
    worst_by_node,
)
from playbooks.nodes.findings import Known, Wording
from playbooks.nodes.plugins import PLUGIN_SOURCE, PluginPods, gather_plugins, gather_plugins_beside
from playbooks.nodes.sweep import NodeSeen, Sweep
from playbooks.nodes.tables import PROBLEMS, WHOLE, Rows
from playbooks.playbook import ALL, Playbook, Sources
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.gaps import capacity_gaps
from playbooks.rules.dra.devices import given_by_claims, handed_out_twice
from playbooks.rules.installation.not_installed import answer_without_hami
from playbooks.rules.nodes.node_causes import node_causes
from playbooks.rules.nodes.node_not_found import near_names, see_all_nodes
from playbooks.rules.nodes.not_selected import in_use
from playbooks.rules.nodes.plugin_faults import monitor_fault
from playbooks.scene import ClusterScene


class Request(NamedTuple):
    """All nodes, or one. `all`: rows of the healthy ones too."""

    node: str
    all: bool


class Snapshot(NamedTuple):
    """Every node, what the sweep of them found, the device plugin's pods, the owners of locks, and a few nodes read by
    themselves.
    """

    request: Request
    cluster: str
    taken_at: datetime
    as_of: datetime
    install: InstallSeen
    nodes: Sequence[Node]
    plugins: PluginPods
    owners: Mapping[tuple[str, str], Pod | Gap | None]
    sweep: Sweep
    found: SweepFaults
    questioned: NodesInQuestion
    slices: Sequence[ResourceSlice] | Gap
    undecodable: tuple[str, ...]


def request(node: str = "", all: bool = False) -> Request:  # noqa: A002, FBT001, FBT002  # the options' names
    """The nodes in the words that were typed."""
    return Request(node.strip().removeprefix("node/"), all)


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read every node, also for one: its cards may be registered elsewhere too. Raises SourceError without nodes."""
    cluster = sources.cluster
    install, nodes, own, slices = await asyncio.gather(
        gather_install(sources),
        seen("nodes", cluster.list(SWEPT_NODES)),
        gather_plugins(cluster, wanted.node),
        gather_slices(cluster, wanted.node),
    )
    if install.install.flags.get(NODE_SELECTOR_FLAG):  # then all labels count
        nodes = await seen("nodes", cluster.list(NODES))
    if isinstance(nodes, Gap):
        raise SourceError(nodes.why, hint=nodes.hint)
    if wanted.node and own == []:  # whether the label is in use at all
        own = await gather_plugins(cluster)
    beside = await gather_plugins_beside(cluster, nodes, install.config, wanted.node)
    plugins = PluginPods(own, beside)
    asked = (node for node in nodes if wanted.node in ("", node.name))
    owners = await gather_owners(cluster, asked)
    as_of = cluster.as_of(times_shown(cluster, nodes, install.install))
    sweep = Sweep(install, nodes, plugins, owners, as_of)
    found = by_classic_rules(look_at(sweep, wanted.node), sweep, slices)
    questioned = await gather_questioned(cluster, in_question(found.faults, MOST_NODES))
    undecodable = tuple(cluster.undecodable)
    return Snapshot(
        wanted,
        cluster.name,
        cluster.now(),
        as_of,
        install,
        nodes,
        plugins,
        owners,
        sweep,
        found,
        questioned,
        slices,
        undecodable,
    )


def diagnose(snapshot: Snapshot) -> Report:
    """What is wrong first, one finding per cause; then how many nodes have nothing wrong with them."""
    if (without := answer_without_hami("nodes", snapshot, snapshot.install)) is not None:
        return without
    wanted = snapshot.request
    asked = [node for node in snapshot.nodes if wanted.node in ("", node.name)]
    sweep = snapshot.sweep
    known = _found_out(snapshot)
    found = snapshot.found._replace(faults=with_found(snapshot.found.faults, known))
    gaps = _gaps(snapshot, sweep)
    sure: Confidence = "suspected" if gaps else "confirmed"
    wording = Wording(sweep, sure, known)
    results = [wording.finding(group) for group in by_cause(found.faults)]
    results += _healthy(wanted, sweep, found, sure)
    world = ClusterScene(
        snapshot.install, Capacity(list(snapshot.nodes), [], []), snapshot.as_of, slices=snapshot.slices
    )
    results = [*handed_out_twice(world), *results, *given_by_claims(world)] or [_nothing_there(wanted, sweep)]
    findings = sorted(results, key=lambda finding: finding.severity == "info")
    if not wanted.node and len(found.faults) > 1:
        findings = [
            structs.replace(finding, next_actions=finding.next_actions[:1]) for finding in findings
        ]  # one step for each
    return new_report(
        playbook="nodes",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Node", "", wanted.node) if wanted.node else Subject("Nodes", "", ""),
        verdict=_verdict(wanted, found, findings),
        findings=prose.few_actions(findings, snapshot.install.install),
        tables=_tables(snapshot, sweep, found.faults),
        gaps=gaps,
        noun=called_on(asked, snapshot.install.config),
    )


def _found_out(snapshot: Snapshot) -> Known:
    """What the nodes that were read by themselves say of their faults."""
    config, now, questioned = snapshot.install.config, snapshot.as_of, snapshot.questioned
    found = [
        (name, cause)
        for name, side in questioned.sides.items()
        for cause in node_causes(side, questioned.sets, config, now) or monitor_fault(side, now)
    ]
    if not snapshot.request.node and questioned.sets and in_use(questioned.sets):
        found = [(name, cause._replace(finding=_quietly(cause.finding))) for name, cause in found]
    return {(name, cause.finding.code): cause for name, cause in reversed(found)}


def _quietly(finding: Finding) -> Finding:
    """Where other nodes have the device plugin, a node without its label may be left out on purpose."""
    return structs.replace(finding, severity="info") if finding.code == "device-plugin-not-selected" else finding


def _verdict(wanted: Request, found: SweepFaults, findings: Sequence[Finding]) -> Prose:
    """The claim where there is one thing to tell, else how many nodes have which problem."""
    problems = [finding for finding in findings if finding.severity != "info"]
    if wanted.node or len(problems) < 2:
        return findings[0].text
    counts = Counter[str]()
    for problem in problems:
        counts[problem.code] += len(problem.scope.nodes)
    parts = [Text("nodes.problem", count=count, code=code) for code, count in counts.items()]
    bad = {fault.node for fault in found.faults if fault.severity != "info"}
    forms = (
        Text("nodes.verdict", count=len(bad), total=found.concerned, problems=_listed(parts, shown))
        for shown in range(len(parts), 0, -1)
    )
    return fitting(forms, VERDICT_LIMIT)


def _listed(parts: Sequence[Text], shown: int) -> Text:
    """So many of the problems, and how many more kinds there are."""
    some = reduce(lambda some, more: Text("gpus.list", some=some, more=more), parts[:shown])
    return Text("words.and-more", names=some, more=len(parts) - shown) if shown < len(parts) else some


def _healthy(wanted: Request, sweep: Sweep, found: SweepFaults, sure: Confidence) -> list[Finding]:
    """The nodes that have cards and no fault, as one finding."""
    if not found.well:
        return []
    count = len(found.well)
    if wanted.node:
        claim = Text("nodes.one-healthy", node=wanted.node, cards=found.cards)
    elif count == found.concerned:
        claim = Text("nodes.healthy", count=count, cards=found.cards)
    else:
        claim = Text("nodes.rest", count=count, total=found.concerned)
    proof = _registered(sweep.see(found.well[0]))
    return [finding("nodes-healthy", claim, sure, [wanted.node] if wanted.node else [], [proof], severity="info")]


def _registered(node: NodeSeen) -> Evidence:
    found: Registration = node.registrations[0]
    if found.encoding == "capacity":
        return quotes.of_allocatable(node.node, found.key)
    return quotes.of_node_annotation(node.node, found.key, found.cards[0].uuid)


def _nothing_there(wanted: Request, sweep: Sweep) -> Finding:
    """No such node, a node without cards, or no cards at all."""
    if not wanted.node:
        return finding("not-found", Text("gpus.no-cards"), "confirmed", (), (), severity="warning")
    if wanted.node in sweep.names:
        node = sweep.see(wanted.node).node
        claim = Text("gpus.no-cards-there", node=wanted.node)
        proof = quotes.of_node(node, node.name, "{.metadata.name}")
        return finding("nodes-healthy", claim, "confirmed", [wanted.node], [proof], severity="info")
    near = near_names(wanted.node, sweep.names)
    result = finding("not-found", Text("gpus.no-node", node=wanted.node), "confirmed", (), (), severity="warning")
    actions = [step(Text("not-found.ask", name=name), prose.command("nodes", name)) for name in near]
    return structs.replace(result, next_actions=tuple(actions) or see_all_nodes())


def _gaps(snapshot: Snapshot, sweep: Sweep) -> list[Gap]:
    gaps = capacity_gaps(snapshot.install, Capacity([], [], []), snapshot.undecodable)
    gaps += [owner for owner in snapshot.owners.values() if isinstance(owner, Gap)]
    gaps += snapshot.plugins.gaps
    gaps += [*snapshot.questioned.gaps, *([snapshot.slices] if isinstance(snapshot.slices, Gap) else [])]
    unknown = not isinstance(snapshot.plugins.own, Gap) and not sweep.plugins_known
    if unknown and any(wants_own_plugin(node, snapshot.install.config) for node in snapshot.nodes):
        gaps.append(gap(PLUGIN_SOURCE, Text("nodes.plugins-unknown"), Text("nodes.plugins-hint")))
    return gaps


def _tables(snapshot: Snapshot, sweep: Sweep, faults: Sequence[Fault]) -> tuple[Table, ...]:
    by_node = worst_by_node(faults)
    rows = Rows(sweep, by_node, read_memory_scaling(snapshot.install.config_maps))
    wanted = snapshot.request
    if wanted.node:
        return rows.of_node(sweep.see(wanted.node)) if wanted.node in sweep.names else ()
    shown = [name for name in sweep.names if wanted.all or name in by_node]
    listed = rows.of_nodes(map(sweep.see, shown))
    if not listed:
        return ()
    return (WHOLE.table(listed) if wanted.all else PROBLEMS.table(listed, brief=listed),)


PLAYBOOK = Playbook(
    verb="nodes",
    summary="Is every GPU node registered, answering, unlocked and healthy? Problems first, by cause.",
    example="nodes gpu-node-07",
    parameters=(
        click.Argument(["node"], default="", required=False, metavar="[NODE]"),
        ALL,
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
