"""AMD's GPUs [HAMi v2.7 to v2.10, pkg/device/amd/device.go].

Their cores are compute units, of which a container asks for a percentage.
"""

from datetime import datetime
from functools import partial

from bot.hami.fit.verdicts import INSUFFICIENT_CORE, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState, read_json
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.config_section import amount_in, count_in, limits_of, read_usual
from bot.hami.vendors.shared.rescanned_nodes import Found, Stateless, annotated, capacity_of, cards_like, counted
from bot.hami.vendors.vendor import Ask, Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

_REGISTERS = Version(2, 10, 0)
_MEMORY_MIB = 192_000

NAMES = Names(
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
    allocated=("hami.io/amd-devices-allocated",),
    read=read_json,
)


def _counted(node: Node, resources: Resources) -> list[Card]:
    """HAMi v2.7 to v2.9 takes every GPU to be alike, and gives it to one pod."""
    card = Card(slots=1, memory_mib=_MEMORY_MIB, cores=WHOLE_CARD, type="AMDGPU", health=True)
    return cards_like(card, capacity_of(node, resources.count), f"{node.name}-{NAMES.word}-")


class _Nodes(Stateless):
    def registration(self, node: Node, version: Version, now: datetime, resources: Resources) -> Found:
        """What is registered, as long as the node's capacity counts any; before 2.10 the capacity alone."""
        if version < _REGISTERS:
            return super().registration(node, version, now, resources)
        found = annotated(node, NAMES)
        if isinstance(found, Unregistered) or capacity_of(node, resources.count) > 0:
            return found
        return Unregistered("no-allocatable", NAMES.register, node.metadata.annotation(NAMES.register) or "", found)


_NODES = _Nodes(counted(NAMES, _counted).find)


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    """Only limits count."""
    limits = limits_of(container)
    count, memory = count_in(limits, resources), amount_in(limits, resources.memory)
    cores = amount_in(limits, resources.cores, absent=WHOLE_CARD)
    if not count or memory is None or cores is None or not 0 < cores <= WHOLE_CARD:
        return None
    return ContainerRequest(NAMES.word, container.name, count, memory, 0 if memory else WHOLE_CARD, cores)


def units_of(state: CardState, asked: ContainerRequest) -> int:
    """The compute units that the percentage means on a card."""
    return max(state.card.cores * asked.cores // WHOLE_CARD, 1)


def _lacks_units(_: Run, state: CardState, asked: ContainerRequest) -> bool:
    return state.card.cores <= 0 or state.free_cores < units_of(state, asked)


_CHECKS = (
    *(checks.HEALTH, checks.TYPE, checks.UUID, checks.SLOTS, checks.MUTEX, checks.MEMORY),
    (INSUFFICIENT_CORE, _lacks_units),
)


def _scan(run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
    found = checks.scan(run, in_play, asked, _CHECKS)
    if isinstance(found, Verdict):
        return found
    return [taken._replace(cores=units_of(taken.state, asked)) for taken in found]


def _least(_: CardState, word: str) -> Ask:
    return Ask(ContainerRequest(word, "", 1, 1, 0, 1))


AMD = Vendor(
    names=NAMES,
    read_resources=partial(read_usual, NAMES, key="amd"),
    request=_request,
    nodes=_NODES,
    scan=_scan,
    least=_least,
    since=Version(2, 7, 1),
    locks_since=Version(2, 10, 0),
    plugin_labels="name=amdgpu-dp-ds",
    plugin_names="amd(gpu)?-device-plugin|rocm/k8s-device-plugin",
)
