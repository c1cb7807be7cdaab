"""Huawei's Ascend NPUs: one device for each chip that the device config names [HAMi v2.9, v2.10 pkg/device/ascend]."""

from collections.abc import Hashable, Mapping
from math import ceil
from typing import cast

import msgspec
from msgspec import structs

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import (
    ALLOCATED_INSUFFICIENT,
    COMPUTE_UNITS_EXHAUSTED,
    EXCLUSIVE_CONFLICT,
    EXCLUSIVE_CORES,
    INSUFFICIENT_CORE,
    MODE_NOT_FIT,
    CardUse,
    Run,
    Verdict,
)
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState, read_json_with_custom
from bot.hami.pods.pod_request import INT32_MAX, WHOLE_CARD, Constraints, ContainerRequest, Resources, written
from bot.hami.vendors.vendor import (
    AnnotatedContainer,
    Answer,
    Denied,
    Mutation,
    Vendor,
    amount_in,
    whole_or,
)
from bot.hami.version import Version
from bot.kube.models import Container, Node
from bot.kube.quantities import parse_quantity

MODE_KEY = "huawei.com/vnpu-mode"
SOFT_MODE = "hami-core"
SOFT_NODE_KEY = "hami-vnpu-core"

NAMES = Names(
    word="Ascend",
    noun="NPU",
    count="huawei.com/{word}",
    memory="huawei.com/{word}-memory",
    cores="huawei.com/{word}-core",
    use_uuid="hami.io/use-{word}-uuid",
    no_use_uuid="hami.io/no-use-{word}-uuid",
    also_read=(MODE_KEY,),
    register="hami.io/node-register-{word}",
    handshake="hami.io/node-handshake-{word}",
    allocated=("hami.io/{word}-devices-allocated",),
    read=read_json_with_custom,
)

IN_MODULES = "Ascend910C"
"""The Ascend chip of which two devices form a module."""


class Chip(msgspec.Struct, frozen=True):
    """One Ascend chip of the device config; memory in MiB as a pod writes it."""

    allocatable: int
    """The memory of a pod that asks for none, or for more than the largest template holds."""
    capacity: int
    """The most memory that a pod may ask for on this chip."""
    templates: tuple[int, ...]
    super_pod: bool = False
    """Whether the webhook makes a request for one device into a module of two."""
    soft: bool = False
    """Whether HAMi-core splits the chip (`hamiVnpuCore`) on nodes whose annotation does not say."""


CHART = {
    "Ascend910A": Chip(32768, 32768, (2184, 4369, 8738, 17476)),
    "Ascend910B2": Chip(65536, 65536, (8192, 16384, 32768)),
    "Ascend910B3": Chip(65536, 65536, (16384, 32768)),
    "Ascend910B4-1": Chip(65536, 65536, (16384, 32768)),
    "Ascend910B4": Chip(32768, 32768, (8192, 16384)),
    "Ascend310P": Chip(21527, 24576, (3072, 6144, 12288)),
    IN_MODULES: Chip(65536, 65536, (16384, 32768), super_pod=True),
}
"""The chips of HAMi's chart, by the word in their resource names."""


class _Template(msgspec.Struct):
    memory: int = 0


class _Written(msgspec.Struct, rename="camel"):
    common_word: str = ""
    resource_name: str = ""
    resource_memory_name: str = ""
    resource_core_name: str = ""
    memory_allocatable: int = 0
    memory_capacity: int = 0
    memory_factor: int = 1
    super_pod: bool = False
    templates: tuple[_Template, ...] = ()


class _AscendSection(msgspec.Struct, rename="camel"):
    configs: tuple[_Written, ...] = ()
    hami_vnpu_core: bool = False


def _resources(written: _Written, *, soft: bool) -> Resources:
    templates = tuple(sorted(template.memory for template in written.templates))
    return Resources(
        word=written.common_word,
        count=written.resource_name,
        memory=written.resource_memory_name,
        cores=written.resource_core_name,
        memory_factor=max(written.memory_factor, 1),
        chip=Chip(written.memory_allocatable, written.memory_capacity, templates, written.super_pod, soft),
    )


_TYPO_UNTIL = _CORES_ARE_SOFT = _SUPER_POD_SWITCH = Version(2, 10, 0)
_SOFT_SPLIT = Version(2, 9, 0)


class Ascend(Vendor):
    """Huawei's Ascend NPUs, split by the chip's templates (hard), or by HAMi-core on nodes set up for it (soft)."""

    names = NAMES
    flag = "enable-ascend"
    orders = True  # modules are told by the index
    plugin_labels = "app.kubernetes.io/component in (hami-ascend-device-plugin, hami-ascend)"
    plugin_names = "ascend-(k8s-)?device-plugin"
    section = "vnpus"
    node_label = ("ascend", "on")
    node_keys = (SOFT_NODE_KEY,)

    def read_resources(self, section: object) -> tuple[Resources, ...]:
        """The chips in the vendor's section, a list before 2.9. Raises ValueError for another shape."""
        if section is None:
            called = ((NAMES.of(word), chip) for word, chip in CHART.items())
            return tuple(
                Resources(word=names.word, count=names.count, memory=names.memory, cores=names.cores, chip=chip)
                for names, chip in called
            )
        given = cast("object", section if isinstance(section, dict) else {"configs": section or []})
        found = msgspec.convert(given, _AscendSection)
        return tuple(_resources(chip, soft=found.hami_vnpu_core) for chip in found.configs if chip.common_word)

    def hinted(self, resources: Resources, hints: Mapping[str, int]) -> Resources:
        """The chip's resources, with the soft split on where a recording says so for all nodes (`hamiVnpuCore`)."""
        if not hints.get("hami_vnpu_core") or not isinstance(resources.chip, Chip):
            return resources
        return structs.replace(resources, chip=structs.replace(resources.chip, soft=True))

    def node_facts(self, node: Node) -> bool | None:
        """Whether the node's annotation sets it up for the soft split; None without the annotation."""
        text = node.metadata.annotation(SOFT_NODE_KEY)
        return None if text is None else text == "true"

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """What the container requests of a chip; memory as written, since the webhook rounds it to a template."""
        count = self.count_in(container, resources)
        memory = amount_in(container, resources.memory, resources.memory_factor)
        cores = parse_quantity(written(container, resources.cores) or 0)
        if not count or memory is None:
            return None
        return ContainerRequest(
            word=resources.word,
            vendor=self.names.word,
            container=container.name,
            count=count,
            memory_mib=memory,
            percentage=whole_or(memory),
            cores=min(ceil(cores or 0), INT32_MAX),
            more=isinstance(resources.chip, Chip) and resources.chip.soft,
        )

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Rounds memory up to a template, and one 910C to a module of two [MutateAdmission]; or denies the pod."""
        chip = cast("Chip", resources.chip)
        count = written = shown.limit(resources.count)
        if count is None or written is None:
            return None
        if resources.word == IN_MODULES and (chip.super_pod or shown.version < _SUPER_POD_SWITCH):
            if count == 1:
                count = 2
            elif count % 2:
                return Denied(f"{resources.word} device request must be 1 or 2*n, got {count}")
        soft = shown.version >= _SOFT_SPLIT and shown.annotations.get(MODE_KEY) == SOFT_MODE
        if not soft and shown.version >= _CORES_ARE_SOFT and (shown.asked(resources.cores) or 0) > 0:
            return Denied(f"{resources.cores} is only supported in hami-core (soft split) mode")
        memory = shown.limit(resources.memory)
        if memory is None:
            memory = chip.allocatable
        elif not soft:  # the smallest template that holds it, above the last the whole device
            if memory > max(chip.capacity, *chip.templates, 0):
                return Denied(f"{resources.memory} {memory} is invalid")
            memory = min((template for template in chip.templates if memory <= template), default=chip.allocatable)
        if not soft and written > 1 and memory != chip.allocatable:
            denied = "not" if shown.version >= _TYPO_UNTIL else "nor"
            return Denied(f"vNPU {denied} supported for multiple devices")
        amounts = {resources.memory: memory, **({resources.count: count} if count != written else {})}
        return Mutation(amounts, amounts)

    def askable(self, container: ContainerRequest, constraints: Constraints, resources: Resources, amount: int) -> int:
        """The most MiB, up to `amount`, that a template or a whole NPU gives; several NPUs are always whole."""
        chip = resources.chip
        if constraints.more == (SOFT_MODE,) or not isinstance(chip, Chip):
            return amount
        parts = chip.templates if container.count == 1 else ()
        return max((memory for memory in (*parts, chip.allocatable) if memory <= amount), default=0)

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        soft = run.wanted.more == (SOFT_MODE,)
        flags = [fact for fact in run.node.facts.values() if isinstance(fact, bool)]
        if soft and MODE_NOT_FIT not in run.relax and not (flags[0] if flags else asked.more):
            return Verdict(fits=False, parts=((MODE_NOT_FIT, 1),), of=len(in_play))
        which = _SOFT if soft else checks.USUAL
        if asked.word == IN_MODULES and asked.count > 1:
            return _scan_modules(run, in_play, asked, which)
        networks = asked.word.startswith(_FAMILY) and all(_network(state) is not None for state in in_play)
        if not networks:
            return checks.scan(run, in_play, asked, which)
        passed, counts = checks.passing(run, in_play, asked, which)
        if len(passed) < asked.count:
            return checks.lacking(passed, counts, len(in_play))
        if len(passed) > asked.count > 1:
            passed = checks.of_few_groups(run, passed, _network)
        return passed[: asked.count]


_FAMILY = "Ascend910"
_NETWORK = "NetworkID"

_SOFT_CORES: tuple[checks.Check, ...] = (
    (INSUFFICIENT_CORE, lambda _, state, asked: WHOLE_CARD - state.cores < checks.cores_of(asked)),
    (EXCLUSIVE_CONFLICT, lambda _, state, asked: checks.cores_of(asked) == EXCLUSIVE_CORES and state.slots > 0),
    (COMPUTE_UNITS_EXHAUSTED, lambda _, state, asked: state.cores == WHOLE_CARD and asked.cores == 0),
)
_SOFT = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX, checks.MEMORY, *_SOFT_CORES)
"""The checks for a soft split, which takes every NPU to have 100 cores, whatever is registered."""


def _scan_modules(
    run: Run, in_play: list[CardState], asked: ContainerRequest, which: tuple[checks.Check, ...]
) -> Verdict | list[CardUse]:
    """A module is two cards, and several cards are given in whole modules. HAMi counts out of what was asked for."""
    passed, counts = checks.passing(run, in_play, asked, which)
    modules: dict[int, list[CardUse]] = {}
    for use in passed:
        modules.setdefault(use.state.card.index // 2, []).append(use)
    whole = checks.equal_groups(run, (module for module in modules.values() if len(module) == 2), largest_first=True)
    taken = [use for module in whole[: ceil(asked.count / 2)] for use in module]
    if len(taken) == asked.count:
        return taken
    parts = (*counts.items(), (ALLOCATED_INSUFFICIENT, len(taken)))
    return Verdict(fits=False, parts=parts, of=asked.count)


def _network(state: CardState) -> Hashable:
    return dict(state.card.custom).get(_NETWORK)
