"""What a container asks of Ascend's NPUs [HAMi v2.10 pkg/device/ascend/device.go GenerateResourceRequests].

Memory is taken as written: the webhook rounds it to a template.
"""

from math import ceil

from bot.hami.asked import INT32_MAX, ContainerRequest, Resources, written
from bot.hami.vendors.ascend.chips import Chip
from bot.hami.vendors.ascend.names import NAMES
from bot.hami.vendors.sections import amount_in, count_in, whole_or
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


def _cores(container: Container, resource: str) -> int:
    number = parse_quantity(written(container, resource) or 0) if resource else None
    return 0 if number is None else min(ceil(number), INT32_MAX)
