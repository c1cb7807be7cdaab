"""Containers that use far less, or nearly all, of the GPU memory that they may use.

The bounds are the guide's: under 30 % somebody asks for too much, over 90 % the container is about to run out. A limit
that leaves a tenth free of the most that was used is recommended: to ask for less, the most of a whole window.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import ContainerUse
from bot.hami.metrics.holder_usage import MeasuredHolding
from bot.report import Evidence, step
from bot.texts import Text
from playbooks.gather.usage import COVERED, HIGH_USE, LOW_USE, WINDOW_DAYS, WINDOW_HOURS, Peak
from playbooks.rules.common.holders import of_use
from playbooks.rules.common.prose import command, mib
from playbooks.tune.facts import Facts
from playbooks.tune.oom_kills import of_end, of_restarts, oomkilled, restarted
from playbooks.tune.proof import of_peak
from playbooks.tune.rows import Advice, AdviceRow, Direction, Topic

_MIB = 2**20


class _Measured(NamedTuple):
    """A container's share of a GPU, of which both figures are known and the limit is one."""

    use: ContainerUse
    used: Sample
    limit: Sample

    @property
    def share(self) -> float:
        return self.used.value / self.limit.value


def advise_limits(facts: Facts) -> list[Advice]:
    """A row for each pod that is outside the bounds: by the share of its GPUs that is used most."""
    if not facts.usage.usage.containers:
        return [_unknown(topic) for topic in ("memory-limit-low-use", "memory-limit-high-use")]
    return [advice for held in facts.held if (advice := _judge(held, facts)) is not None]


def _judge(held: MeasuredHolding, facts: Facts) -> Advice | None:
    measured = list(_measured(held))
    if not measured or held.has_no_process:
        return None
    most = max(measured, key=lambda measure: measure.share)
    if most.share > HIGH_USE:
        return _advice("memory-limit-high-use", held, most, facts)
    peak = _peak(held, most, facts)
    low = most.share < LOW_USE and (peak is None or peak.used.value <= HIGH_USE * most.limit.value)
    if not low or held.unmeasured or len(measured) != len(held.uses):
        return None
    if peak is None and (killed := oomkilled(held, facts)):
        why = Text("tune.low-use-killed", name=killed[0].name)
        return Advice(AdviceRow("memory-limit-low-use", "cannot-tell", held.name, "", "", why), why)
    return _advice("memory-limit-low-use", held, most, facts)


def _peak(held: MeasuredHolding, measure: _Measured, facts: Facts) -> Peak | None:
    """The most that the container used within the window, where a Prometheus knows it."""
    known = facts.peaks.get((held.holding.namespace, held.holding.name, measure.use.uuid), ())
    return next((peak for peak in known if peak.of.container == measure.use.container), None)


def _measured(held: MeasuredHolding) -> Iterator[_Measured]:
    for use in held.uses:
        if use.used is not None and use.limit is not None and use.limit.value > 0:  # 0 is no limit
            yield _Measured(use, use.used, use.limit)


def _advice(topic: Topic, held: MeasuredHolding, measure: _Measured, facts: Facts) -> Advice:
    used, limit = round(measure.used.value / _MIB), round(measure.limit.value / _MIB)
    low = topic == "memory-limit-low-use"
    why = Text(
        "tune.memory-limit-low-use" if low else "tune.memory-limit-high-use",
        used=mib(used),
        limit=mib(limit),
        share=f"{measure.share:.0%}",
    )
    node = held.holding.node
    proofs: tuple[Evidence, ...] = (
        of_use(measure.use, measure.used, node, facts),
        of_use(measure.use, measure.limit, node, facts),
    )
    direction: Direction = "raise" if measure.share > HIGH_USE else "lower"
    peak = _peak(held, measure, facts)
    most = _most(measure, peak, direction)
    wanted = math.ceil(round(most / _MIB) / HIGH_USE) if most else 0
    if not 0 < wanted <= facts.gpu_mib.get(measure.use.uuid, 0):
        wanted = 0
    claim = Text("tune.use-claim", pod=held.name, why=why)
    if wanted:
        claim = Text("tune.use-wanted", pod=held.name, why=why, most=mib(round(most / _MIB)), wanted=mib(wanted))
    row = AdviceRow(topic, direction, held.name, mib(limit), mib(wanted) if wanted else "", why)
    ask = Text("tune.memory-limit-low-use-do" if low else "tune.memory-limit-high-use-do", pod=held.name)
    if direction == "raise" and (ended := restarted(held, measure.use.container, facts)):
        proofs += (of_restarts(held, ended), of_end(held, ended))
        if oomkilled(held, facts):
            ask = Text("tune.high-use-killed", ask=ask, name=ended.name)
    if peak and (direction == "lower" or most == peak.used.value):
        proofs += (of_peak(held, peak, facts),)
    if peak and direction == "lower":
        ask = Text("tune.low-use-peak", pod=held.name, days=WINDOW_DAYS, peak=mib(round(peak.used.value / _MIB)))
    actions = (step(ask, ""), step(Text("tune.check-again"), command("tune")))
    return Advice(row, claim, evidence=proofs, actions=actions)


def _most(measure: _Measured, peak: Peak | None, direction: Direction) -> float:
    """What the limit is to have room for; 0 where it is not known: to ask for less, a whole window is needed."""
    if direction == "raise":
        return max(measure.used.value, peak.used.value if peak else 0)
    return peak.used.value if peak and peak.hours >= COVERED * WINDOW_HOURS else 0


def _unknown(topic: Topic) -> Advice:
    why = Text("tune.use-unknown")
    return Advice(AdviceRow(topic, "cannot-tell", "", "", "", why), why)
