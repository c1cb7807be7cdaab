"""AWS Neuron devices [HAMi v2.10 pkg/device/awsneuron/device.go]. Cores are a bit mask, and so is their use."""

from collections.abc import Mapping

import msgspec

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import INSUFFICIENT_CORE, NUMA_NOT_FIT, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.registration import capacity_of, cards_like
from bot.hami.pods.pod_request import ContainerRequest, PodRequest, Resources, amount_of, to_int32
from bot.hami.vendors.vendor import AnnotatedContainer, Answer, Counted, Denied, Mutation
from bot.hami.version import Version
from bot.kube.models import Container, Node

TYPE_LABEL = "node.kubernetes.io/instance-type"
GROUPS = (4, 8, 16)
"""The numbers of devices that a request can have, except on inf instances; a group begins at a multiple of its size."""

_WHOLE = 0
"""The cores in a request for whole devices: 0 stands for all that a device has."""
_USUAL_CORES = 2
_BOTH_CORES = 3
_CHECKED = Version(2, 10, 0)


_LACKS_CORES: checks.Check = (
    INSUFFICIENT_CORE,
    lambda _, state, asked: state.card.cores.bit_count() - state.cores.bit_count() < (asked.cores or state.card.slots),
)


class AwsNeuron(Counted):
    """AWS Neuron devices, given whole, or by cores in pairs."""

    names = Names(
        word="AWSNeuron",
        noun="Neuron device",
        more_annotations=("AWS_NEURON_", "NEURON_"),
        shares_domain=True,
        count="aws.amazon.com/neuron",
        cores="aws.amazon.com/neuroncore",
        use_uuid="aws.amazon.com/use-neuron-uuid",
        no_use_uuid="aws.amazon.com/nouse-neuron-uuid",
        card_word="AWSNeuron",
        allocated=("hami.io/aws-neuron-devices-allocated",),
        capacity="aws.amazon.com/neuron",
    )
    section = "awsneuron"
    since = Version(2, 7, 0)
    cores_unit = ""
    orders = True
    lock_key = ""
    plugin_labels = "name=neuron-device-plugin-ds"
    plugin_names = "neuron-device-plugin"
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX, _LACKS_CORES)

    def hinted(self, resources: Resources, hints: Mapping[str, int]) -> Resources:
        """The resources with the cores of a device, a number that HAMi takes from the first device it ever saw."""
        return msgspec.structs.replace(resources, chip=hints.get("neuron_cores_per_device"))

    def cards(self, node: Node, resources: Resources) -> list[Card]:
        devices = capacity_of(node, resources.count)
        if devices <= 0:
            return []
        known = resources.chip
        cores = known if isinstance(known, int) else capacity_of(node, resources.cores) // devices
        of_type = (("type", node.metadata.label(TYPE_LABEL) or ""),)
        card = Card(slots=cores, cores=2**cores - 1, type=self.names.word, health=True, custom=of_type)
        return cards_like(card, devices, f"{node.name}-{self.names.card_word}-")

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        devices, cores = amount_of(container, resources.count), amount_of(container, resources.cores)
        if isinstance(devices, int) and to_int32(devices) > 0:
            return ContainerRequest(self.names.word, container.name, to_int32(devices), 0, 0, _WHOLE)
        if not isinstance(cores, int) or to_int32(cores) <= 0:
            return None
        cores, most = to_int32(cores), min(resources.chip, 2) if isinstance(resources.chip, int) else _USUAL_CORES
        if cores <= most:
            return ContainerRequest(self.names.word, container.name, 1, 0, 0, cores)
        return ContainerRequest(self.names.word, container.name, cores // most, 0, 0, most)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Admits a container that names devices or cores; denies numbers that cannot be had [MutateAdmission]."""
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
            if name == resources.cores and amount != 1 and amount % _USUAL_CORES:
                return Denied(f"{name} must be 1 or a multiple of {_USUAL_CORES}, got {amount}")
            return Mutation()
        return None

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        if asked.count > 1:
            return _scan_several(in_play, asked.count)
        taken, counts = checks.passing(run, in_play, asked, self.card_checks, most=1)
        if not taken:
            return Verdict(fits=False, parts=tuple(counts.items()), of=len(in_play))
        state = taken[0].state
        # The mask of the cores that the container gets of a device with two.
        left = _BOTH_CORES - state.cores if state.cores else _BOTH_CORES
        return [CardUse(state, 0, 1 if asked.cores == 1 and not state.cores else left)]

    def least(self, state: CardState, word: str) -> PodRequest:
        return self.alone(ContainerRequest(word, "", 1, 0, 0, 1))

    def count_cores(self, cores: int) -> int:
        return cores.bit_count()


def _scan_several(in_play: list[CardState], count: int) -> Verdict | list[CardUse]:
    """Devices that stand side by side. HAMi takes the places found in the sorted list for indexes."""
    free = [state.healthy and not state.slots for state in in_play]
    kind = str(dict(in_play[0].card.custom).get("type", ""))
    in_a_row = "inf" in kind or "Inf" in kind
    step = 1 if in_a_row else count
    starts = range(0, len(free) - count + 1, step) if in_a_row or count in GROUPS else range(0)
    start = next((index for index in starts if all(free[index : index + count])), None)
    if start is None:
        return Verdict(fits=False, parts=((NUMA_NOT_FIT, 1),), of=len(in_play))
    places = range(start, start + count)
    return [CardUse(state, 0, state.card.cores) for state in in_play if state.card.index in places]
