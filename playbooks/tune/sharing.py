"""How GPUs are shared: memory, split counts and cores of a pool; and what HAMi-core logs inside the containers.

`deviceMemoryScaling`: how much more memory a pool may promise than it has, by what its pods really use.

The guide's ratio is all that was requested over all that was used at its peak, times 0.9: over seven days, for each
pool. A GPU that is full now is enough to refuse more, unless one pod has all of it. HAMi-core does not swap: what does
not fit ends in an out-of-memory error of the program.

`deviceSplitCount`: the guide's table is by the smallest request. More shares are advised where pods are refused for
lack of them; fewer only where the count is above 30 in a cluster of more than 200 nodes. The registration annotation
does not grow with the count (1,339 bytes at 10 and at 50 for 8 GPUs, seen on 2.10): what grows is kubelet's list of
devices.

`deviceCoreScaling`: HAMi takes a GPU for exclusive use where its cores are 100 in total
(pkg/device/nvidia/device.go): with more than 100 registered, nobody gets a whole one. HAMi-core writes a line for each
CUDA call at high levels of its log.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bot.hami.fit.verdicts import TIME_SLICING_EXHAUSTED
from bot.hami.installation.install import CORE_SCALING, chart_value
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import MeasuredHolding
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.report import Gap, NextAction, act, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.usage import COVERED, WINDOW_DAYS, WINDOW_HOURS, Peak
from playbooks.rules.common.holders import of_sample
from playbooks.rules.common.prose import command, mib
from playbooks.rules.waiting.alike import request_key
from playbooks.scenes.waiting_pod import PodScene
from playbooks.tune.advice import (
    Advice,
    AdviceRow,
    AdviceRule,
    Direction,
    changed,
    gpu_setting,
    kept,
    node_count,
    of_end,
    of_peak,
    of_request,
    oomkilled,
    unknown,
)
from playbooks.tune.guide import splits_for
from playbooks.tune.scene import Pool, TuneScene

FULL = 0.95
"""A GPU counts as full if at least this part of its own memory is in use."""
SAFE = 0.9
_LEAST, _MOST = 1.2, 2.0
"""The guide's range of over-commit."""
_KNOWN = 0.9
"""The part of the requested memory whose peaks have to be known."""
_SHOWN = 20
MOST_QUOTED = 200
_MIB = 2**20
_CLAIMS: Mapping[Direction, str] = {
    "raise": "tune.scaling-raise",
    "lower": "tune.scaling-lower",
    "refuse": "tune.scaling-refuse",
}


@AdviceRule
def memory_scaling(scene: TuneScene) -> list[Advice]:
    """Advice on each pool's memory scaling: whether more memory may be promised than it has, or too much is."""
    return [advice for pool in scene.pools for advice in _scaling(pool, scene)]


def _scaling(pool: Pool, scene: TuneScene) -> list[Advice]:
    if full := _full(pool, scene):
        return _refuse_full(pool, full, scene)
    known = _known(pool, scene)
    unread = pool.scaling is None and not gpu_setting(scene, "deviceMemoryScaling").proof
    if known is None or unread:
        why = Text("tune.config-unread") if unread else Text("tune.scaling-unknown", days=WINDOW_DAYS)
        return [unknown("memory-scaling", why, pool.object, current=_factor(pool) if pool.scaling else "")]
    requested, peaks = known
    most = round(sum(peak.used.value for _, peak in peaks) / _MIB)
    safe, current = round(requested / most * SAFE, 2), pool.scaling or 1.0
    amounts = {"requested": mib(requested), "peak": mib(most), "safe": f"{safe:.2f}"}
    why = Text("tune.scaling-ratio", count=len(peaks), **amounts)

    def advised(direction: Direction, to: float) -> Advice:
        text = why
        if len(peaks) > MOST_QUOTED:
            text = Text("tune.scaling-quoted", why=why, shown=MOST_QUOTED)
        claim = Text(_CLAIMS[direction], pool=pool.label, current=_factor(pool), wanted=f"{to:g}", why=text)
        actions = () if direction == "refuse" else _set_scaling(direction, f"{to:g}", pool, scene)
        row = _scaling_row(direction, pool, f"{to:g}", why)
        shown = sorted(peaks, key=lambda entry: -entry[1].used.value) if text is not why else peaks
        proofs = [of_peak(held, peak, scene) for held, peak in shown[:MOST_QUOTED]]
        asked = dict.fromkeys(proof for held, _ in shown[:MOST_QUOTED] for proof in of_request(held, scene))
        return changed(row, claim, (*proofs, *asked), actions)

    if safe < 1:
        return [*([advised("lower", 1.0)] if current > 1 else ()), advised("refuse", 1.0)]
    wanted = math.floor(10 * min(safe, _MOST)) / 10
    if wanted >= _LEAST and wanted > current:
        killed = [(held, container) for held in pool.held for container in oomkilled(held, scene)]
        if not killed:
            return [advised("raise", wanted)]
        why = Text("tune.scaling-killed", count=len(killed), pod=killed[0][0].name, days=WINDOW_DAYS)
        claim = Text("tune.scaling-refuse", pool=pool.label, wanted=f"{current:g}", why=why)
        proofs = tuple(of_end(held, container) for held, container in killed[:_SHOWN])
        row = _scaling_row("refuse", pool, f"{current:g}", why)
        return [changed(row, claim, proofs, confidence="suspected", of_symptom=False)]
    if safe < current:
        return [advised("lower", max(wanted, 1.0))]
    return [kept("memory-scaling", _factor(pool), why, pool.object)]


def _full(pool: Pool, scene: TuneScene) -> list[tuple[str, Sample, int]]:
    """The pool's GPUs whose own memory is used up, and that several hold: UUID, figure, MiB that it has. Where memory
    is over-committed, one holder is enough: more is promised than the GPU has.
    """
    used, scaling = {gpu.uuid: gpu.used for gpu in scene.usage.usage.gpus}, pool.scaling or 1
    promised = [state.card for state in pool.gpus if state.slots > 1 or scaling > 1]
    figures = [(card.uuid, used.get(card.uuid), card.memory_mib / scaling) for card in promised]
    return [
        (uuid, reading, round(has))
        for uuid, reading, has in figures
        if reading is not None and has and reading.value / _MIB >= FULL * has
    ]


def _refuse_full(pool: Pool, full: list[tuple[str, Sample, int]], scene: TuneScene) -> list[Advice]:
    uuid, reading, has = full[0]
    why = Text("tune.scaling-full", count=len(full), used=mib(round(reading.value / _MIB)), physical=mib(has))
    proofs = tuple(
        of_sample(f"GPU {gpu}", sample, pool.node_of(gpu).name, scene, grep=gpu) for gpu, sample, _ in full[:_SHOWN]
    )
    proofs += (quotes.of_card(pool.node_of(uuid), uuid),)
    current = pool.scaling or 1.0
    directions: list[Direction] = ["lower", "refuse"] if current > 1 else ["refuse"]
    return [
        changed(
            _scaling_row(direction, pool, "1" if direction == "lower" else "", why),
            Text(_CLAIMS[direction], pool=pool.label, current=f"{current:g}", wanted="1", why=why),
            proofs,
            _set_scaling(direction, "1", pool, scene) if direction == "lower" else (),
            severity="warning" if direction == "lower" else "info",
        )
        for direction in directions
    ]


def _known(pool: Pool, scene: TuneScene) -> tuple[int, list[tuple[MeasuredHolding, Peak]]] | None:
    """What a pool's pods with a whole window requested (MiB) and used at most; None unless nearly all are known."""
    of_pool: list[tuple[MeasuredHolding, Peak]] = []
    requested = covered = 0
    known, enough = scene.peaks, COVERED * WINDOW_HOURS
    for held in pool.held:
        namespace, name = held.holding.namespace, held.holding.name
        for uuid, share in held.shares.items():
            requested += share.memory_mib
            peaks = known.get((namespace, name, uuid), ())
            whole = all(peak.hours >= enough and peak.used.value > 0 for peak in peaks)
            if peaks and whole and len(peaks) >= share.slots:
                covered += share.memory_mib
                of_pool += [(held, peak) for peak in peaks]
    return (covered, of_pool) if of_pool and covered >= _KNOWN * requested else None


def _scaling_row(direction: Direction, pool: Pool, wanted: Prose, why: Prose) -> AdviceRow:
    return AdviceRow("memory-scaling", direction, pool.object, _factor(pool), wanted, why)


def _factor(pool: Pool) -> Prose:
    return f"{pool.scaling:g}" if pool.scaling else Text("tune.default", value="1")


def _set_scaling(direction: Direction, wanted: str, pool: Pool, scene: TuneScene) -> tuple[NextAction, ...]:
    value = f"{chart_value('devicePlugin.deviceMemoryScaling', scene.install)}={wanted}"
    risk = Text("tune.scaling-less-risk" if direction == "lower" else "tune.scaling-risk")
    return (
        act(Text("tune.set-pool", value=value, pool=pool.label, risk=risk)),
        step(Text("tune.scaling-check"), command("gpus")),
    )


_MOST_VERDICTS = 50_000
"""The most verdicts, a node each, for all requests that differ: a second's worth on one core of 2026."""
_MANY_SPLITS, _MANY_NODES = 30, 200
_NONE = 2**31
"""A number of MiB above any GPU's memory."""


class _Short(NamedTuple):
    """The pods that wait for nothing but a share, each with the nodes that would take it if their GPUs had more.
    `unknown`: why that is not known of all pods; empty where it is.
    """

    pods: Sequence[tuple[Pod, frozenset[str]]] = ()
    unknown: Prose = ""


@AdviceRule
def split(scene: TuneScene) -> list[Advice]:
    """Advice on each pool's split count: too few shares for the pods that wait, or more than are of use."""
    pools = [pool for pool in scene.pools if pool.held]
    exhausted = frozenset(name for pool in pools for name in _exhausted(pool))
    short = _short_of_shares(exhausted, scene) if exhausted and scene.without_share else _Short()
    return [_splitting(pool, short, scene) for pool in pools]


def _short_of_shares(exhausted: frozenset[str], scene: TuneScene) -> _Short:
    """HAMi's words are not enough: it gives each GPU of a node its own reason, and up to 2.9 none in the condition."""
    quotas, total = scene.capacity.quotas, len(scene.without_share)
    if isinstance(quotas, Gap):
        return _Short(unknown=Text("tune.split-quotas", count=total))
    most = max(1, _MOST_VERDICTS // max(1, len(scene.world.facts.nodes)))
    limited = {quota.namespace for quota in quotas}
    takers: dict[bytes, frozenset[str]] = {}
    found: list[tuple[Pod, frozenset[str]]] = []
    for pod in scene.without_share:
        alike = request_key(pod, limited)
        if alike not in takers and len(takers) < most:
            waiting = PodScene(scene.world, pod)
            names = [name for name in waiting.candidates if name in exhausted]
            relaxed = waiting.judge_each(names, frozenset({TIME_SLICING_EXHAUSTED}))
            would = frozenset(name for name, verdict in relaxed.items() if verdict.fits)
            takers[alike] = would if would and not waiting.fitting else frozenset()
        if alike in takers:
            found.append((pod, takers[alike]))
    left = total - len(found)
    return _Short(found, Text("tune.split-many", count=left) if left else "")


def _splitting(pool: Pool, short: _Short, scene: TuneScene) -> Advice:
    nodes = 0 if isinstance(scene.nodes, Gap) else len(scene.nodes)
    wanted = splits_for(pool.smallest_mib)
    most = max((state.slots for state in pool.gpus), default=0)
    values = {"splits": pool.splits, "smallest": mib(pool.smallest_mib), "wanted": wanted, "most": most}
    names = {node.name for node in pool.nodes}
    refused = [pod for pod, takers in short.pods if names & takers]
    if refused:
        wanted = max(wanted, 2 * pool.splits)
        why = Text("tune.split-exhausted", **values, count=len(refused))
        return _resplit(why, wanted, refused, pool, scene)
    if pool.splits > _MANY_SPLITS and nodes > _MANY_NODES and most <= wanted < pool.splits:
        why = Text("tune.split-large", **values, nodes=nodes)
        return _resplit(why, wanted, (), pool, scene)
    if short.unknown and _exhausted(pool):
        return unknown("split-count", short.unknown, pool.object, current=str(pool.splits))
    why = Text("tune.split-fits", **values)
    return kept("split-count", str(pool.splits), why, pool.object)


def _exhausted(pool: Pool) -> list[str]:
    return [
        node.name
        for node, states in zip(pool.nodes, pool.by_node, strict=True)
        if any(state.slots >= state.card.slots and state.memory_mib < state.card.memory_mib for state in states)
    ]


def _resplit(why: Prose, wanted: int, refused: Sequence[Pod], pool: Pool, scene: TuneScene) -> Advice:
    row = AdviceRow("split-count", "raise" if refused else "lower", pool.object, str(pool.splits), str(wanted), why)
    claim = Text("tune.split-claim", pool=pool.label, splits=pool.splits, wanted=wanted, why=why)
    value = f"{chart_value('devicePlugin.deviceSplitCount', scene.install)}={wanted}"
    node, first = pool.nodes[0].name, pool.by_node[0]
    offered = quotes.of_allocatable(pool.nodes[0], scene.config.gpus.count).command
    actions = (
        act(Text("tune.set-pool", value=value, pool=pool.label, risk=Text("tune.split-risk"))),
        step(Text("tune.split-check", node=node, count=wanted * len(first)), offered),
    )
    conditions = [(pod, condition) for pod in refused[:_SHOWN] if (condition := pod.condition("PodScheduled"))]
    proofs = tuple(quotes.of_condition(pod, condition, condition.last_transition_time) for pod, condition in conditions)
    smallest = min(
        pool.held, key=lambda held: min((share.memory_mib or _NONE for share in held.shares.values()), default=0)
    )
    registered = quotes.of_card(pool.nodes[0], first[0].card.uuid)
    proofs += (registered, *of_request(smallest, scene), *node_count(scene))
    severity = "warning" if refused else "info"
    return changed(row, claim, proofs, actions, severity=severity)


WHOLE = 100
_LIBRARY_SINCE = Version(2, 6, 0)
"""The version since which HAMi reads libCudaLogLevel and gpuCorePolicy."""
_WARNINGS, _DEBUG_FROM = "1", 3


@AdviceRule
def core_scaling(scene: TuneScene) -> list[Advice]:
    """Advice on each pool's core scaling: whether more cores are registered than HAMi takes for a whole GPU."""
    advice: list[Advice] = []
    for pool in (pool for pool in scene.pools if pool.held):
        most = max(pool.gpus, key=lambda state: state.card.cores).card
        current = f"{most.cores / WHOLE:g}"
        if most.cores <= WHOLE:
            why = Text("tune.core-scaling-kept", cores=most.cores)
            advice.append(kept("core-scaling", current, why, pool.object))
            continue
        why, node = Text("tune.core-scaling-high", cores=most.cores), pool.node_of(most.uuid)
        values = {"pool": pool.label, "risk": Text("tune.core-scaling-risk")}
        path = chart_value(CORE_SCALING, scene.install)
        how = Text("tune.set-pool", value=f"{path}=1", **values) if path else Text("tune.set-nodes", **values)
        check = step(Text("tune.core-scaling-check"), command("gpus", "--node", node.name))
        claim = Text("tune.core-scaling-claim", pool=pool.label, current=current, why=why)
        row = AdviceRow("core-scaling", "lower", pool.object, current, "1", why)
        advice.append(changed(row, claim, (quotes.of_card(node, most.uuid),), (act(how), check)))
    return advice


@AdviceRule
def library_log(scene: TuneScene) -> list[Advice]:
    """Advice on HAMi-core's log level, which may log every CUDA call; empty before HAMi has the setting."""
    if before_library(scene):
        return []
    deployed = gpu_setting(scene, "libCudaLogLevel")
    if not deployed.proof:
        return [unknown("library-log", Text("tune.config-unread"))]
    current = deployed.value or Text("tune.default", value=_WARNINGS)
    if not deployed.value.isdecimal() or int(deployed.value) < _DEBUG_FROM:
        return [kept("library-log", current, Text("tune.library-log-kept"))]
    why = Text("tune.library-log-high", level=deployed.value)
    value = f"devices.nvidia.libCudaLogLevel={_WARNINGS}"
    actions = (
        act(Text("tune.set", value=value, risk=Text("tune.library-log-risk"))),
        step(Text("tune.check-value"), deployed.proof[0].command),
    )
    claim = Text("tune.library-log-claim", current=current, wanted=_WARNINGS, why=why)
    row = AdviceRow("library-log", "lower", "", current, _WARNINGS, why)
    return [changed(row, claim, deployed.proof, actions)]


def before_library(scene: TuneScene) -> bool:
    """Whether this version of HAMi has neither libCudaLogLevel nor gpuCorePolicy."""
    return scene.version is not None and scene.version < _LIBRARY_SINCE
