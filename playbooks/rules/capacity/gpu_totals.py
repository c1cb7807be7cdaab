"""Rules for `gpus` and the digest: how much of the GPUs is free, what no pod can get, and which GPUs HAMi lacks."""

from collections import Counter
from collections.abc import Iterable, Iterator

from bot.hami.nodes.node_state import CORDON_KEY, wants_own_plugin
from bot.hami.nodes.registration import Unregistered
from bot.report import Confidence, Evidence, Finding, Gap, Severity, step
from bot.rows import FREE, UNKNOWN, UNREGISTERED, state_in_words
from bot.texts import Text, listed, sentences
from playbooks import quotes
from playbooks.rule import Stage, rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import confidence_in, finding
from playbooks.rules.common.prose import near_names, see_all_nodes
from playbooks.rules.dra import given_by_claims, handed_out_twice, served
from playbooks.rules.nodes.causes import repair, uncordon, uncordon_node
from playbooks.rules.waiting.stale_scheduler import ghosts_told
from playbooks.rules.waiting.unregistered_nodes import registration_proofs
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.gpus import LITTLE_MEMORY, NO_MEMORY, CardSeen, GpusScene, largest

_NOTABLE = 0.2
"""From this part of a type's memory on, memory that no pod can get is worth a warning."""
_MAX_NEAR = 3


@rule("scheduler-ledger-stale")
def ghosts(scene: GpusScene) -> list[Finding]:
    """The findings that HAMi's scheduler still counts pods that are gone."""
    return ghosts_told(scene.cluster.process, scene.install, scene.names)


@rule("capacity", "not-enough-evidence")
def room(scene: GpusScene) -> Iterator[Finding]:
    """The finding that some GPUs have room, with the largest free slice; or that all are full."""
    cards, world = scene.registered, scene.cluster
    if not cards:
        return
    free = [card for card in cards if card.state == FREE]
    unknown = sum(1 for card in cards if card.state == UNKNOWN)
    shown = largest(free) or (free or cards)[0]
    proofs = [quotes.of_card(world.facts.nodes[shown.node], shown.card.uuid)]
    sure: Confidence = "suspected" if unknown else _confidence(scene)
    nodes = (scene.node,) if scene.node else ()
    if isinstance(world.capacity.pods, Gap):
        memory = prose.mib(sum(card.card.memory_mib for card in cards))
        claim = Text("capacity.unseen", cards=len(cards), memory=memory)
        rights = step(Text("blind.doctor"), prose.command("doctor"))
        yield finding("not-enough-evidence", claim, "suspected", nodes, proofs, actions=[rights])
        return
    if free:
        values = {"free": len(free), "cards": len(cards), "type": shown.card.type, "node": shown.node}
        key = "capacity.claim" if shown.divided else "capacity.claim-whole"
        claim = Text(key, **values, memory=prose.mib(shown.slice_mib or 0))
        claim = sentences(claim, Text("capacity.unchecked", count=unknown)) if unknown else claim
    else:
        claim = Text("capacity.full", cards=len(cards), why=_by_state(card.state for card in cards))
        proofs += _of_holder(world, shown)
    if held := sorted({name for card in cards if nodes for name, _ in card.holders}):
        claim = Text("capacity.held", count=len(held), pods=prose.names(held), room=claim)
    # One node that is full is as it should be; a cluster, or a type, that is full is not.
    look = () if free or nodes else (step(Text("capacity.see-idle"), prose.command("gpus", "--idle")),)
    severity: Severity = "warning" if look else "info"
    yield finding("capacity", claim, sure, nodes, proofs, severity=severity, actions=look)


@rule("stranded-capacity")
def stranded(scene: GpusScene) -> Iterator[Finding]:
    """The finding that memory is free on GPUs that take no pod."""
    cards = sorted(
        (card for card in scene.registered if card.stranded_mib), key=lambda card: (-card.stranded_mib, card.node)
    )
    if not cards:
        return
    lost, total = Counter[str](), Counter[str]()
    for card in scene.registered:
        lost[card.card.type] += card.stranded_mib
        total[card.card.type] += card.card.memory_mib
    notable = any(mib >= _NOTABLE * total[kind] for kind, mib in lost.items() if mib)
    why = _by_state(LITTLE_MEMORY if card.state == NO_MEMORY else card.state for card in cards)
    claim = Text("stranded-capacity.claim", memory=prose.mib(lost.total()), why=why)
    first, node = cards[0], scene.by_name[cards[0].node]
    steps = prose.see_node(scene.node) if scene.node else prose.see_cards(node.name)
    if first.state == "cordoned":
        proofs = [quotes.of_node_annotation(node, CORDON_KEY, node.metadata.annotation(CORDON_KEY) or "")]
        steps = uncordon(node, [one.card.uuid for one in cards if (one.node, one.state) == (node.name, first.state)])
    elif first.state.startswith("node-"):
        keys = [taint.key for taint in node.spec.taints or () if taint.key.startswith("node.kubernetes.io/")]
        proofs = [quotes.of_node(node, key, "{.spec.taints[*].key}") for key in keys[:1]]
        steps = uncordon_node(node.name) if first.state == "node-cordoned" else steps
    elif first.state == "no-allocatable":
        proofs = [quotes.of_allocatable(node, scene.config.gpus.count)]
    else:
        proofs = _of_holder(scene.cluster, first)
    proofs.append(quotes.of_card(node, first.card.uuid))
    if first.state == "unhealthy":
        steps = repair(node.name, proofs[-1], scene.config.device_of(first.card.type).vendor)
    nodes = sorted({card.node for card in cards})
    severity: Severity = "warning" if notable else "info"
    yield finding("stranded-capacity", claim, _confidence(scene), nodes, proofs, severity=severity, actions=steps)


@rule("node-unregistered")
def unregistered(scene: GpusScene) -> Iterator[Finding]:
    """The finding that nodes should have GPUs of the type asked about, and HAMi does not know them."""
    world, view, by_dra = scene.cluster, scene.cluster.views[-1], served(scene.slices)
    expecting = (
        name for name in scene.names if name not in by_dra and wants_own_plugin(scene.by_name[name], world.config)
    )
    lost = {name: state for name in expecting if isinstance(state := view.state(name), Unregistered)}
    if scene.type:
        of_type = {card.node for card in scene.cards if card.state == UNREGISTERED}
        lost = {name: state for name, state in lost.items() if name in of_type}
    if not lost:
        return
    name, *_ = nodes = list(lost)
    claim = Text("gpus.unregistered", count=len(lost), nodes=prose.names(nodes))
    proofs = registration_proofs(scene.by_name[name], lost[name], world.config.devices[0], world.install)
    sure = _confidence(scene)
    yield finding("node-unregistered", claim, sure, nodes, proofs, actions=prose.see_node(name))


@rule("not-found")
def not_found(scene: GpusScene) -> Iterator[Finding]:
    """The finding that there is no such node, no such type, or no GPU at all."""
    node = scene.by_name.get(scene.node)
    if scene.node and node is None:
        near = near_names(scene.node, sorted(scene.by_name))
        claim, option = Text("gpus.no-node", node=scene.node), "--node"
    elif scene.type and scene.of_every_type:
        near = [kind for kind, _ in Counter(card.card.type for card in scene.of_every_type).most_common(_MAX_NEAR)]
        claim, option = Text("gpus.no-type", type=scene.type, types=near), "--type"
    else:
        near, option = [], ""
        claim = Text("gpus.no-cards-there", node=scene.node) if scene.node else Text("gpus.no-cards")
    proofs = [quotes.of_node(node, node.name, "{.metadata.name}")] if node else []
    steps = [step(Text("not-found.ask", name=name), prose.command("gpus", option, name)) for name in near]
    yield finding("not-found", claim, proofs=proofs, actions=steps or see_all_nodes())


def _confidence(scene: GpusScene) -> Confidence:
    return confidence_in(scene.cluster.seen, scene.cluster.capacity, scene.undecodable)


def _by_state(states: Iterable[str]) -> Text:
    counts = sorted(Counter(states).items(), key=lambda item: (-item[1], item[0]))
    return listed(Text("gpus.state", state=state_in_words(state), count=count) for state, count in counts)


def _of_holder(world: ClusterScene, card: CardSeen) -> list[Evidence]:
    first = next((name for name, _ in card.holders), "")
    pods = (pod for pod in world.facts.pods or () if f"{pod.namespace}/{pod.name}" == first)
    return [quotes.of_holder(pod) for pod in pods][:1]


GPUS: tuple[Stage[GpusScene], ...] = (
    Stage("handed out twice", handed_out_twice),
    Stage("what the scheduler counts wrongly", ghosts),
    Stage("room", room),
    Stage("room that nobody gets", stranded),
    Stage("unknown to HAMi", unregistered),
    Stage("handed out by claims", given_by_claims),
)
NOTHING: tuple[Stage[GpusScene], ...] = (Stage("no GPUs", not_found),)
"""The stages where neither HAMi's scheduler nor a DRA driver hands out GPUs."""
