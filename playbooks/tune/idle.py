"""Pods that hold GPUs and have launched no kernel for hours."""

from bot.hami.metrics.holder_usage import IDLE_S, MeasuredHolding
from bot.report import Evidence, step
from bot.texts import Text
from playbooks.rules.common.holders import of_use
from playbooks.rules.common.prose import command, mib
from playbooks.tune.facts import Facts
from playbooks.tune.proof import of_request
from playbooks.tune.rows import Advice, AdviceRow


def advise_idle(facts: Facts) -> list[Advice]:
    """A row for each pod that is idle, or of which that cannot be told: a missing figure is no idle pod."""
    if not facts.usage.usage.containers and not facts.usage.usage.gpus:
        why = Text("tune.use-unknown")
        return [Advice(AdviceRow("idle-holder", "cannot-tell", "", "", "", why), why)]
    return [advice for held in facts.held if (advice := _judge(held, facts)) is not None]


def _judge(held: MeasuredHolding, facts: Facts) -> Advice | None:
    memory, _ = held.holding.amounts
    if held.idle_s is None or held.last is None or held.last.last_kernel is None:
        why = Text("tune.idle-unknown", count=len(held.unmeasured) or len(held.shares))
        return Advice(AdviceRow("idle-holder", "cannot-tell", held.name, mib(memory), "", why), why)
    if held.idle_s < IDLE_S:
        return None
    hours = f"{held.idle_s / 3600:.1f}"
    why = Text("tune.idle-gone" if held.has_no_process else "tune.idle", hours=hours)
    row = AdviceRow("idle-holder", "lower", held.name, mib(memory), "", why)
    claim = Text("tune.idle-claim", pod=held.name, memory=mib(memory), count=len(held.shares), why=why)
    node = held.holding.node
    proofs: list[Evidence] = [of_use(held.last, held.last.last_kernel, node, facts)]
    proofs += [of_use(use, use.used, node, facts) for use in held.uses if held.has_no_process and use.used]
    proofs += of_request(held, facts)
    actions = (
        step(Text("tune.idle-do", pod=held.name), ""),
        step(Text("tune.idle-check", node=node), command("gpus", "--node", node)),
    )
    return Advice(row, claim, severity="warning", evidence=tuple(proofs), actions=actions)
