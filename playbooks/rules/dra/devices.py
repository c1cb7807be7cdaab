"""A cluster where HAMi's devices go to ResourceClaims, and one where HAMi's scheduler hands out the same GPUs beside.

The two count apart: HAMi's scheduler its pods' annotations alone, kube-scheduler the ResourceClaims alone. HAMi's
documentation forbids both at once (how-to-use-hami-dra).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.installation import dra
from bot.hami.nodes.node_state import Terms, registered
from bot.hami.nodes.registration import Registration, kubelet_offers
from bot.kube.models import MutatingWebhookConfiguration, Node, ResourceSlice
from bot.report import Evidence, Finding, Gap, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG, InstallSeen, is_absent
from playbooks.gather.webhook import WEBHOOK_NAME, WebhookSeen
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.admission.webhook_configuration import KIND
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts, of_object
from playbooks.rules.dra.claims import of_slice
from playbooks.scene import PodScene

Slices = Sequence[ResourceSlice] | Gap
Nodes = Sequence[Node] | Gap

_PROVEN = 3


class _Shared(NamedTuple):
    """A GPU that a node registers with HAMi's scheduler and a driver publishes."""

    node: Node
    uuid: str
    of: ResourceSlice


def served(slices: Slices) -> set[str]:
    """The nodes whose devices a DRA driver of HAMi's publishes."""
    return set() if isinstance(slices, Gap) else {slice_.spec.node_name for slice_ in dra.of_hami(slices)}


class DraDevices(NamedTuple):
    """What DRA drivers hand out, beside the nodes and the install that HAMi's scheduler counts on."""

    install: InstallSeen
    nodes: Nodes
    slices: Slices
    now: datetime

    def of(self, node: str) -> "DraDevices":
        """The same of one node; of all where none is named."""
        if isinstance(self.slices, Gap) or not node:
            return self
        return self._replace(slices=[slice_ for slice_ in self.slices if slice_.spec.node_name == node])


def with_dra(findings: Sequence[Finding], offered: DraDevices) -> list[Finding]:
    """The findings by the rules of HAMi's scheduler, with what they do not cover: an alarm before them, else behind."""
    return [*twice, *findings] if (twice := _twice(offered)) else [*findings, *_by_claims(offered.slices)]


@rule("webhook-bypassed")
def unclaimed(scene: PodScene) -> Iterator[Finding]:
    """A pod that still asks for HAMi's resources where they are handed out through ResourceClaims alone."""
    pod, asked, seen = scene.pod, scene.asked, scene.cluster.seen
    offers = [] if isinstance(seen.slices, Gap) else dra.offers(dra.of_hami(seen.slices))
    if not offers or not asked or not is_absent(seen):
        return
    proofs = [*(quotes.of_resource(pod, name, value) for name, value in asked.items()), *map(of_slice, offers)]
    claim = Text("webhook-bypassed.dra", resource=next(iter(asked)))
    look = step(Text("webhook-bypassed.see-dra"), kubectl("get", KIND.lower(), "-o", "yaml"))
    yield finding("webhook-bypassed", claim, "confirmed", (), proofs, severity="warning", actions=[look])


def mode(parts: Parts, now: datetime) -> list[Finding]:
    """In which way, or ways, HAMi's devices are handed out; nothing where only its scheduler does."""
    components = parts.components
    offered = DraDevices(parts.seen, components.nodes, components.slices, now)
    result = _twice(offered) or _two_hooks(parts) or _by_claims(components.slices)
    hook = _hook(components.webhook)
    if result or hook is None:
        return result
    return [finding("dra-mode", Text("dra-mode.webhook"), "confirmed", (), [_of_hook(hook)], severity="info")]


def _by_claims(slices: Slices) -> list[Finding]:
    offers = [] if isinstance(slices, Gap) else dra.offers(dra.of_hami(slices))
    if not offers:
        return []
    nodes = sorted({name for offer in offers for name in offer.nodes})
    claim = Text(
        "dra-mode.claim",
        drivers=", ".join(offer.driver for offer in offers),
        count=sum(offer.devices for offer in offers),
        nodes=prose.names(nodes) or "?",
    )
    proofs = [of_slice(offer) for offer in offers]
    return [finding("dra-mode", claim, "confirmed", (), proofs, severity="info", actions=[_look()])]


def _twice(offered: DraDevices) -> list[Finding]:
    """The same GPU in a registration and in a slice."""
    shared = list(_shared(offered))
    if not shared:
        return []
    names = sorted({device.node.name for device in shared})
    driver, count = shared[0].of.spec.driver, len(shared)
    claim = Text("dra-mixed.claim", count=count, nodes=prose.names(names), driver=driver)
    proofs = [proof for device in shared[:_PROVEN] for proof in _of_shared(device)]
    sure = "confirmed" if offered.install.install.version else "suspected"
    return [finding("dra-mixed", claim, sure, names, proofs, severity="critical", actions=[_look()])]


def _shared(offered: DraDevices) -> Iterator[_Shared]:
    """Only what HAMi's scheduler takes in and kubelet offers: what an earlier install left behind hands out nothing."""
    nodes, slices, install = offered.nodes, offered.slices, offered.install.install
    if isinstance(slices, Gap) or isinstance(nodes, Gap) or not slices or not install.seen:
        return
    by_name = {node.name: node for node in nodes}
    version = install.version.version if install.version else NEWEST_READ
    terms = Terms(version, offered.install.config, install.flags.get(NODE_SELECTOR_FLAG, "").strip("[]"))
    for slice_ in dra.current(slices):
        node = by_name.get(slice_.spec.node_name)
        state = registered(node, terms, offered.now) if node else None
        if node and isinstance(state, Registration) and kubelet_offers(node, terms.config.of(state.word).count):
            known = {card.uuid for card in state.cards}
            yield from (
                _Shared(node, device.uuid, slice_) for device in slice_.spec.devices or () if device.uuid in known
            )


def _two_hooks(parts: Parts) -> list[Finding]:
    """Two webhooks that take the same resources off the same pods: which one comes first decides."""
    hook, own = _hook(parts.components.webhook), parts.components.webhook.hook
    if hook is None or own is None or not parts.install.seen:
        return []
    proofs = [_of_hook(hook), of_object(KIND, own.config, WEBHOOK_NAME, "{.webhooks[*].name}")]
    look = step(Text("dra-mixed.hooks"), kubectl("get", KIND.lower()))
    claim = Text("dra-mixed.webhooks")
    return [finding("dra-mixed", claim, "confirmed", (), proofs, severity="warning", actions=[look])]


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
