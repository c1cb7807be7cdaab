"""Requests that are larger than the cards they may have: no end of another pod helps them."""

from typing import NamedTuple

from bot.hami.fit.verdicts import type_allows, uuid_allows
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.registration import Unregistered
from bot.report import Evidence, NextAction, step
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rules.capacity.node_selection import loosen
from playbooks.scenes.waiting_pod import PodScene


class Largest(NamedTuple):
    """The largest card that a pod may have, and on how many nodes it may have one."""

    node: str
    card: Card
    nodes: list[str]


def too_small(scene: PodScene) -> Largest | None:
    """The largest card that the pod may have, where it asks for more memory of one than that has when it is empty.

    None where waiting may help, and where a node that it may go to should have cards and none can be read.
    """
    asked = max((container.memory_mib for container in scene.request.containers), default=0)
    if not asked or len(scene.views) != 1:
        return None
    largest: tuple[str, Card] | None = None
    nodes: list[str] = []
    for name, seen in zip(scene.candidates, scene.view.seen(scene.candidates), strict=True):
        found = seen.state.registration if isinstance(seen.state, Unregistered) else seen.state
        if found is None:
            if scene.expects_gpus(name):
                return None
            continue
        admitted = [card for card in (_card(registered) for registered in found.cards) if admits(scene, card)]
        nodes += [name] if admitted else []
        for card in admitted:
            if card.memory_mib >= asked:
                return None
            if largest is None or card.memory_mib > largest[1].memory_mib:
                largest = name, card
    return Largest(*largest, nodes) if largest else None


def _card(card: Card | CardState) -> Card:
    return card.card if isinstance(card, CardState) else card


def admits(scene: PodScene, card: Card) -> bool:
    """Whether the card is of what the pod asks for, and its own type and UUID annotations allow it."""
    wanted, rules = scene.request.constraints, scene.view.rules
    return (
        scene.is_asked_for(card)
        and type_allows(wanted, CardState(card), rules)
        and uuid_allows(wanted, card.uuid, rules)
    )


def proof_of(scene: PodScene, largest: Largest) -> Evidence:
    """The card as it is registered."""
    node = scene.nodes[largest.node]
    return quotes.of_card(node, largest.card.uuid, whole=True)


def loosen_selection(scene: PodScene) -> list[NextAction]:
    """To let the pod go elsewhere, where nothing else keeps it from nodes that would take it now."""
    loosened = loosen(scene, list(scene.obstacles))
    if loosened is None:
        return []
    path = "{.spec.affinity.nodeAffinity}" if loosened.by_affinity else "{.spec.nodeSelector}"
    return [step(loosened.label(), kubectl_pod(scene.pod, "get", "-o", f"jsonpath={path}"))]
