"""`deviceMemoryScaling`: how much more memory a pool may promise than it has, by what its pods really use.

The guide's ratio is all that was requested over all that was used at its peak, times 0.9: over seven days, for each
pool. A GPU that is full now is enough to refuse more, unless one pod has all of it. HAMi-core does not swap: what does
not fit ends in an out-of-memory error of the program.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from bot.hami.installation.helm_values import chart_value
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.holder_usage import MeasuredHolding
from bot.kube.models.pod_views import HolderContainer
from bot.report import Evidence, NextAction, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.usage import COVERED, WINDOW_DAYS, WINDOW_HOURS, Peak
from playbooks.rules.common.holders import of_sample
from playbooks.rules.common.prose import command, mib
from playbooks.tune.deployed import gpu_setting
from playbooks.tune.facts import Facts
from playbooks.tune.oom_kills import of_end, oomkilled
from playbooks.tune.pools import Pool
from playbooks.tune.proof import of_peak, of_request
from playbooks.tune.rows import Advice, AdviceRow, Direction

FULL = 0.95
"""Of a GPU's own memory."""
SAFE = 0.9
_LEAST, _MOST = 1.2, 2.0
"""The guide's range of over-commit."""
_KNOWN = 0.9
"""Of the requested memory, whose peaks are known."""
_SHOWN = 20
MOST_QUOTED = 200
_MIB = 2**20
_CLAIMS: Mapping[Direction, str] = {
    "raise": "tune.scaling-raise",
    "lower": "tune.scaling-lower",
    "refuse": "tune.scaling-refuse",
}


class _Known(NamedTuple):
    """What a pool's pods with a whole window requested, and used at most; in MiB."""

    requested: int
    peak: int
    peaks: tuple[tuple[MeasuredHolding, Peak], ...]

    @property
    def ratio(self) -> float:
        return self.requested / self.peak * SAFE


def advise_scaling(facts: Facts) -> list[Advice]:
    """Rows for each pool."""
    return [advice for pool in facts.pools for advice in _judge(pool, facts)]


def _judge(pool: Pool, facts: Facts) -> list[Advice]:
    if full := _full(pool, facts):
        return _refuse_full(pool, full, facts)
    known = _known(pool, facts)
    unread = pool.scaling is None and not gpu_setting(facts, "deviceMemoryScaling").proof
    if known is None or unread:
        why = Text("tune.config-unread") if unread else Text("tune.scaling-unknown", days=WINDOW_DAYS)
        return [Advice(_row("cannot-tell", pool, "", why), why)]
    safe, current = round(known.ratio, 2), pool.scaling or 1.0
    values = {
        "requested": mib(known.requested),
        "peak": mib(known.peak),
        "safe": f"{safe:.2f}",
        "count": len(known.peaks),
    }
    why = Text("tune.scaling-ratio", **values)

    def advised(direction: Direction, to: float) -> Advice:
        text = why
        if len(known.peaks) > MOST_QUOTED:
            text = Text("tune.scaling-quoted", why=why, shown=MOST_QUOTED)
        claim = Text(_CLAIMS[direction], pool=pool.label, current=_shown(pool), wanted=f"{to:g}", why=text)
        actions = () if direction == "refuse" else _actions(direction, f"{to:g}", pool, facts)
        row = _row(direction, pool, f"{to:g}", why)
        return Advice(row, claim, evidence=_proofs(known, facts), actions=actions)

    if safe < 1:
        return [*([advised("lower", 1.0)] if current > 1 else ()), advised("refuse", 1.0)]
    wanted = math.floor(10 * min(safe, _MOST)) / 10
    if wanted >= _LEAST and wanted > current:
        killed = [(held, container) for held in pool.held for container in oomkilled(held, facts)]
        return [_cut_short(killed, pool)] if killed else [advised("raise", wanted)]
    if safe < current:
        return [advised("lower", max(wanted, 1.0))]
    return [Advice(_row("keep", pool, _shown(pool), why), why)]


def _cut_short(killed: list[tuple[MeasuredHolding, HolderContainer]], pool: Pool) -> Advice:
    """Peaks of runs that were cut short prove no ratio."""
    why = Text("tune.scaling-killed", count=len(killed), pod=killed[0][0].name, days=WINDOW_DAYS)
    current = pool.scaling or 1.0
    claim = Text("tune.scaling-refuse", pool=pool.label, wanted=f"{current:g}", why=why)
    proofs = tuple(of_end(held, container) for held, container in killed[:_SHOWN])
    row = _row("refuse", pool, f"{current:g}", why)
    return Advice(row, claim, confidence="suspected", evidence=proofs, of_symptom=False)


def _proofs(known: _Known, facts: Facts) -> tuple[Evidence, ...]:
    """What each pod used at most, and requested; of very many the largest peaks."""
    shown = known.peaks
    if len(shown) > MOST_QUOTED:
        shown = sorted(shown, key=lambda entry: entry[1].used.value, reverse=True)[:MOST_QUOTED]
    proofs = [of_peak(held, peak, facts) for held, peak in shown]
    return (*proofs, *dict.fromkeys(proof for held, _ in shown for proof in of_request(held, facts)))


def _full(pool: Pool, facts: Facts) -> list[tuple[str, Sample, int]]:
    """The pool's GPUs whose own memory is used up, and that several hold: UUID, figure, MiB that it has.

    Where memory is over-committed, one holder is enough: more is promised than the GPU has.
    """
    used = {gpu.uuid: gpu.used for gpu in facts.usage.usage.gpus}
    found: list[tuple[str, Sample, int]] = []
    for state in pool.gpus:
        has = pool.physical_mib(state.card)
        reading = used.get(state.card.uuid)
        promised = state.slots > 1 or (pool.scaling or 1) > 1
        if promised and reading is not None and has and reading.value / _MIB >= FULL * has:
            found.append((state.card.uuid, reading, round(has)))
    return found


def _refuse_full(pool: Pool, full: list[tuple[str, Sample, int]], facts: Facts) -> list[Advice]:
    uuid, reading, has = full[0]
    why = Text("tune.scaling-full", count=len(full), used=mib(round(reading.value / _MIB)), physical=mib(has))
    proofs = tuple(
        of_sample(f"GPU {gpu}", sample, _node_of(gpu, pool), facts, grep=gpu) for gpu, sample, _ in full[:_SHOWN]
    )
    proofs += tuple(quotes.of_card(node, uuid, whole=True) for node in pool.nodes if node.name == _node_of(uuid, pool))
    current = pool.scaling or 1.0
    directions: list[Direction] = ["lower", "refuse"] if current > 1 else ["refuse"]
    return [
        Advice(
            _row(direction, pool, "1" if direction == "lower" else "", why),
            Text(_CLAIMS[direction], pool=pool.label, current=f"{current:g}", wanted="1", why=why),
            severity="warning" if direction == "lower" else "info",
            evidence=proofs,
            actions=_actions(direction, "1", pool, facts) if direction == "lower" else (),
        )
        for direction in directions
    ]


def _known(pool: Pool, facts: Facts) -> _Known | None:
    """None unless a whole window is known of nearly all memory that was requested."""
    of_pool: list[tuple[MeasuredHolding, Peak]] = []
    requested = covered = 0
    known, enough = facts.peaks, COVERED * WINDOW_HOURS
    for held in pool.held:
        namespace, name = held.holding.namespace, held.holding.name
        for uuid, share in held.shares.items():
            requested += share.memory_mib
            peaks = known.get((namespace, name, uuid), ())
            whole = all(peak.hours >= enough and peak.used.value > 0 for peak in peaks)
            if peaks and whole and len(peaks) >= share.slots:
                covered += share.memory_mib
                of_pool += [(held, peak) for peak in peaks]
    if not of_pool or covered < _KNOWN * requested:
        return None
    return _Known(covered, round(sum(peak.used.value for _, peak in of_pool) / _MIB), tuple(of_pool))


def _row(direction: Direction, pool: Pool, wanted: Prose, why: Prose) -> AdviceRow:
    unread = not pool.scaling and direction == "cannot-tell"
    return AdviceRow("memory-scaling", direction, pool.object, "" if unread else _shown(pool), wanted, why)


def _shown(pool: Pool) -> Prose:
    return f"{pool.scaling:g}" if pool.scaling else Text("tune.default", value="1")


def _actions(direction: Direction, wanted: str, pool: Pool, facts: Facts) -> tuple[NextAction, ...]:
    value = f"{chart_value('devicePlugin.deviceMemoryScaling', facts.install.install)}={wanted}"
    risk = Text("tune.scaling-less-risk" if direction == "lower" else "tune.scaling-risk")
    return (
        step(Text("tune.set-pool", value=value, pool=pool.label, risk=risk), ""),
        step(Text("tune.scaling-check"), command("gpus")),
    )


def _node_of(uuid: str, pool: Pool) -> str:
    for node in pool.nodes:
        if any(uuid in text for text in (node.metadata.annotations or {}).values()):
            return node.name
    return ""
