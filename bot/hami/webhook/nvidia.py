"""NVIDIA's GPUs: a count where only memory or cores are named, all cores with a whole GPU.

Source: HAMi v2.7 to v2.10, pkg/device/nvidia/device.go MutateAdmission and defaultExclusiveCoreIfNeeded.
"""

from bot.hami.pods.pod_request import WHOLE_CARD, Resources
from bot.hami.version import Version
from bot.hami.webhook.container import Amounts, AnnotatedContainer, Answer, Denied, Mutation

EXCLUSIVE_BY_DEFAULT = Version(2, 7, 0)
_CHECKED = Version(2, 10, 0)


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names a count, memory, a percentage or cores in its limits."""
    if not any(name in shown.limits for name in resources.all):
        return None
    percentage = shown.asked(resources.percentage)
    if percentage is not None and not 0 <= percentage <= WHOLE_CARD and shown.version >= _CHECKED:
        where = f"in container {shown.container}: must be an integer between 0 and {WHOLE_CARD}"
        return Denied(f"invalid {resources.percentage} value {percentage} {where}")
    named = resources.count in shown.limits
    if not named and resources.default_count <= 0:
        return None
    added: Amounts = {} if named else {resources.count: resources.default_count}
    if _is_whole(shown, resources, percentage) and shown.version >= EXCLUSIVE_BY_DEFAULT:
        added = {**added, resources.cores: WHOLE_CARD}
    return Mutation(added)


def _is_whole(shown: AnnotatedContainer, resources: Resources, percentage: int | None) -> bool:
    if shown.asked(resources.cores) is not None:
        return False
    return percentage == WHOLE_CARD if percentage is not None else shown.asked(resources.memory) is None
