"""`gpuCorePolicy`: whether HAMi-core holds containers to the cores that they requested.

With `force` it always does, with `disable` never (HAMi docs/config.md, variable GPU_CORE_UTILIZATION_POLICY).
A container above its request is a sign only where it shares the GPU.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from bot.hami.exposition import Sample
from bot.hami.held import Held
from bot.hami.usage import ContainerUse
from bot.report import NextAction
from bot.texts import Texts
from playbooks.rules.prose import command
from playbooks.rules.usage_quotes import of_use
from playbooks.tune.deployed import gpu_setting
from playbooks.tune.facts import Facts
from playbooks.tune.rows import Advice, AdviceRow, Direction
from playbooks.tune.settings import before_library

_TOLERATED = 20
"""Percentage points above the request: the limiter works by time slices, and one sample is one moment."""
_WHOLE = 100
_SHOWN = 3
_STRICT = "force"


class _Above(NamedTuple):
    """A container that uses more of a shared GPU's cores than it requested."""

    held: Held
    use: ContainerUse
    core: Sample
    requested: int


def advise_core_policy(facts: Facts, say: Texts) -> list[Advice]:
    """One row; none before HAMi has the setting."""
    if before_library(facts):
        return []
    deployed = gpu_setting(facts, "gpuCorePolicy")
    if not deployed.proof:
        return [_row("cannot-tell", "", say("tune.config-unread"))]
    current = deployed.value or say("tune.default", value="default")
    if not any(use.core for use in facts.usage.usage.containers):
        return [_row("cannot-tell", current, say("tune.use-unknown"))]
    above = list(_above(facts))
    if not above:
        return [_row("keep", current, say("tune.core-policy-kept"))]
    worst = max(above, key=lambda one: one.core.value - one.requested)
    used = f"{worst.core.value:g}"
    values = {"count": len(above), "pod": worst.held.name, "used": used, "requested": worst.requested}
    why = say("tune.core-policy-above", **values)
    if deployed.value == _STRICT:
        return [_row("keep", current, why)]
    proofs = [of_use(one.use, one.core, one.held.holding.node, facts) for one in above[:_SHOWN]]
    average = f"avg_over_time({worst.core.name}[1d])"
    actions = (
        NextAction(say("tune.core-policy-look", query=average), ""),
        NextAction(
            say("tune.set", value=f"devices.nvidia.gpuCorePolicy={_STRICT}", risk=say("tune.core-policy-risk")), ""
        ),
        NextAction(say("tune.check-again"), command("tune")),
    )
    claim = say("tune.core-policy-claim", current=current, wanted=_STRICT, why=why)
    row = AdviceRow("core-policy", "raise", "", current, _STRICT, why)
    return [Advice(row, claim, confidence="suspected", evidence=(*proofs, *deployed.proof), actions=actions)]


def _above(facts: Facts) -> Iterator[_Above]:
    users = Counter(uuid for held in facts.held for uuid in held.shares)
    for held in facts.held:
        for use in held.uses:
            requested = held.shares[use.uuid].cores
            if use.core is None or not 0 < requested < _WHOLE or users[use.uuid] < 2:
                continue
            if use.core.value > requested + _TOLERATED:
                yield _Above(held, use, use.core, requested)


def _row(direction: Direction, current: str, why: str) -> Advice:
    kept = current if direction == "keep" else ""
    return Advice(AdviceRow("core-policy", direction, "", current, kept, why), why)
