"""One cluster as one version of HAMi's scheduler sees it. A `View` does no I/O, and decodes a node when asked to."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from itertools import product

import msgspec

from bot.hami.fit import verdicts as fit
from bot.hami.fit.allocated_totals import Holding, Ledger, ledger_key
from bot.hami.fit.filter import depends_on, judge, named_uuids
from bot.hami.fit.node_cache import ALIKE, NodeStock, Stock, has_card, take_stock
from bot.hami.fit.verdicts import NodeCards, QuotaRoom, Verdict
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.node_state import Terms
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.pods.pod_request import PodRequest
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import Holder, Node, Pod, Quantity, ResourceQuota
from bot.kube.quantities import parse_quantity
from bot.texts import Text

_UNKNOWN_VERSIONS = tuple(
    Version(2, minor, patch) for minor, patch in ((5, 1), (6, 1), (7, 1), (8, 1), (9, 0), (10, 0))
)

_NOBODY: list[Holding] = []


class ClusterFacts(msgspec.Struct, frozen=True):
    """What was read of the cluster for a `View`. `pods` and `quotas` are None where they could not be read."""

    nodes: Mapping[str, Node]
    pods: Iterable[Pod | Holder] | None
    quotas: Iterable[ResourceQuota] | None
    config: DeviceConfig
    now: datetime
    policy: str = fit.DEFAULT_POLICY
    node_selector: str = ""


class View:
    def __init__(self, facts: ClusterFacts, version: Version, stock: Stock | None = None) -> None:
        """`stock` has what earlier questions with the same version and settings worked out; None for a new one."""
        self.facts = facts
        self.version = version
        self._stock = stock or Stock(terms(facts, version))
        self.rules = self._stock.rules
        self.ledger: Ledger | None = None if facts.pods is None else self._stock.ledger(facts.pods)
        self._whole: View | None = None
        self._changed: frozenset[str] = frozenset()
        self._seen: dict[str, NodeStock] = {}
        self._rooms: dict[tuple[str, str], tuple[QuotaRoom | None, ...]] = {}
        self._last: tuple[PodRequest, list[Mapping[str, QuotaRoom]]] | None = None

    def forgetting(self, uid: str) -> "View":
        """The view without what the pod `uid` holds, as HAMi sees the cluster when it places that pod."""
        if self.ledger is None or not uid or uid not in self.ledger.uids:
            return self
        gone = [holding for holding in self.ledger.all() if holding.uid == uid]
        view = copy(self)
        view.ledger = self.ledger.without(gone)
        view._whole, view._changed = self, self._changed | {holding.node for holding in gone}  # noqa: SLF001  # a copy of ours
        view._seen, view._rooms, view._last = {}, {}, None  # noqa: SLF001
        return view

    def registration(self, name: str) -> Registration | Unregistered:
        """The node's GPUs as registered, or why HAMi's scheduler does not have them."""
        return self._stock.registration(self.facts.nodes[name], self.facts.now)

    def state(self, name: str) -> NodeCards | Unregistered:
        """The node's GPUs with what is used of them; without any use where the pods could not be read."""
        return self.stock_of(name).state

    def stock_of(self, name: str) -> NodeStock:
        """The node's GPUs with what is used of them, and numbers that are equal for nodes that are alike."""
        if (seen := self._seen.get(name)) is not None:
            return seen
        if self._whole is not None and name not in self._changed:
            return self._whole.stock_of(name)
        holdings = self.ledger.on(name) if self.ledger else _NOBODY
        (seen,) = self._stock.on_each([(self.facts.nodes[name], holdings)], self.facts.now)
        self._seen[name] = seen
        return seen

    def stocks_of(self, names: Iterable[str]) -> list[NodeStock]:
        names = list(names)
        if self._whole is not None:
            return [self.stock_of(name) for name in names]
        known, nodes, on = self._seen, self.facts.nodes, self.ledger.by_node if self.ledger else {}
        if unseen := [name for name in names if name not in known]:
            pairs = [(nodes[name], on.get(name, _NOBODY)) for name in unseen]
            known.update(zip(unseen, self._stock.on_each(pairs, self.facts.now), strict=True))
        return list(map(known.__getitem__, names))

    def registered(self, names: Iterable[str]) -> list[str]:
        """Those of the nodes `names` whose GPUs HAMi's scheduler has."""
        names = list(names)
        both = zip(names, self.stocks_of(names), strict=True)
        return [name for name, seen in both if not isinstance(seen.state, Unregistered)]

    def cards_of(self, name: str, registration: Registration, *, empty: bool = False) -> NodeCards:
        """The GPUs of a node's `registration` with what pods hold of them; with `empty` as if pods held nothing."""
        holdings = self.ledger.on(name) if self.ledger and not empty else ()
        return self._stock.cards_of(self.facts.nodes[name], registration, holdings)

    def judge(self, name: str, request: PodRequest, relax: frozenset[str] = frozenset()) -> Verdict:
        """The filter's verdict on one node; its `fits` is None where something that decides could not be read."""
        return self.judge_each([name], request, relax)[name]

    def judge_each(
        self, names: Iterable[str], request: PodRequest, relax: frozenset[str] = frozenset()
    ) -> dict[str, Verdict]:
        """The filter's verdict on each node, by name. Nodes that are alike in all that decides are judged once."""
        if not request.containers:
            return dict.fromkeys(names, fit.FITS)
        known = self._stock.verdicts(self._asked(request, relax))
        names = list(names)
        seen, alike = self._alike(names, request)
        found: dict[str, Verdict] = {}
        for name, stock, key, verdict in zip(names, seen, alike, map(known.get, alike), strict=True):
            if verdict is not None:  # none is known by None
                found[name] = verdict
                continue
            found[name] = self._judge(stock, request, relax)
            if key is not None:
                known[key] = found[name]
        return found

    def _alike(self, names: Sequence[str], request: PodRequest) -> tuple[list[NodeStock], list[int | None]]:
        seen = self.stocks_of(names)
        return seen, list(map(self._key(request, limited=any(self._quotas(request))), seen))

    def twins(self, request: PodRequest) -> Callable[[NodeStock], int | None]:
        """Makes a function of a node: a number equal for nodes with one verdict, None where a node has its own."""
        return self._key(request, limited=True)

    def _key(self, request: PodRequest, *, limited: bool) -> Callable[[NodeStock], int | None]:
        dependence = depends_on(request, limited=limited, default_policy=self.facts.policy)
        key = ALIKE[dependence]
        if dependence != "named":
            return key
        named = named_uuids(request)
        return lambda stock: None if has_card(stock, named) else key(stock)

    def _asked(self, request: PodRequest, relax: frozenset[str]) -> Hashable:
        unseen = self.ledger is None, self.facts.quotas is None
        nameless = msgspec.structs.replace(request, namespace="", name="", uid="")
        rooms = tuple(self._room_for(request, quotas) for quotas in self._quotas(request))
        return nameless, relax, rooms, self.facts.policy, unseen

    def _room_for(self, request: PodRequest, quotas: Mapping[str, QuotaRoom]) -> Hashable:
        """A key that is equal for quota rooms which allow the request equally many GPUs: few verdicts serve many."""
        room = quotas.get(request.containers[0].word)
        if room is None or len(request.containers) != 1 or not request.containers[0].is_fixed:
            return tuple(quotas.items())
        if depends_on(request, limited=True, default_policy=self.facts.policy) in ("named", "identity"):
            return tuple(quotas.items())
        asked, modern = request.containers[0], self.rules.modern
        return (
            _most(room.memory_limit_mib, room.memory_free_mib, asked.memory_on(0), asked.count, modern=modern),
            _most(room.cores_limit, room.cores_free, asked.cores, asked.count, modern=modern),
        )

    @property
    def runs(self) -> int:
        """How often the filter has run on this view's stock, for this question and earlier ones."""
        return self._stock.runs

    def _judge(self, seen: NodeStock, request: PodRequest, relax: frozenset[str]) -> Verdict:
        if isinstance(seen.state, Unregistered):
            return fit.UNREGISTERED
        if self.ledger is None:
            return Verdict(fits=None, unknown=Text("error-hami.holders-unseen"))
        if seen.by_turns:
            return Verdict(fits=None, unknown=Text("error-hami.none-allocatable"))
        self._stock.runs += 1
        return self.run(seen.state, request, relax)

    def unlike(self, names: Iterable[str], request: PodRequest) -> list[str]:
        """The registered nodes, except those alike to an earlier one of `names` in all that decides the verdict."""
        known, found = set[int](), list[str]()
        names = list(names)
        for name, seen, alike in zip(names, *self._alike(names, request), strict=True):
            if alike not in known and not isinstance(seen.state, Unregistered):
                found.append(name)
                if alike is not None:
                    known.add(alike)
        return found

    def judge_without(self, name: str, request: PodRequest, gone: Sequence[Holding]) -> Verdict:
        """The filter's verdict on one node as if the pods `gone` had ended, which frees their GPUs and their quota."""
        seen = self.stock_of(name)
        state = seen.state
        if isinstance(state, Unregistered) or self.ledger is None or seen.by_turns:
            return self.judge(name, request)
        ended = {id(holding) for holding in gone}
        rest = [holding for holding in self.ledger.on(name) if id(holding) not in ended]
        cards = state._replace(cards=take_stock([card.card for card in state.cards], rest, self.rules))
        return self.run(cards, request, gone=[holding for holding in gone if holding.namespace == request.namespace])

    def run(
        self,
        cards: NodeCards,
        request: PodRequest,
        relax: frozenset[str] = frozenset(),
        *,
        gone: Sequence[Holding] = (),
    ) -> Verdict:
        """The filter's verdict on any set of GPUs, by this cluster's quotas and policy; `fits` is None where those are
        unknown. `gone`: holders of the namespace that no longer count against its quota.
        """
        verdicts = [
            judge(
                cards,
                request,
                self.rules,
                quotas={word: self._after(room, word, gone) for word, room in quotas.items()} if gone else quotas,
                default_policy=self.facts.policy,
                relax=relax,
            )
            for quotas in self._quotas(request)
        ]
        if len({verdict.fits for verdict in verdicts}) > 1:
            return Verdict(fits=None, unknown=Text("error-hami.several-quotas"))
        asked = (self.facts.config.by_word.get(container.word) for container in request.containers)
        limits = self.facts.quotas is None and any(device and device.vendor.obeys_quota for device in asked)
        holds = self.rules.quota != "none" and limits and fit.QUOTA_NOT_FIT not in relax
        if holds and (verdicts[-1].fits is not False or not _AFTER_QUOTA.isdisjoint(verdicts[-1].codes)):
            # A quota that could not be read may refuse the pod, and HAMi checks it before what failed here.
            return Verdict(fits=None, unknown=Text("error-hami.quota-unseen"))
        return verdicts[-1]

    def fits_empty(self, name: str, request: PodRequest, relax: frozenset[str] = frozenset()) -> bool | None:
        """Whether the node would take the pod if it were empty; None where it is unregistered or that is not known."""
        registration = self.registration(name)
        if isinstance(registration, Unregistered):
            return None
        return self.run(self.cards_of(name, registration, empty=True), request, relax).fits

    def quota_room(self, namespace: str, word: str = FIRST.names.word) -> QuotaRoom | None:
        """What the namespace's `limits.*` quota leaves of a device; None where HAMi's filter applies no quota."""
        return self._quota_rooms(namespace, word)[-1]

    def _quotas(self, request: PodRequest) -> list[Mapping[str, QuotaRoom]]:
        if self._last is None or self._last[0] is not request:
            words = dict.fromkeys(container.word for container in request.containers)
            rooms = product(*(self._quota_rooms(request.namespace, word) for word in words))
            by_word = (zip(words, row, strict=True) for row in rooms)
            self._last = request, [{word: room for word, room in row if room is not None} for row in by_word]
        return self._last[1]

    def _quota_rooms(self, namespace: str, word: str) -> tuple[QuotaRoom | None, ...]:
        """One room for each way in which HAMi may have read the quotas: of several for a resource it keeps any one."""
        if (namespace, word) not in self._rooms:
            self._rooms[namespace, word] = tuple(self._read_quotas(namespace, word)) or (None,)
        return self._rooms[namespace, word]

    def _read_quotas(self, namespace: str, word: str) -> Iterator[QuotaRoom]:
        device = self.facts.config.by_word.get(word)
        if device is None or not device.vendor.obeys_quota:
            return
        resources = device.resources
        merges = self.rules.merges_quotas
        own = (quota for quota in self.facts.quotas or () if quota.namespace == namespace)
        hard = [quota.spec.hard or {} for quota in own if not (merges and quota.is_scoped)]
        memory_limits = _limits(hard, resources.memory, smallest=merges)
        cores_limits = _limits(hard, resources.cores, smallest=merges)
        if not memory_limits and not cores_limits:
            return
        memory, cores = self.ledger.used_in(namespace, ledger_key(device)) if self.ledger else (0, 0)
        for memory_limit, cores_limit in product(memory_limits or [None], cores_limits or [None]):
            factored = None if memory_limit is None else memory_limit * resources.memory_factor
            yield QuotaRoom(factored, cores_limit, memory, cores)

    def _after(self, room: QuotaRoom, word: str, gone: Sequence[Holding]) -> QuotaRoom:
        key = ledger_key(self.facts.config.by_word[word])
        freed = [holding.given_by(key) for holding in gone]
        memory, cores = (sum(amounts[i] for amounts in freed) for i in range(2))
        return room._replace(memory_used_mib=room.memory_used_mib - memory, cores_used=room.cores_used - cores)

    def cards(self, name: str) -> list[CardState]:
        state = self.state(name)
        return [] if isinstance(state, Unregistered) else list(state.cards)


def _most(limit: int | None, free: int, each: int, count: int, *, modern: bool) -> int:
    if limit is None or (limit == 0 and not modern):
        return count
    if free < 0:
        return 0
    return min(count, free // each) if each else count


def terms(facts: ClusterFacts, version: Version) -> Terms:
    """The settings of these facts that a `Stock` must have been made with to serve them."""
    return Terms(version, facts.config, facts.node_selector)


def _limits(hard: Iterable[Mapping[str, Quantity]], resource: str, *, smallest: bool) -> list[int]:
    """Each limit on a resource once, the last quota's last, or only the `smallest`; HAMi reads whole numbers alone."""
    found: dict[int, None] = {}
    for amounts in hard:
        limit = parse_quantity(amounts.get(f"limits.{resource}", ""))
        if limit is not None and limit == limit.to_integral_value():
            found.pop(int(limit), None)
            found[int(limit)] = None
    return [min(found)] if smallest and found else list(found)


_AFTER_QUOTA = frozenset(
    {
        fit.INSUFFICIENT_MEMORY,
        fit.INSUFFICIENT_CORE,
        fit.EXCLUSIVE_CONFLICT,
        fit.COMPUTE_UNITS_EXHAUSTED,
        fit.MIG_INFEASIBLE,
        fit.ALLOCATED_INSUFFICIENT,
    }
)


def versions_to_try(version: Version | None, nodes: Iterable[Node]) -> tuple[Version, ...]:
    """The version of HAMi; if unknown, one of each generation whose format some node's registration has."""
    if version is not None:
        return (version,)
    texts = (node.metadata.annotation(FIRST.names.register) for node in nodes)
    are_json = {text.lstrip()[:1] == "[" for text in texts if text}
    return tuple(version for version in _UNKNOWN_VERSIONS if not are_json or (version >= (2, 8)) in are_json)
