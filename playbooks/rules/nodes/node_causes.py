"""Why a node hands out no GPUs: its device plugin, another plugin beside it, its GPUs, the cause first."""

from collections.abc import Iterable
from datetime import datetime

from bot.finding_codes import Code
from bot.hami.vendors.vendor import Vendor
from bot.report import Finding
from playbooks.gather.node_side import NodeSide, PluginSets
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduling import InstallSeen
from playbooks.rule import Stage, run
from playbooks.rules.nodes.gpu_faults import faulty_gpus
from playbooks.rules.nodes.not_selected import not_selected
from playbooks.rules.nodes.plugin_faults import plugin_down
from playbooks.rules.nodes.second_device_plugin import second_plugin
from playbooks.scenes.nodes import NodesScene

HANDS_OUT_NOTHING = Stage[NodesScene]("hands out no GPUs", plugin_down, not_selected, second_plugin, faulty_gpus)
NODE_CODES: tuple[Code, ...] = tuple(dict.fromkeys(code for rule in HANDS_OUT_NOTHING.rules for code in rule.codes))
"""What may be told of a node that hands out no GPUs."""


def node_causes(
    sides: Iterable[NodeSide], sets: PluginSets | None, seen: InstallSeen, now: datetime, *vendors: Vendor
) -> list[Finding]:
    """What has to change on these nodes before HAMi's pods get GPUs there, one finding per cause; nothing where all is
    well, or was not read.

    `vendors`: whose device plugins are looked at; all whose devices a node should have where none is named.
    """
    return run([HANDS_OUT_NOTHING], scene_of(sides, sets, seen, now, *vendors)).findings


def scene_of(
    sides: Iterable[NodeSide], sets: PluginSets | None, seen: InstallSeen, now: datetime, *vendors: Vendor
) -> NodesScene:
    """These nodes, which were read by themselves."""
    questioned = NodesInQuestion({side.name: side for side in sides}, sets)
    return NodesScene(seen, (), now, questioned, vendors=vendors)
