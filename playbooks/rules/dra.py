"""Rules about pods that ask for devices through ResourceClaims, by the state that the claims' objects show.

kube-scheduler and a DRA driver decide about claims, so nothing here weighs nodes or devices. HAMi's scheduler counts
only its pods' annotations, kube-scheduler only ResourceClaims: where both hand out the same GPUs these rules say so;
HAMi's documentation forbids it (how-to-use-hami-dra).
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from bot.hami.installation import dra
from bot.hami.installation.dra import Offer
from bot.hami.nodes.node_state import Terms, registered
from bot.hami.nodes.registration import Registration, kubelet_offers
from bot.hami.version import NEWEST_READ
from bot.kube.models import MutatingWebhookConfiguration, Node, Pod, ResourceClaim, ResourceSlice
from bot.kube.models.pods import PodResourceClaim
from bot.report import Evidence, Finding, Gap, NextAction, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.dra import ClaimsSeen
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG, is_absent
from playbooks.gather.webhook import WEBHOOK_NAME, WebhookSeen
from playbooks.quotes import kubectl, of_object
from playbooks.rule import rule
from playbooks.rules.admission.webhook import KIND
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.waiting.cause_ranking import rank_words
from playbooks.rules.waiting.refusals import in_words, look_at_pod
from playbooks.scenes.cluster import ClusterScene, InstallScene
from playbooks.scenes.gpus import GpusScene
from playbooks.scenes.nodes import NodesScene
from playbooks.scenes.waiting_pod import PodScene

_DEVICES = 3

_OF_CLAIMS = re.compile(r"(?<!volume)claims?\b", re.IGNORECASE)
"""Matches kube-scheduler's `cannot allocate all claims` [plugin DynamicResources], but no PersistentVolumeClaims."""


class State(IntEnum):
    """The state of a claim; those that surely keep a pod from its node come first. `UNSEEN`: unread, or not needed."""

    ABSENT = 0
    NO_TEMPLATE = 1
    UNMADE = 2
    NO_SLICE = 3
    UNALLOCATED = 4
    ALLOCATED = 5
    UNSEEN = 6


_DECIDE = (State.ABSENT, State.NO_TEMPLATE)


class _ClaimTold(NamedTuple):
    state: State
    claim: Prose
    proofs: list[Evidence]


def claims_of(pod: Pod) -> list[str]:
    """The names that the pod's spec gives to its ResourceClaims."""
    return [claim.name for claim in pod.spec.resource_claims or ()]


def states_of(scene: PodScene) -> list[_ClaimTold]:
    """The state of each of the pod's claims, the claim that most keeps the pod back first."""
    pod = scene.pod
    found = (_state(pod, claim, scene.claims) for claim in pod.spec.resource_claims or ())
    return sorted(found, key=lambda told: told.state)


def claims_keep_back(scene: PodScene) -> bool:
    """Whether the pod cannot be placed before its claims change, whatever the schedulers say of nodes."""
    return any(told.state in _DECIDE for told in scene.once(states_of))


@rule("resource-claim")
def claims_decide(scene: PodScene) -> Iterator[Finding]:
    """The finding that a pod's claims cannot be served as things are."""
    if claims_keep_back(scene):
        yield claim_finding(scene, ())


@rule("resource-claim", "kubernetes-filter")
def claims_alone(scene: PodScene) -> list[Finding]:
    """The findings about a pod that asks only through claims, about which HAMi does not decide."""
    if scene.asked or not scene.once(states_of):
        return []
    causes = [cause for cause in rank_words(scene.attempt) if cause.of_kubernetes]
    words = [in_words(scene.attempt, cause, [look_at_pod(scene.pod, cause.text)], sure=True) for cause in causes]
    pairs = zip(causes, words, strict=True)
    others = [] if claims_keep_back(scene) else [said for cause, said in pairs if not _OF_CLAIMS.search(cause.text)]
    claims = claim_finding(scene, () if words else scene.words)
    return [*others, claims, *(said for said in words if said not in others)]


def claim_finding(scene: PodScene, said: Sequence[Evidence]) -> Finding:
    """The finding about the pod's claims; `said` are the schedulers' words about them."""
    pod, states = scene.pod, scene.once(states_of)
    first = states[0]
    claim = first.claim or Text("resource-claim.claim", claims=", ".join(claims_of(pod)))
    claims = kubectl("-n", pod.namespace, "get", "resourceclaims,resourceclaimtemplates")
    look = step(Text("resource-claim.see"), claims)
    proofs = [*(proof for told in states for proof in told.proofs), *said]
    # The class's selectors decide which driver serves it, and somebody may have changed HAMi-DRA's.
    sure = "suspected" if first.state is State.NO_SLICE else "confirmed"
    return finding("resource-claim", claim, sure, proofs=proofs, actions=[look])


def _state(pod: Pod, claim: PodResourceClaim, seen: ClaimsSeen | None) -> _ClaimTold:
    named = quotes.of_pod(pod, claim.name, "{.spec.resourceClaims[*].name}")
    made = next((status for status in pod.status.resource_claim_statuses or () if status.name == claim.name), None)
    name = claim.resource_claim_name or (made.resource_claim_name if made else None)
    needless = made is not None and not name  # [core/v1 PodResourceClaimStatus: "generating was not necessary"]
    if needless or seen is None or isinstance(seen.claims, Gap):
        return _ClaimTold(State.UNSEEN, "", [named])
    if not name:
        return _of_template(pod, claim, seen)
    found = next((one for one in seen.claims if (one.namespace, one.name) == (pod.namespace, name)), None)
    if found is None:
        proof = quotes.of_pod(pod, name, "{.spec.resourceClaims[*].resourceClaimName}")
        if not claim.resource_claim_name:
            proof = quotes.of_pod(pod, name, "{.status.resourceClaimStatuses[*].resourceClaimName}")
        return _ClaimTold(State.ABSENT, Text("resource-claim.absent", claim=name), [proof])
    return _allocated(pod, found) if found.status.allocation else _unallocated(found, seen)


def _of_template(pod: Pod, claim: PodResourceClaim, seen: ClaimsSeen) -> _ClaimTold:
    template = claim.resource_claim_template_name
    proof = quotes.of_pod(pod, template or claim.name, "{.spec.resourceClaims[*]}")
    known = None if isinstance(seen.templates, Gap) else {one.name for one in seen.templates}
    if known is not None and template and template not in known:
        return _ClaimTold(State.NO_TEMPLATE, Text("resource-claim.no-template", template=template), [proof])
    return _ClaimTold(State.UNMADE, Text("resource-claim.unmade", claim=claim.name), [proof])


def _unallocated(claim: ResourceClaim, seen: ClaimsSeen) -> _ClaimTold:
    """Only kube-scheduler can tell which device the claim will get: the driver's devices are counted, not judged."""
    classes = ", ".join(dict.fromkeys(claim.classes))
    proofs = [of_object("ResourceClaim", claim, claim.classes[0] if classes else "", "{.spec.devices.requests}")]
    driver = dra.driver_of(claim)
    if not driver or isinstance(seen.slices, Gap) or isinstance(seen.claims, Gap):
        return _ClaimTold(State.UNALLOCATED, Text("resource-claim.unallocated", claim=claim.name), proofs)
    offer = next((offer for offer in dra.offers(seen.slices, seen.claims) if offer.driver == driver), None)
    if offer is None:
        text = Text("resource-claim.no-slice", claim=claim.name, driver=driver, **{"class": classes})
        return _ClaimTold(State.NO_SLICE, text, proofs)
    counted = {"driver": offer.driver, "devices": offer.devices, "free": offer.free}
    text = Text("resource-claim.offered", claim=claim.name, **counted)
    return _ClaimTold(State.UNALLOCATED, text, [*proofs, of_slice(offer)])


def _allocated(pod: Pod, claim: ResourceClaim) -> _ClaimTold:
    devices = [f"{device.driver}/{device.pool}/{device.device}" for device in claim.devices][:_DEVICES]
    users = [consumer.name for consumer in claim.status.reserved_for or ()]
    text = Text("resource-claim.allocated", claim=claim.name, devices=", ".join(devices) or "-", pod=pod.name)
    if users:
        names = ", ".join(users[:_DEVICES])
        text = Text("resource-claim.reserved", claim=claim.name, devices=", ".join(devices) or "-", pods=names)
    return _ClaimTold(State.ALLOCATED, text, list(_proofs(claim)))


def _proofs(claim: ResourceClaim) -> Iterator[Evidence]:
    results = "{.status.allocation.devices.results[*].%s}"
    for device in claim.devices[:1]:
        yield of_object("ResourceClaim", claim, device.driver, results % "driver")
        yield of_object("ResourceClaim", claim, device.device, results % "device")
    if not claim.devices:
        yield of_object("ResourceClaim", claim, claim.name, "{.metadata.name}")
    for user in (claim.status.reserved_for or ())[:1]:
        yield of_object("ResourceClaim", claim, user.name, "{.status.reservedFor[*].name}")


def of_slice(offer: Offer) -> Evidence:
    return of_object("ResourceSlice", offer.first, offer.driver, "{.spec.driver}")


Slices = Sequence[ResourceSlice] | Gap

_PROVEN = 3


class _Shared(NamedTuple):
    """A GPU that both a node's HAMi registration and a DRA driver's slice contain."""

    node: Node
    uuid: str
    of: ResourceSlice


def served(slices: Slices) -> set[str]:
    """The nodes whose devices a DRA driver of HAMi publishes."""
    return set() if isinstance(slices, Gap) else {slice_.spec.node_name for slice_ in dra.of_hami(slices)}


DraScene = InstallScene | ClusterScene | NodesScene | GpusScene
"""A scene with what DRA drivers offer, and the nodes and install that HAMi's scheduler counts on."""


@rule("webhook-bypassed")
def unclaimed(scene: PodScene) -> Iterator[Finding]:
    """The finding that a pod asks for HAMi's resources where only ResourceClaims hand them out."""
    pod, asked, seen = scene.pod, scene.asked, scene.seen
    if not asked or not is_absent(seen) or isinstance(seen.slices, Gap):
        return
    if not (offers := dra.offers(dra.of_hami(seen.slices))):
        return
    proofs = [*(quotes.of_resource(pod, name, value) for name, value in asked.items()), *map(of_slice, offers)]
    claim = Text("webhook-bypassed.dra", resource=next(iter(asked)))
    look = step(Text("webhook-bypassed.see-dra"), kubectl("get", KIND.lower(), "-o", "yaml"))
    yield finding("webhook-bypassed", claim, proofs=proofs, actions=[look])


@rule("dra-mixed")
def handed_out_twice(scene: DraScene) -> Iterator[Finding]:
    """The finding that a GPU is both in a node's registration and in a DRA driver's slice."""
    shared = list(_shared(scene))
    if shared:
        names = sorted({device.node.name for device in shared})
        claim = Text("dra-mixed.claim", count=len(shared), nodes=prose.names(names), driver=shared[0].of.spec.driver)
        cards = ((one, quotes.of_card(one.node, one.uuid)) for one in shared[:_PROVEN])
        proofs = [
            proof
            for one, card in cards
            for proof in (card, of_object("ResourceSlice", one.of, one.uuid, "{.spec.devices[*]}"))
        ]
        sure = "confirmed" if scene.install.version else "suspected"
        yield finding("dra-mixed", claim, sure, names, proofs, severity="critical", actions=[_look()])


@rule("dra-mode")
def given_by_claims(scene: DraScene) -> Iterator[Finding]:
    """The finding that HAMi's devices go only to ResourceClaims, none to pods of HAMi's scheduler."""
    offers = [] if isinstance(scene.slices, Gap) else dra.offers(dra.of_hami(scene.slices))
    if not offers or any(_shared(scene)):
        return
    nodes = sorted({name for offer in offers for name in offer.nodes})
    claim = Text(
        "dra-mode.claim",
        drivers=", ".join(offer.driver for offer in offers),
        count=sum(offer.devices for offer in offers),
        nodes=prose.names(nodes) or "?",
    )
    yield finding("dra-mode", claim, proofs=[*map(of_slice, offers)], severity="info", actions=[_look()])


@rule("dra-mixed")
def two_webhooks(scene: InstallScene) -> Iterator[Finding]:
    """The finding that two webhooks take the same resources off the same pods, so that the first one decides."""
    hook, own = _hook(scene.webhook), scene.webhook.hook
    if hook and own and scene.install.seen:
        proofs = [_of_hook(hook), of_object(KIND, own.config, WEBHOOK_NAME, "{.webhooks[*].name}")]
        look = step(Text("dra-mixed.hooks"), kubectl("get", KIND.lower()))
        claim = Text("dra-mixed.webhooks")
        yield finding("dra-mixed", claim, proofs=proofs, actions=[look])


@rule("dra-mode")
def claimed_by_webhook(scene: InstallScene) -> Iterator[Finding]:
    """The finding that HAMi-DRA's webhook exists, but nothing that could hand out what it claims."""
    if hook := _hook(scene.webhook):
        yield finding("dra-mode", Text("dra-mode.webhook"), proofs=[_of_hook(hook)], severity="info")


def _shared(scene: DraScene) -> Iterator[_Shared]:
    """Only GPUs that HAMi's scheduler takes in and kubelet offers: what an earlier install left hands out nothing."""
    nodes, slices, install = scene.nodes, scene.slices, scene.install
    if isinstance(slices, Gap) or not slices or not install.seen:
        return
    by_name = {node.name: node for node in nodes}
    version = install.version.version if install.version else NEWEST_READ
    terms = Terms(version, scene.config, install.flags.get(NODE_SELECTOR_FLAG, "").strip("[]"))
    for slice_ in dra.current(slices):
        node = by_name.get(slice_.spec.node_name)
        state = registered(node, terms, scene.now) if node else None
        if node and isinstance(state, Registration) and kubelet_offers(node, terms.config.of(state.word).count):
            known = {card.uuid for card in state.cards}
            yield from (
                _Shared(node, device.uuid, slice_) for device in slice_.spec.devices or () if device.uuid in known
            )


def _hook(seen: WebhookSeen) -> MutatingWebhookConfiguration | None:
    return None if isinstance(seen.hooks, Gap) else dra.hook_of(seen.hooks)


def _of_hook(hook: MutatingWebhookConfiguration) -> Evidence:
    return of_object(KIND, hook, dra.WEBHOOK, "{.webhooks[*].name}")


def _look() -> NextAction:
    return step(Text("dra-mode.look"), kubectl("get", "resourceslices"))
