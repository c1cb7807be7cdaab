"""What bears out that a card is as the answer says: its registration, its holders, what keeps pods off it."""

import msgspec

from bot.hami.allocations import NVIDIA_ALLOCATED_KEY
from bot.hami.nodestate import CORDON_KEY, GPU_LABEL, Unregistered
from bot.hami.vendors import NVIDIA
from bot.kube.models import Node
from bot.report import Evidence
from playbooks import quotes
from playbooks.gpus.inventory import CardSeen
from playbooks.quotes import kubectl
from playbooks.rules.case import World

_ALLOCATED_PATH = "jsonpath={.metadata.annotations." + NVIDIA_ALLOCATED_KEY.replace(".", "\\.") + "}"


def registered(world: World, card: CardSeen) -> Evidence:
    """The card as its node's register annotation has it."""
    node = world.facts.nodes[card.node]
    text = node.metadata.annotation(NVIDIA.register) or ""
    return quotes.of_node_annotation(node, NVIDIA.register, entry_of(text, card.card.uuid))


def entry_of(text: str, uuid: str) -> str:
    """The part of a registration that is about one card, as written; the uuid where none can be told apart."""
    if text.lstrip().startswith("["):
        entries = (bytes(one).decode() for one in msgspec.json.decode(text.encode(), type=list[msgspec.Raw]))
    else:
        entries = (f"{one}:" for one in text.split(":"))
    return next((one for one in entries if uuid in one), uuid)


def holding(world: World, card: CardSeen) -> list[Evidence]:
    """What one of its holders was given."""
    first = next((name for name, _ in card.holders), "")
    pod = next((one for one in world.facts.pods or () if f"{one.namespace}/{one.name}" == first), None)
    if pod is None:
        return []
    return [
        Evidence(
            source="pod",
            object=f"Pod {pod.namespace}/{pod.name}",
            at=quotes.clock(pod.metadata.creation_timestamp),
            quote=pod.metadata.annotation(NVIDIA_ALLOCATED_KEY) or pod.name,
            command=kubectl("-n", pod.namespace, "get", "pod", pod.name, "-o", _ALLOCATED_PATH),
        )
    ]


def obstacle(world: World, card: CardSeen) -> list[Evidence]:
    """What keeps pods off the card, beyond its registration."""
    node = world.facts.nodes[card.node]
    if card.state == "cordoned":
        return [quotes.of_node_annotation(node, CORDON_KEY, card.card.uuid)]
    if card.state.startswith("node-"):
        keys = [taint.key for taint in node.spec.taints or () if taint.key.startswith("node.kubernetes.io/")]
        return [quotes.of_node(node, key, "{.spec.taints[*].key}") for key in keys[:1]]
    if card.state == "no-allocatable":
        return [quotes.of_allocatable(node, world.config.count)]
    return holding(world, card)


def unregistered(node: Node, state: Unregistered, count_resource: str) -> Evidence:
    """What shows that the node has no usable registration, or that it should have one."""
    if node.metadata.annotation(state.key) is not None and state.quote.strip():
        return quotes.of_node_annotation(node, state.key, state.quote)
    key, value = GPU_LABEL
    if node.metadata.label(key) == value:
        return quotes.of_label(node, key)
    return quotes.of_allocatable(node, count_resource)
