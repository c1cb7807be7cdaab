"""Finds pods whose end would let another pod in: as few as possible, and every set is confirmed by HAMi's filter."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate, combinations
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bot.hami.fit.allocated_totals import Holding, Ledger
from bot.hami.fit.cluster_view import View
from bot.hami.fit.filter import named_uuids
from bot.hami.fit.node_cache import NodeStock, has_card
from bot.hami.fit.verdicts import EXCLUSIVE_CORES, QUOTA_NOT_FIT, NodeCards
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import PodRequest

MAX_RUNS = 3000
"""The most filter runs in one search, which take about 0.2 s."""
MAX_SETS = 20_000
_MAX_TRIED_WHOLE = 3
_MAX_PROVEN = 6
_QUOTA_NODES = 3
_IMPOSSIBLE = 1 << 30


class Ending(NamedTuple):
    """A set of pods: once they have ended, `node` takes the pending pod. The least disruptive comes first."""

    node: str
    pods: tuple[Holding, ...]


class Search(NamedTuple):
    """Sets of pods to end, the least disruptive first. Smaller sets may exist where `complete` is false."""

    found: tuple[Ending, ...] = ()
    complete: bool = True


def pods_to_end(
    view: View, names: Iterable[str], request: PodRequest, *, most: int = 5, kept: Collection[str] = ()
) -> Search:
    """Finds up to `most` sets of pods whose end lets the request onto a node: fewest pods, lowest priority, youngest
    first.

    Every pod of a set is needed, and none is of `kept` (NAMESPACE/NAME). Pods count too that hold the namespace's
    quota.
    """
    if view.ledger is None or not request.containers:
        return Search()
    return _Hunt(view, names, request, ledger=view.ledger, most=most, kept=kept).search()


class _Need(NamedTuple):
    """What a card lacks for one container: memory, cores and slots, or that every other pod on it ends."""

    uuid: str
    memory_mib: int
    cores: int
    slots: int
    users: int

    @property
    def met(self) -> bool:
        return self.memory_mib <= 0 and self.cores <= 0 and self.slots <= 0 and self.users <= 0

    def without(self, gone: Iterable[Holding]) -> "_Need":
        memory, cores, slots, users = self.memory_mib, self.cores, self.slots, self.users
        for holding in gone:
            if (share := holding.shares.get(self.uuid)) is not None:
                memory, cores = memory - share.memory_mib, cores - share.cores
                slots, users = slots - share.slots, users - share.slots
        return self._replace(memory_mib=memory, cores=cores, slots=slots, users=users)


Needs = list[_Need]


class _Site(msgspec.Struct, dict=True, eq=False):
    """A node where ending pods might help. `elsewhere` hold the same quota; `lacking`: cards that must become free."""

    name: str
    on_node: list[Holding]
    elsewhere: list[Holding]
    lacking: int | None
    read: Callable[[], Needs]

    @cached_property
    def holders(self) -> list[Holding]:
        return [*self.on_node, *(holding for holding in self.elsewhere if holding.node != self.name)]

    @cached_property
    def needs(self) -> Needs:
        """What each card lacks that would do if it were empty; worked out only for the few sites where it matters."""
        return self.read()

    @cached_property
    def bound(self) -> int:
        """A lower limit for the number of pods that have to end."""
        if not self.lacking:
            return 1
        by_card = _shares_by_card(self.on_node)
        return max(sorted(_fewest(need, by_card.get(need.uuid, ())) for need in self.needs)[self.lacking - 1], 1)


class _Hunt:
    """One search. Arithmetic leaves out what cannot help a plain request; the filter itself decides."""

    def __init__(
        self, view: View, names: Iterable[str], request: PodRequest, *, ledger: Ledger, most: int, kept: Collection[str]
    ) -> None:
        self.kept = kept
        self.view = view
        self.ledger = ledger
        self.names = dict.fromkeys(names)
        self.request = request
        self.most = most
        self.runs = MAX_RUNS
        self.sets = MAX_SETS
        self.plain = _plain(request, view)
        self.named = named_uuids(request)
        # A quota counts the namespace's holders on every node.
        namespace, word = request.namespace, request.containers[0].word
        limited = view.rules.quota != "none" and view.quota_room(namespace, word) is not None
        everywhere = ledger.least_disruptive_first if limited else ()
        self.own = self._may_end([holding for holding in everywhere if holding.namespace == namespace])
        self._sites: dict[str, _Site | None] = {}
        self._cards: dict[int, _Need | None] = {}
        self._lacking: dict[int | None, int] = {}
        self.twins = view.twins(request)
        self._fitting: dict[Hashable, bool] = {}

    def _may_end(self, holders: list[Holding]) -> list[Holding]:
        return [one for one in holders if f"{one.namespace}/{one.name}" not in self.kept] if self.kept else holders

    def search(self) -> Search:
        by_quota = [site for site in self._everywhere() if not site.lacking] if self.own else []
        found = self._single(by_quota)
        if not found:
            for site in sorted(self._everywhere(), key=lambda site: site.bound):
                if site.bound >= _IMPOSSIBLE or self.runs <= 0:
                    break
                if len(found) >= self.most and site.bound > max(len(choice.pods) for choice in found):
                    break
                if (ending := self._several(site)) is not None:
                    found.append(ending)
        found.sort(
            key=lambda choice: (len(choice.pods), [pod.disruption for pod in reversed(choice.pods)], choice.node)
        )
        return Search(tuple(found[: self.most]), self.runs > 0 and self.sets > 0)

    # ------------------------------------------------------------------------------------------------ the sites

    def _everywhere(self) -> list[_Site]:
        sites = [site for name in self.names if (site := self._at(name)) is not None]
        for site in [site for site in sites if site.lacking == 0][_QUOTA_NODES:]:
            self._sites[site.name] = None
        return [site for site in sites if self._sites[site.name] is not None]

    def _at(self, name: str) -> _Site | None:
        if name not in self._sites:
            self._sites[name] = self._read_site(name) if name in self.names else None
        return self._sites[name]

    def _read_site(self, name: str) -> _Site | None:
        seen, holders = self.view.stock_of(name), self._may_end(self.ledger.on(name))
        if isinstance(seen.state, Unregistered) or not (holders or self.own):
            return None
        lacking = self._lacks(seen)
        if lacking is not None and lacking < 0:
            return None
        return _Site(name, holders, self.own, lacking, partial(self._unmet, seen))

    def _lacks(self, seen: NodeStock) -> int | None:
        """How many cards a site lacks, below 0 where the end of no pod would help; kept for nodes that are alike."""
        if not self.plain or seen.mig:
            return None
        alike = None if self.named and has_card(seen, self.named) else seen.amounts
        if alike is None or alike not in self._lacking:
            met = [need.met for need in self._needs(seen)]
            wanted, usable, free = self.request.containers[0].count, len(met), sum(met)
            helps = usable >= wanted and (free < wanted or bool(self.own))
            self._lacking[alike] = max(wanted - free, 0) if helps else -1
        return self._lacking[alike]

    def _unmet(self, seen: NodeStock) -> Needs:
        return [] if self._lacks(seen) is None else [need for need in self._needs(seen, named=True) if not need.met]

    def _needs(self, seen: NodeStock, *, named: bool = False) -> Iterator[_Need]:
        state = seen.state
        if isinstance(state, Unregistered):
            return
        for card, kind in zip(state.cards, seen.kinds, strict=True):
            if (need := self._need(card, kind, state.cordoned)) is not None:
                yield need._replace(uuid=card.card.uuid) if named else need

    def _need(self, card: CardState, kind: int, cordoned: frozenset[str]) -> _Need | None:
        """What the card lacks; None where it would not do even when empty."""
        if card.card.uuid in self.named:
            return self._need_of(card, cordoned)
        if kind not in self._cards:
            self._cards[kind] = self._need_of(card, cordoned)
        return self._cards[kind]

    def _need_of(self, card: CardState, cordoned: frozenset[str]) -> _Need | None:
        container = self.request.containers[0]
        probe = msgspec.structs.replace(self.request, containers=(msgspec.structs.replace(container, count=1),))
        empty = CardState(card.card)
        empty.healthy = card.healthy
        fits = self.view.run(NodeCards([empty], cordoned), probe, frozenset({QUOTA_NOT_FIT})).fits
        if not fits:
            return None
        gpu = card.card
        exclusive = gpu.cores == EXCLUSIVE_CORES == container.cores
        full = container.cores == 0 and gpu.cores != 0 and card.cores >= gpu.cores
        return _Need(
            uuid=gpu.uuid,
            memory_mib=container.memory_on(gpu.memory_mib) - card.free_memory_mib,
            cores=card.cores - gpu.cores + 1 if full else container.cores - card.free_cores,
            slots=card.slots - gpu.slots + 1,
            users=card.slots if exclusive else 0,
        )

    # ------------------------------------------------------------------------------------------------- the sets

    def _single(self, by_quota: Sequence[_Site]) -> list[Ending]:
        found: list[Ending] = []
        for holding in self.ledger.least_disruptive_first:
            concerned = [site] if (site := self._at(holding.node)) else []
            if by_quota and holding.namespace == self.request.namespace:
                concerned += (site for site in by_quota if site.name != holding.node)
                concerned.sort(key=lambda site: site.name)
            for site in concerned:
                if len(found) >= self.most or self.runs <= 0:
                    return found
                if self._may_do(site, (holding,)) and self._fits(site.name, (holding,)):
                    found.append(Ending(site.name, (holding,)))
                    break
        return found

    def _several(self, site: _Site) -> Ending | None:
        """A set of two or more pods on this node: all sets of up to three are tried, then the largest pods go first."""
        if not self._fits(site.name, site.holders):
            return None
        helpful = sorted(
            (holder for holder in site.holders if self._may_help(site, holder)), key=attrgetter("disruption")
        )
        for size in range(max(site.bound, 2), _MAX_TRIED_WHOLE + 1):
            for some in combinations(helpful, size):
                self.sets -= 1
                if self.sets <= 0 or self.runs <= 0:
                    return self._greedy(site, helpful)
                if self._may_do(site, some) and self._fits(site.name, some):
                    return self._minimal(site.name, list(some))
        return self._greedy(site, helpful)

    def _greedy(self, site: _Site, helpful: Sequence[Holding]) -> Ending | None:
        wanted: list[Holding] = []
        for holding in self._cheapest_cards(site, helpful):
            wanted.append(holding)
            if self._may_do(site, wanted) and self._fits(site.name, wanted):
                return self._minimal(site.name, wanted)
        return None

    def _cheapest_cards(self, site: _Site, helpful: Sequence[Holding]) -> list[Holding]:
        by_size = sorted(helpful, key=lambda holding: (holding.memory_mib, holding.amounts), reverse=True)
        if site.lacking is None:
            return by_size
        by_card = _shares_by_card(helpful)
        cards = sorted(site.needs, key=lambda need: _fewest(need, by_card.get(need.uuid, ())))[: site.lacking]
        first = [holding for holding in by_size if any(card.uuid in holding.shares for card in cards)]
        return [*first, *(holding for holding in by_size if not any(holding is other for other in first))]

    def _minimal(self, name: str, pods: list[Holding]) -> Ending | None:
        """The set without pods that need not end, the most disruptive first; None where that cannot be proven."""
        for pod in sorted(pods, key=attrgetter("disruption"), reverse=True):
            rest = [other for other in pods if other is not pod]
            if rest and self._fits(name, rest):
                pods = rest
        if not self.plain or self.own:  # giving up more may be worse there: every smaller set is asked
            if len(pods) > _MAX_PROVEN:
                return None
            for size in range(1, len(pods)):
                for some in combinations(pods, size):
                    if self._fits(name, some):
                        return Ending(name, some)
        return Ending(name, tuple(sorted(pods, key=attrgetter("disruption"))))

    def _may_help(self, site: _Site, holding: Holding) -> bool:
        if site.lacking is None or (self.own and holding.namespace == self.request.namespace):
            return True
        return any(need.uuid in holding.shares for need in site.needs)

    def _may_do(self, site: _Site, some: Sequence[Holding]) -> bool:
        """Whether the request might fit without these pods, by arithmetic alone."""
        if not site.lacking:
            return True
        # These pods hold few of the site's cards; the other cards stay as they are.
        concerned = [need for need in site.needs if any(need.uuid in holding.shares for holding in some)]
        return len(concerned) >= site.lacking and sum(1 for need in concerned if need.without(some).met) >= site.lacking

    def _fits(self, name: str, gone: Sequence[Holding]) -> bool:
        self.runs -= 1
        alike = self._alike(name, gone)
        if alike is not None and alike in self._fitting:
            return self._fitting[alike]
        fits = self.view.judge_without(name, self.request, gone).fits is True
        if alike is not None:
            self._fitting[alike] = fits
        return fits

    def _alike(self, name: str, gone: Sequence[Holding]) -> Hashable:
        """A key that is equal where the same is taken from nodes that are alike; None where only a run can tell."""
        seen = self.view.stock_of(name)
        twins = self.twins(seen)
        if twins is None or seen.mig or isinstance(seen.state, Unregistered):
            return None
        places = {card.card.uuid: place for place, card in enumerate(seen.state.cards)}
        namespace = self.request.namespace
        shares = [
            (places.get(uuid), share, holding.app_class, holding.namespace == namespace)
            for holding in gone
            for uuid, share in holding.shares.items()
        ]
        return twins, tuple(shares)


def _plain(request: PodRequest, view: View) -> bool:
    """Whether a card is free or not for this pod, whatever the pod gets of other cards."""
    wanted = request.constraints
    policy = view.facts.policy if wanted.policy is None else wanted.policy
    whole = "topology" not in policy and "mutex" not in policy
    by_share = (
        bool(request.containers[0].memory_mib) or view.quota_room(request.namespace, request.containers[0].word) is None
    )
    return len(request.containers) == 1 and not wanted.numa_bind and whole and by_share


def _shares_by_card(holders: Iterable[Holding]) -> dict[str, list[Holding]]:
    by_card: dict[str, list[Holding]] = {}
    for holder in holders:
        for uuid in holder.shares:
            by_card.setdefault(uuid, []).append(holder)
    return by_card


def _fewest(need: _Need, holders: Sequence[Holding]) -> int:
    """A lower limit for the number of these pods that have to end before the card is free."""
    shares = [holder.shares[need.uuid] for holder in holders]
    slots, memory, cores = zip(*shares, strict=True) if shares else ((), (), ())
    fewest = 0
    for lacking, given in ((need.memory_mib, memory), (need.cores, cores), (max(need.slots, need.users), slots)):
        sums = accumulate(sorted(given, reverse=True), initial=0)
        fewest = max(fewest, next((count for count, freed in enumerate(sums) if freed >= lacking), _IMPOSSIBLE))
    return fewest
