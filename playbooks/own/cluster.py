"""What a playbook of one's own may read from. It has no way to change anything."""

import asyncio
import re
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, TypeVar

from bot.errors import NotFound
from bot.kube.models import Kind, Pod, Resource
from bot.texts import Text
from playbooks.gather.scheduling import gather_install
from playbooks.own.hami import Hami
from playbooks.playbook import Sources

R = TypeVar("R", bound=Resource)
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9.:_-]+")


class Cluster:
    """The cluster that a question is about, live or recorded. Its methods raise `SourceError` and nothing else."""

    __slots__ = ("_loop", "_sources")

    def __init__(self, sources: Sources, loop: asyncio.AbstractEventLoop) -> None:
        """`loop`: where the sources are read, from whatever loop the methods are awaited in."""
        self._sources = sources
        self._loop = loop

    @property
    def name(self) -> str:
        """The name that the report carries."""
        return self._sources.cluster.name

    def now(self) -> datetime:
        """The moment that the answer is about; of a recording when it was made."""
        return self._sources.cluster.now()

    async def list(
        self, kind: Kind[R], namespace: str = "", *, labels: str = "", fields: str = "", most: int = 0
    ) -> "list[R]":
        """All objects of a kind, in one namespace or in all, that match Kubernetes label and field selectors.

        `most`: no more are read; 0 for all of them.
        """
        cluster = self._sources.cluster
        return await self._read(cluster.list(kind, namespace, labels=labels, fields=fields, most=most))

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        """One object. Raises `NotFound` where there is none.

        The bot may `get` pods alone; of the other kinds it may list the one of that name.
        """
        if kind.type is Pod:
            return await self._read(self._sources.cluster.get(kind, name, namespace))
        found = await self.list(kind, namespace, fields=f"metadata.name={name}") if _NAME.fullmatch(name) else []
        if not found:
            raise NotFound(Text("error-kube.not-found", resource=kind.plural, name=name))
        return found[0]

    async def hami(self) -> Hami:
        """HAMi as it is installed: how its scheduler reads what pods ask for."""
        return Hami(await self._read(gather_install(self._sources)))

    async def _read(self, reading: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reading, self._loop))
