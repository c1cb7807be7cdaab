"""A pod that HAMi gave another chip than the one that it asks for: to HAMi a device counts whose type has the word.

Rule: HAMi v2.10's filter looks for the device's word in the card's type, so Ascend910B4 takes Ascend910B4-1 too (seen
by running).
"""

from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.pods.allocations import given
from bot.hami.pods.request_parsing import DeviceConfig, device_asked
from bot.kube.models import Pod
from bot.report import Gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.node_side import NodeSide
from playbooks.quotes import kubectl
from playbooks.rules.placed.limit_remarks import Remark


def other_chip(pod: Pod, side: NodeSide, config: DeviceConfig) -> list[Remark]:
    """That the chip is another, where the device config names both; nothing where the node could not be read."""
    device, held = device_asked(pod, config), given(pod.metadata)
    if held is None or isinstance(side.node, Gap):
        return []
    registered = (
        registration for registration in read_registrations(side.node) if isinstance(registration, Registration)
    )
    own = [
        card for registration in registered for card in registration.cards if card.uuid and f"{card.uuid}," in held[1]
    ]
    other = next((card for card in own if card.type != device.word and card.type in config.by_word), None)
    if other is None:
        return []
    count = device.resources.count
    fact = Text("limit-remark.other-chip", type=other.type, resource=count, word=device.word)
    look = kubectl("get", "nodes", "--show-labels")
    advice = step(Text("limit-remark.fix-other-chip", word=device.word), look)
    return [Remark(advice, fact, (quotes.of_card(side.node, other.uuid, whole=True),))]
