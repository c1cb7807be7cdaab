"""The order in which a filter run looks at a node's cards.

It decides which cards a first container takes, hence what a second one sees, and the counts under numa-bind.
Source: HAMi pkg/scheduler/policy/gpu_policy.go at v2.7.1, v2.9.0 and v2.10.0.
"""

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bot.hami.fit.version_differences import Rules
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import UNSET_PERCENTAGE, WHOLE_CARD, ContainerRequest

_FLOAT32 = struct.Struct("f")
_THREE_FLOAT32 = struct.Struct("3f")
_WEIGHT_KEYS = ("slot", "core", "memory")
_WEIGHT = re.compile(r"\s*(slot|core|memory)\s*=\s*([+-]?[0-9]{1,19})\s*")
_INT64_MAX = 2**63 - 1
_SORT_KEYS = ("binpack", "spread", "numa")
_FACTOR = 10.0


class Weights(NamedTuple):
    slot: float = 1.0
    core: float = 1.0
    memory: float = 1.0


_EQUAL = Weights()


def read_weights(text: str | None) -> Weights | None:
    """The weights of `slot=1,core=1,memory=3`, 1 each when there is no text; None when the filter would fail on it.

    Whole numbers of at least 0, each key once, not all 0 [HAMi v2.10 pkg/util/device_scoring_weights.go].
    """
    if text is None:
        return Weights()
    found = [_WEIGHT.fullmatch(part) for part in text.split(",")]
    values = {match[1]: int(match[2]) for match in found if match}
    if len(found) != len(_WEIGHT_KEYS) or set(values) != set(_WEIGHT_KEYS):
        return None
    if not all(0 <= value <= _INT64_MAX for value in values.values()) or not any(values.values()):
        return None
    return Weights(values["slot"], values["core"], values["memory"])


def sort_cards(
    cards: list[CardState],
    asked: Sequence[ContainerRequest],
    rules: Rules,
    *,
    policy: str,
    numa_bind: bool,
    weights: Weights,
) -> None:
    """Sort in place as this version does for what one container asks; the scan then goes from the last to the first."""
    by_word = {request.word: request for request in asked}
    scores = {id(state): score(state, by_word.get(state.card.type, asked[0]), rules, weights) for state in cards}

    def numa(state: CardState) -> float:
        return state.card.numa

    def up(state: CardState) -> float:
        return scores[id(state)]

    def down(state: CardState) -> float:
        return -scores[id(state)]

    binpack = policy == "binpack"
    if not rules.modern:
        cards.sort(key=lambda state: (-numa(state), up(state)) if binpack else (numa(state), down(state)))
    elif policy == "mutex":
        cards.sort(key=lambda state: (-state.slots, numa(state)))
    elif policy == "numa" or "," in policy:
        words = [word.strip() for word in policy.split(",")]
        named = [word for word in words if word in _SORT_KEYS] or ["spread"]
        if numa_bind:
            named = ["numa", *named]
        by = {"binpack": up, "spread": down, "numa": numa}
        cards.sort(key=lambda state: (*(by[word](state) for word in named), state.card.index))
    elif numa_bind:
        cards.sort(key=lambda state: (-numa(state), up(state)) if binpack else (numa(state), down(state)))
    else:
        cards.sort(key=lambda state: (up(state) if binpack else down(state), numa(state)))


def score(state: CardState, request: ContainerRequest, rules: Rules, weights: Weights) -> float:
    """10 x (used slots + used cores + used memory, each as a share of the card), in 32-bit floats."""
    card = state.card
    if not (card.slots and card.cores and card.memory_mib):
        return 0.0
    slots, cores, memory = state.slots, state.cores, state.memory_mib
    by_share = request.percentage not in (0, UNSET_PERCENTAGE)
    if rules.score_includes_request:
        slots, cores = slots + request.count, cores + request.cores
        # An integer division, as HAMi has it: less than 100 % of a card counts as none of it.
        memory += card.memory_mib * (request.percentage // WHOLE_CARD) if by_share else request.memory_mib
    elif rules.modern and card.type == request.word:
        slots, cores = slots + 1, cores + request.cores
        memory += card.memory_mib * request.percentage // WHOLE_CARD if by_share else request.memory_mib
    return _weighed(slots / card.slots, cores / card.cores, memory / card.memory_mib, weights)


@lru_cache(maxsize=2**14)  # most cards of a cluster are used like others
def _weighed(slots: float, cores: float, memory: float, weights: Weights) -> float:
    slots, cores, memory = _three_f32(slots, cores, memory)
    if weights != _EQUAL:
        slot, core, of_memory = _three_f32(*weights)
        slots, cores, memory = _three_f32(slot * slots, core * cores, of_memory * memory)
    return _f32(_FACTOR * _f32(_f32(slots + cores) + memory))


def _three_f32(*values: float) -> tuple[float, float, float]:
    first, second, third = _THREE_FLOAT32.unpack(_THREE_FLOAT32.pack(*values))
    return first, second, third


def _f32(value: float) -> float:
    return _FLOAT32.unpack(_FLOAT32.pack(value))[0]
