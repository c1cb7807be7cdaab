"""Enflame's sliced GCUs: slices, or memory and cores.

Source: HAMi v2.10, pkg/device/enflame/device.go MutateAdmission.
"""

from bot.hami.pods.pod_request import WHOLE_CARD, Resources
from bot.hami.webhook.container import AnnotatedContainer, Answer, Denied, Mutation


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names slices, memory or cores."""
    slices, memory, cores = map(shown.asked, (resources.count, resources.memory, resources.cores))
    if slices is not None:
        return Mutation() if slices > 0 else Denied(f"{resources.count} must be greater than 0")
    if memory is not None and memory <= 0:
        return Denied(f"{resources.memory} must be greater than 0")
    if cores is not None and not 0 < cores <= WHOLE_CARD:
        return Denied(f"{resources.cores} must be in range (0,{WHOLE_CARD}]")
    return None if memory is None and cores is None else Mutation()
