"""The filter's verdict on one node: what is the same for every vendor around its own checks.

Source: HAMi pkg/scheduler/score.go fitInDevices at v2.5.1 to v2.10.0.
"""

from copy import copy
from typing import Literal

from bot.hami.asked import ContainerRequest, PodRequest
from bot.hami.cardorder import Weights, read_weights, sort_cards
from bot.hami.cards import CardState
from bot.hami.fit import FITS, NODE_INSUFFICIENT, NodeCards, QuotaRoom, Run, Taken, UnmodelledError, Verdict
from bot.hami.rules import Rules
from bot.hami.vendors import BY_WORD

DEFAULT_POLICY = "spread"

Dependence = Literal["amounts", "order", "identity"]
"""What of a node's cards a verdict depends on: what each one is and what is used of it; also in which order they stand
and on which numa nodes; or also which cards they are."""

_TOO_FEW = Verdict(fits=False, reason=NODE_INSUFFICIENT)


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
    run = Run(node, request, rules, quota=quota, default_policy=default_policy, relax=relax)
    weights = read_weights(request.constraints.weights) if rules.modern else Weights()
    if weights is None:
        return Verdict(fits=None, unknown="hami.io/device-scoring-weights is invalid: every filter run fails")
    try:
        return _verdict(run, weights)
    except UnmodelledError as what:
        return Verdict(fits=None, unknown=str(what))


def depends_on(request: PodRequest, *, limited: bool, default_policy: str) -> Dependence:
    """What the verdicts on this request depend on at most, whatever is relaxed. `limited`: some quota applies."""
    wanted = request.constraints
    policy = default_policy if wanted.policy is None else wanted.policy
    if wanted.use_uuid is not None or wanted.no_use_uuid is not None or "topology" in policy:
        return "identity"
    return "order" if limited or wanted.numa_bind or len(request.containers) > 1 else "amounts"


def _verdict(run: Run, weights: Weights) -> Verdict:
    containers, modern = run.request.containers, run.rules.modern
    if len(containers) == 1:
        return _container(run, list(run.node.cards), containers[0], weights) or FITS
    apps: list[CardState] | None = None
    for position, container in enumerate(containers, start=1):
        if modern and container.init:
            cards = [copy(state) for state in run.node.cards]
        else:
            if apps is None:
                apps = [copy(state) for state in run.node.cards]
                if modern:  # the app containers are a pass of their own, for the quota too
                    run.allocated = []
            cards = apps
        run.is_last = position == len(containers)
        failed = _container(run, cards, container, weights)
        if failed is not None:
            return failed
        _book(run.allocated[-1])
    return FITS


def _container(run: Run, cards: list[CardState], container: ContainerRequest, weights: Weights) -> Verdict | None:
    rules, vendor = run.rules, BY_WORD[container.word]
    in_play = _in_play(cards, container.word, rules)
    if container.count > len(in_play if rules.modern else cards) and not vendor.may_split(run, in_play):
        return _TOO_FEW
    if len(run.request.containers) > 1 or run.numa_bind or run.quota or run.topology:
        sort_cards(cards, container, rules, policy=run.policy, numa_bind=run.numa_bind, weights=weights)
        in_play = _in_play(cards, container.word, rules)
    taken = vendor.scan(run, in_play, container)
    if isinstance(taken, Verdict):
        return taken
    run.allocated.append(taken)
    return None


def _in_play(cards: list[CardState], word: str, rules: Rules) -> list[CardState]:
    """The cards of that vendor; before 2.7 all of them."""
    if not rules.only_own_type:
        return cards
    if not rules.modern:
        return [state for state in cards if word in state.card.type]
    word = word.upper()
    return [state for state in cards if word in state.card.type.upper()]


def _book(taken: list[Taken]) -> None:
    for state, memory, cores, placement in taken:
        state.slots += 1
        state.memory_mib += memory
        state.cores += cores
        if placement is not None:
            state.placements += (placement,)
