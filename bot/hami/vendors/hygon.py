"""Hygon's DCUs [HAMi v2.10 pkg/device/hygon/device.go]."""

from functools import partial

from bot.hami.names import Names
from bot.hami.nodes.cards import read_strict_text
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.annotated_nodes import Annotated
from bot.hami.vendors.shared.config_section import amount_in, count_in, read_usual, whole_or
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container

NAMES = Names(
    word="DCU",
    noun="DCU",
    count="hygon.com/dcunum",
    memory="hygon.com/dcumem",
    cores="hygon.com/dcucores",
    use_type="hygon.com/use-dcutype",
    no_use_type="hygon.com/nouse-dcutype",
    use_uuid="hygon.com/use-gpuuuid",
    no_use_uuid="hygon.com/nouse-gpuuuid",
    register="hami.io/node-dcu-register",
    handshake="hami.io/node-handshake-dcu",
    allocated=("hami.io/dcu-devices-allocated",),
    read=read_strict_text,
)
_CHECKS = (checks.HEALTH, checks.TYPE, checks.UUID, checks.SLOTS, checks.MUTEX, *checks.AMOUNTS)
_NODES = Annotated(NAMES)


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count = count_in(container, resources)
    memory = amount_in(container, resources.memory, resources.memory_factor)
    cores = amount_in(container, resources.cores, absent=WHOLE_CARD)
    if not count or memory is None or cores is None:
        return None
    return ContainerRequest(NAMES.word, container.name, count, memory, whole_or(memory), cores)


HYGON = Vendor(
    names=NAMES,
    read_resources=partial(read_usual, NAMES, key="hygon"),
    request=_request,
    nodes=_NODES,
    scan=partial(checks.scan, checks=_CHECKS),
    plugin_labels="name=dcu-dp-ds",
    plugin_names="dcu-(vgpu-)?device-plugin",
    node_label=("dcu", "on"),
)
