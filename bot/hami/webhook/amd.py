"""AMD's GPUs: a share of the cores is a percentage.

Source: HAMi v2.10, pkg/device/amd/device.go MutateAdmission.
"""

from bot.hami.pods.pod_request import WHOLE_CARD, Resources
from bot.hami.version import Version
from bot.hami.webhook.container import AnnotatedContainer, Answer, Denied, Mutation

_SHARED = Version(2, 10, 0)


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names a count, memory or cores in its limits."""
    names = (resources.count, resources.memory, resources.cores) if shown.version >= _SHARED else (resources.count,)
    if not any(name in shown.limits for name in names if name):
        return None
    if resources.count in shown.limits and resources.cores in shown.limits and resources.cores in names:
        percentage = shown.exactly(resources.cores)
        if percentage is None or not 1 <= percentage <= WHOLE_CARD:
            return Denied(f"{resources.cores} must be an integer percentage between 1 and {WHOLE_CARD}")
    return Mutation()
