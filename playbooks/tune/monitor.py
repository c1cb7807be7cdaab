"""Nodes of which vGPUmonitor gave no figure: a fault where its answer has none, else it is only not known."""

from collections.abc import Sequence

from bot.kube.times import format_time
from bot.report import Evidence, Gap, step
from bot.texts import Text
from playbooks.rules.common import prose
from playbooks.tune.facts import Facts
from playbooks.tune.proof import of_request
from playbooks.tune.rows import Advice, AdviceRow

_SHOWN = 3


def advise_monitor(facts: Facts) -> list[Advice]:
    """A row for the nodes where pods hold GPUs and what was read has no figure of them; one for those where nothing
    could be read.
    """
    nodes = sorted({held.holding.node for held in facts.held})
    measured = _measured_nodes(facts)
    missing = [node for node in nodes if node not in measured]
    unread = [node for node in missing if _is_unread(node, facts)]
    silent = [node for node in missing if node not in unread]
    advice: list[Advice] = []
    if silent:
        why = Text("tune.monitor", missing=len(silent), nodes=len(nodes), which=prose.names(silent))
        row = AdviceRow("monitor-gap", "repair", ",".join(silent), "", "", why)
        look = Text("tune.monitor-scrape" if facts.usage.of_prometheus else "tune.monitor-do")
        action = step(look, prose.plugin_pods_command(silent[0]))
        advice.append(Advice(row, why, confidence="suspected", evidence=_proofs(silent, facts), actions=(action,)))
    if unread:
        why = Text("tune.monitor-unread", missing=len(unread), nodes=len(nodes), which=prose.names(unread))
        advice.append(Advice(AdviceRow("monitor-gap", "cannot-tell", ",".join(unread), "", "", why), why))
    return advice


def _is_unread(node: str, facts: Facts) -> bool:
    """Whether the node's vGPUmonitor may have figures that could not be read."""
    usage = facts.usage
    if usage.of_prometheus:
        return False
    return not usage.all_known or node in {pod.spec.node_name for pod in usage.unread}


def _proofs(missing: Sequence[str], facts: Facts) -> tuple[Evidence, ...]:
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
