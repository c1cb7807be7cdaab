"""What is wrong with the nodes, all or one: `nodes`, the digest and the watcher use it. What keeps single nodes from
handing out GPUs comes first, in the same words as in `why` and `status`.
"""

from typing import NamedTuple

from bot.finding_codes import Code
from bot.report import Finding
from playbooks.rule import Stage, run
from playbooks.rules.nodes.faults import excused, groups
from playbooks.rules.nodes.node_causes import HANDS_OUT_NOTHING
from playbooks.rules.nodes.plugin_faults import monitor_down, plugin_faults
from playbooks.rules.nodes.sweep import (
    cards_cordoned,
    cordoned,
    misread_time,
    node_locks,
    not_healthy,
    not_ready,
    offered_otherwise,
    plugin_unwell,
    registered_twice,
    set_otherwise,
    under_pressure,
    unregistered,
)
from playbooks.scenes.nodes import NodesScene

NODES: tuple[Stage[NodesScene], ...] = (
    Stage("not ready", not_ready),
    HANDS_OUT_NOTHING,
    Stage("registration", misread_time, unregistered),
    Stage("device plugin", plugin_unwell, monitor_down),
    Stage("cards that are counted wrong", registered_twice, offered_otherwise, set_otherwise),
    Stage("locks", node_locks),
    Stage("cards that take no pod", not_healthy),
    Stage("Kubernetes", under_pressure),
    Stage("cordons", cards_cordoned, cordoned),
)
"""The stages about nodes. Every stage speaks: a node can have several faults that do not explain each other."""

_TELLING = (
    *("device-plugin-", "allocatable-mismatch", "registered-otherwise"),
    *("node-unregistered", "handshake-", "card-not-healthy"),
)
"""The beginnings of codes of faults whose cause the node's device plugin may know."""


class NodesJudgement(NamedTuple):
    """The findings, the worst first; how many nodes have GPUs or should, and the `well` ones with their GPUs."""

    findings: list[Finding]
    concerned: int
    well: list[str]
    cards: int

    @property
    def problems(self) -> dict[str, list[Code]]:
        """The codes of what is wrong with each node."""
        found = dict[str, list[Code]]()
        for finding in self.findings:
            for name in finding.scope.nodes:
                found.setdefault(name, []).append(finding.code)
        return found


def judge(scene: NodesScene) -> NodesJudgement:
    """The findings about the nodes, with the nodes that have none."""
    found = sorted(run(NODES, scene).findings, key=lambda finding: finding.severity == "info")
    ill, left = {name for finding in found for name in finding.scope.nodes}, excused(scene)
    well, concerned, cards = list[str](), 0, 0
    for node, names in scene.alike:
        concerned += sum(name in ill or name not in left for name in names)
        fine = [name for name in names if name not in ill and name not in left] if node.registrations else []
        well += fine
        cards += len(fine) * len(node.cards)
    return NodesJudgement(found, concerned, sorted(well), cards)


def in_question(scene: NodesScene, most: int) -> list[str]:
    """At most `most` nodes whose logs may tell more, one of each fault before a second of any; few are all read."""
    codes: dict[Code, None] = dict.fromkeys(code for stage in NODES for speaks in stage.rules for code in speaks.codes)
    telling = groups(scene, [code for code in codes if code.startswith(_TELLING)])
    telling.sort(key=lambda group: group.fault.severity == "info")
    of_drivers = (names for node, names in scene.alike if node.once(plugin_faults))
    ill = [*of_drivers, *(group.names for group in telling)]
    found = dict.fromkeys(names[at] for at in range(most) for names in ill if at < len(names))
    every = [scene.wanted] if scene.wanted else [name for _, names in scene.alike for name in names]
    return list(dict.fromkeys([*found, *(every if len(every) <= most else ())]))[:most]
