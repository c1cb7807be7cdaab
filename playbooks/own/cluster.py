"""What a playbook of one's own may read from. It has no way to change anything."""

from datetime import datetime
from typing import TypeVar

from bot.kube.models import Kind, Resource
from playbooks.gather.scheduling import gather_install
from playbooks.own.hami import Hami
from playbooks.playbook import Sources

R = TypeVar("R", bound=Resource)


class Cluster:
    """The cluster that a question is about, live or recorded. Its methods raise `SourceError` and nothing else."""

    __slots__ = ("_sources",)

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

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
        return await self._sources.cluster.list(kind, namespace, labels=labels, fields=fields, most=most)

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        """One object. Raises `NotFound` where there is none."""
        return await self._sources.cluster.get(kind, name, namespace)

    async def hami(self) -> Hami:
        """HAMi as it is installed: how its scheduler reads what pods ask for."""
        return Hami(await gather_install(self._sources))
