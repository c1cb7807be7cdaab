"""AMD's GPUs [HAMi v2.7 to v2.10, pkg/device/amd/device.go]. Their cores are compute units, requested in percent."""

from datetime import datetime

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import INSUFFICIENT_CORE, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState, read_json
from bot.hami.nodes.registration import Unregistered, capacity_of, registered_cards
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, PodRequest, Resources
from bot.hami.vendors.vendor import (
    AnnotatedContainer,
    Answer,
    Counted,
    Denied,
    Found,
    Mutation,
    amount_in,
    limits_of,
)
from bot.hami.version import Version
from bot.kube.models import Container, Node

_SHARED = Version(2, 10, 0)
"""From this version on the plugin registers AMD's GPUs, and pods get parts of them."""


class Amd(Counted):
    """AMD's GPUs, registered. Before HAMi 2.10 they are counted by capacity, all alike, and each given to one pod."""

    names = Names(
        word="AMD",
        shares_domain=True,
        count="amd.com/gpu",
        memory="amd.com/gpumem",
        cores="amd.com/gpucores",
        use_type="amd.com/use-gputype",
        no_use_type="amd.com/nouse-gputype",
        use_uuid="amd.com/use-gpu-uuid",
        no_use_uuid="amd.com/nouse-gpu-uuid",
        register="hami.io/node-amd-register",
        card_word="AMD",
        allocated=("hami.io/amd-devices-allocated",),
        read=read_json,
    )
    section = "amd"
    since = Version(2, 7, 1)
    locks_since = _SHARED
    plugin_labels = "name=amdgpu-dp-ds"
    plugin_names = "amd(gpu)?-device-plugin|rocm/k8s-device-plugin"
    card = Card(slots=1, memory_mib=192_000, cores=WHOLE_CARD, type="AMDGPU", health=True)
    card_checks = (
        *(checks.HEALTH, checks.TYPE, checks.UUID, checks.SLOTS, checks.MUTEX, checks.MEMORY),
        (INSUFFICIENT_CORE, lambda _, state, asked: min(state.card.cores, state.free_cores) < units_of(state, asked)),
    )

    def registration(self, node: Node, version: Version, now: datetime, resources: Resources) -> Found:
        """The node's registered GPUs, while its capacity counts any; before 2.10 the capacity alone counts."""
        if version < _SHARED:
            return self.find(node, resources)
        found, key = registered_cards(node, self.names, self.names.word), self.names.register
        if isinstance(found, Unregistered) or capacity_of(node, resources.count) > 0:
            return found
        return Unregistered("no-allocatable", key, node.metadata.annotation(key) or "", found)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """What the container's limits request (its requests do not count); None for nothing."""
        limits = limits_of(container)
        count, memory = self.count_in(limits, resources), amount_in(limits, resources.memory)
        cores = amount_in(limits, resources.cores, absent=WHOLE_CARD)
        if not count or memory is None or cores is None or not 0 < cores <= WHOLE_CARD:
            return None
        return ContainerRequest(self.names.word, container.name, count, memory, 0 if memory else WHOLE_CARD, cores)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Admits a container whose limits name a count, memory or cores; denies a wrong percentage of cores."""
        names = (resources.count, resources.memory, resources.cores) if shown.version >= _SHARED else (resources.count,)
        if not any(name in shown.limits for name in names if name):
            return None
        if resources.count in shown.limits and resources.cores in shown.limits and resources.cores in names:
            percentage = shown.exactly(resources.cores)
            if percentage is None or not 1 <= percentage <= WHOLE_CARD:
                return Denied(f"{resources.cores} must be an integer percentage between 1 and {WHOLE_CARD}")
        return Mutation()

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        found = super().scan(run, in_play, asked)
        if isinstance(found, Verdict):
            return found
        return [taken._replace(cores=units_of(taken.state, asked)) for taken in found]

    def least(self, state: CardState, word: str) -> PodRequest:
        return self.alone(ContainerRequest(word, "", 1, 1, 0, 1))


def units_of(state: CardState, asked: ContainerRequest) -> int:
    """The compute units of the GPU that the requested percentage of cores means, at least 1."""
    return max(state.card.cores * asked.cores // WHOLE_CARD, 1)
