"""Biren's GPUs [HAMi v2.10 pkg/device/biren/device.go]."""

from functools import partial

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import Card, read_json
from bot.hami.pods.pod_request import ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.annotated_nodes import Annotated
from bot.hami.vendors.shared.config_section import only_count, read_usual
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container


def _read(text: str) -> tuple[Card, ...]:
    return tuple(msgspec.structs.replace(card, cores=100) for card in read_json(text))


NAMES = Names(
    word="Biren",
    count="birentech.com/gpu",
    use_uuid="birentech.com/use-gpuuuid",
    no_use_uuid="birentech.com/nouse-gpuuuid",
    register="hami.io/node-biren-register",
    handshake="hami.io/node-handshake-biren",
    allocated=("hami.io/Biren-devices-allocated",),
    read=_read,
)
_CHECKS = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX)
_NODES = Annotated(NAMES)


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    return only_count(container, resources, NAMES.word)


BIREN = Vendor(
    names=NAMES,
    read_resources=partial(read_usual, NAMES, key="biren"),
    request=_request,
    nodes=_NODES,
    scan=partial(checks.scan, checks=_CHECKS),
    since=Version(2, 10, 0),
    plugin_names="biren-device-plugin",
    node_label=("biren", "on"),
)
