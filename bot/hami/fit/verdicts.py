"""The parts of a verdict on a pod and a node; the checks that most vendors share, and the scan that runs them on one
card after the other.

Source: HAMi pkg/scheduler/score.go, pkg/device/common/common.go, pkg/device/*/device.go at v2.5.1 to v2.10.0.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from bot.hami.nodes.cards import Card, CardState, MigPlacement
from bot.hami.pods.pod_request import WHOLE_CARD, Constraints, ContainerRequest, PodRequest
from bot.hami.version import Rules
from bot.texts import Prose, Text

NOT_HEALTHY = "CardNotHealth"
UNHEALTHY = "CardUnhealthy"
CORDONED = "CardCordoned"
TYPE_MISMATCH = "CardTypeMismatch"
NUMA_NOT_FIT = "NumaNotFit"
UUID_MISMATCH = "CardUuidMismatch"
TIME_SLICING_EXHAUSTED = "CardTimeSlicingExhausted"
EXCLUSIVE_CONFLICT = "ExclusiveDeviceAllocateConflict"
QUOTA_NOT_FIT = "ResourceQuotaNotFit"
INSUFFICIENT_MEMORY = "CardInsufficientMemory"
INSUFFICIENT_CORE = "CardInsufficientCore"
COMPUTE_UNITS_EXHAUSTED = "CardComputeUnitsExhausted"
CUSTOM_FILTER_RULE = "CardNotFoundCustomFilterRule"
MIG_INFEASIBLE = "CardMigTopologyInfeasible"
ALLOCATED_INSUFFICIENT = "AllocatedCardsInsufficientRequest"
NODE_INSUFFICIENT = "NodeInsufficientDevice"
MODE_NOT_FIT = "ModeNotFit"
NODE_UNREGISTERED = "node unregistered"

EXCLUSIVE_CORES = 100
DEFAULT_POLICY = "spread"


class QuotaRoom(NamedTuple):
    """A namespace's `limits.*` quota on a device, as HAMi counts it; a limit is None where no quota sets one."""

    memory_limit_mib: int | None = None
    cores_limit: int | None = None
    memory_used_mib: int = 0
    cores_used: int = 0

    @property
    def memory_free_mib(self) -> int:
        return (self.memory_limit_mib or 0) - self.memory_used_mib

    @property
    def cores_free(self) -> int:
        return (self.cores_limit or 0) - self.cores_used


class NodeCards(NamedTuple):
    """One node as a filter run sees it. `facts`: what vendors need to know besides the GPUs, by the device's word."""

    cards: Sequence[CardState]
    cordoned: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = {}


class Verdict(NamedTuple):
    """HAMi's verdict on a pod and a node. `fits` is None where the rules that decide are not modelled: see `unknown`.

    `parts` are (code, number of GPUs) out of `of` GPUs; `reason` is a bare reason instead. `instead`: what HAMi may say
    too, where chance decides; FIT where it may take the node.
    """

    fits: bool | None
    parts: tuple[tuple[str, int], ...] = ()
    of: int = 0
    reason: str = ""
    unknown: Prose = ""
    instead: tuple[str, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(code for code, _ in self.parts) or ((self.reason,) if self.reason else ())

    def text(self) -> str:
        """HAMi's reason in detail: `1/8 CardNotHealth, 3/8 CardInsufficientMemory`; empty when the pod fits."""
        return ", ".join(sorted(f"{count}/{self.of} {code}" for code, count in self.parts)) or self.reason

    @property
    def said(self) -> str:
        """HAMi's reason, and what HAMi may say instead; empty when the pod fits in any case."""
        return " / ".join((self.text() or FIT, *self.instead)) if self.instead else self.text()


FIT = "fit"
FITS = Verdict(fits=True)
UNREGISTERED = Verdict(fits=False, reason=NODE_UNREGISTERED)


class CardUse(NamedTuple):
    """A GPU that a container takes, and what it takes of it; on a MIG GPU the memory and cores of the profile."""

    state: CardState
    memory_mib: int
    cores: int
    placement: MigPlacement | None = None
    slots: int = 1
    card: Card | None = None
    """The GPU as it is after the container took it; None where the GPU itself does not change."""


class Booking(NamedTuple):
    word: str
    taken: list[CardUse]


class UnmodelledError(Exception):
    """Raised where the rules that decide a verdict are not modelled; `what` says which."""

    def __init__(self, what: Text) -> None:
        super().__init__(what)
        self.what = what


@lru_cache(maxsize=256)
def _words_of(policy: str) -> frozenset[str]:
    return frozenset(word.strip() for word in policy.split(","))


class Run:
    """One filter run of a pod on a node: each container sees what earlier ones took.

    `relax`: reason codes whose checks are left out. `quotas`: what quotas leave, by the word of the device.
    """

    def __init__(
        self,
        node: NodeCards,
        request: PodRequest,
        rules: Rules,
        *,
        quotas: Mapping[str, QuotaRoom],
        default_policy: str,
        relax: frozenset[str],
    ) -> None:
        self.node = node
        self.request = request
        self.rules = rules
        self.quotas: Mapping[str, QuotaRoom] = quotas if rules.quota != "none" and QUOTA_NOT_FIT not in relax else {}
        self.quota: QuotaRoom | None = None
        """What a quota leaves of the device that is being placed; None without a quota."""
        self.relax = relax
        wanted = self.wanted = request.constraints
        """What the pod's annotations rule out for the device that is being placed."""
        self.policy = default_policy if wanted.policy is None else wanted.policy
        words = _words_of(self.policy) if rules.modern else (self.policy,)
        self.topology = rules.topology and "topology-aware" in words
        self.mutex = rules.modern and "mutex" in words
        self.numa_bind = wanted.numa_bind and NUMA_NOT_FIT not in relax
        self.allocated: list[Booking] = []
        self.taking: list[CardUse] = []
        self.is_last = True
        self.met_equals = False
        """Whether some container's GPUs came in groups of equal rank, of which HAMi picks one by chance."""
        self.other_order = False
        """Whether groups of equal rank are taken in the opposite order."""

    def over_quota(
        self, quota: QuotaRoom, container: ContainerRequest, state: CardState, taken: Iterable[CardUse]
    ) -> bool:
        """Whether one more GPU exceeds the quota. Earlier containers count what they got: on a MIG GPU a profile."""
        cards = [*(use.state.card for use in taken), state.card]
        needs = [[(card.uuid, container.memory_on(card.memory_mib), container.cores) for card in cards]]
        if self.rules.quota == "pod":
            booked = (
                [(share.state.card.uuid, share.memory_mib, share.cores) for share in shares]
                for word, shares in self.allocated
                if word == container.word
            )
            needs = [*booked, *needs]
        memory, cores = _collapse(needs, self.request.init_count if self.rules.modern else 0)
        return self._exceeds(quota.memory_limit_mib, quota.memory_used_mib + memory) or self._exceeds(
            quota.cores_limit, quota.cores_used + cores
        )

    def _exceeds(self, limit: int | None, amount: int) -> bool:
        return limit is not None and (limit != 0 or self.rules.modern) and amount > limit


def _collapse(containers: Iterable[list[tuple[str, int, int]]], inits: int) -> tuple[int, int]:
    """Memory and cores over all cards: per card the sum, or the largest init share. Like HAMi, this takes the first
    `inits` of the listed GPU containers for init containers.
    """
    sums: dict[str, tuple[int, int]] = {}
    peaks: dict[str, tuple[int, int]] = {}
    for position, shares in enumerate(containers):
        for uuid, memory, cores in shares:
            if position < inits:
                peak_memory, peak_cores = peaks.get(uuid, (0, 0))
                peaks[uuid] = max(peak_memory, memory), max(peak_cores, cores)
            else:
                sum_memory, sum_cores = sums.get(uuid, (0, 0))
                sums[uuid] = sum_memory + memory, sum_cores + cores
    pairs = [(sums.get(uuid, (0, 0)), peaks.get(uuid, (0, 0))) for uuid in sums.keys() | peaks.keys()]
    return sum(max(held[0], peak[0]) for held, peak in pairs), sum(max(held[1], peak[1]) for held, peak in pairs)


def type_allows(wanted: Constraints, state: CardState, rules: Rules) -> bool:
    """Whether the pod's type and mode annotations admit the GPU."""
    if wanted.mode is not None and state.card.mode not in wanted.mode:
        return False
    if wanted.use_type is None and wanted.no_use_type is None:
        return True
    kind = state.card.type.upper()
    use, no_use = _entries(wanted.use_type, rules.modern), _entries(wanted.no_use_type, rules.modern)
    if use is not None and not any(entry.upper() in kind for entry in use):
        return False
    return no_use is None or not any(entry.upper() in kind for entry in no_use)


def uuid_allows(wanted: Constraints, uuid: str, rules: Rules) -> bool:
    """Whether the pod's uuid annotations admit the GPU. Before 2.10 `nouse` is ignored beside `use`."""
    use, no_use = _entries(wanted.use_uuid, rules.modern), _entries(wanted.no_use_uuid, rules.modern)
    if use is not None and (uuid not in use or not rules.modern):
        return uuid in use
    return no_use is None or uuid not in no_use


@lru_cache(maxsize=256)  # the lists of the pod at hand, asked about card by card
def _entries(text: str | None, modern: bool) -> tuple[str, ...] | None:  # noqa: FBT001  # a key of the cache
    if text is None or (modern and not text.strip()):
        return None
    if not modern:
        return tuple(text.split(","))
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


# ------------------------------------------------------------------------------------- the checks, one card at a time

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
