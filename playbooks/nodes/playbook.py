"""`nodes`: are the nodes as HAMi needs them: registered, answering, unlocked, all GPUs healthy and offered?"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import click

from bot.errors import SourceError
from bot.finding_codes import CODES
from bot.hami.nodes.node_state import SWEPT_NODES, noun_on
from bot.kube.cluster import seen
from bot.kube.models import NODES
from bot.report import VERDICT_LIMIT, Confidence, Finding, Gap, Report, Subject, Table, more_than_info, step
from bot.texts import Prose, Text, fitting, listed, sentences
from playbooks import quotes
from playbooks.gather.dra import gather_slices
from playbooks.gather.node_side import MOST_NODES, PluginPods, gather_drivers, gather_plugins, gather_plugins_beside
from playbooks.gather.nodes_in_question import gather_owners, gather_questioned
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG, gather_install, times_shown
from playbooks.judgement.nodes import NodesJudgement, in_question, judge
from playbooks.nodes.tables import PROBLEMS, WHOLE, NodeRows
from playbooks.playbook import ALL, Playbook, Snapshot, Sources, read_node
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.prose import near_names, see_all_nodes
from playbooks.rules.dra import given_by_claims, handed_out_twice
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.nodes.faults import gaps_of
from playbooks.rules.nodes.sweep import looked_at
from playbooks.scenes.nodes import NodesScene

_KINDS = {
    "lost": "nodes.bad-registration",
    "device-plugin-": "nodes.bad-plugin",
    "card-not-healthy": "nodes.bad-cards",
    "card-fault": "nodes.bad-cards",
    "node-lock-": "nodes.bad-lock",
    "card-cordoned": "nodes.bad-cordon",
    "node-cordoned": "nodes.bad-cordon",
    "node-not-ready": "nodes.bad-kubernetes",
    "node-pressure": "nodes.bad-kubernetes",
    "": "nodes.bad-otherwise",
}
"""Kinds of problems in words, by the beginnings of their codes."""
_ALWAYS_FIT = 3
"""So many kinds stand in a verdict with any numbers of nodes."""


class Request(NamedTuple):
    """All nodes, or one by name. `all`: rows of the healthy nodes too."""

    node: str
    all: bool


def request(node: str = "", all: bool = False) -> Request:  # noqa: A002, FBT001, FBT002  # the options' names
    """Reads the typed question."""
    return Request(read_node(node), all)


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, NodesScene]:
    """Reads every node, also for one: its GPUs may be registered elsewhere too. Raises SourceError without nodes."""
    cluster = sources.cluster
    install, nodes, own, drivers, slices = await asyncio.gather(
        gather_install(sources),
        seen("nodes", cluster.list(SWEPT_NODES)),
        gather_plugins(cluster, wanted.node),
        gather_drivers(cluster, wanted.node),
        gather_slices(cluster, wanted.node),
    )
    if install.install.flags.get(NODE_SELECTOR_FLAG):  # then all labels count
        nodes = await seen("nodes", cluster.list(NODES))
    if isinstance(nodes, Gap):
        raise SourceError(nodes.text, hint=nodes.advice)
    if wanted.node and own == []:  # whether the label is in use at all
        own = await gather_plugins(cluster)
    beside = await gather_plugins_beside(cluster, nodes, install.config, wanted.node)
    plugins = PluginPods(own, beside, drivers)
    asked = (node for node in nodes if wanted.node in ("", node.name))
    scene = NodesScene(
        install,
        nodes,
        cluster.as_of(times_shown(cluster, nodes, install.install)),
        plugins=plugins,
        owners=await gather_owners(cluster, asked),
        slices=slices,
        wanted=wanted.node,
    )
    names = [name for name in in_question(scene, MOST_NODES) if name in scene.names]
    questioned = await gather_questioned(cluster, names)
    scene = scene.with_questioned(questioned, tuple(cluster.undecodable))
    return Snapshot(wanted, cluster.name, cluster.now(), scene)


def diagnose(snapshot: Snapshot[Request, NodesScene]) -> Report:
    """The report: what is wrong, one finding per cause, then how many nodes have nothing wrong with them."""
    wanted, scene = snapshot.request, snapshot.scene
    if (without := answer_without_hami("nodes", snapshot, scene.seen)) is not None:
        return without
    asked = [node for node in scene.nodes if wanted.node in ("", node.name)]
    judged = judge(scene)
    results = [*handed_out_twice(scene), *judged.findings, *_healthy(scene, judged), *given_by_claims(scene)]
    results = results or [_nothing_there(scene)]
    findings = sorted(results, key=lambda finding: finding.severity == "info")
    return snapshot.report(
        "nodes",
        Subject("Node", "", wanted.node) if wanted.node else Subject("Nodes", "", ""),
        findings,
        verdict=_verdict(judged, findings, of_one=bool(wanted.node)),
        tables=_tables(wanted, scene, judged),
        gaps=scene.once(gaps_of),
        noun=noun_on(asked, scene.config),
    )


def _verdict(judged: NodesJudgement, findings: Sequence[Finding], *, of_one: bool) -> Prose | None:
    """How many nodes have which kind of problem; None where there is one thing to tell."""
    problems = more_than_info(findings)
    if of_one or len(problems) < 2:
        return None
    kinds = dict[str, set[str]]()
    for problem in problems:
        about = "lost" if CODES[problem.code].loses_node else problem.code
        kinds.setdefault(next(filter(about.startswith, _KINDS)), set()).update(problem.scope.nodes)
    parts = [Text(_KINDS[kind], count=len(nodes)) for kind, nodes in kinds.items()]
    bad = {name for problem in more_than_info(judged.findings) for name in problem.scope.nodes}
    more = ((at, Text("nodes.bad-more", count=len(parts) - at)) for at in range(len(parts) - 1, _ALWAYS_FIT - 1, -1))
    values = {"count": len(bad), "total": judged.concerned}
    forms = [parts, *([*parts[:at], rest] for at, rest in more)]
    first, *shorter = (Text("nodes.verdict", **values, problems=listed(form)) for form in forms)
    return fitting((first, *shorter), VERDICT_LIMIT) if shorter else first


def _healthy(scene: NodesScene, judged: NodesJudgement) -> list[Finding]:
    if not judged.well:
        return []
    count, first = len(judged.well), scene.see(judged.well[0])
    if scene.wanted:
        claim = Text("nodes.one-healthy", node=scene.wanted, cards=judged.cards)
    elif count == judged.concerned:
        claim = Text("nodes.healthy", count=count, cards=judged.cards)
    else:
        claim = Text("nodes.rest", count=count, total=judged.concerned)
    well = (scene.see(name).node for name in judged.well)
    claim = sentences(claim, *looked_at(scene.seen, well, scene.questioned.sides, judged.well, scene.plugins))
    sure: Confidence = "suspected" if scene.once(gaps_of) else "confirmed"
    nodes = [scene.wanted] if scene.wanted else []
    return [finding("nodes-healthy", claim, sure, nodes, [quotes.of_cards(first.node)], severity="info")]


def _nothing_there(scene: NodesScene) -> Finding:
    if not scene.wanted:
        look = [step(Text("gpus.see-status"), prose.command("status"))]
        return finding("not-found", Text("gpus.no-cards"), "confirmed", (), (), severity="warning", actions=look)
    if scene.wanted in scene.names:
        proof = quotes.of_node(scene.see(scene.wanted).node, scene.wanted, "{.metadata.name}")
        claim = Text("gpus.no-cards-there", node=scene.wanted)
        return finding("nodes-healthy", claim, "confirmed", [scene.wanted], [proof], severity="info")
    near = near_names(scene.wanted, scene.names)
    claim = Text("gpus.no-node", node=scene.wanted)
    steps = [step(Text("not-found.ask", name=name), prose.command("nodes", name)) for name in near]
    return finding("not-found", claim, "confirmed", (), (), severity="warning", actions=steps or see_all_nodes())


def _tables(wanted: Request, scene: NodesScene, judged: NodesJudgement) -> tuple[Table, ...]:
    problems = judged.problems
    rows = NodeRows(scene, problems)
    if wanted.node:
        return rows.of_node(scene.see(wanted.node)) if wanted.node in scene.names else ()
    shown = [name for name in scene.names if wanted.all or name in problems]
    listed = rows.of_nodes(map(scene.see, shown))
    if not listed:
        return ()
    return (WHOLE.table(listed) if wanted.all else PROBLEMS.table(listed, brief=listed),)


PLAYBOOK = Playbook(
    verb="nodes",
    summary="Is every GPU node registered, answering, unlocked and healthy? Problems first, by cause.",
    example="nodes gpu-node-07",
    parameters=(click.Argument(["node"], default="", required=False, metavar="[NODE]"), ALL),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
