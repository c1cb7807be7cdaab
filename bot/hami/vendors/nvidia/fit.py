"""Which NVIDIA GPUs a container takes, and if it does not fit, HAMi's own reason with its counts.

Source: HAMi pkg/device/nvidia/device.go Fit at v2.5.1 to v2.10.0.
"""

from itertools import combinations

from bot.hami.fit import mig
from bot.hami.fit.verdicts import (
    ALLOCATED_INSUFFICIENT,
    COMPUTE_UNITS_EXHAUSTED,
    CORDONED,
    EXCLUSIVE_CONFLICT,
    EXCLUSIVE_CORES,
    INSUFFICIENT_CORE,
    INSUFFICIENT_MEMORY,
    MIG_INFEASIBLE,
    NOT_HEALTHY,
    NUMA_NOT_FIT,
    QUOTA_NOT_FIT,
    TIME_SLICING_EXHAUSTED,
    TYPE_MISMATCH,
    UUID_MISMATCH,
    CardUse,
    Run,
    UnmodelledError,
    Verdict,
    type_allows,
    uuid_allows,
)
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import ContainerRequest
from bot.hami.vendors.nvidia.requests import NAMES

MAX_COMBINED_CARDS = 16


def may_split(run: Run, in_play: list[CardState]) -> bool:
    """Whether a MIG card may serve a container more than once."""
    mode = run.wanted.mode
    return run.rules.modern and (mode is None or "mig" in mode) and any(state.card.mode == "mig" for state in in_play)


def slices(state: CardState) -> list[int]:
    """The amounts of memory that a pod could get: all that is free, or of a MIG card the profiles with a place."""
    if state.card.mode != "mig":
        return [state.free_memory_mib]
    return [
        profile.memory_mib
        for profile in state.card.mig_profiles
        if profile.memory_mib <= state.free_memory_mib and mig.choose([profile], 0, state.placements)
    ]


def scan(run: Run, in_play: list[CardState], container: ContainerRequest) -> Verdict | list[CardUse]:
    """What the container takes, or why it does not fit."""
    taken, counts = _look(run, in_play, container)
    if run.topology and len(taken) >= container.count:
        return taken if run.is_last else _choose_linked(run, taken, container.count)
    if len(taken) == container.count:
        return taken
    if taken:
        counts[ALLOCATED_INSUFFICIENT] = len(taken) if run.rules.modern else 1
    return Verdict(fits=False, parts=tuple(counts.items()), of=len(in_play))


def _look(run: Run, in_play: list[CardState], container: ContainerRequest) -> tuple[list[CardUse], dict[str, int]]:
    taken: list[CardUse] = []
    counts: dict[str, int] = {}
    previous_numa = -1
    position = len(in_play) - 1
    while position >= 0:
        state = in_play[position]
        code = _ruled_out(run, state)
        if code is None and run.numa_bind and state.card.numa != previous_numa:
            if taken:
                grown = len(taken) if run.rules.modern else 1
                if not run.topology:
                    counts[NUMA_NOT_FIT] = counts.get(NUMA_NOT_FIT, 0) + grown
                taken = []
            previous_numa = state.card.numa
        choice: mig.MigChoice | None = None
        if code is None:
            code, choice = _lacks(run, state, container, taken)
        if code is not None:
            counts[code] = counts.get(code, 0) + 1
            position -= 1
            continue
        taken.append(_take(state, container, choice))
        if len(taken) == container.count and not run.topology:
            break
        if choice is None:  # a MIG card is looked at once more before moving on
            position -= 1
    return taken, counts


def _ruled_out(run: Run, state: CardState) -> str | None:
    """Checks 1 to 3: what comes before numa."""
    rules, relax = run.rules, run.relax
    if rules.health and not state.healthy and NOT_HEALTHY not in relax:
        return NOT_HEALTHY
    if rules.modern and state.card.uuid in run.node.cordoned and CORDONED not in relax:
        return CORDONED
    if not rules.only_own_type and NAMES.word not in state.card.type:
        return TYPE_MISMATCH
    if TYPE_MISMATCH not in relax and not type_allows(run.wanted, state, rules):
        return TYPE_MISMATCH
    return None


def _lacks(
    run: Run, state: CardState, container: ContainerRequest, taken: list[CardUse]
) -> tuple[str | None, mig.MigChoice | None]:
    """Checks 4 to 12."""
    relax, card = run.relax, state.card
    if UUID_MISMATCH not in relax and not uuid_allows(run.wanted, card.uuid, run.rules):
        return UUID_MISMATCH, None
    if state.slots >= card.slots and TIME_SLICING_EXHAUSTED not in relax:
        return TIME_SLICING_EXHAUSTED, None
    if run.mutex and state.slots > 0 and EXCLUSIVE_CONFLICT not in relax:
        return EXCLUSIVE_CONFLICT, None
    memory = container.memory_on(card.memory_mib)
    if run.quota is not None and run.over_quota(run.quota, container, state, taken):
        return QUOTA_NOT_FIT, None
    if card.memory_mib - state.memory_mib < memory and INSUFFICIENT_MEMORY not in relax:
        return INSUFFICIENT_MEMORY, None
    if card.cores - state.cores < container.cores and INSUFFICIENT_CORE not in relax:
        return INSUFFICIENT_CORE, None
    exclusive = card.cores == EXCLUSIVE_CORES == container.cores
    if exclusive and state.slots > 0 and EXCLUSIVE_CONFLICT not in relax:
        return EXCLUSIVE_CONFLICT, None
    full = card.cores != 0 and state.cores == card.cores and container.cores == 0
    if full and COMPUTE_UNITS_EXHAUSTED not in relax:
        return COMPUTE_UNITS_EXHAUSTED, None
    if card.mode == "mig" and MIG_INFEASIBLE not in relax:
        choice = _place_mig(run, state, memory, taken)
        return (None, choice) if choice else (MIG_INFEASIBLE, None)
    return None, None


def _place_mig(run: Run, state: CardState, memory_mib: int, taken: list[CardUse]) -> mig.MigChoice | None:
    if not run.rules.modern:
        raise UnmodelledError("MIG templates of versions before 2.10")
    if run.topology:
        raise UnmodelledError("the policy topology-aware on MIG GPUs")
    earlier = [use.placement for use in taken if use.state is state and use.placement]
    return mig.choose(state.card.mig_profiles, memory_mib, [*state.placements, *earlier])


def _choose_linked(run: Run, taken: list[CardUse], count: int) -> list[CardUse]:
    """Of the cards that passed, the ones that topology-aware gives to the container."""
    if len(taken) == count:
        return taken
    scores: dict[tuple[str, str], int] = run.node.facts.get(NAMES.word) or {}

    def pair(one: CardUse, other: CardUse) -> int:
        return scores.get((one.state.card.uuid, other.state.card.uuid), 0)

    if count == 1:
        return [min(taken, key=lambda use: sum(pair(use, other) for other in taken if other is not use))]
    if len(taken) > MAX_COMBINED_CARDS:
        raise UnmodelledError(f"the policy topology-aware over more than {MAX_COMBINED_CARDS} GPUs")
    best = max(combinations(taken, count), key=lambda some: sum(pair(a, b) for a, b in combinations(some, 2)))
    if not run.rules.modern and not any(pair(a, b) for a, b in combinations(best, 2)):
        return []
    return list(best)


def _take(state: CardState, container: ContainerRequest, choice: mig.MigChoice | None) -> CardUse:
    if choice is None:
        return CardUse(state, container.memory_on(state.card.memory_mib), container.cores)
    return CardUse(state, choice.profile.memory_mib, choice.profile.cores, choice.placement)
