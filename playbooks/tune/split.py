"""`deviceSplitCount`: into how many shares each GPU of a pool is split.

The guide's table is by the smallest request. More shares are advised where pods are refused for lack of them; fewer
only where the count is above 30 in a cluster of more than 200 nodes. The registration annotation does not grow with the
count (1,339 bytes at 10 and at 50 for 8 GPUs, seen on 2.10): what grows is kubelet's list of devices.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.fit.verdicts import TIME_SLICING_EXHAUSTED
from bot.hami.installation.helm_values import chart_value
from bot.hami.metrics.holder_usage import MeasuredHolding
from bot.kube.models import Pod
from bot.report import Evidence, Gap, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.rules.common.prose import mib
from playbooks.rules.waiting.alike import request_key
from playbooks.scenes.waiting_pod import PodScene
from playbooks.tune.deployed import node_count
from playbooks.tune.facts import Facts
from playbooks.tune.guide import splits_for
from playbooks.tune.pools import Pool
from playbooks.tune.proof import of_request
from playbooks.tune.rows import Advice, AdviceRow, Direction

_MOST_VERDICTS = 50_000
"""Nodes looked at, for all requests that differ: a second's worth on one core of 2026."""
_MANY_SPLITS, _MANY_NODES = 30, 200
_SHOWN = 20
_NONE = 2**31
"""More than any GPU has."""


class _Short(NamedTuple):
    """The pods that wait for nothing but a share, each with the nodes that would take it if their GPUs had more.

    `untold`: why that is not known of all pods; empty where it is.
    """

    pods: Sequence[tuple[Pod, frozenset[str]]] = ()
    untold: Prose = ""


def advise_split(facts: Facts) -> list[Advice]:
    """A row for each pool that pods hold GPUs of, or wait for."""
    pools = [pool for pool in facts.pools if pool.held]
    exhausted = frozenset(name for pool in pools for name in _exhausted(pool))
    short = _short_of_shares(exhausted, facts) if exhausted and facts.without_share else _Short()
    return [_judge(pool, short, facts) for pool in pools]


def _short_of_shares(exhausted: frozenset[str], facts: Facts) -> _Short:
    """HAMi's words are not enough: it gives each GPU of a node its own reason, and up to 2.9 none in the condition."""
    quotas, total = facts.capacity.quotas, len(facts.without_share)
    if isinstance(quotas, Gap):
        return _Short(untold=Text("tune.split-quotas", count=total))
    most = max(1, _MOST_VERDICTS // max(1, len(facts.world.facts.nodes)))
    limited = {quota.namespace for quota in quotas}
    takers: dict[bytes, frozenset[str]] = {}
    found: list[tuple[Pod, frozenset[str]]] = []
    for pod in facts.without_share:
        alike = request_key(pod, limited)
        if alike not in takers and len(takers) < most:
            takers[alike] = _takers_with_more_shares(PodScene(pod, facts.world), exhausted)
        if alike in takers:
            found.append((pod, takers[alike]))
    left = total - len(found)
    return _Short(found, Text("tune.split-many", count=left) if left else "")


def _takers_with_more_shares(scene: PodScene, exhausted: frozenset[str]) -> frozenset[str]:
    names = [name for name in scene.candidates if name in exhausted]
    relaxed = scene.judge_each(names, frozenset({TIME_SLICING_EXHAUSTED}))
    takers = frozenset(name for name, verdict in relaxed.items() if verdict.fits)
    return takers if takers and not scene.fitting else frozenset()


def _judge(pool: Pool, short: _Short, facts: Facts) -> Advice:
    nodes = 0 if isinstance(facts.nodes, Gap) else len(facts.nodes)
    wanted = splits_for(pool.smallest_mib)
    most = max((state.slots for state in pool.gpus), default=0)
    values = {"splits": pool.splits, "smallest": mib(pool.smallest_mib), "wanted": wanted, "most": most}
    names = {node.name for node in pool.nodes}
    refused = [pod for pod, takers in short.pods if names & takers]
    if refused:
        wanted = max(wanted, 2 * pool.splits)
        why = Text("tune.split-exhausted", **values, count=len(refused))
        return _change(_row("raise", pool, str(wanted), why), wanted, refused, pool, facts)
    if pool.splits > _MANY_SPLITS and nodes > _MANY_NODES and most <= wanted < pool.splits:
        why = Text("tune.split-large", **values, nodes=nodes)
        return _change(_row("lower", pool, str(wanted), why), wanted, (), pool, facts)
    if short.untold and _exhausted(pool):
        return Advice(_row("cannot-tell", pool, "", short.untold), short.untold)
    why = Text("tune.split-fits", **values)
    return Advice(_row("keep", pool, str(pool.splits), why), why)


def _exhausted(pool: Pool) -> list[str]:
    """The nodes of the pool with a GPU that has memory and no share left."""
    return [
        node.name
        for node, states in zip(pool.nodes, pool.by_node, strict=True)
        if any(state.slots >= state.card.slots and state.memory_mib < state.card.memory_mib for state in states)
    ]


def _change(row: AdviceRow, wanted: int, refused: Sequence[Pod], pool: Pool, facts: Facts) -> Advice:
    claim = Text("tune.split-claim", pool=pool.label, splits=pool.splits, wanted=wanted, why=row.why)
    value = f"{chart_value('devicePlugin.deviceSplitCount', facts.install.install)}={wanted}"
    node = pool.nodes[0].name
    offered = quotes.of_allocatable(pool.nodes[0], facts.install.config.gpus.count).command
    actions = (
        step(Text("tune.set-pool", value=value, pool=pool.label, risk=Text("tune.split-risk")), ""),
        step(Text("tune.split-check", node=node, count=_offered(pool, node, wanted)), offered),
    )
    conditions = [(pod, condition) for pod in refused[:_SHOWN] if (condition := pod.condition("PodScheduled"))]
    proofs = tuple(quotes.of_condition(pod, condition, condition.last_transition_time) for pod, condition in conditions)
    smallest = min(pool.held, key=lambda held: _smallest_mib(held) or _NONE)
    proofs += (_registered(pool), *of_request(smallest, facts), *node_count(facts))
    severity = "warning" if refused else "info"
    return Advice(row, claim, severity=severity, evidence=proofs, actions=actions)


def _smallest_mib(held: MeasuredHolding) -> int:
    return min((share.memory_mib for share in held.shares.values() if share.memory_mib), default=0)


def _offered(pool: Pool, node: str, splits: int) -> int:
    """How many shares kubelet then offers on the node."""
    text = " ".join((pool.nodes[0].metadata.annotations or {}).values()) if pool.nodes[0].name == node else ""
    return splits * sum(1 for state in pool.gpus if state.card.uuid in text)


def _registered(pool: Pool) -> Evidence:
    """A GPU of the pool, with the count of shares that is registered."""
    return quotes.of_card(pool.nodes[0], _first_gpu(pool), whole=True)


def _first_gpu(pool: Pool) -> str:
    text = " ".join((pool.nodes[0].metadata.annotations or {}).values())
    return next(state.card.uuid for state in pool.gpus if state.card.uuid in text)


def _row(direction: Direction, pool: Pool, wanted: str, why: Prose) -> AdviceRow:
    return AdviceRow("split-count", direction, pool.object, str(pool.splits), wanted, why)
