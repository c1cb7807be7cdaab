"""Moore Threads' GPUs: whole ones for who asks for several or names no memory, else memory in fixed sizes.

Source: HAMi v2.10, pkg/device/mthreads/device.go MutateAdmission.
"""

from bot.hami.pods.pod_request import Resources
from bot.hami.version import Version
from bot.hami.webhook.container import AnnotatedContainer, Answer, Denied, Mutation

CORES, MEMORY = 16, 96
"""A whole GPU; memory in units of 512 MiB."""
SLICES = (2, 4, 8, 16, 32, 64, 96)
COUNT_KEY = "mthreads.com/request-gpu-num"
_REQUESTS_TOO = Version(2, 10, 0)


def admit(shown: AnnotatedContainer, resources: Resources) -> Answer:
    """A container that names the count."""
    count = (shown.asked if shown.version >= _REQUESTS_TOO else shown.limit)(resources.count)
    if count is None:
        return None
    if count <= 0 and shown.version >= _REQUESTS_TOO:
        return Denied(f"{resources.count} must be greater than 0")
    if count > 1:
        whole = {resources.cores: CORES * count, resources.memory: MEMORY * count}
        return Mutation(whole, annotations={COUNT_KEY: str(count)})
    memory = shown.limit(resources.memory)
    if memory is None:
        return Mutation({resources.cores: CORES, resources.memory: MEMORY})
    slices = SLICES if shown.version >= _REQUESTS_TOO else (1, *SLICES)
    if memory in slices:
        return Mutation()
    valid = ", ".join(map(str, slices))
    return Denied(f"sGPU memory request value is invalid, valid values are [{valid}]")
