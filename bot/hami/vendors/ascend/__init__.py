"""Huawei's Ascend NPUs: one device for each chip that the device config names [HAMi v2.9, v2.10 pkg/device/ascend]."""

from collections.abc import Mapping
from math import ceil
from typing import cast

from bot.hami.fit.verdicts import CardUse, Run, Verdict
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import INT32_MAX, Constraints, ContainerRequest, Resources, written
from bot.hami.vendors.ascend import chips, fit
from bot.hami.vendors.ascend.chips import IN_MODULES, MODE_KEY, SOFT_MODE, SOFT_NODE_KEY, Chip
from bot.hami.vendors.shared.admission import AnnotatedContainer, Answer, Denied, Mutation
from bot.hami.vendors.shared.config_section import amount_in, count_in, whole_or
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node
from bot.kube.quantities import parse_quantity

_TYPO_UNTIL = _CORES_ARE_SOFT = _SUPER_POD_SWITCH = Version(2, 10, 0)
_SOFT_SPLIT = Version(2, 9, 0)


class Ascend(Vendor):
    """What the config says of the chips is in `chips`, the verdict in `fit`."""

    names = chips.NAMES
    flag = "enable-ascend"
    orders = True  # modules are told by the index
    plugin_labels = "app.kubernetes.io/component in (hami-ascend-device-plugin, hami-ascend)"
    plugin_names = "ascend-(k8s-)?device-plugin"
    node_label = ("ascend", "on")
    node_keys = (SOFT_NODE_KEY,)

    def read_resources(self, document: object) -> tuple[Resources, ...]:
        return chips.read_resources(document)

    def hinted(self, resources: Resources, hints: Mapping[str, int]) -> Resources:
        return chips.hinted(resources, hints)

    def node_facts(self, node: Node) -> bool | None:
        """Whether the node says that it is set up for the soft split; None where it says nothing."""
        text = node.metadata.annotation(SOFT_NODE_KEY)
        return None if text is None else text == "true"

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """Memory is taken as written: the webhook rounds it to a template."""
        count, memory = count_in(container, resources), amount_in(container, resources.memory, resources.memory_factor)
        if not count or memory is None:
            return None
        return ContainerRequest(
            word=resources.word,
            vendor=self.names.word,
            container=container.name,
            count=count,
            memory_mib=memory,
            percentage=whole_or(memory),
            cores=_cores(container, resources.cores),
            more=isinstance(resources.chip, Chip) and resources.chip.soft,
        )

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Memory becomes a whole number of a chip's template, a lone 910C a module of two [MutateAdmission]."""
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
        memory = _memory(shown, resources.memory, chip, soft=soft)
        if isinstance(memory, Denied):
            return memory
        if not soft and written > 1 and memory != chip.allocatable:
            denied = "not" if shown.version >= _TYPO_UNTIL else "nor"
            return Denied(f"vNPU {denied} supported for multiple devices")
        amounts = {resources.memory: memory, **({resources.count: count} if count != written else {})}
        return Mutation(amounts, amounts)

    def askable(self, container: ContainerRequest, constraints: Constraints, resources: Resources, amount: int) -> int:
        """In a hard split a template's memory, or the whole NPU's: the webhook rounds up. Several are given whole."""
        chip = resources.chip
        if constraints.more == (SOFT_MODE,) or not isinstance(chip, Chip):
            return amount
        parts = chip.templates if container.count == 1 else ()
        return max((memory for memory in (*parts, chip.allocatable) if memory <= amount), default=0)

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        return fit.scan(run, in_play, asked)


def _cores(container: Container, resource: str) -> int:
    number = parse_quantity(written(container, resource) or 0) if resource else None
    return 0 if number is None else min(ceil(number), INT32_MAX)


def _memory(shown: AnnotatedContainer, resource: str, chip: Chip, *, soft: bool) -> int | Denied:
    """Absent: the whole device. With a hard split the smallest template that holds it, above the last the device."""
    asked = shown.limit(resource)
    if asked is None:
        return chip.allocatable
    if soft:
        return asked
    enough = [template for template in sorted(chip.templates) if asked <= template]
    if enough:
        return enough[0]
    return chip.allocatable if asked <= chip.capacity else Denied(f"{resource} {asked} is invalid")
