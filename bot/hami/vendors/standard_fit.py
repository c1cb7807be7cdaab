"""The fit checks that most vendors share, and the scan that runs them on one card after the other. Source: HAMi
pkg/device/*/device.go Fit at v2.10.0.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from bot.hami.fit.verdicts import (
    ALLOCATED_INSUFFICIENT,
    COMPUTE_UNITS_EXHAUSTED,
    CUSTOM_FILTER_RULE,
    EXCLUSIVE_CONFLICT,
    EXCLUSIVE_CORES,
    INSUFFICIENT_CORE,
    INSUFFICIENT_MEMORY,
    NOT_HEALTHY,
    QUOTA_NOT_FIT,
    TIME_SLICING_EXHAUSTED,
    TYPE_MISMATCH,
    UUID_MISMATCH,
    CardUse,
    Run,
    Verdict,
    type_allows,
    uuid_allows,
)
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest

Check = tuple[str, Callable[[Run, CardState, ContainerRequest], bool]]
"""A reason code, and a function that is true for a card that fails for this reason."""

HEALTH: Check = (NOT_HEALTHY, lambda _, state, __: not state.healthy)
TYPE: Check = (TYPE_MISMATCH, lambda run, state, _: not type_allows(run.wanted, state, run.rules))
UUID: Check = (UUID_MISMATCH, lambda run, state, _: not uuid_allows(run.wanted, state.card.uuid, run.rules))
SLOTS: Check = (TIME_SLICING_EXHAUSTED, lambda _, state, __: state.slots >= state.card.slots)
MUTEX: Check = (EXCLUSIVE_CONFLICT, lambda run, state, _: run.mutex and state.slots > 0)
MEMORY: Check = (
    INSUFFICIENT_MEMORY,
    lambda _, state, asked: state.free_memory_mib < asked.memory_on(state.card.memory_mib),
)
CORES: Check = (INSUFFICIENT_CORE, lambda _, state, asked: state.free_cores < cores_of(asked))
WHOLE: Check = (
    EXCLUSIVE_CONFLICT,
    lambda _, state, asked: state.card.cores == EXCLUSIVE_CORES == cores_of(asked) and state.slots > 0,
)
NO_CORES: Check = (
    COMPUTE_UNITS_EXHAUSTED,
    lambda _, state, asked: state.card.cores != 0 and state.cores == state.card.cores and asked.cores == 0,
)

QUOTA: Check = (
    QUOTA_NOT_FIT,
    lambda run, state, asked: run.quota is not None and run.over_quota(run.quota, asked, state, run.taking),
)
SAME_CARD: Check = (
    CUSTOM_FILTER_RULE,
    lambda run, state, asked: any(
        taken.state.card.uuid != state.card.uuid
        for word, shares in run.allocated
        if word == asked.word
        for taken in shares
    ),
)

AMOUNTS = (MEMORY, CORES, WHOLE, NO_CORES)
USUAL = (HEALTH, UUID, SLOTS, MUTEX, *AMOUNTS)


def cores_of(asked: ContainerRequest) -> int:
    return min(asked.cores, WHOLE_CARD)


def failing(run: Run, state: CardState, asked: ContainerRequest, checks: tuple[Check, ...]) -> str | None:
    """The code of the first check that the card fails; None when it passes. Checks in `run.relax` are left out."""
    for code, fails in checks:
        if fails(run, state, asked) and code not in run.relax:
            return code
    return None


def scan(
    run: Run, in_play: list[CardState], asked: ContainerRequest, checks: tuple[Check, ...] = USUAL
) -> Verdict | list[CardUse]:
    """The cards that the container takes, from the last card on until it has enough, or why it does not fit."""
    taken, counts = passing(run, in_play, asked, checks, most=asked.count)
    return taken if len(taken) == asked.count else lacking(taken, counts, len(in_play))


def passing(
    run: Run, in_play: list[CardState], asked: ContainerRequest, checks: tuple[Check, ...], most: int | None = None
) -> tuple[list[CardUse], dict[str, int]]:
    """The cards that pass all checks, from the last one on, at most `most`; and how many failed, by code."""
    taken: list[CardUse] = []
    run.taking = taken
    counts: dict[str, int] = {}
    for state in reversed(in_play):
        code = failing(run, state, asked, checks)
        if code is not None:
            counts[code] = counts.get(code, 0) + 1
            continue
        taken.append(CardUse(state, asked.memory_on(state.card.memory_mib), cores_of(asked)))
        if len(taken) == most:
            break
    return taken, counts


def equal_groups(run: Run, groups: Iterable[list[CardUse]], *, largest_first: bool) -> list[list[CardUse]]:
    """The groups sorted by size. HAMi's order of equal ones is random: here the scan's, or the reverse with
    `run.other_order`; `run.met_equals` is set where there are any.
    """
    some = list(groups)
    sizes = Counter(map(len, some))
    if len(sizes) < len(some):
        run.met_equals = True
    return sorted(reversed(some) if run.other_order else some, key=len, reverse=largest_first)


def of_few_groups(run: Run, passed: list[CardUse], group_of: Callable[[CardState], Hashable]) -> list[CardUse]:
    """The cards sorted by group, the largest group first, so that a container's cards come from few groups."""
    groups: dict[Hashable, list[CardUse]] = {}
    for use in passed:
        groups.setdefault(group_of(use.state), []).append(use)
    return [use for group in equal_groups(run, groups.values(), largest_first=True) for use in group]


def lacking(taken: list[CardUse], counts: dict[str, int], of: int) -> Verdict:
    """The verdict when fewer cards passed (`taken`) than were asked for; `of` is the number of all cards."""
    if taken:
        counts[ALLOCATED_INSUFFICIENT] = len(taken)
    return Verdict(fits=False, parts=tuple(counts.items()), of=of)
