"""Where changes are made: one for each cluster, opened when it is first needed and kept."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import NamedTuple, Self

from bot.changes.changer import Changer
from bot.errors import UsageError
from bot.kube.client.writer import Writer
from bot.texts import Text
from handlers.changes.journal import ChangeJournal

OpenWriter = Callable[[str], AbstractAsyncContextManager[Writer | None]]
"""The way to write to the cluster of that name; None for a recording. Raises BotError."""


class NothingToChange(UsageError):  # noqa: N818  # what the person is told
    """The cluster is none that could ever be changed from here."""


class WritableCluster(NamedTuple):
    """One cluster's changes. A pass and what a person asks for take turns (`busy`), so that each is told as theirs."""

    cluster: str
    writer: Writer
    changer: Changer
    journal: ChangeJournal
    busy: asyncio.Lock


class WritableClusters:
    """Use as an async context manager."""

    def __init__(self, open_writer: OpenWriter, build: Callable[[str, Writer], WritableCluster]) -> None:
        self._open = open_writer
        self._build = build
        self._stack = AsyncExitStack()
        self._clusters: dict[str, WritableCluster] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def of(self, cluster: str) -> WritableCluster:
        """Raises BotError when the cluster cannot be written to, NothingToChange when it never can."""
        async with self._opening[cluster]:
            if cluster not in self._clusters:
                writer = await self._stack.enter_async_context(self._open(cluster))
                if writer is None:
                    raise NothingToChange(Text("error-change.is-a-recording", cluster=cluster or "this cluster"))
                self._clusters[cluster] = self._build(cluster, writer)
        return self._clusters[cluster]
