"""What a container asks of Ascend's NPUs [HAMi v2.10 pkg/device/ascend/device.go GenerateResourceRequests].

Memory is taken as written: the webhook rounds it to a template.
"""

from math import ceil

from bot.hami.pods.pod_request import INT32_MAX, Constraints, ContainerRequest, Resources, written
from bot.hami.vendors.ascend.chips import Chip
from bot.hami.vendors.ascend.names import NAMES, SOFT_MODE
from bot.hami.vendors.shared.config_section import amount_in, count_in, whole_or
from bot.hami.version import Version
from bot.kube.models import Container
from bot.kube.quantities import parse_quantity


def container_request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    """The request of one container, None when it asks for nothing."""
    count, memory = count_in(container, resources), amount_in(container, resources.memory, resources.memory_factor)
    if not count or memory is None:
        return None
    return ContainerRequest(
        word=resources.word,
        vendor=NAMES.word,
        container=container.name,
        count=count,
        memory_mib=memory,
        percentage=whole_or(memory),
        cores=_cores(container, resources.cores),
        more=isinstance(resources.chip, Chip) and resources.chip.soft,
    )


def askable(container: ContainerRequest, constraints: Constraints, resources: Resources, amount: int) -> int:
    """In a hard split a template's memory, or the whole NPU's: the webhook rounds up. Several are given whole."""
    chip = resources.chip
    if constraints.more == (SOFT_MODE,) or not isinstance(chip, Chip):
        return amount
    parts = chip.templates if container.count == 1 else ()
    return max((memory for memory in (*parts, chip.allocatable) if memory <= amount), default=0)


def _cores(container: Container, resource: str) -> int:
    number = parse_quantity(written(container, resource) or 0) if resource else None
    return 0 if number is None else min(ceil(number), INT32_MAX)
