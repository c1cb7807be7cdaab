"""Whether a pod fits a node's NVIDIA cards, and if not, HAMi's own reason with its counts.

A model of the filter, pure and per node: HAMi pkg/scheduler/score.go fitInDevices and pkg/device/nvidia/device.go Fit
at v2.5.1 to v2.10.0. `relax` leaves checks out, which answers "would it fit if only this were different".
"""

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import combinations
from typing import Literal, NamedTuple

from bot.hami import mig
from bot.hami.cardorder import Weights, read_weights, sort_cards
from bot.hami.inventory import CardState
from bot.hami.registration import MigPlacement
from bot.hami.requests import Constraints, ContainerRequest, PodRequest
from bot.hami.rules import Rules

NOT_HEALTHY = "CardNotHealth"
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
MIG_INFEASIBLE = "CardMigTopologyInfeasible"
ALLOCATED_INSUFFICIENT = "AllocatedCardsInsufficientRequest"
NODE_INSUFFICIENT = "NodeInsufficientDevice"
NODE_UNREGISTERED = "node unregistered"

EXCLUSIVE_CORES = 100
DEFAULT_POLICY = "spread"
MAX_COMBINED_CARDS = 16


class QuotaRoom(NamedTuple):
    """The namespace's limits.* quota as HAMi counts it: None where no quota names the resource."""

    memory_limit_mib: int | None = None
    cores_limit: int | None = None
    memory_used_mib: int = 0
    cores_used: int = 0

    @property
    def memory_free_mib(self) -> int:
        """What a limit on memory leaves; less than 0 when it is exceeded already."""
        return (self.memory_limit_mib or 0) - self.memory_used_mib

    @property
    def cores_free(self) -> int:
        """The same of a limit on cores."""
        return (self.cores_limit or 0) - self.cores_used

    def after(self, memory_mib: int, cores: int) -> "QuotaRoom":
        """The room once so much of what is used has been given back."""
        return self._replace(memory_used_mib=self.memory_used_mib - memory_mib, cores_used=self.cores_used - cores)


class NodeCards(NamedTuple):
    """One node as a filter run sees it. `link_scores` is the pair score by (uuid, uuid), for topology-aware."""

    cards: Sequence[CardState]
    cordoned: frozenset[str] = frozenset()
    link_scores: dict[tuple[str, str], int] | None = None


class Verdict(NamedTuple):
    """`fits` is None when the rules that decide are not modelled; `unknown` then says which.

    `parts` are (code, count) in the order they were met, `of` the denominator; `reason` is a bare reason instead.
    """

    fits: bool | None
    parts: tuple[tuple[str, int], ...] = ()
    of: int = 0
    reason: str = ""
    unknown: str = ""

    @property
    def codes(self) -> tuple[str, ...]:
        """The reason codes, without counts."""
        return tuple(code for code, _ in self.parts) or ((self.reason,) if self.reason else ())

    def text(self) -> str:
        """HAMi's detailed reason: `1/8 CardNotHealth, 3/8 CardInsufficientMemory`; empty when it fits."""
        return ", ".join(sorted(f"{count}/{self.of} {code}" for code, count in self.parts)) or self.reason


Heed = Literal["amounts", "order", "identity"]
"""What of a node's cards a verdict depends on: what each one is and what is used of it; also in which order they stand
and on which numa nodes; or also which cards they are."""

FITS = Verdict(fits=True)
UNREGISTERED = Verdict(fits=False, reason=NODE_UNREGISTERED)


class _Taken(NamedTuple):
    """A card taken by a container: what its usage grows by, on a MIG card the profile's memory and cores."""

    state: CardState
    memory_mib: int
    cores: int
    placement: MigPlacement | None = None


class _Unmodelled(Exception):  # noqa: N818  # control flow inside this module, never seen outside
    pass


def judge(
    node: NodeCards,
    request: PodRequest,
    rules: Rules,
    *,
    quota: QuotaRoom | None = None,
    default_policy: str = DEFAULT_POLICY,
    relax: frozenset[str] = frozenset(),
) -> Verdict:
    """The filter's verdict on one node. `quota` None means that no quota applies."""
    if not request.containers:
        return FITS
    try:
        return _PodRun(node, request, rules, quota=quota, default_policy=default_policy, relax=relax).verdict()
    except _Unmodelled as what:
        return Verdict(fits=None, unknown=str(what))


def heeds(request: PodRequest, *, limited: bool, default_policy: str) -> Heed:
    """What the verdicts on this request depend on at most, whatever is relaxed. `limited`: some quota applies."""
    wanted = request.constraints
    policy = default_policy if wanted.policy is None else wanted.policy
    if wanted.use_uuid is not None or wanted.no_use_uuid is not None or "topology" in policy:
        return "identity"
    return "order" if limited or wanted.numa_bind or len(request.containers) > 1 else "amounts"


class _PodRun:
    """One pod on one node: the containers in turn, each seeing what the earlier ones took."""

    def __init__(
        self,
        node: NodeCards,
        request: PodRequest,
        rules: Rules,
        *,
        quota: QuotaRoom | None,
        default_policy: str,
        relax: frozenset[str],
    ) -> None:
        self.node = node
        self.request = request
        self.rules = rules
        self.quota = quota if rules.quota != "none" and QUOTA_NOT_FIT not in relax else None
        self.relax = relax
        wanted = request.constraints
        self.policy = default_policy if wanted.policy is None else wanted.policy
        words = {word.strip() for word in self.policy.split(",")} if rules.modern else {self.policy}
        self.topology = rules.topology and "topology-aware" in words
        self.mutex = rules.modern and "mutex" in words
        self.numa_bind = wanted.numa_bind and NUMA_NOT_FIT not in relax
        weights = read_weights(wanted.weights) if rules.modern else Weights()
        if weights is None:
            raise _Unmodelled("hami.io/device-scoring-weights is invalid: every filter run fails")
        self.weights = weights
        self.allocated: list[list[_Taken]] = []

    def verdict(self) -> Verdict:
        containers = self.request.containers
        if len(containers) == 1:
            return self._container(list(self.node.cards), containers[0], last=True) or FITS
        apps: list[CardState] | None = None
        for position, container in enumerate(containers, start=1):
            if self.rules.modern and container.init:
                cards = [copy(state) for state in self.node.cards]
            else:
                if apps is None:
                    apps = [copy(state) for state in self.node.cards]
                    if self.rules.modern:  # the app containers are a pass of their own, for the quota too
                        self.allocated = []
                cards = apps
            failed = self._container(cards, container, last=position == len(containers))
            if failed is not None:
                return failed
            _book(self.allocated[-1])
        return FITS

    def _container(self, cards: list[CardState], container: ContainerRequest, *, last: bool) -> Verdict | None:
        rules = self.rules
        in_play = [state for state in cards if _is_nvidia(state, rules)] if rules.only_own_type else cards
        if self._too_few(cards, in_play, container):
            return Verdict(fits=False, reason=NODE_INSUFFICIENT)
        if len(self.request.containers) > 1 or self.numa_bind or self.quota or self.topology:
            sort_cards(cards, container, rules, policy=self.policy, numa_bind=self.numa_bind, weights=self.weights)
            in_play = [state for state in cards if _is_nvidia(state, rules)] if rules.only_own_type else cards
        taken, counts = self._scan(in_play, container)
        if self.topology and len(taken) >= container.count:
            taken = taken if last else self._choose_linked(taken, container.count)
        elif len(taken) < container.count:
            if taken:
                counts[ALLOCATED_INSUFFICIENT] = len(taken) if rules.modern else 1
            return Verdict(fits=False, parts=tuple(counts.items()), of=len(in_play))
        self.allocated.append(taken)
        return None

    def _too_few(self, cards: list[CardState], in_play: list[CardState], container: ContainerRequest) -> bool:
        if not self.rules.modern:
            return container.count > len(cards)
        mode = self.request.constraints.mode
        splits = (mode is None or "mig" in mode) and any(state.card.mode == "mig" for state in in_play)
        return container.count > len(in_play) and not splits

    def _scan(self, in_play: list[CardState], container: ContainerRequest) -> tuple[list[_Taken], dict[str, int]]:
        taken: list[_Taken] = []
        counts: dict[str, int] = {}
        previous_numa = -1
        position = len(in_play) - 1
        while position >= 0:
            state = in_play[position]
            code = self._ruled_out(state)
            if code is None and self.numa_bind and state.card.numa != previous_numa:
                if taken:
                    grown = len(taken) if self.rules.modern else 1
                    if not self.topology:
                        counts[NUMA_NOT_FIT] = counts.get(NUMA_NOT_FIT, 0) + grown
                    taken = []
                previous_numa = state.card.numa
            choice: mig.MigChoice | None = None
            if code is None:
                code, choice = self._lacks(state, container, taken)
            if code is not None:
                counts[code] = counts.get(code, 0) + 1
                position -= 1
                continue
            taken.append(_take(state, container, choice))
            if len(taken) == container.count and not self.topology:
                break
            if choice is None:  # a MIG card is looked at once more before moving on
                position -= 1
        return taken, counts

    def _ruled_out(self, state: CardState) -> str | None:
        """Checks 1 to 3: what comes before numa."""
        rules, relax = self.rules, self.relax
        if rules.health and not state.healthy and NOT_HEALTHY not in relax:
            return NOT_HEALTHY
        if rules.modern and state.card.uuid in self.node.cordoned and CORDONED not in relax:
            return CORDONED
        if not rules.only_own_type and not _is_nvidia(state, rules):
            return TYPE_MISMATCH
        if TYPE_MISMATCH not in relax and not type_allows(self.request.constraints, state, rules):
            return TYPE_MISMATCH
        return None

    def _lacks(
        self, state: CardState, container: ContainerRequest, taken: list[_Taken]
    ) -> tuple[str | None, mig.MigChoice | None]:
        """Checks 4 to 12."""
        relax, card = self.relax, state.card
        if UUID_MISMATCH not in relax and not uuid_allows(self.request.constraints, card.uuid, self.rules):
            return UUID_MISMATCH, None
        if state.slots >= card.slots and TIME_SLICING_EXHAUSTED not in relax:
            return TIME_SLICING_EXHAUSTED, None
        if self.mutex and state.slots > 0 and EXCLUSIVE_CONFLICT not in relax:
            return EXCLUSIVE_CONFLICT, None
        memory = container.memory_on(card.memory_mib)
        if self.quota is not None and self._over_quota(self.quota, container, state, taken):
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
            choice = self._place_mig(state, memory, taken)
            return (None, choice) if choice else (MIG_INFEASIBLE, None)
        return None, None

    def _place_mig(self, state: CardState, memory_mib: int, taken: list[_Taken]) -> mig.MigChoice | None:
        if not self.rules.modern:
            raise _Unmodelled("MIG templates of versions before 2.10")
        if self.topology:
            raise _Unmodelled("the policy topology-aware on MIG cards")
        earlier = [one.placement for one in taken if one.state is state and one.placement]
        return mig.choose(state.card.mig_profiles, memory_mib, [*state.placements, *earlier])

    def _over_quota(self, quota: QuotaRoom, container: ContainerRequest, state: CardState, taken: list[_Taken]) -> bool:
        """Cards of this container count as asked, those of earlier ones as booked: a MIG card's profile."""
        cards = [*(one.state.card for one in taken), state.card]
        needs = [[(card.uuid, container.memory_on(card.memory_mib), container.cores) for card in cards]]
        if self.rules.quota == "pod":
            booked = ([(one.state.card.uuid, one.memory_mib, one.cores) for one in shares] for shares in self.allocated)
            needs = [*booked, *needs]
        memory, cores = _collapse(needs, self.request.init_count if self.rules.modern else 0)
        return self._exceeds(quota.memory_limit_mib, quota.memory_used_mib + memory) or self._exceeds(
            quota.cores_limit, quota.cores_used + cores
        )

    def _exceeds(self, limit: int | None, amount: int) -> bool:
        return limit is not None and (limit != 0 or self.rules.modern) and amount > limit

    def _choose_linked(self, taken: list[_Taken], count: int) -> list[_Taken]:
        """Of the cards that passed, the ones that topology-aware gives to the container."""
        if len(taken) == count:
            return taken
        scores = self.node.link_scores or {}

        def pair(one: _Taken, other: _Taken) -> int:
            return scores.get((one.state.card.uuid, other.state.card.uuid), 0)

        if count == 1:
            return [min(taken, key=lambda one: sum(pair(one, other) for other in taken if other is not one))]
        if len(taken) > MAX_COMBINED_CARDS:
            raise _Unmodelled(f"the policy topology-aware over more than {MAX_COMBINED_CARDS} cards")
        best = max(combinations(taken, count), key=lambda some: sum(pair(a, b) for a, b in combinations(some, 2)))
        if not self.rules.modern and not any(pair(a, b) for a, b in combinations(best, 2)):
            return []
        return list(best)


def _collapse(containers: Iterable[list[tuple[str, int, int]]], inits: int) -> tuple[int, int]:
    """Memory and cores of all (uuid, memory, cores): per card the sum, or the largest init share where that is more.

    Positions below `inits` are taken for init containers, as HAMi does, though only GPU containers are listed.
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
    return sum(max(one[0], two[0]) for one, two in pairs), sum(max(one[1], two[1]) for one, two in pairs)


def _take(state: CardState, container: ContainerRequest, choice: mig.MigChoice | None) -> _Taken:
    if choice is None:
        return _Taken(state, container.memory_on(state.card.memory_mib), container.cores)
    return _Taken(state, choice.profile.memory_mib, choice.profile.cores, choice.placement)


def _book(taken: list[_Taken]) -> None:
    for state, memory, cores, placement in taken:
        state.slots += 1
        state.memory_mib += memory
        state.cores += cores
        if placement is not None:
            state.placements += (placement,)


def _is_nvidia(state: CardState, rules: Rules) -> bool:
    return "NVIDIA" in (state.card.type.upper() if rules.modern else state.card.type)


def type_allows(wanted: Constraints, state: CardState, rules: Rules) -> bool:
    """Whether the pod's type and mode annotations admit the card."""
    if wanted.mode is not None and state.card.mode not in wanted.mode:
        return False
    if wanted.use_type is None and wanted.no_use_type is None:
        return True
    kind = state.card.type.upper()
    use, no_use = _entries(wanted.use_type, rules), _entries(wanted.no_use_type, rules)
    if use is not None and not any(entry.upper() in kind for entry in use):
        return False
    return no_use is None or not any(entry.upper() in kind for entry in no_use)


def uuid_allows(wanted: Constraints, uuid: str, rules: Rules) -> bool:
    """Whether the pod's uuid annotations admit the card. Before 2.10 `nouse` is ignored beside `use`."""
    use, no_use = _entries(wanted.use_uuid, rules), _entries(wanted.no_use_uuid, rules)
    if use is not None and uuid not in use:
        return False
    if use is not None and not rules.modern:
        return True
    return no_use is None or uuid not in no_use


def _entries(text: str | None, rules: Rules) -> list[str] | None:
    """The entries of a comma list, None for no constraint. 2.10 trims, and takes a blank value as none."""
    if text is None or (rules.modern and not text.strip()):
        return None
    if not rules.modern:
        return text.split(",")
    return [entry.strip() for entry in text.split(",") if entry.strip()]
