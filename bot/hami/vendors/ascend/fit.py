"""Which NPUs a container takes, and if it does not fit, HAMi's own reason with its counts.

A pod is split hard, by the chip's templates, or soft, by HAMi-core; soft ones need a node that is set up for it.
Source: HAMi v2.10 pkg/device/ascend/device.go Fit.
"""

from collections.abc import Hashable
from math import ceil

from bot.hami.fit.verdicts import (
    ALLOCATED_INSUFFICIENT,
    COMPUTE_UNITS_EXHAUSTED,
    EXCLUSIVE_CONFLICT,
    EXCLUSIVE_CORES,
    INSUFFICIENT_CORE,
    MODE_NOT_FIT,
    CardUse,
    Run,
    Verdict,
)
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest
from bot.hami.vendors.ascend.chips import IN_MODULES, SOFT_MODE
from bot.hami.vendors.shared import standard_fit as checks

_FAMILY = "Ascend910"
_NETWORK = "NetworkID"

_SOFT_CORES: tuple[checks.Check, ...] = (
    (INSUFFICIENT_CORE, lambda _, state, asked: WHOLE_CARD - state.cores < checks.cores_of(asked)),
    (EXCLUSIVE_CONFLICT, lambda _, state, asked: checks.cores_of(asked) == EXCLUSIVE_CORES and state.slots > 0),
    (COMPUTE_UNITS_EXHAUSTED, lambda _, state, asked: state.cores == WHOLE_CARD and asked.cores == 0),
)
_BEFORE_CORES = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX, checks.MEMORY)
_SOFT = (*_BEFORE_CORES, *_SOFT_CORES)
"""To a soft pod every card has 100 cores, whatever is registered."""


def scan(run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
    """What the container takes, or why it does not fit."""
    soft = run.wanted.more == (SOFT_MODE,)
    if soft and MODE_NOT_FIT not in run.relax and not _is_soft(run, asked):
        return Verdict(fits=False, parts=((MODE_NOT_FIT, 1),), of=len(in_play))
    which = _SOFT if soft else checks.USUAL
    if asked.word == IN_MODULES and asked.count > 1:
        return _scan_modules(run, in_play, asked, which)
    networks = asked.word.startswith(_FAMILY) and all(_network(state) is not None for state in in_play)
    if not networks:
        return checks.scan(run, in_play, asked, which)
    passed, counts = checks.passing(run, in_play, asked, which)
    if len(passed) < asked.count:
        return checks.lacking(passed, counts, len(in_play))
    if len(passed) > asked.count > 1:
        passed = checks.of_few_groups(run, passed, _network)
    return passed[: asked.count]


def _is_soft(run: Run, asked: ContainerRequest) -> bool:
    flags = [fact for fact in run.node.facts.values() if isinstance(fact, bool)]
    return flags[0] if flags else bool(asked.more)


def _scan_modules(
    run: Run, in_play: list[CardState], asked: ContainerRequest, which: tuple[checks.Check, ...]
) -> Verdict | list[CardUse]:
    """A module is two cards: several cards are given in whole modules. HAMi counts out of what was asked for."""
    passed, counts = checks.passing(run, in_play, asked, which)
    modules: dict[int, list[CardUse]] = {}
    for use in passed:
        modules.setdefault(use.state.card.index // 2, []).append(use)
    whole = checks.equal_groups(run, (module for module in modules.values() if len(module) == 2), largest_first=True)
    taken = [use for module in whole[: ceil(asked.count / 2)] for use in module]
    if len(taken) == asked.count:
        return taken
    parts = (*counts.items(), (ALLOCATED_INSUFFICIENT, len(taken)))
    return Verdict(fits=False, parts=parts, of=asked.count)


def _network(state: CardState) -> Hashable:
    return dict(state.card.custom).get(_NETWORK)
