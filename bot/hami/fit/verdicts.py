"""The parts of a verdict on a pod and a node, and the checks that vendors share.

Source: HAMi pkg/scheduler/score.go, pkg/device/common/common.go, pkg/device/*/device.go at v2.5.1 to v2.10.0.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from bot.hami.nodes.cards import Card, CardState, MigPlacement
from bot.hami.pods.pod_request import Constraints, ContainerRequest, PodRequest
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
