"""Nodes that would take a waiting pod if they handed out their GPUs, and why they do not."""

from bot.hami.fit import verdicts
from bot.hami.vendors import FIRST
from bot.report import Finding
from playbooks.gather.node_side import NodeSide
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.rules.common.findings import NodeCause
from playbooks.rules.nodes.node_causes import node_causes, per_cause
from playbooks.rules.nodes.not_selected import none_selected
from playbooks.rules.waiting.cause_ranking import Cause, Rank
from playbooks.rules.waiting.waiting_pod import Case

_OF_THE_NODE = (verdicts.NODE_UNREGISTERED, verdicts.NOT_HEALTHY)


def nodes_at_fault(case: Case, cause: Cause, questioned: NodesInQuestion) -> list[Finding]:
    """What is wrong with the nodes that HAMi refuses for this cause; not with those that could not take the pod."""
    if cause.text not in _OF_THE_NODE:
        return []
    of_first = case.device.vendor is FIRST
    if of_first and questioned.sets and not questioned.sides and not any(map(case.expects_gpus, case.nodes)):
        return none_selected(questioned.sets, list(case.nodes.values()))
    if cause.rank >= Rank.BACKGROUND:
        return []
    sides = [questioned.sides[name] for name in cause.nodes if name in questioned.sides]
    able = [side for side in sides if case.if_registered(side.name).fits is not False]
    found = [cause for side in able for cause in _causes(case, side, questioned)]
    return per_cause(found)


def nodes_behind(case: Case, first: Finding, questioned: NodesInQuestion) -> list[Finding]:
    """Why nodes that HAMi chose hand out no GPUs: HAMi binds pods there for as long as it knows the registration.

    Each such pod is refused after Bind and leaves its lock behind.
    """
    sides = [questioned.sides[name] for name in first.scope.nodes if name in questioned.sides]
    found = [cause for side in sides for cause in _causes(case, side, questioned)]
    return per_cause(found)


def _causes(case: Case, side: NodeSide, questioned: NodesInQuestion) -> list[NodeCause]:
    """What keeps the node from handing out what the pod asks for."""
    return node_causes(side, questioned.sets, case.config, case.now, vendors=[case.device.vendor])
