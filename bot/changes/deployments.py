"""The Deployments as they are now, by the API server's clock, and what is due on one, done."""

import contextlib
from collections.abc import Callable
from typing import Any

from bot.changes.decide import Blocked, Ended, Forget, Restore, Retime, Wait, decide, decide_by_copy
from bot.changes.journal import Event, Open
from bot.changes.live_verbosity import level_now, set_running
from bot.changes.manual_revert import by_hand
from bot.changes.plan import Patch, annotation
from bot.changes.record import Record, Unreadable
from bot.changes.unnoticed_end import why_not_carried
from bot.errors import SourceError
from bot.kube.client.writer import Writer

FOREVER = float("inf")

Object = dict[str, Any]
Due = Wait | Restore | Retime | Forget | Blocked | Ended | Unreadable | None


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
        return await self._carried_out(deployment, decide(deployment, now), by, detail)

    async def act_by_copy(
        self, deployment: Object, change: Open, now: float, *, by: str = "", detail: str = ""
    ) -> Event | None:
        """The same for a change that the object does not carry, by the journal's copy; `unreadable` while it waits."""
        due, why = decide_by_copy(deployment, change, now), why_not_carried(deployment, change.record)
        if isinstance(due, Wait):
            return Event("unreadable", change.record.target, change.record, why, source="copy")
        event = await self._carried_out(deployment, due, by, detail)
        if event is None or isinstance(due, Ended):
            return event
        return event._replace(detail="\n".join(filter(None, (why, event.detail))), source="copy")

    async def _carried_out(self, deployment: Object, due: Due, by: str, detail: str) -> Event | None:
        meta = deployment["metadata"]
        target = f"{meta['namespace']}/{meta['name']}"
        match due:
            case Restore(record, patch, kept):
                await set_running(self.writer, deployment, record, record.old)
                await self._patch(deployment, patch)
                return Event("reverted", target, record, "\n".join(filter(None, (detail, kept))), by)
            case Retime(record, patch, detail):
                await self._patch(deployment, patch)
                return Event("retimed", target, record, detail, by)
            case Forget(record, patch, how, diff):
                if how == "drifted":  # pods of the words before may still run
                    await set_running(self.writer, deployment, record, level_now(deployment, record))
                await self._patch(deployment, patch)
                return Event(how, target, record, diff, by)
            case Ended(event, patch):
                if event.kind == "never-raised" and event.record and annotation(deployment) is None:
                    # Of a plan that was carried out a level may be left: by whoever was killed then, and wrote no more.
                    with contextlib.suppress(SourceError):
                        await set_running(self.writer, deployment, event.record, level_now(deployment, event.record))
                await self._patch(deployment, patch)
                return event._replace(by=by)
            case Blocked(record, why):
                return Event("failed", target, record, why, by, by_hand=by_hand(deployment, record))
            case Unreadable(_, why):
                return Event("unreadable", target, None, why)
            case _:
                return None

    async def _patch(self, deployment: Object, patch: Patch) -> None:
        if patch:
            await self.writer.patch_deployment(
                deployment["metadata"]["namespace"], deployment["metadata"]["name"], patch
            )


def place_of(record: Record) -> tuple[str, str]:
    """The namespace and the name of the Deployment that the record is about."""
    namespace, _, name = record.target.partition("/")
    return namespace, name
