"""What a team's own playbook may read from: the cluster, and HAMi's model. It has no way to change anything."""

import asyncio
import re
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from bot.errors import NotFound
from bot.hami.pods.pod_request import WHOLE_CARD, written
from bot.hami.pods.request_parsing import pod_request
from bot.hami.version import NEWEST_READ
from bot.kube.models import Kind, Pod, Resource
from bot.report import Evidence, Gap
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.scheduling import InstallSeen, gather_install
from playbooks.playbook import Sources


class DeviceRequest(msgspec.Struct, frozen=True):
    """What one container asks HAMi for. Memory and cores are per device.

    `vendor`: HAMi's word for the device, such as `NVIDIA`. `memory_mib` is None if the container asks for a share of
    the memory, `memory_percent`, and `memory_percent` is None if it asks for an amount. `resources`: the names in this
    cluster of the device's resources for count, memory, share and cores, as far as it has them.
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
        """Whether the container asks for whole devices: all of the memory or all of the cores."""
        return WHOLE_CARD in (self.memory_percent, self.cores_percent)


class Hami:
    """How HAMi's scheduler reads pods in a cluster."""

    __slots__ = ("_config", "_version", "gaps", "version")

    def __init__(self, seen: InstallSeen) -> None:
        known = seen.install.version.version if seen.install.version else None
        self._config = seen.config
        self._version = known or NEWEST_READ
        self.version = str(known or "")
        """HAMi's version, such as `2.10.0`; empty if not known. Then requests are read as by the newest version."""
        self.gaps: tuple[Gap, ...] = seen.gaps
        """What of HAMi's configuration could not be read, and what is assumed in its place."""

    def requests(self, pod: Pod) -> tuple[DeviceRequest, ...]:
        """What each container of the pod asks HAMi for; empty for a pod that asks HAMi for nothing."""
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
    """Quotes how many devices the container asks for, or another amount if it names no number."""
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


R = TypeVar("R", bound=Resource)
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9.:_-]+")


class OwnCluster:
    """The cluster that a question is about, live or recorded. Its methods raise `SourceError` and nothing else."""

    __slots__ = ("_loop", "_sources")

    def __init__(self, sources: Sources, loop: asyncio.AbstractEventLoop) -> None:
        """Reads the sources in `loop`, from whatever loop the methods are awaited in."""
        self._sources = sources
        self._loop = loop

    @property
    def name(self) -> str:
        """The cluster's name in the report."""
        return self._sources.cluster.name

    def now(self) -> datetime:
        """The moment that the answer is about; for a recording, when it was made."""
        return self._sources.cluster.now()

    async def list(
        self, kind: Kind[R], namespace: str = "", *, labels: str = "", fields: str = "", most: int = 0
    ) -> "list[R]":
        """All objects of a kind, in one namespace or in all, that match Kubernetes label and field selectors. `most`
        limits how many are read; 0 for all of them.
        """
        cluster = self._sources.cluster
        return await self._read(cluster.list(kind, namespace, labels=labels, fields=fields, most=most))

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        """One object by its name. Raises `NotFound` if there is none. The bot's role may `get` only pods; an object of
        another kind is read by a list of that name.
        """
        if kind.type is Pod:
            return await self._read(self._sources.cluster.get(kind, name, namespace))
        found = await self.list(kind, namespace, fields=f"metadata.name={name}") if _NAME.fullmatch(name) else []
        if not found:
            raise NotFound(Text("error-kube.not-found", resource=kind.plural, name=name))
        return found[0]

    async def hami(self) -> Hami:
        """HAMi as it is installed, which reads what pods ask for as its scheduler does."""
        return Hami(await self._read(gather_install(self._sources)))

    async def _read(self, reading: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reading, self._loop))
