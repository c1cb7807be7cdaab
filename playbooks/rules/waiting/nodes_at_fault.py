"""Nodes that would take a waiting pod if they handed out their GPUs, and why they do not."""

from collections.abc import Iterable

from bot.hami.fit import verdicts
from bot.hami.vendors import FIRST
from bot.report import Finding
from playbooks.gather.node_side import NodeSide
from playbooks.rules.nodes.node_causes import node_causes
from playbooks.rules.nodes.not_selected import none_selected
from playbooks.rules.waiting.cause_ranking import Cause, Rank
from playbooks.scenes.waiting_pod import PodScene

_OF_THE_NODE = (verdicts.NODE_UNREGISTERED, verdicts.NOT_HEALTHY)


def nodes_at_fault(scene: PodScene, cause: Cause) -> list[Finding]:
    """What is wrong with the nodes that HAMi refuses for this cause; not with those that could not take the pod."""
    questioned = scene.cluster.questioned
    if cause.text not in _OF_THE_NODE:
        return []
    of_first = scene.device.vendor is FIRST
    if of_first and questioned.sets and not questioned.sides and not any(map(scene.expects_gpus, scene.nodes)):
        return none_selected(questioned.sets, list(scene.nodes.values()))
    if cause.rank >= Rank.BACKGROUND:
        return []
    sides = [questioned.sides[name] for name in cause.nodes if name in questioned.sides]
    return _causes(scene, (side for side in sides if scene.if_registered(side.name).fits is not False))


def with_nodes_behind(scene: PodScene, told: Finding | None) -> list[Finding]:
    """The finding, before it why nodes that HAMi chose hand out no GPUs: HAMi binds pods there for as long as it knows
    the registration. Each such pod is refused after Bind and leaves its lock behind.
    """
    if told is None:
        return []
    sides = scene.cluster.questioned.sides
    return [*_causes(scene, (sides[name] for name in told.scope.nodes if name in sides)), told]


def _causes(scene: PodScene, sides: Iterable[NodeSide]) -> list[Finding]:
    """What keeps these nodes from handing out what the pod asks for."""
    cluster = scene.cluster
    return node_causes(sides, cluster.questioned.sets, cluster.seen, scene.now, scene.device.vendor)
