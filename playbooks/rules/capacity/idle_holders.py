"""Whom a pod waits for that has no room: holders that have launched no kernel for hours, and whose end lets it in.

Only what is measured counts: a holder without figures is not known to be idle. Whether the pod fits without the idle
ones is HAMi's filter's to say.
"""

from collections.abc import Sequence
from datetime import timedelta

from bot.finding_codes import Code
from bot.hami.metrics.gpu_usage import IDLE_S, MeasuredHolding, held_by
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.kube.times import roughly
from bot.report import Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.usage import MOST_MEASURED, MeasuredNodes
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.holders import of_use, owner_of
from playbooks.scenes.waiting_pod import PodScene

_MOST_TRIED = 20
_MOST_ENDED = 3
NO_ROOM = frozenset[Code](
    (*(reason.finding for reason in REASONS if reason.nature == "use"), "allocated-cards-insufficient", "fits-nowhere")
)
"""The findings that the end of another pod may mend."""


def in_question(scene: PodScene) -> dict[str, list[str]]:
    """The nodes, with their GPUs, that would take the pod if those ended that may be idle by their age; at most three.

    Those with the most memory to gain come first. Empty where the pod fits, and where HAMi's filter cannot be asked.
    """
    ledger = scene.view.ledger
    asks = scene.nodes_seen and scene.request.containers and not scene.pod.spec.node_name
    if not asks or ledger is None or len(scene.views) != 1 or scene.fitting or scene.too_large:
        return {}
    before = (scene.now - timedelta(seconds=IDLE_S)).strftime("%Y-%m-%dT%H:%M:%SZ")
    # The API writes every time in the same form, so texts compare as times do.
    old = [
        (name, [it for it in ledger.on(name) if it.bound and not it.ending and "" < it.created <= before])
        for name in scene.candidates
    ]
    by_gain = sorted((of for of in old if of[1]), key=lambda of: -sum(holding.amounts[0] for holding in of[1]))
    found: dict[str, list[str]] = {}
    for name, held in by_gain[:_MOST_TRIED]:
        if len(found) < MOST_MEASURED and scene.view.judge_without(name, scene.request, held).fits:
            found[name] = sorted({uuid for holding in held for uuid in holding.shares})
    return found


def waited_for(scene: PodScene) -> Finding | None:
    """The idle holders of one node without whom the pod fits; None where nobody is known to be idle."""
    measured = scene.usage
    if measured is None or scene.view.ledger is None or not measured.usage.usage.containers:
        return None
    held = held_by(scene.view.ledger.all(), measured.usage.usage)
    idle = [holding for holding in held if not holding.holding.ending and (holding.idle_s or 0) >= IDLE_S]
    idle.sort(key=lambda holding: (-(holding.idle_s or 0), holding.name))
    alone = ([holding] for holding in idle[:_MOST_TRIED] if _fits(scene, [holding]))
    found = next(alone, None) or _together(scene, idle)
    return _told(scene, found, measured) if found else None


def _together(scene: PodScene, idle: Sequence[MeasuredHolding]) -> list[MeasuredHolding]:
    for node in dict.fromkeys(holding.holding.node for holding in idle):
        ended = [holding for holding in idle if holding.holding.node == node][:_MOST_TRIED]
        if not _fits(scene, ended):
            continue
        for tried in sorted(ended, key=lambda held: held.holding.amounts):
            rest = [other for other in ended if other is not tried]
            ended = rest if rest and _fits(scene, rest) else ended
        if len(ended) <= _MOST_ENDED:
            return ended
    return []


def _fits(scene: PodScene, ended: Sequence[MeasuredHolding]) -> bool:
    node = ended[0].holding.node
    if node not in scene.nodes or node in scene.obstacles:
        return False
    return scene.view.judge_without(node, scene.request, [holding.holding for holding in ended]).fits is True


def _told(scene: PodScene, found: Sequence[MeasuredHolding], measured: MeasuredNodes) -> Finding:
    node = found[0].holding.node
    holders = {(pod.namespace, pod.name): pod for pod in scene.view.facts.pods or ()}
    pods = [holders[holding.holding.namespace, holding.holding.name] for holding in found]
    whose = [owner_of(pod) for pod in pods]
    values = {
        "pods": ", ".join(holding.name for holding in found),
        "memory": prose.mib(sum(holding.holding.amounts[0] for holding in found)),
        "time": roughly(min(holding.idle_s or 0 for holding in found)),
        "owner": ", ".join(dict.fromkeys(owner.team or f"{owner.kind} {owner.name}" for owner in whose)),
        "node": node,
    }
    last = (holding.last for holding in found if holding.last)
    proofs = [of_use(use, use.last_kernel, node, measured) for use in last if use.last_kernel]
    proofs += [quotes.of_holder(pod) for pod in pods]
    ask = step(Text("waited-for.ask", **values), prose.command("gpus", "--idle", "--node", node))
    claim = Text("waited-for.claim", **values)
    return finding("idle-holder", claim, nodes=(node,), proofs=proofs, actions=[ask])
