"""Iluvatar's GPUs: who asks for several gets all their cores.

Source: HAMi v2.10, pkg/device/iluvatar/device.go MutateAdmission, which also names the container in its environment.
"""

from bot.hami.pods.pod_request import WHOLE_CARD, Resources
from bot.hami.webhook.container import AnnotatedContainer, Answer, Mutation


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names the count in its limits."""
    count = shown.limit(resources.count)
    if count is None:
        return None
    return Mutation({resources.cores: WHOLE_CARD * count}) if count > 1 else Mutation()
