"""Why a request is as large as it is: what its author may not have meant, with the figure to set."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.pods.pod_request import ContainerRequest, written
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.report import Evidence, NextAction, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rules.capacity import request_amounts
from playbooks.rules.common import prose
from playbooks.rules.common.owners import owner_of
from playbooks.scenes.waiting_pod import PodScene

_LARGEST_INIT = Version(2, 10, 0)
"""Before, what init containers ask for is added up (pkg/device/devices.go, 2.9; 2.10 takes the largest)."""
_ALL_CORES = 100
_MENDED: tuple[Code, ...] = (
    "card-insufficient-memory",
    "card-insufficient-core",
    "allocated-cards-insufficient",
    "exclusive-device-conflict",
    "impossible-anywhere",
    "node-insufficient-device",
)
"""Findings that a smaller request may mend."""


class Reason(NamedTuple):
    """A sentence behind the claim, what shows it, and what to set."""

    text: Prose
    proofs: Sequence[Evidence]
    steps: Sequence[NextAction]


def why_large(scene: PodScene, code: Code) -> Reason | None:
    """More cores than a device has, init containers added up, or a whole GPU because no memory was named.

    `code` is the finding's that says what there is too little of.
    """
    own = _more_cores(scene) if code == "card-insufficient-core" else None
    if own is not None or code not in _MENDED:
        return own
    return _added_up(scene) or (None if code == "card-insufficient-core" else _whole(scene))


def _whole(scene: PodScene) -> Reason | None:
    """A container without an amount of memory gets the whole memory of each of its GPUs."""
    resources = scene.gpus
    for container in scene.request.containers:
        if scene.device.vendor is not FIRST or container.memory_mib or container.percentage != 100:
            continue
        if _writes(scene.pod, container, (resources.memory, resources.percentage)):
            continue
        memory = max((card.card.memory_mib for name in scene.nodes for card in scene.view.cards(name)), default=0)
        text = Text("large.whole", container=container.container, resource=resources.memory)
        return Reason(text, [], [_set(scene, container, resources.memory, memory // 2, memory)] if memory else [])
    return None


def _added_up(scene: PodScene) -> Reason | None:
    """Several init containers that ask for devices, of a version that counts them all at once."""
    inits = [container for container in scene.request.containers if container.init]
    if scene.version is None or scene.version >= _LARGEST_INIT or len(scene.request.containers) < 2 or not inits:
        return None
    asked = [request_amounts.asked(scene, container) for container in scene.request.containers]
    text = Text("large.inits", version=str(scene.version), asked=asked)
    image = "jsonpath={.spec.template.spec.containers[*].image}"
    install = scene.install
    name = install.deployment.name if install.deployment else "hami-scheduler"
    look = kubectl("-n", install.namespace, "get", "deployment", name, "-o", image)
    steps = [step(Text("large.one-init", owner=_owner(scene.pod)), ""), step(Text("large.upgrade"), look)]
    return Reason(text, [], steps)


def _more_cores(scene: PodScene) -> Reason | None:
    """More cores than any device of the kind has, where they are counted by number."""
    for container in scene.request.containers:
        cards = [
            card.card for name in scene.nodes for card in scene.view.cards(name) if card.card.is_of(container.word)
        ]
        most = max((card.cores for card in cards), default=0)
        if not 0 < most < container.cores or most == _ALL_CORES:
            continue
        resource = scene.config.of(container.word).cores
        text = Text("large.cores", asked=container.cores, device=container.word, most=most)
        node = next(name for name in scene.nodes if any(card.card.cores == most for card in scene.view.cards(name)))
        proofs = [quotes.of_card(scene.nodes[node], cards[0].uuid, whole=True)]
        steps = [step(Text("large.drop-cores", owner=_owner(scene.pod), resource=resource, most=most), "")]
        return Reason(text, proofs, steps)
    return None


def _writes(pod: Pod, asked: ContainerRequest, resources: Sequence[str]) -> bool:
    containers = (*(pod.spec.init_containers or ()), *pod.spec.containers)
    of = (container for container in containers if container.name == asked.container)
    return any(written(container, name) is not None for container in of for name in resources if name)


def _owner(pod: Pod) -> str:
    """Whose template has to change: `Deployment ml/web`, or the pod that has no owner."""
    owner = owner_of(pod)
    if owner.kind == "Namespace":
        return f"Pod {pod.namespace}/{pod.name}"
    return f"{owner.kind} {owner.namespace}/{owner.name}"


def _set(scene: PodScene, container: ContainerRequest, resource: str, amount: int, most: int) -> NextAction:
    """To write an amount into the template of the pod's owner; a pod alone has to be created again."""
    owner = owner_of(scene.pod)
    label = Text("large.set", owner=_owner(scene.pod), resource=resource, amount=f"{amount:,}", memory=prose.mib(most))
    if owner.kind not in ("Deployment", "StatefulSet", "DaemonSet"):
        return step(label, kubectl("-n", scene.pod.namespace, "get", "pod", scene.pod.name, "-o", "yaml"))
    target = f"{owner.kind.lower()}/{owner.name}"
    limits = ("-c", container.container, f"--limits={resource}={amount}")
    command = kubectl("-n", owner.namespace, "set", "resources", target, *limits)
    return step(label, command, changes_cluster=True)
