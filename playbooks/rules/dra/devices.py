"""A cluster where HAMi's devices go to ResourceClaims, and one where HAMi's scheduler hands out the same GPUs beside.

The two count apart: HAMi's scheduler its pods' annotations alone, kube-scheduler the ResourceClaims alone. HAMi's
documentation forbids both at once (how-to-use-hami-dra).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.installation import dra
from bot.hami.installation.install import Install
from bot.hami.nodes.node_state import Terms, registered
from bot.hami.nodes.registration import Registration, kubelet_offers
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.models import MutatingWebhookConfiguration, Node, ResourceSlice
from bot.report import Evidence, Finding, Gap, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG, is_absent
from playbooks.gather.webhook import WEBHOOK_NAME, WebhookSeen
from playbooks.quotes import kubectl, of_object
from playbooks.rule import Scene, rule
from playbooks.rules.admission.webhook import KIND
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.dra.claims import of_slice
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.waiting_pod import PodScene

Slices = Sequence[ResourceSlice] | Gap

_PROVEN = 3


class _Shared(NamedTuple):
    """A GPU that a node registers with HAMi's scheduler and a driver publishes."""

    node: Node
    uuid: str
    of: ResourceSlice


def served(slices: Slices) -> set[str]:
    """The nodes whose devices a DRA driver of HAMi's publishes."""
    return set() if isinstance(slices, Gap) else {slice_.spec.node_name for slice_ in dra.of_hami(slices)}


class DraScene(Scene, Protocol):
    """What DRA drivers offer, beside the nodes and the install that HAMi's scheduler counts on."""

    @property
    def install(self) -> Install: ...
    @property
    def config(self) -> DeviceConfig: ...
    @property
    def nodes(self) -> Sequence[Node]: ...
    @property
    def slices(self) -> Slices: ...
    @property
    def now(self) -> datetime: ...


@rule("webhook-bypassed")
def unclaimed(scene: PodScene) -> Iterator[Finding]:
    """A pod that still asks for HAMi's resources where they are handed out through ResourceClaims alone."""
    pod, asked, seen = scene.pod, scene.asked, scene.seen
    offers = [] if isinstance(seen.slices, Gap) else dra.offers(dra.of_hami(seen.slices))
    if not offers or not asked or not is_absent(seen):
        return
    proofs = [*(quotes.of_resource(pod, name, value) for name, value in asked.items()), *map(of_slice, offers)]
    claim = Text("webhook-bypassed.dra", resource=next(iter(asked)))
    look = step(Text("webhook-bypassed.see-dra"), kubectl("get", KIND.lower(), "-o", "yaml"))
    yield finding("webhook-bypassed", claim, proofs=proofs, actions=[look])


@rule("dra-mixed")
def handed_out_twice(scene: DraScene) -> Iterator[Finding]:
    """The same GPU is in a node's registration and in a driver's slice."""
    shared = list(_shared(scene))
    if shared:
        names = sorted({device.node.name for device in shared})
        claim = Text("dra-mixed.claim", count=len(shared), nodes=prose.names(names), driver=shared[0].of.spec.driver)
        proofs = [proof for device in shared[:_PROVEN] for proof in _of_shared(device)]
        sure = "confirmed" if scene.install.version else "suspected"
        yield finding("dra-mixed", claim, sure, names, proofs, severity="critical", actions=[_look()])


@rule("dra-mode")
def given_by_claims(scene: DraScene) -> Iterator[Finding]:
    """HAMi's devices go to ResourceClaims, and none of them to pods of HAMi's scheduler as well."""
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
    """Two webhooks take the same resources off the same pods: which one comes first decides."""
    hook, own = _hook(scene.webhook), scene.webhook.hook
    if hook and own and scene.install.seen:
        proofs = [_of_hook(hook), of_object(KIND, own.config, WEBHOOK_NAME, "{.webhooks[*].name}")]
        look = step(Text("dra-mixed.hooks"), kubectl("get", KIND.lower()))
        claim = Text("dra-mixed.webhooks")
        yield finding("dra-mixed", claim, proofs=proofs, actions=[look])


@rule("dra-mode")
def claimed_by_webhook(scene: InstallScene) -> Iterator[Finding]:
    """HAMi-DRA's webhook is there, and nothing of HAMi's that it could hand out."""
    if hook := _hook(scene.webhook):
        yield finding("dra-mode", Text("dra-mode.webhook"), proofs=[_of_hook(hook)], severity="info")


def _shared(scene: DraScene) -> Iterator[_Shared]:
    """Only what HAMi's scheduler takes in and kubelet offers: what an earlier install left behind hands out nothing."""
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


def _of_shared(device: _Shared) -> list[Evidence]:
    return [
        quotes.of_card(device.node, device.uuid),
        of_object("ResourceSlice", device.of, device.uuid, "{.spec.devices[*]}"),
    ]


def _of_hook(hook: MutatingWebhookConfiguration) -> Evidence:
    return of_object(KIND, hook, dra.WEBHOOK, "{.webhooks[*].name}")


def _look() -> NextAction:
    return step(Text("dra-mode.look"), kubectl("get", "resourceslices"))
