"""Cards, requests, pods and nodes for the tests of this folder: a call names only what the test is about."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from bot.hami.fit.cluster_view import ClusterFacts, View
from bot.hami.fit.filter import judge
from bot.hami.fit.verdicts import NodeCards
from bot.hami.nodes.cards import Card, CardState, MigPlacement, MigProfile
from bot.hami.nodes.registration import Registration, Unreadable, read_registration
from bot.hami.pods.pod_request import UNSET_PERCENTAGE, WHOLE_CARD, Constraints, ContainerRequest, PodRequest
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import DEFAULTS, vendor_of_register_key
from bot.hami.vendors import FIRST as NVIDIA
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version, rules_of
from bot.kube.models import Container, Node, Pod, ResourceQuota
from bot.texts import in_english

V25, V26, V27, V28, V29, V210 = (Version(2, minor) for minor in (5, 6, 7, 8, 9, 10))
VERSIONS = (V25, V26, V27, V28, V29, V210)
NOW = datetime(2026, 11, 21, 5, 0, 0, tzinfo=UTC)

A30 = (
    MigProfile("1g.6gb", 6144, 25, 1, tuple(MigPlacement(start, 1) for start in range(4))),
    MigProfile("2g.12gb", 12288, 50, 2, (MigPlacement(0, 2), MigPlacement(2, 2))),
    MigProfile("4g.24gb", 24576, 100, 4, (MigPlacement(0, 4),)),
)
"""Some profiles of an A30, as a 2.10 plugin registers them."""


def card(uuid: str = "GPU-0", **fields: Any) -> Card:
    """A healthy T4 unless the fields say otherwise."""
    usual: dict[str, Any] = {"slots": 10, "memory_mib": 16384, "cores": 100, "type": "NVIDIA-Tesla T4"}
    return Card(uuid=uuid, **{**usual, "health": True, "mode": "hami-core", **fields})


def mig_card(uuid: str = "GPU-0", **fields: Any) -> Card:
    """An A30 in MIG mode."""
    return card(uuid, **{"type": "NVIDIA-A30", "memory_mib": 24576, "mode": "mig", "mig_profiles": A30, **fields})


def state(of: Card, slots: int = 0, memory: int = 0, cores: int = 0, placements: Any = ()) -> CardState:
    """A card with what is used of it."""
    used = CardState(of)
    used.slots, used.memory_mib, used.cores, used.placements = slots, memory, cores, tuple(placements)
    return used


def wants(
    count: int = 1, memory: int = 0, percentage: int | None = None, cores: int = 0, *, init: bool = False
) -> ContainerRequest:
    """One container's request; neither memory nor percentage is a whole card, as HAMi defaults it."""
    if percentage is None:
        percentage = UNSET_PERCENTAGE if memory else WHOLE_CARD
    return ContainerRequest("NVIDIA", "main", count, memory, percentage, cores, init)


def request(*containers: ContainerRequest, inits: int = 0, **constraints: Any) -> PodRequest:
    """A pod's request, by default of one container that wants 1,000 MiB of one card."""
    return PodRequest("ml", "wl", "uid-wl", containers or (wants(memory=1000),), Constraints(**constraints), inits)


def verdict(cards: Iterable[Card | CardState], pod: PodRequest, version: Version = V210, **more: Any) -> str:
    """The verdict in words: `fit`, HAMi's reason, or `unknown: …`."""
    states = [state(card) if isinstance(card, Card) else card for card in cards]
    node = NodeCards(states, more.pop("cordoned", frozenset()), {"NVIDIA": more.pop("link_scores", None)})
    quotas = {"NVIDIA": more.pop("quota")} if "quota" in more else {}
    judged = judge(node, pod, rules_of(version), quotas=quotas, **more)
    if judged.fits is None:
        return f"unknown: {in_english(judged.unknown)}"
    return "fit" if judged.fits else judged.text()


def config(**fields: Any) -> DeviceConfig:
    """The chart's device config, but for these of NVIDIA's resources."""
    (usual,) = NVIDIA.read_resources(None)
    return DeviceConfig((Device(NVIDIA, msgspec.structs.replace(usual, **fields)), *DEFAULTS[1:]))


def container(limits: dict[str, Any] | None = None, requests: dict[str, Any] | None = None) -> Container:
    return msgspec.convert({"name": "main", "resources": {"limits": limits, "requests": requests}}, Container)


def gpu(count: Any = 1, memory: Any = None, cores: Any = None, percentage: Any = None) -> dict[str, Any]:
    """The limits of a container that asks for NVIDIA cards."""
    asked = {"": count, "mem": memory, "cores": cores, "mem-percentage": percentage}
    return {f"nvidia.com/gpu{name}": amount for name, amount in asked.items() if amount is not None}


def pod(
    name: str = "wl",
    *limits: dict[str, Any],
    init: Iterable[dict[str, Any]] = (),
    annotations: dict[str, str] | None = None,
    **fields: Any,
) -> Pod:
    """A pod of namespace ml; each dict of limits is a container. `fields`: phase, uid, namespace, node, statuses."""
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": fields.get("namespace", "ml"),
                "uid": fields.get("uid", f"uid-{name}"),
                "annotations": annotations or {},
                "deletionTimestamp": fields.get("deleted"),
            },
            "spec": {
                "nodeName": fields.get("node", ""),
                "containers": [{"name": f"c{i}", "resources": {"limits": amounts}} for i, amounts in enumerate(limits)],
                "initContainers": [{"name": f"i{i}", "resources": {"limits": one}} for i, one in enumerate(init)],
            },
            "status": {
                "phase": fields.get("phase", "Pending"),
                "initContainerStatuses": [
                    {"name": f"i{i}", "state": one} for i, one in enumerate(fields.get("done", ()))
                ],
            },
        },
        Pod,
    )


def holder(name: str, node: str, text: str, **fields: Any) -> Pod:
    """A pod that HAMi gave cards: `text` is its `hami.io/vgpu-devices-allocated`."""
    given = {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": text, **fields.pop("annotations", {})}
    return pod(name, annotations=given, node=node, phase=fields.pop("phase", "Running"), **fields)


def registered_under(key: str, text: str) -> Registration | Unreadable | None:
    """What a node annotation registers, None for a key that registers nothing."""
    who = vendor_of_register_key(key)
    return who and read_registration(*who, text)


def register_json(*cards: Card) -> str:
    """A register annotation as 2.8 and later plugins write it: zero values left out."""
    listed = [
        {
            "id": card.uuid,
            "index": card.index,
            "count": card.slots,
            "devmem": card.memory_mib,
            "devcore": card.cores,
            "type": card.type,
            "numa": card.numa,
            "mode": card.mode,
            "health": card.health,
            "migProfiles": [msgspec.to_builtins(profile) for profile in card.mig_profiles],
        }
        for card in cards
    ]
    return json.dumps([{key: value for key, value in card.items() if value} for card in listed])


def node(name: str = "n1", annotations: dict[str, str] | None = None, **fields: Any) -> Node:
    """A node; `allocatable` and `capacity` are resources, `labels`, `taints` and `unschedulable` as in the API."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "annotations": annotations, "labels": fields.get("labels")},
            "spec": {"taints": fields.get("taints"), "unschedulable": fields.get("unschedulable", False)},
            "status": {"allocatable": fields.get("allocatable"), "capacity": fields.get("capacity")},
        },
        Node,
    )


def gpu_node(
    name: str, *cards: Card, annotations: dict[str, str] | None = None, allocatable: int | None = None
) -> Node:
    """A node whose plugin registered these cards in JSON, with kubelet offering all their slots."""
    offered = sum(card.slots for card in cards) if allocatable is None else allocatable
    return node(
        name,
        {"hami.io/node-nvidia-register": register_json(*cards), **(annotations or {})},
        allocatable={"nvidia.com/gpu": str(offered)},
    )


def quota(namespace: str = "ml", **hard: Any) -> ResourceQuota:
    """A ResourceQuota with `gpumem` and `gpucores` under limits.nvidia.com/."""
    limits = {f"limits.nvidia.com/{key}": value for key, value in hard.items()}
    return msgspec.convert({"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": limits}}, ResourceQuota)


def view(
    nodes: Iterable[Node],
    pods: Iterable[Pod] | None = (),
    quotas: Iterable[ResourceQuota] | None = (),
    version: Version = V210,
    **more: Any,
) -> View:
    """A cluster at NOW."""
    facts = ClusterFacts(
        nodes={node.name: node for node in nodes},
        pods=None if pods is None else list(pods),
        quotas=None if quotas is None else list(quotas),
        config=more.pop("config", DeviceConfig()),
        now=NOW,
        **{key: more.pop(key) for key in ("policy", "node_selector") if key in more},
    )
    return View(facts, version, **more)
