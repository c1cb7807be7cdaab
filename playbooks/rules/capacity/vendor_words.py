"""What HAMi's reasons mean for other vendors' devices, where that is not what the same word means for a GPU.

Rules: HAMi v2.10, pkg/device/kunlun/topo.go, awsneuron, metax, mthreads and ascend device.go.
"""

from collections.abc import Iterable, Mapping

from bot.hami.fit import verdicts
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest
from bot.hami.pods.request_parsing import asked_resources
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device
from bot.texts import Prose, Text
from playbooks.rules.capacity import request_amounts
from playbooks.rules.common import prose
from playbooks.rules.waiting.cause_ranking import Cause
from playbooks.scene import PodScene

_XPU_NUMBERS, _TRN_NUMBERS = (1, 2, 4, 8), (1, 4, 8, 16)
_NUMBERS: Mapping[str, tuple[int, ...]] = {"kunlun": _XPU_NUMBERS, "XPU": _XPU_NUMBERS, "AWSNeuron": _TRN_NUMBERS}
_INSTANCE_LABEL = "node.kubernetes.io/instance-type"
_SPLIT_KEY = "huawei.com/vnpu-mode"
_SAME_CARD = "CardNotFoundCustomFilterRule"
_WHOLE = "exclusive-device-conflict.cores-left-out"
_KEYS = {
    "CardQosPolicyMismatch": "custom-filter-rule.policy",
    "CardAppClassMismatch": "custom-filter-rule.app-class",
}


def own_words(scene: PodScene, cause: Cause) -> Prose | None:
    """The claim about a cause of nodes that refuse one other vendor's devices; None where the usual one holds."""
    asked = scene.request.containers
    words = {container.word for container in asked}
    device = scene.config.by_word.get(next(iter(words))) if len(words) == 1 else None
    if device is None or device.vendor is FIRST or not cause.nodes:
        return None
    numbers = numbers_given(scene, cause.nodes, device)
    never = [request for request in asked if numbers is not None and request.count not in numbers]
    largest = max(never or asked, key=lambda container: container.count)
    key = _key(scene, cause, device, largest, never=bool(never))
    if key is None:
        return None
    return Text(
        key,
        nodes=prose.names(cause.nodes),
        count=len(cause.nodes),
        cards=largest.count,
        word=device.word,
        resource=device.resources.cores if key == _WHOLE else device.resources.count,
        numbers=in_words(numbers or ()),
        asked=request_amounts.asked(scene, largest),
    )


def _key(scene: PodScene, cause: Cause, device: Device, largest: ContainerRequest, *, never: bool) -> str | None:
    """The text that says it. `never`: so many are never given."""
    if cause.text == verdicts.NUMA_NOT_FIT:
        return "numa-not-fit.number" if never else None
    if cause.text == _SAME_CARD:
        return "custom-filter-rule.same" if len(scene.request.containers) > 1 else None
    if cause.text == verdicts.NODE_INSUFFICIENT:
        none = not any(_in_play(scene, name, device.word) for name in cause.nodes)
        return "node-insufficient-device.none" if none else "node-insufficient-device.word"
    if cause.text in (verdicts.EXCLUSIVE_CONFLICT, verdicts.INSUFFICIENT_CORE):
        unwritten = device.resources.cores and device.resources.cores not in asked_resources(scene.pod, scene.config)
        return _WHOLE if unwritten and largest.cores == WHOLE_CARD else None
    if cause.text == verdicts.MODE_NOT_FIT:
        soft = device.names.also_read and is_soft(scene)
        return (
            "mode-not-fit.soft" if soft else "mode-not-fit.hard" if device.names.also_read else "mode-not-fit.profile"
        )
    return _KEYS.get(cause.text)


def is_soft(scene: PodScene) -> bool:
    """Whether the pod asks for the soft split of an NPU, by HAMi-core; else it is split by the chip's templates."""
    return scene.pod.metadata.annotation(_SPLIT_KEY) == "hami-core"


def in_words(numbers: Iterable[int]) -> str:
    """`1, 2, 4, 8`."""
    return ", ".join(map(str, numbers))


def numbers_given(scene: PodScene, nodes: Iterable[str], device: Device) -> tuple[int, ...] | None:
    """The numbers of devices that these nodes ever give; None where any is, as on AWS' inf instances."""
    labels = [scene.nodes[name].metadata.label(_INSTANCE_LABEL) or "" for name in nodes]
    if device.word == "AWSNeuron" and any("inf" in label.casefold() for label in labels):
        return None
    return _NUMBERS.get(device.word)


def _in_play(scene: PodScene, name: str, word: str) -> bool:
    """Whether a device of the node has the word in its type."""
    return any(card.card.is_of(word) for card in scene.view.cards(name))
