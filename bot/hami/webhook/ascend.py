"""Huawei's NPUs: memory becomes a whole number of a chip's template, a lone 910C a module of two.

Source: HAMi v2.9 and v2.10, pkg/device/ascend/device.go MutateAdmission.
"""

from typing import cast

from bot.hami.pods.pod_request import Resources
from bot.hami.vendors.ascend.chips import IN_MODULES, Chip
from bot.hami.vendors.ascend.names import MODE_KEY
from bot.hami.version import Version
from bot.hami.webhook.container import AnnotatedContainer, Answer, Denied, Mutation

_SOFT = "hami-core"
_TYPO_UNTIL = _CORES_ARE_SOFT = _SUPER_POD_SWITCH = Version(2, 10, 0)
_SOFT_SPLIT = Version(2, 9, 0)


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names the chip's count in its limits."""
    chip = cast("Chip", resources.chip)
    count = written = shown.limit(resources.count)
    if count is None or written is None:
        return None
    if resources.word == IN_MODULES and (chip.super_pod or shown.version < _SUPER_POD_SWITCH):
        if count == 1:
            count = 2
        elif count % 2:
            return Denied(f"{resources.word} device request must be 1 or 2*n, got {count}")
    soft = shown.version >= _SOFT_SPLIT and shown.annotations.get(MODE_KEY) == _SOFT
    if not soft and shown.version >= _CORES_ARE_SOFT and (shown.asked(resources.cores) or 0) > 0:
        return Denied(f"{resources.cores} is only supported in hami-core (soft split) mode")
    memory = _memory(shown, resources.memory, chip, soft=soft)
    if isinstance(memory, Denied):
        return memory
    if not soft and written > 1 and memory != chip.allocatable:
        denied = "not" if shown.version >= _TYPO_UNTIL else "nor"
        return Denied(f"vNPU {denied} supported for multiple devices")
    amounts = {resources.memory: memory, **({resources.count: count} if count != written else {})}
    return Mutation(amounts, amounts)


def _memory(shown: AnnotatedContainer, resource: str, chip: Chip, *, soft: bool) -> int | Denied:
    """Absent: the whole device. With a hard split the smallest template that holds it, above the last the device."""
    asked = shown.limit(resource)
    if asked is None:
        return chip.allocatable
    if soft:
        return asked
    enough = [template for template in sorted(chip.templates) if asked <= template]
    if enough:
        return enough[0]
    return chip.allocatable if asked <= chip.capacity else Denied(f"{resource} {asked} is invalid")
