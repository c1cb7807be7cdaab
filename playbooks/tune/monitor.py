"""Nodes whose use cannot be told, because no figures of their vGPUmonitor were read."""

from bot.kube.times import format_time
from bot.report import Evidence, Gap, NextAction
from bot.texts import Texts
from playbooks.rules.common import prose
from playbooks.tune.facts import Facts
from playbooks.tune.proof import of_request
from playbooks.tune.rows import Advice, AdviceRow

_SHOWN = 3


def advise_monitor(facts: Facts, say: Texts) -> list[Advice]:
    """One row where pods hold GPUs on nodes of which nothing was measured: no monitor or Prometheus gave figures."""
    nodes = sorted({held.holding.node for held in facts.held})
    measured = _measured_nodes(facts)
    missing = [node for node in nodes if node not in measured]
    if not missing:
        return []
    why = say("tune.monitor", missing=len(missing), nodes=len(nodes), which=prose.names(say, missing))
    row = AdviceRow("monitor-gap", "raise", ",".join(missing), "", "", why)
    look = "tune.monitor-scrape" if facts.usage.of_prometheus else "tune.monitor-do"
    action = NextAction(say(look), prose.plugin_pods_command(missing[0]))
    return [Advice(row, why, confidence="suspected", evidence=_proofs(missing, facts), actions=(action,))]


def _proofs(missing: list[str], facts: Facts) -> tuple[Evidence, ...]:
    """What was asked and what came back; and of the first nodes a pod that holds GPUs there."""
    at, look = format_time(facts.taken_at), prose.plugin_pods_command(missing[0])
    answers = [Evidence("metrics", gap.source, at, gap.why, look) for gap in facts.usage.gaps]
    holders = [next(held for held in facts.held if held.holding.node == node) for node in missing[:_SHOWN]]
    return (*answers, *(proof for held in holders for proof in of_request(held, facts)))


def _measured_nodes(facts: Facts) -> set[str]:
    """With Prometheus, where any figure came; else where a monitor gave some."""
    seen = facts.usage
    if seen.monitors:
        return {pod.spec.node_name for pod in seen.monitors}
    uuids = {use.uuid for use in seen.usage.containers} | {gpu.uuid for gpu in seen.usage.gpus}
    if isinstance(facts.holders, Gap):
        return set()
    return {held.holding.node for held in facts.held if uuids & held.shares.keys()} | {
        gpu.node for gpu in seen.usage.gpus if gpu.node
    }
