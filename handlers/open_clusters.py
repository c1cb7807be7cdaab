"""The clusters of a bot that stays: each opened once, for all questions."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Self

from bot.errors import NoSuchCluster
from bot.kube.watch.cache import CachedCluster
from playbooks.playbook import Sources

Opener = Callable[[str], AbstractAsyncContextManager[Sources]]


class KeptOpen:
    """Every cluster is opened at its first question and stays open: a login can take seconds.

    Who asks while it is being opened waits for the same attempt, and shares its error. `known` are the names that there
    are, `usual` is the cluster without a name. What is kept of a cluster is one for all questions; how old it was is
    told to each question by itself.
    """

    def __init__(self, open_sources: Opener, known: Collection[str], usual: str) -> None:
        self._open = open_sources
        self._known = known
        self._usual = usual
        self._stack = AsyncExitStack()
        self._sources: dict[str, asyncio.Task[Sources]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for attempt in self._sources.values():
            attempt.cancel()
        await asyncio.gather(*self._sources.values(), return_exceptions=True)
        await self._stack.aclose()

    @asynccontextmanager
    async def get(self, cluster: str) -> AsyncGenerator[Sources]:
        """Raises BotError when the cluster cannot be opened, NoSuchCluster for a name that is not known."""
        if cluster and cluster not in self._known:
            raise NoSuchCluster(cluster, self._known)
        kept = await asyncio.shield(self._attempt(cluster or self._usual))
        yield kept._replace(cluster=kept.cluster.anew()) if isinstance(kept.cluster, CachedCluster) else kept

    def _attempt(self, cluster: str) -> asyncio.Task[Sources]:
        if cluster not in self._sources:
            attempt = asyncio.create_task(self._stack.enter_async_context(self._open(cluster)))
            self._sources[cluster] = attempt
            attempt.add_done_callback(lambda _: self._forget_if_failed(cluster))
        return self._sources[cluster]

    def _forget_if_failed(self, cluster: str) -> None:
        attempt = self._sources[cluster]
        if attempt.cancelled() or attempt.exception():
            del self._sources[cluster]
