"""Why a node hands out no GPUs: its device plugin, another plugin beside it, or its GPUs, the cause first. The same
rules serve nodes that would take a pending pod if they handed out their GPUs.
"""

from collections.abc import Iterable
from datetime import datetime

from bot.finding_codes import Code
from bot.hami.vendors.vendor import Vendor
from bot.report import Finding, Gap
from playbooks.gather.node_side import NodeSide, PluginSets
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduling import InstallSeen
from playbooks.rule import Stage, run
from playbooks.rules.nodes.gpu_faults import faulty_gpus, second_plugin
from playbooks.rules.nodes.not_selected import not_selected
from playbooks.rules.nodes.plugin_faults import plugin_down
from playbooks.scenes.nodes import NodesScene
from playbooks.scenes.waiting_pod import PodScene

HANDS_OUT_NOTHING = Stage[NodesScene]("hands out no GPUs", plugin_down, not_selected, second_plugin, faulty_gpus)
NODE_CODES: tuple[Code, ...] = tuple(dict.fromkeys(code for rule in HANDS_OUT_NOTHING.rules for code in rule.codes))
"""The codes of findings about a node that hands out no GPUs."""


def node_causes(
    sides: Iterable[NodeSide], sets: PluginSets | None, seen: InstallSeen, now: datetime, *vendors: Vendor
) -> list[Finding]:
    """The findings about what keeps these nodes from handing out devices of `vendors`, or all, one per cause."""
    return run([HANDS_OUT_NOTHING], scene_of(sides, sets, seen, now, *vendors)).findings


def scene_of(
    sides: Iterable[NodeSide], sets: PluginSets | None, seen: InstallSeen, now: datetime, *vendors: Vendor
) -> NodesScene:
    questioned = NodesInQuestion({side.name: side for side in sides}, sets)
    nodes = [side.node for side in questioned.sides.values() if not isinstance(side.node, Gap)]
    return NodesScene(seen, nodes, now, questioned, vendors=vendors)


def with_nodes_behind(scene: PodScene, told: Finding | None) -> list[Finding]:
    """The finding `told`, after findings why nodes that HAMi chose hand out no GPUs. As long as HAMi has their
    registration it binds pods there, and each is refused after Bind and leaves its lock behind.
    """
    if told is None:
        return []
    sides = scene.cluster.questioned.sides
    return [*causes_behind(scene, (sides[name] for name in told.scope.nodes if name in sides)), told]


def causes_behind(scene: PodScene, sides: Iterable[NodeSide]) -> list[Finding]:
    """The findings about what keeps these nodes from handing out the devices that the pod asks for."""
    cluster = scene.cluster
    return node_causes(sides, cluster.questioned.sets, cluster.seen, scene.now, scene.device.vendor)
