"""What could not be seen, gathered from where it was noticed."""

from collections.abc import Sequence

from bot.hami.pods.request_parsing import asked_resources
from bot.report import Confidence, Gap, gap
from bot.texts import Text, in_english
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.waiting_pod import PodScene


def capacity_gaps(install: InstallSeen, capacity: Capacity, undecodable: Sequence[str]) -> list[Gap]:
    """The install's and the cards' gaps; HAMi's version is one of its own."""
    gaps = [*install.gaps, *capacity.gaps]
    if install.install.version is None and install.presence != "absent":
        gaps.append(gap("HAMi version", Text("gap.version"), Text("gap.version-hint")))
    return gaps + [gap("objects", name, Text("gap.undecodable")) for name in undecodable]


def scene_gaps(scene: ClusterScene, undecodable: Sequence[str]) -> list[Gap]:
    """What could not be read of what decides about pods that wait."""
    gaps = [*capacity_gaps(scene.seen, scene.capacity, undecodable), *scene.messages.gaps]
    gaps += [*scene.process.gaps, *scene.questioned.gaps, *(scene.webhook.gaps if scene.webhook else ())]
    return gaps + [gap for gap in scene.lock_owners.values() if isinstance(gap, Gap)]


def confidence_in(install: InstallSeen, capacity: Capacity, undecodable: Sequence[str]) -> Confidence:
    """Sure only when everything that decides was read: a holder that could not be may fill a card."""
    unread = capacity.gaps or undecodable or install.install.version is None
    return "suspected" if unread else "confirmed"


def fit_gaps(scene: PodScene) -> list[Gap]:
    """Where our own fit knows no verdict, it says so."""
    unknown = sorted(
        {verdict.unknown for verdict in scene.verdicts.values() if verdict.fits is None and verdict.unknown},
        key=in_english,
    )
    gaps = [gap("fit", why, Text("gap.fit-hint")) for why in unknown]
    chances = {verdict.said for verdict in scene.verdicts.values() if verdict.instead}
    gaps += [gap("fit", Text("gap.chance", reasons=reasons), Text("gap.fit-hint")) for reasons in sorted(chances)[:1]]
    vendors = other_vendors(scene)
    return gaps + [gap("fit", Text("gap.vendor", resource=name), Text("gap.fit-hint")) for name in vendors]


def other_vendors(scene: PodScene) -> list[str]:
    """The resources of vendors whose fit is not modelled that the pod asks for."""
    devices = scene.config.devices
    domains = tuple(
        f"{domain}/" for device in devices for domain in (device.names.domain, device.resources.count.split("/")[0])
    )
    asked = asked_resources(scene.pod, scene.config)
    return [name for name in asked if name not in scene.config.by_resource and not name.startswith(domains)]
