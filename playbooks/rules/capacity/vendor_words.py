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
from playbooks.scenes.waiting_pod import PodScene

_XPU_NUMBERS, _TRN_NUMBERS = (1, 2, 4, 8), (1, 4, 8, 16)
_NUMBERS: Mapping[str, tuple[int, ...]] = {"kunlun": _XPU_NUMBERS, "XPU": _XPU_NUMBERS, "AWSNeuron": _TRN_NUMBERS}
_INSTANCE_LABEL = "node.kubernetes.io/instance-type"


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
    values: dict[str, object] = {
        "nodes": prose.names(cause.nodes),
        "count": len(cause.nodes),
        "cards": largest.count,
        "word": device.word,
        "resource": device.resources.count,
        "numbers": in_words(numbers or ()),
        "asked": request_amounts.asked(scene, largest),
    }
    match cause.text:
        case verdicts.NUMA_NOT_FIT if never:
            return Text("numa-not-fit.number", **values)
        case "CardNotFoundCustomFilterRule" if len(asked) > 1:
            return Text("custom-filter-rule.same", **values)
        case verdicts.NODE_INSUFFICIENT:
            some = any(_in_play(scene, name, device.word) for name in cause.nodes)
            return Text("node-insufficient-device.word" if some else "node-insufficient-device.none", **values)
        case verdicts.EXCLUSIVE_CONFLICT | verdicts.INSUFFICIENT_CORE if _whole_unwritten(scene, device, largest):
            return Text("exclusive-device-conflict.cores-left-out", **{**values, "resource": device.resources.cores})
        case verdicts.MODE_NOT_FIT:
            if not device.names.also_read:
                return Text("mode-not-fit.profile", **values)
            return Text("mode-not-fit.soft" if is_soft(scene) else "mode-not-fit.hard", **values)
        case "CardQosPolicyMismatch":
            return Text("custom-filter-rule.policy", **values)
        case "CardAppClassMismatch":
            return Text("custom-filter-rule.app-class", **values)
        case _:
            return None


def _whole_unwritten(scene: PodScene, device: Device, largest: ContainerRequest) -> bool:
    """Whether it means whole devices, because the pod names no cores."""
    cores = device.resources.cores
    return bool(cores) and cores not in asked_resources(scene.pod, scene.config) and largest.cores == WHOLE_CARD


def is_soft(scene: PodScene) -> bool:
    """Whether the pod asks for the soft split of an NPU, by HAMi-core; else it is split by the chip's templates."""
    return "hami-core" in scene.request.constraints.more


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
