"""What bears out that a card is as the answer says: its registration, its holders, what keeps pods off it."""

from bot.hami.nodes.node_state import CORDON_KEY
from bot.hami.nodes.registration import Unregistered
from bot.hami.vendors import FIRST
from bot.kube.models import Node
from bot.report import Evidence
from playbooks import quotes
from playbooks.gpus.inventory import CardSeen
from playbooks.scene import ClusterScene


def registered(world: ClusterScene, card: CardSeen) -> Evidence:
    """The card as its node's register annotation has it."""
    return quotes.of_card(world.facts.nodes[card.node], card.card.uuid, whole=True)


def holding(world: ClusterScene, card: CardSeen) -> list[Evidence]:
    """What one of its holders was given."""
    first = next((name for name, _ in card.holders), "")
    pod = next(
        (candidate for candidate in world.facts.pods or () if f"{candidate.namespace}/{candidate.name}" == first), None
    )
    return [quotes.of_holder(pod)] if pod else []


def obstacle(world: ClusterScene, card: CardSeen) -> list[Evidence]:
    """What keeps pods off the card, beyond its registration."""
    node = world.facts.nodes[card.node]
    if card.state == "cordoned":
        return [quotes.of_node_annotation(node, CORDON_KEY, card.card.uuid)]
    if card.state.startswith("node-"):
        keys = [taint.key for taint in node.spec.taints or () if taint.key.startswith("node.kubernetes.io/")]
        return [quotes.of_node(node, key, "{.spec.taints[*].key}") for key in keys[:1]]
    if card.state == "no-allocatable":
        return [quotes.of_allocatable(node, world.config.gpus.count)]
    return holding(world, card)


def unregistered(node: Node, state: Unregistered, count_resource: str) -> Evidence:
    """What shows that the node has no usable registration, or that it should have one."""
    if node.metadata.annotation(state.key) is not None and state.quote.strip():
        return quotes.of_node_annotation(node, state.key, state.quote)
    key, value = FIRST.node_label
    if node.metadata.label(key) == value:
        return quotes.of_label(node, key)
    return quotes.of_allocatable(node, count_resource)
