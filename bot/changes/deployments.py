"""The Deployments as they are now, by the API server's clock, and what is due on one, done."""

from collections.abc import Callable
from typing import Any

from bot.changes.decide import Blocked, Forget, Restore, Retime, decide
from bot.changes.journal import Event
from bot.changes.live_verbosity import level_now, set_running
from bot.changes.manual_revert import by_hand
from bot.changes.record import Record, Unreadable
from bot.kube.client.writer import Writer

FOREVER = float("inf")

Object = dict[str, Any]


class Objects:
    """Those of one cluster. `now` is this process's clock, in seconds since 1970."""

    def __init__(self, writer: Writer, now: Callable[[], float]) -> None:
        self.writer = writer
        self._now = now

    def time(self) -> float:
        """Now, by the API server's clock; by this process's own before the server's first answer."""
        served = self.writer.clock.time()
        return self._now() if served is None else served

    def skew_s(self) -> float:
        """How many seconds this process's clock is ahead of the API server's; negative: behind."""
        return self._now() - self.time()

    async def read(self, namespace: str, name: str) -> Object:
        """The Deployment, fresh. Raises SourceError."""
        return await self.writer.deployment(namespace, name)

    async def act(self, deployment: Object, now: float, *, by: str = "", detail: str = "") -> Event | None:
        """Does what is due at `now`. Raises Conflict if the object changed, OutcomeUnknown, SourceError."""
        meta = deployment["metadata"]
        target = f"{meta['namespace']}/{meta['name']}"
        match decide(deployment, now):
            case Restore(record, patch, kept):
                await set_running(self.writer, deployment, record, record.old)
                await self.writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event("reverted", target, record, "\n".join(filter(None, (detail, kept))), by)
            case Retime(record, patch, detail):
                await self.writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event("retimed", target, record, detail, by)
            case Forget(record, patch, how, diff):
                if how == "drifted":  # pods of the words before may still run
                    await set_running(self.writer, deployment, record, level_now(deployment, record))
                await self.writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event(how, target, record, diff, by)
            case Blocked(record, why):
                return Event("failed", target, record, why, by, by_hand=by_hand(deployment, record))
            case Unreadable(_, why):
                return Event("unreadable", target, None, why)
            case _:
                return None


def place_of(record: Record) -> tuple[str, str]:
    """The namespace and the name of the Deployment that the record is about."""
    namespace, _, name = record.target.partition("/")
    return namespace, name
