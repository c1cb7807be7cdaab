"""`deviceSplitCount`: into how many shares each GPU of a pool is split.

The guide's table is by the smallest request. More shares are advised where pods are refused for lack of them; fewer
only where the count is above 30 in a cluster of more than 200 nodes. The registration annotation does not grow with the
count (1,339 bytes at 10 and at 50 for 8 GPUs, seen on 2.10): what grows is kubelet's list of devices.
"""

from collections.abc import Sequence

from bot.kube.models import Pod
from bot.report import Gap, NextAction
from bot.texts import Texts
from playbooks import quotes
from playbooks.rules.prose import mib
from playbooks.tune.facts import Facts
from playbooks.tune.guide import splits_for
from playbooks.tune.pools import Pool, pools_of
from playbooks.tune.rows import Advice, AdviceRow, Direction

_REASON = "CardTimeSlicingExhausted"
_MANY_SPLITS, _MANY_NODES = 30, 200
_SHOWN = 3


def advise_split(facts: Facts, say: Texts) -> list[Advice]:
    """A row for each pool that pods hold GPUs of, or wait for."""
    nodes = 0 if isinstance(facts.nodes, Gap) else len(facts.nodes)
    return [_judge(pool, nodes, facts, say) for pool in pools_of(facts) if pool.held]


def _judge(pool: Pool, nodes: int, facts: Facts, say: Texts) -> Advice:
    wanted = splits_for(pool.smallest_mib)
    most = max((state.slots for state in pool.gpus), default=0)
    values = {"splits": pool.splits, "smallest": mib(pool.smallest_mib), "wanted": wanted, "most": most}
    refused = _refused(pool, facts)
    if refused:
        wanted = max(wanted, 2 * pool.splits)
        why = say("tune.split-exhausted", **values, count=len(refused), free=mib(_free_mib(pool)))
        return _change(_row("raise", pool, str(wanted), why), pool, refused, say)
    if pool.splits > _MANY_SPLITS and nodes > _MANY_NODES and most <= wanted < pool.splits:
        why = say("tune.split-large", **values, nodes=nodes)
        return _change(_row("lower", pool, str(wanted), why), pool, (), say)
    why = say("tune.split-fits", **values)
    return Advice(_row("keep", pool, str(pool.splits), why), why)


def _refused(pool: Pool, facts: Facts) -> list[Pod]:
    """The pods that wait for a share, where a GPU of the pool has memory and no share left."""
    exhausted = any(state.slots >= state.card.slots and state.memory_mib < state.card.memory_mib for state in pool.gpus)
    if not exhausted or isinstance(facts.waiting, Gap):
        return []
    return [pod for pod in facts.waiting if _REASON in _told(pod)]


def _told(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    return condition.message if condition is not None and condition.status == "False" else ""


def _free_mib(pool: Pool) -> int:
    return sum(max(0, state.card.memory_mib - state.memory_mib) for state in pool.gpus)


def _change(row: AdviceRow, pool: Pool, refused: Sequence[Pod], say: Texts) -> Advice:
    claim = say("tune.split-claim", pool=pool.label, splits=pool.splits, wanted=row.recommended, why=row.why)
    value = f"devicePlugin.deviceSplitCount={row.recommended}"
    action = NextAction(say("tune.set-pool", value=value, pool=pool.label, risk=say("tune.split-risk")), "")
    conditions = [(pod, condition) for pod in refused[:_SHOWN] if (condition := pod.condition("PodScheduled"))]
    proofs = tuple(quotes.of_condition(pod, condition, condition.last_transition_time) for pod, condition in conditions)
    return Advice(row, claim, severity="warning" if refused else "info", evidence=proofs, actions=(action,))


def _row(direction: Direction, pool: Pool, wanted: str, why: str) -> AdviceRow:
    return AdviceRow("split-count", direction, pool.object, str(pool.splits), wanted, why)
