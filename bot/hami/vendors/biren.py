"""Biren's GPUs [HAMi v2.10 pkg/device/biren/device.go]."""

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import Card, read_json
from bot.hami.pods.pod_request import ContainerRequest, Resources
from bot.hami.vendors import standard_fit as checks
from bot.hami.vendors.vendor import Vendor, only_count
from bot.hami.version import Version
from bot.kube.models import Container


def _read(text: str) -> tuple[Card, ...]:
    return tuple(msgspec.structs.replace(card, cores=100) for card in read_json(text))


class Biren(Vendor):
    """GPUs that are asked for by their number alone."""

    names = Names(
        word="Biren",
        count="birentech.com/gpu",
        use_uuid="birentech.com/use-gpuuuid",
        no_use_uuid="birentech.com/nouse-gpuuuid",
        register="hami.io/node-biren-register",
        handshake="hami.io/node-handshake-biren",
        allocated=("hami.io/Biren-devices-allocated",),
        read=_read,
    )
    section = "biren"
    since = Version(2, 10, 0)
    plugin_names = "biren-device-plugin"
    node_label = ("biren", "on")
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        return only_count(container, resources, self.names.word)
