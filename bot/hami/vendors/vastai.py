"""Vastai's cards [HAMi v2.10 pkg/device/vastai/device.go]."""

from collections.abc import Hashable

import msgspec

from bot.hami.fit.verdicts import EXCLUSIVE_CONFLICT, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState, read_json_with_custom
from bot.hami.pods.pod_request import ContainerRequest, Resources
from bot.hami.vendors import standard_fit as checks
from bot.hami.vendors.vendor import Vendor, only_count
from bot.hami.version import Version
from bot.kube.models import Container


def _read(text: str) -> tuple[Card, ...]:
    return tuple(msgspec.structs.replace(card, cores=100) for card in read_json_with_custom(text))


class Vastai(Vendor):
    """Cards, or the dies of cards, that are asked for by their number alone."""

    names = Names(
        word="Vastai",
        count="vastaitech.com/va",
        use_uuid="vastaitech.com/use-gpuuuid",
        no_use_uuid="vastaitech.com/nouse-gpuuuid",
        register="hami.io/node-va-register",
        handshake="hami.io/node-handshake-va",
        allocated=("hami.io/Vastai-devices-allocated",),
        read=_read,
    )
    section = "vastai"
    since = Version(2, 9, 0)
    orders = True
    plugin_labels = "app.kubernetes.io/component=hami-vastai-device-plugin"
    plugin_names = "vastai-device-plugin"
    node_label = ("vastai", "on")
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        return only_count(container, resources, self.names.word)

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        if not in_play or dict(in_play[0].card.custom).get("DeviceStrategy") != "die":
            return super().scan(run, in_play, asked)
        return self._scan_dies(run, in_play, asked)

    def _scan_dies(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        """Dies of one card (AIC) belong together: all that pass are looked at, the largest group is taken first."""
        used = {_card(state) for state in in_play if state.slots > 0}

        def is_shared(run: Run, state: CardState, _: ContainerRequest) -> bool:
            return run.mutex and _card(state) in used

        passed, counts = checks.passing(run, in_play, asked, (*self.card_checks, (EXCLUSIVE_CONFLICT, is_shared)))
        if len(passed) < asked.count:
            return checks.lacking(passed, counts, len(in_play))
        if asked.count > 1:
            passed = checks.of_few_groups(run, passed, _card)
        return passed[: asked.count]


def _card(state: CardState) -> Hashable:
    return dict(state.card.custom).get("AIC")
