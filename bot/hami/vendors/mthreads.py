"""Moore Threads' GPUs [HAMi v2.10 pkg/device/mthreads/device.go]."""

from bot.hami.fit import verdicts as checks
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import ContainerRequest, Resources
from bot.hami.vendors.vendor import AnnotatedContainer, Answer, CountedByCores, Denied, Mutation, amount_in, whole_or
from bot.hami.version import Version
from bot.kube.models import Container

_ALLOWED = (2, 4, 8, 16, 32, 64, 96)
"""The amounts of memory that can be requested of one GPU, in units of 512 MiB."""
_MEMORY = _ALLOWED[-1]
_CORES = 16
_COUNT_KEY = "mthreads.com/request-gpu-num"
_REQUESTS_TOO = Version(2, 10, 0)


class Mthreads(CountedByCores):
    """Moore Threads' GPUs of 16 cores; a pod gets a part of one, or several whole ones."""

    names = Names(
        word="Mthreads",
        more_annotations=("mthreads.ai/",),
        count="mthreads.com/vgpu",
        memory="mthreads.com/sgpu-memory",
        cores="mthreads.com/sgpu-core",
        use_uuid="mthreads.ai/use-gpuuuid",
        no_use_uuid="mthreads.ai/nouse-gpuuuid",
        card_word="mthreads",
        allocated=("hami.io/mthreads-vgpu-devices-allocated",),
        capacity="mthreads.com/sgpu-core",
        capacity_unit=_CORES,
    )
    section = "mthreads"
    unit_mib = 512
    wraps_count = True
    shares_one_only = True
    lock_key = ""
    plugin_names = "(mt|musa|mthreads)-(gpu-)?device-plugin"
    cores_unit = f"/{_CORES}"
    one_card_per_pod = True
    card_checks = (*checks.USUAL, checks.SAME_CARD)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """What the container requests per GPU; it writes memory and cores of all its GPUs together."""
        count = self.count_in(container, resources)
        memory = amount_in(container, resources.memory, resources.memory_factor)
        cores = amount_in(container, resources.cores)
        if not count or memory is None or cores is None:
            return None
        share = memory // count
        return ContainerRequest(self.names.word, container.name, count, share, whole_or(memory), cores // count)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Gives whole GPUs where a container requests several, or no memory; else memory of fixed sizes."""
        count = (shown.asked if shown.version >= _REQUESTS_TOO else shown.limit)(resources.count)
        if count is None:
            return None
        if count <= 0 and shown.version >= _REQUESTS_TOO:
            return Denied(f"{resources.count} must be greater than 0")
        if count > 1:
            whole = {resources.cores: _CORES * count, resources.memory: _MEMORY * count}
            return Mutation(whole, annotations={_COUNT_KEY: str(count)})
        memory = shown.limit(resources.memory)
        if memory is None:
            return Mutation({resources.cores: _CORES, resources.memory: _MEMORY})
        slices = _ALLOWED if shown.version >= _REQUESTS_TOO else (1, *_ALLOWED)
        if memory in slices:
            return Mutation()
        valid = ", ".join(map(str, slices))
        return Denied(f"sGPU memory request value is invalid, valid values are [{valid}]")

    def slices(self, state: CardState) -> list[int]:
        return [units * self.unit_mib for units in _ALLOWED if units * self.unit_mib <= state.free_memory_mib]
