"""AWS' Neuron devices: whole ones, or cores in pairs.

Source: HAMi v2.10, pkg/device/awsneuron/device.go MutateAdmission.
"""

from bot.hami.pods.pod_request import Resources
from bot.hami.version import Version
from bot.hami.webhook.container import AnnotatedContainer, Answer, Denied, Mutation

STEP = 2
"""Cores of a device, or two of them where it has more."""
_CHECKED = Version(2, 10, 0)


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names devices or cores."""
    for name in (resources.count, resources.cores):
        if shown.asked(name) is None:
            continue
        amount = shown.exactly(name)
        if shown.version < _CHECKED:
            return Mutation()
        if amount is None:
            return Denied(f"{name} must be an integer")
        if amount <= 0:
            return Denied(f"{name} must be greater than 0")
        if name == resources.cores and amount != 1 and amount % STEP:
            return Denied(f"{name} must be 1 or a multiple of {STEP}, got {amount}")
        return Mutation()
    return None
