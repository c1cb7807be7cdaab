"""`gpuCorePolicy`: whether HAMi-core holds containers to the cores that they requested.

With `force` it always does, with `disable` never (HAMi docs/config.md, variable GPU_CORE_UTILIZATION_POLICY).
A container above its request is a sign only where it shares the GPU, and only on the average of a day: the limiter
works by time slices, so one sample is one moment.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from bot.hami.metrics.gpu_usage import MeasuredHolding
from bot.kube.times import format_time
from bot.report import Evidence, Gap, step
from bot.texts import Prose, Text
from playbooks.gather.past_days import TOLERATED, CoreUse
from playbooks.rules.common.prose import command
from playbooks.tune.deployed import gpu_setting
from playbooks.tune.facts import Facts
from playbooks.tune.proof import of_request
from playbooks.tune.rows import Advice, AdviceRow, Direction
from playbooks.tune.settings import before_library

_WHOLE = 100
_SHOWN = 3
_STRICT = "force"


class _Above(NamedTuple):
    """A container that used more of a shared GPU's cores than it requested."""

    held: MeasuredHolding
    use: CoreUse
    requested: int

    @property
    def excess(self) -> float:
        return self.use.reading.value - self.requested


def advise_core_policy(facts: Facts) -> list[Advice]:
    """One row; none before HAMi has the setting."""
    if before_library(facts):
        return []
    deployed = gpu_setting(facts, "gpuCorePolicy")
    if not deployed.proof or isinstance(facts.holders, Gap):
        return [_row("cannot-tell", "", Text("tune.config-unread" if not deployed.proof else "tune.use-unknown"))]
    current = deployed.value or Text("tune.default", value="default")
    seen = facts.cores
    if not seen.limited:
        return [_row("keep", current, Text("tune.core-policy-none"))]
    if not seen.known:
        return [_row("cannot-tell", current, Text("tune.core-policy-day"))]
    if seen.known < seen.limited:
        return [_row("cannot-tell", current, Text("tune.core-policy-part", known=seen.known, limited=seen.limited))]
    above = sorted(_above(facts), key=lambda entry: -entry.excess)
    if not above:
        return [_row("keep", current, Text("tune.core-policy-kept", known=seen.known, tolerated=TOLERATED))]
    worst = above[0]
    used = f"{worst.use.reading.value:.0f}"
    values = {"count": len(above), "pod": worst.held.name, "used": used, "requested": worst.requested}
    why = Text("tune.core-policy-above", **values)
    if deployed.value == _STRICT:
        return [_row("keep", current, why)]
    value = f"devices.nvidia.gpuCorePolicy={_STRICT}"
    actions = (
        step(Text("tune.set", value=value, risk=Text("tune.core-policy-risk")), ""),
        step(Text("tune.check-again"), command("tune")),
    )
    claim = Text("tune.core-policy-claim", current=current, wanted=_STRICT, why=why)
    row = AdviceRow("core-policy", "raise", "", current, _STRICT, why)
    proofs = tuple(
        proof for entry in above[:_SHOWN] for proof in (_average(entry, facts), *of_request(entry.held, facts))
    )
    return [Advice(row, claim, confidence="suspected", evidence=(*proofs, *deployed.proof), actions=actions)]


def _above(facts: Facts) -> Iterator[_Above]:
    by_pod = {(held.holding.namespace, held.holding.name): held for held in facts.held}
    users = Counter(uuid for held in facts.held for uuid in held.shares)
    for use in facts.cores.above:
        held = by_pod.get((use.of.namespace, use.of.pod))
        share = held.shares.get(use.of.uuid) if held else None
        if held is None or share is None or not 0 < share.cores < _WHOLE or users[use.of.uuid] < 2:
            continue
        if use.reading.value > share.cores + TOLERATED:
            yield _Above(held, use, share.cores)


def _average(entry: _Above, facts: Facts) -> Evidence:
    at = format_time(facts.taken_at)
    return Evidence("metrics", f"Pod {entry.held.name}", at, entry.use.reading.line, f"PromQL: {entry.use.query}")


def _row(direction: Direction, current: Prose, why: Prose) -> Advice:
    kept = current if direction == "keep" else ""
    return Advice(AdviceRow("core-policy", direction, "", current, kept, why), why)
