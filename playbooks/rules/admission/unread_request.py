"""A pod that asks for devices in a way that HAMi reads as no request."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from bot.hami.pods.allocations import given
from bot.hami.pods.request_parsing import DeviceConfig, asked_resources, pod_request
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.hami.webhook import DEFAULT_SCHEDULERS, LEAVES_OWN_ALONE
from bot.kube.models import Pod
from bot.report import Evidence, Finding, NextAction, one_line, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.placed_pod import PlacedScene

_LONGEST = 80
_ASKS_NOTHING = "does not request any resource"
"""HAMi's event of a pod that its extender lets pass; 2.10 logs it only."""


def unread(pod: Pod, config: DeviceConfig, version: Version | None) -> Text:
    """The claim about amounts that HAMi takes as no request: a quantity in bytes, or no count."""
    asked = asked_resources(pod, config)
    amounts = one_line(", ".join(f"{name}: {value}" for name, value in asked.items()), _LONGEST)
    device = next((found for name in asked if (found := config.by_resource.get(name))), None)
    text = str(version or "")
    if passed_over(pod, config, version):
        scheduler, count = pod.spec.scheduler_name or "?", config.gpus.count
        return Text("no-device-request.own-name", version=text, asked=amounts, resource=count, scheduler=scheduler)
    if device is None or device.vendor is FIRST:
        return Text("no-device-request.unread", version=text, asked=amounts)
    return Text("no-device-request.unread-of", version=text, asked=amounts, resource=device.resources.count)


def passed_over(pod: Pod, config: DeviceConfig, version: Version | None) -> bool:
    """Whether the pod asks for a part of a GPU without a count, and this version's webhook adds none to it.

    2.7 and 2.8 leave a pod as it is that names any scheduler but the default one, HAMi's own among them.
    """
    asked, gpus = asked_resources(pod, config), config.gpus
    since, until = LEAVES_OWN_ALONE
    named = pod.spec.scheduler_name not in (None, *DEFAULT_SCHEDULERS)
    partly = gpus.count not in asked and not {gpus.memory, gpus.percentage, gpus.cores}.isdisjoint(asked)
    return version is not None and since <= version < until and named and partly


def write_plainly(pod: Pod, config: DeviceConfig, version: Version | None) -> NextAction:
    """To give a count and plain numbers, with the unit of the device's memory."""
    asked = asked_resources(pod, config)
    device = next((found for name in asked if (found := config.by_resource.get(name))), config.devices[0])
    resources = device.resources
    look = kubectl_pod(pod, "get", "-o", "jsonpath={.spec.containers[*].resources}")
    if passed_over(pod, config, version):
        return step(Text("no-device-request.add-count", resource=config.gpus.count), look)
    if device.vendor is FIRST:
        return step(Text("no-device-request.whole", resource=resources.memory), look)
    if resources.count not in asked or not resources.memory:
        return step(Text("no-device-request.add", resource=resources.count), look)
    unit = resources.memory_factor
    return step(Text("no-device-request.units", resource=resources.memory, unit=f"{unit:,}"), look)


@rule("no-device-request", reads=("install",))
def given_nothing(scene: PlacedScene) -> Iterable[Finding]:
    """HAMi's scheduler placed the pod and gave it nothing, as it read no request in what the pod asks for."""
    pod = scene.pod
    if given(pod.metadata) or pod.spec.scheduler_name != scene.install.scheduler_name:
        return []
    said = [quotes.of_event(event) for event in scene.events if _ASKS_NOTHING in event.message][-1:]
    return unread_containers(pod, scene.config, scene.version, said)


def unread_containers(
    pod: Pod, config: DeviceConfig, version: Version | None, said: Sequence[Evidence] = ()
) -> list[Finding]:
    """The containers of whose amounts HAMi reads no request: they get no device, wherever the pod goes.

    `said`: HAMi's words about it.
    """
    if version is None:
        return []
    found: list[Finding] = []
    for container in pod.spec.containers:
        alone = structs.replace(pod, spec=structs.replace(pod.spec, containers=[container], init_containers=None))
        names = (config.by_resource.get(name) for name in asked_resources(alone, config))
        known = [device for device in names if device and version >= device.vendor.since]
        if known and not pod_request(alone, config, version).containers:
            claim = unread(alone, config, version)
            if len(pod.spec.containers) > 1:
                claim = Text("no-device-request.container", container=container.name, claim=claim)
            asked = asked_resources(alone, config)
            proofs = [*(quotes.of_resource(pod, name, value) for name, value in asked.items()), *said]
            step = write_plainly(alone, config, version)
            found.append(
                finding("no-device-request", claim, "confirmed", (), proofs, severity="warning", actions=[step])
            )
    return found
