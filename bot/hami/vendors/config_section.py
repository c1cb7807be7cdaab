"""A vendor's section of the device config, and the amounts that most vendors read alike."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bot.hami.names import Names
from bot.hami.pods.pod_request import INT32_MAX, WHOLE_CARD, Resources, amount_of, to_int32
from bot.kube.models import Container

USUAL_KEYS = {
    "count": "resourceCountName",
    "memory": "resourceMemoryName",
    "cores": "resourceCoreName",
    "memory_factor": "memoryFactor",
}
"""The keys under which most vendors' sections name their resources, and how much one of the memory resource counts."""


def section_of(document: object, key: str) -> Any:
    """What the config has under that key, None where it leaves it out. Without a config it is an empty section."""
    if document is None:
        return {}
    return msgspec.convert(document, dict[str, Any]).get(key)


def read_section(
    names: Names, document: object, key: str, keys: Mapping[str, str], unit_mib: int
) -> tuple[Resources, ...]:
    """The resources of a vendor's section, which are as the chart has them where the section does not name them.

    `keys` are the section's, `unit_mib` is what one of the memory resource means. Raises ValueError for another shape.
    """
    found = section_of(document, key)
    if found is None:
        return ()
    section = msgspec.convert(found, dict[str, Any])

    def named(part: str, usual: str) -> str:
        return msgspec.convert(section.get(keys[part]) or usual, str) if usual and part in keys else usual

    factor = msgspec.convert(section.get(keys.get("memory_factor", ""), 1), int)
    return (
        Resources(
            word=names.word,
            count=named("count", names.count),
            memory=named("memory", names.memory),
            cores=named("cores", names.cores),
            memory_factor=max(factor, 1) * unit_mib,
        ),
    )


def count_in(container: Container, resources: Resources) -> int:
    """How many devices are asked for; 0 where that is no number of devices."""
    count = amount_of(container, resources.count)
    return count if isinstance(count, int) and 0 < count <= INT32_MAX else 0


def amount_in(container: Container, resource: str, factor: int = 1, *, absent: int = 0) -> int | None:
    """The amount times the factor, `absent` where there is none; None where it makes HAMi see no request at all."""
    amount = amount_of(container, resource) if resource else None
    if amount is None:
        return absent
    return amount * factor if isinstance(amount, int) and 0 <= amount * factor <= INT32_MAX else None


def whole_or(memory_mib: int) -> int:
    """The percentage that goes with an amount of memory: none of it is the whole card."""
    return 0 if memory_mib else WHOLE_CARD


def wrapped_count_in(container: Container, resources: Resources) -> int:
    """The number of devices for a vendor that cuts it down to 32 bits unseen; 0 where none is asked for."""
    count = amount_of(container, resources.count)
    return max(to_int32(count), 0) if isinstance(count, int) else 0


def limits_of(container: Container) -> Container:
    """The container with its limits alone, for a vendor that reads no requests."""
    if container.resources is None:
        return container
    limits = msgspec.structs.replace(container.resources, requests=None)
    return msgspec.structs.replace(container, resources=limits)
