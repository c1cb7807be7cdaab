"""Vastai's cards [HAMi v2.10 pkg/device/vastai/device.go]."""

from collections.abc import Hashable

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import EXCLUSIVE_CONFLICT, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState, read_custom_of_100
from bot.hami.pods.pod_request import ContainerRequest
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version


class Vastai(Vendor):
    """Vastai's cards, or the dies of its cards, of which containers request a number and nothing else."""

    names = Names(
        word="Vastai",
        count="vastaitech.com/va",
        use_uuid="vastaitech.com/use-gpuuuid",
        no_use_uuid="vastaitech.com/nouse-gpuuuid",
        register="hami.io/node-va-register",
        handshake="hami.io/node-handshake-va",
        allocated=("hami.io/Vastai-devices-allocated",),
        read=read_custom_of_100,
    )
    section = "vastai"
    since = Version(2, 9, 0)
    orders = True
    plugin_labels = "app.kubernetes.io/component=hami-vastai-device-plugin"
    plugin_names = "vastai-device-plugin"
    node_label = ("vastai", "on")
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX)
    each = (0, 0, 0)

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        if not in_play or dict(in_play[0].card.custom).get("DeviceStrategy") != "die":
            return super().scan(run, in_play, asked)
        # Dies of one card (AIC) belong together: all that pass are looked at, the largest group is taken first.
        used = {_card(state) for state in in_play if state.slots > 0}
        shared: checks.Check = (EXCLUSIVE_CONFLICT, lambda run, state, _: run.mutex and _card(state) in used)
        passed, counts = checks.passing(run, in_play, asked, (*self.card_checks, shared))
        if len(passed) < asked.count:
            return checks.lacking(passed, counts, len(in_play))
        if asked.count > 1:
            passed = checks.of_few_groups(run, passed, _card)
        return passed[: asked.count]


def _card(state: CardState) -> Hashable:
    return dict(state.card.custom).get("AIC")
