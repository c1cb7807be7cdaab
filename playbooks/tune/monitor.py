"""Nodes whose use cannot be told, because their vGPUmonitor gives no figures."""

from bot.report import Gap, NextAction
from bot.texts import Texts
from playbooks.rules import prose
from playbooks.tune.facts import Facts
from playbooks.tune.rows import Advice, AdviceRow


def advise_monitor(facts: Facts, say: Texts) -> list[Advice]:
    """One row where pods hold GPUs on nodes of which nothing was measured: no monitor answered, or no series came."""
    nodes = sorted({held.holding.node for held in facts.held})
    measured = _measured_nodes(facts)
    missing = [node for node in nodes if node not in measured]
    if not missing:
        return []
    why = say("tune.monitor", missing=len(missing), nodes=len(nodes), which=prose.names(say, missing))
    row = AdviceRow("monitor-gap", "raise", ",".join(missing), "", "", why)
    action = NextAction(say("tune.monitor-do"), prose.plugin_pods_command(missing[0]))
    return [Advice(row, why, confidence="suspected", actions=(action,))]


def _measured_nodes(facts: Facts) -> set[str]:
    """With Prometheus, where any figure came; else where a monitor answered."""
    seen = facts.usage
    if seen.monitors:
        return {pod.spec.node_name for pod in seen.monitors}
    uuids = {use.uuid for use in seen.usage.containers} | {gpu.uuid for gpu in seen.usage.gpus}
    if isinstance(facts.holders, Gap):
        return set()
    return {held.holding.node for held in facts.held if uuids & held.holding.shares.keys()} | {
        gpu.node for gpu in seen.usage.gpus if gpu.node
    }
