"""Why a node hands out no GPUs: its device plugin, another plugin beside it, its GPUs, the cause first."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from bot.finding_codes import Code
from bot.hami.nodes.node_state import vendors_of
from bot.hami.nodes.registration import kubelet_offers
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.kube.models import Node
from bot.report import Finding, Gap, Scope
from bot.texts import Text
from playbooks.gather.node_side import NodeSide, PluginSets
from playbooks.rules.common import prose
from playbooks.rules.common.findings import NodeCause
from playbooks.rules.nodes.gpu_faults import card_faults
from playbooks.rules.nodes.node_gpus import gpus_of
from playbooks.rules.nodes.not_selected import not_selected, refused_pods
from playbooks.rules.nodes.plugin_faults import plugin_faults
from playbooks.rules.nodes.second_device_plugin import second_plugin

NODE_CODES: tuple[Code, ...] = (
    "card-fault",
    "device-plugin-crash",
    "device-plugin-not-ready",
    "device-plugin-not-selected",
    "driver-not-loaded",
    "gpu-runtime-missing",
    "second-device-plugin",
)
"""What may be told of a node that hands out no GPUs."""


def node_causes(
    side: NodeSide,
    sets: PluginSets | None,
    config: DeviceConfig,
    now: datetime,
    *,
    vendors: Sequence[Vendor] | None = None,
) -> list[NodeCause]:
    """What has to change on this node before HAMi's pods get GPUs there; nothing where all is well, or was not read.

    `vendors`: whose device plugins are looked at; all whose devices the node should have where it is left out.
    """
    node = None if isinstance(side.node, Gap) else side.node
    if vendors is None:
        vendors = vendors_of(node, config) if node else ()
        vendors = vendors or [FIRST]
    found: list[NodeCause] = []
    for vendor in vendors:
        if vendor is FIRST:
            found += _of_first(side, sets, config, now)
        else:
            found += plugin_faults(side, now, silent=_is_silent(node, vendor, config), vendor=vendor)
    return found


def _is_silent(node: Node | None, vendor: Vendor, config: DeviceConfig) -> bool:
    """Whether kubelet offers none of the vendor's devices there."""
    counts = [device.resources.count for device in config.devices if device.vendor is vendor]
    return node is not None and not any(kubelet_offers(node, count) for count in counts)


def _of_first(side: NodeSide, sets: PluginSets | None, config: DeviceConfig, now: datetime) -> list[NodeCause]:
    """The same of NVIDIA's GPUs."""
    node = None if isinstance(side.node, Gap) else side.node
    gpus = gpus_of(node, config) if node else None
    found = plugin_faults(side, now, silent=gpus is not None and gpus.silent)
    if node is None or gpus is None:
        return found
    if not found and sets is not None and not isinstance(side.pods, Gap) and not side.plugin_pods:
        found = not_selected(sets, node, gpus) or refused_pods(sets, (side.name,))
    rivals = second_plugin(side, node, gpus)
    return [*found, *rivals] or card_faults(side, node, gpus, now)


def per_cause(found: Iterable[NodeCause]) -> list[Finding]:
    """One finding for the nodes of each cause."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for why, result in found:
        alike.setdefault((result.code, why), []).append(result)
    return [together(group) for group in alike.values()]


def together(group: Sequence[Finding]) -> Finding:
    """One finding for nodes that have the same cause, in the words of the first."""
    first, *others = group
    if not others:
        return first
    more = sorted({node for finding in others for node in finding.scope.nodes})
    claim = Text("nodes.same", claim=first.text, nodes=prose.names(more))
    proofs = dict.fromkeys(proof for finding in group for proof in finding.evidence)
    scope = Scope(nodes=tuple(sorted({*first.scope.nodes, *more})))
    return first.saying(claim, scope=scope, evidence=tuple(proofs))
