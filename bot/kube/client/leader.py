"""Leadership by a Lease: one of several replicas does the work, and stops before another can begin.

The official client's election does not stop on an API server's outage and never releases, so this is our own, by the
rules of client-go's tools/leaderelection: no clock is compared with the Lease's times, only how long this process has
seen the Lease unchanged. Work under a Lease must still be safe when two processes do it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bot.errors import NotFound, SourceError
from bot.kube.client.writer import Writer

log = logging.getLogger(__name__)


class Rhythm(NamedTuple):
    """Seconds of leader election: how long a Lease holds, after which silence the leader stops, between tries."""

    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0


class Leader:
    """A candidate for leadership; no other process has its `identity`. `leading` tells whether the work runs here,
    `taken` whether another one held the Lease when it was last read. `clock` and `sleep` count monotonic seconds.
    """

    def __init__(
        self,
        writer: Writer,
        namespace: str,
        name: str,
        identity: str,
        *,
        rhythm: Rhythm = Rhythm(),  # noqa: B008  # immutable
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._writer = writer
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._rhythm = rhythm
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._wall = wall
        self.taken = False
        self._seen = ""
        self._seen_at = 0.0
        self.leading = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work whenever this candidate leads, until it is cancelled; then releases the Lease. `work` is
        cancelled and awaited when leadership is lost, and begun anew when it is won again. An error of `work` ends the
        run, and so does one that is no SourceError while renewing the Lease.
        """
        try:
            while True:
                while not await self._try(self._rhythm.renew_s / 2):
                    await self._sleep(self._rhythm.retry_s * (1 + self._jitter()))
                log.info("leading as %s", self._identity)
                await self._lead(work)
        finally:
            await self._release()

    async def _lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        working = asyncio.create_task(work())
        renewing = asyncio.create_task(self._keep())
        self.leading = True
        try:
            ended, _ = await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            self.leading = False
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
        log.warning("not leading any more")

    async def _keep(self) -> None:
        """Returns when the Lease could not be renewed for so long that another may take it soon."""
        deadline = self._clock() + self._rhythm.renew_s
        while (left := deadline - self._clock()) > 0:
            await self._sleep(min(self._rhythm.retry_s, left))
            began = self._clock()
            if await self._try(deadline - began):
                deadline = began + self._rhythm.renew_s
            elif self.taken:
                return

    async def _try(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await self._take()
        except (SourceError, TimeoutError) as error:
            log.warning("the lease %s/%s: %s", self._namespace, self._name, error)
            return False

    async def _take(self) -> bool:
        try:
            lease = await self._writer.lease(self._namespace, self._name)
        except NotFound:
            await self._writer.create_lease(self._namespace, self._claimed({"metadata": {"name": self._name}}))
            return True
        holder = _spec(lease).get("holderIdentity") or ""
        version = str(lease.get("metadata", {}).get("resourceVersion", ""))
        if version != self._seen:
            self._seen, self._seen_at = version, self._clock()
        if holder not in ("", self._identity):
            held_s = float(_spec(lease).get("leaseDurationSeconds") or self._rhythm.lease_s)
            if self._clock() - self._seen_at < held_s:
                self.taken = True
                return False
        written = await self._writer.replace_lease(self._namespace, self._claimed(lease))
        self._seen, self._seen_at = str(written.get("metadata", {}).get("resourceVersion", "")), self._clock()
        self.taken = False
        return True

    def _claimed(self, lease: dict[str, Any]) -> dict[str, Any]:
        # Kubernetes' MicroTime: RFC 3339 with exactly six digits of a second.
        before, now = _spec(lease), datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = before.get("holderIdentity") == self._identity
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._rhythm.lease_s),
            "acquireTime": before.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours else 1),
        }
        return {**lease, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}

    async def _release(self) -> None:
        """Gives the Lease up, so that another need not wait; it lapses by itself if this fails."""
        try:
            async with asyncio.timeout(self._rhythm.retry_s):
                lease = await self._writer.lease(self._namespace, self._name)
                if _spec(lease).get("holderIdentity") == self._identity:
                    # As client-go writes it: a holder that is empty, not absent, is refused by newer servers.
                    spec = {**_spec(lease), "holderIdentity": None, "leaseDurationSeconds": 1}
                    await self._writer.replace_lease(self._namespace, {**lease, "spec": spec})
        except (SourceError, TimeoutError) as error:
            log.warning("the lease %s/%s could not be released: %s", self._namespace, self._name, error)


def _spec(lease: dict[str, Any]) -> dict[str, Any]:
    return lease.get("spec") or {}
