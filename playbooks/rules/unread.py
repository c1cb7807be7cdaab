"""A pod that asks for devices in a way that HAMi reads as no request."""

from bot.hami.requests import asked_resources
from bot.hami.vendors import FIRST
from bot.report import NextAction, one_line
from bot.texts import Texts
from playbooks.quotes import kubectl_pod
from playbooks.rules.case import Case

_LONGEST = 80


def unread(case: Case, say: Texts) -> str:
    """The claim about amounts that HAMi takes as no request: a quantity in bytes, or no count."""
    asked = asked_resources(case.pod, case.config)
    amounts = one_line(", ".join(f"{name}: {value}" for name, value in asked.items()), _LONGEST)
    device = next((found for name in asked if (found := case.config.by_resource.get(name))), None)
    version = str(case.version or "")
    if device is None or device.vendor is FIRST:
        return say("no-device-request.unread", version=version, asked=amounts)
    return say("no-device-request.unread-of", version=version, asked=amounts, resource=device.resources.count)


def write_plainly(case: Case, say: Texts) -> NextAction:
    """To give a count and plain numbers, with the unit of the device's memory."""
    asked = asked_resources(case.pod, case.config)
    device = next((found for name in asked if (found := case.config.by_resource.get(name))), case.config.devices[0])
    resources = device.resources
    look = kubectl_pod(case.pod, "get", "-o", "jsonpath={.spec.containers[*].resources}")
    if device.vendor is FIRST:
        return NextAction(say("no-device-request.whole", resource=resources.memory), look)
    if resources.count not in asked or not resources.memory:
        return NextAction(say("no-device-request.fix", resource=resources.count), look)
    unit = resources.memory_factor
    return NextAction(say("no-device-request.units", resource=resources.memory, unit=f"{unit:,}"), look)
