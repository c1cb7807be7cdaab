"""Kunlun's shared XPUs: memory comes in three sizes.

Source: HAMi v2.10, pkg/device/kunlun/vdevice.go MutateAdmission.
"""

from bot.hami.pods.pod_request import Resources
from bot.hami.webhook.container import AnnotatedContainer, Answer, Mutation

SIZES = (24576, 49152, 98304)
"""A quarter, a half and all of an XPU, in MiB."""


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names the count of shared XPUs in its limits."""
    if shown.limit(resources.count) is None:
        return None
    memory = shown.limit(resources.memory)
    if memory is None:
        return Mutation()
    size = {resources.memory: next((size for size in SIZES if memory <= size), SIZES[-1])}
    return Mutation(size, size)
