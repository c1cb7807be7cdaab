"""The lists that questions read again and again, answered from memory: for a bot that stays, not for one question.

A list is read from the API at its first use, and from then on followed by a watch with the same selectors, so it holds
what the API reported last. Where its watch is refused, or silent for too long, the list is read anew, once for all who
wait. Every other list is read once for all who ask before that reading begins, so that questions of the same moment
hold the same objects; objects by name and logs are read for each caller.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar, Unpack

from bot.kube.client.live import Listed, LiveCluster, Selection
from bot.kube.client.responses import left_out
from bot.kube.cluster import Clocks, Which
from bot.kube.models import NODES, DaemonPod, Holder, Kind, Node, Pod, Resource
from bot.kube.models.base import Kept
from bot.kube.watch.follow import Follower, FollowPace, wait_for_shared

R = TypeVar("R", bound=Resource)

MOST_LISTS = 12
"""The most lists that are followed for one cluster; each keeps one connection open."""
_AS_USUAL = FollowPace()
_OF_ONE_OBJECT = ("metadata.name=", "spec.nodeName=", "involvedObject.")
_UNPLACED = ("status.phase=Pending", "spec.nodeName=")


class WatchCache:
    """The followed lists of one cluster, and shared readings of others. Closing it leaves the live cluster open."""

    def __init__(self, live: LiveCluster, pace: FollowPace = _AS_USUAL) -> None:
        self.live = live
        self._pace = pace
        self.followed: dict[Selection[Any], Follower[Any]] = {}
        self.kept: Kept = {}
        self._next: dict[tuple[Selection[Any], str], asyncio.Task[Listed[Any]]] = {}
        self._running: dict[tuple[Selection[Any], str], asyncio.Task[Listed[Any]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        reading = [*self._next.values(), *self._running.values()]
        for task in reading:
            task.cancel()
        await asyncio.gather(*(follower.close() for follower in self.followed.values()))
        await asyncio.gather(*reading, return_exceptions=True)

    async def listed(self, wanted: Selection[R], namespace: str) -> Listed[R]:
        """Reads a list once for all who ask before it begins; later ones wait for the next. Raises SourceError."""
        key = wanted, namespace
        reading = self._next.get(key)
        if reading is None:
            reading = self._next[key] = asyncio.create_task(self._read(wanted, namespace))
            # A failure is told to those who wait; there may be none any more.
            reading.add_done_callback(lambda read: read.cancelled() or read.exception())
        return await wait_for_shared(reading, f"list of {wanted.kind.plural} in {self.live.name}")

    async def _read(self, wanted: Selection[R], namespace: str) -> Listed[R]:
        key = wanted, namespace
        if before := self._running.get(key):
            await asyncio.wait([before])
        self._running[key] = self._next.pop(key)
        try:
            return await self.live.listed(wanted, namespace)
        finally:
            del self._running[key]

    def follower(self, wanted: Selection[R]) -> Follower[R] | None:
        """The follower of that list, whether or not it has begun; None for a list that is not worth following."""
        known = self.followed.get(wanted)
        if known is None and _is_worth_it(wanted) and len(self.followed) < MOST_LISTS:
            known = self.followed[wanted] = Follower(self.live, wanted, self._pace)
        return known


def _is_worth_it(wanted: Selection[Any]) -> bool:
    """Whether it is a list that many questions read; whole pods are only kept of those that wait for a node."""
    terms = wanted.fields.split(",")
    unplaced = any(term in terms for term in _UNPLACED)
    if any(term.startswith(_OF_ONE_OBJECT) and term not in _UNPLACED for term in terms):
        return False
    return wanted.kind.type in (Node, Holder, DaemonPod) or (wanted.kind.type is Pod and unplaced)


class CachedCluster:
    """A `Cluster` for one question, which reads followed lists from memory, the oldest of them `cache_age_s` old."""

    hami_version_hint = ""

    def __init__(self, cache: WatchCache) -> None:
        live = self._live = cache.live
        self._cache = cache
        self._left_out: dict[tuple[Selection[Any], str], list[str]] = {}
        self.cache_age_s: int | None = None
        self.name, self.context, self.namespace, self.notes = live.name, live.context, live.namespace, live.notes
        self.kept = cache.kept
        self.now, self.server_version = live.now, live.server_version
        self.get, self.raw, self.log = live.get, live.raw, live.log

    def anew(self) -> "CachedCluster":
        """The cluster for another question, with a `cache_age_s` of its own."""
        return CachedCluster(self._cache)

    @property
    def clocks(self) -> Clocks | None:
        return self._live.clocks

    @property
    def undecodable(self) -> Sequence[str]:
        return sorted({name for some in self._left_out.values() for name in some})

    def as_of(self, shown: Iterable[str | None]) -> datetime:
        """The moment to judge ages by, at least `cache_age_s` ago: memory is not known to have been true later."""
        moment = self._live.as_of(shown)
        return min(moment, self.now() - timedelta(seconds=self.cache_age_s)) if self.cache_age_s else moment

    async def list(self, kind: Kind[R], namespace: str = "", **which: Unpack[Which]) -> list[R]:
        wanted = Selection(kind, **which)
        # Whole nodes are followed once, for those too who want a part of each.
        followed: Selection[Any] = (
            Selection(NODES, wanted.labels, wanted.fields) if issubclass(kind.type, Node) else wanted
        )
        follower = None if namespace and kind.namespaced else self._cache.follower(followed)
        if follower is None or not (follower.begun or followed == wanted):
            found = await self._cache.listed(wanted, namespace)
            self._left_out[wanted, namespace] = left_out(kind, found.bad)
            return found.items.copy()
        if (age_s := follower.age_s()) is None:
            age_s = await follower.read()
        if age_s is not None:
            self.cache_age_s = max(self.cache_age_s or 0, math.ceil(age_s))
        self._left_out[wanted, namespace] = left_out(kind, follower.mirror.bad)
        return follower.mirror.items()
