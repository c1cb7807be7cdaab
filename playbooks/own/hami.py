"""HAMi's model as a playbook of one's own may use it."""

from typing import NamedTuple

from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.pods.pod_request import WHOLE_CARD, written
from bot.hami.pods.request_parsing import pod_request
from bot.kube.models import Pod
from bot.report import Evidence, Gap
from playbooks import quotes
from playbooks.gather.scheduling import InstallSeen


class DeviceRequest(NamedTuple):
    """What one container asks HAMi for. Memory and cores are per device.

    `vendor`: HAMi's word for the device, such as `NVIDIA`. `memory_mib` is None where the container asks for a share of
    the memory, `memory_percent`, and `memory_percent` is None where it asks for an amount. `resources`: what count,
    memory, share and cores of the device are called here, as far as it has them.
    """

    container: str
    vendor: str
    devices: int
    memory_mib: int | None
    memory_percent: int | None
    cores_percent: int
    is_init: bool
    resources: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each device is asked for whole: all its memory or all its cores."""
        return WHOLE_CARD in (self.memory_percent, self.cores_percent)


class Hami:
    """How HAMi's scheduler reads pods in a cluster."""

    __slots__ = ("_config", "_version", "gaps", "version")

    def __init__(self, seen: InstallSeen) -> None:
        known = seen.install.version.version if seen.install.version else None
        self._config = seen.config
        self._version = known or NEWEST_READ
        self.version = str(known or "")
        """Such as `2.10.0`; empty where nothing tells it. Then requests are read as by the newest version."""
        self.gaps: tuple[Gap, ...] = seen.gaps
        """What of HAMi's configuration could not be read, and what is assumed in its place."""

    def requests(self, pod: Pod) -> tuple[DeviceRequest, ...]:
        """What each container asks for; none for a pod that asks HAMi for nothing."""
        return tuple(
            DeviceRequest(
                container=request.container,
                vendor=request.vendor or request.word,
                devices=request.count,
                memory_mib=request.memory_mib if request.is_fixed else None,
                memory_percent=None if request.is_fixed else request.percentage,
                cores_percent=request.cores,
                is_init=request.init,
                resources=self._config.of(request.word).all,
            )
            for request in pod_request(pod, self._config, self._version).containers
        )


def quote_of_request(pod: Pod, request: DeviceRequest) -> Evidence:
    """How many devices the container asks for, as its pod says; another of its amounts where it names no number."""
    kind, containers = (
        ("initContainers", pod.spec.init_containers or ()) if request.is_init else ("containers", pod.spec.containers)
    )
    for container in containers:
        for resource in request.resources if container.name == request.container else ():
            if (amount := written(container, resource)) is not None:
                limits = container.resources.limits if container.resources else None
                of = "limits" if resource in (limits or {}) else "requests"
                return quotes.of_resource(pod, resource, str(amount), kind=kind, of=of)
    return quotes.of_pod_name(pod)
