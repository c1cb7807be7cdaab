"""The rows of temporary changes, and of changes that wait for somebody else's approval (`Approvals`).

A row's copy of the record reverts a change whose own is damaged or gone, and shows what ended while nobody looked.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement, Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.changes.journal import ENDS, ChangeEvent, KnownChange
from bot.changes.record import Record, read_record, with_times_of, write_record
from bot.store.audit import Audit, AuditedRows, AuditLine
from bot.store.base import TakenError, columns
from bot.store.tables import approvals, audit, changes

log = logging.getLogger(__name__)

_LATER = {"planned": 0, "raised": 1, "effective": 2}


class ChangeRows(AuditedRows):
    """The rows of one cluster's temporary changes."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], audit_log: Audit, cluster: str) -> None:
        super().__init__(engine, now, audit_log)
        self._cluster = cluster

    async def planned(self, record: Record, uid: str, line: AuditLine | None = None) -> None:
        """Notes a planned change, in place of its earlier plan; `line` goes to the audit log the first time only."""
        values = {"uid": uid, "record": write_record(record), "updated_at": self._now()}
        async with self._audit.transaction("noting a planned change") as (connection, write):
            here = (changes.c.id == record.id) & (changes.c.state == "planned")
            if (await connection.execute(update(changes).where(here).values(**values))).rowcount == 0:
                fresh = self._fresh(record) | values
                await connection.execute(insert(changes).values(**fresh))
                if line is not None:
                    await write(line)

    async def note(self, event: ChangeEvent, line: AuditLine | None = None) -> bool:
        """Notes an event of a change, with `line` in the audit log; False, and nothing written, where it is no news."""
        if event.record is None:
            return False
        with contextlib.suppress(TakenError):  # another replica noted it first
            async with self._audit.transaction("noting what became of a change") as (connection, write):
                here = changes.c.id == event.record.id
                row = (await connection.execute(select(changes).where(here).with_for_update())).first()
                values = _after(event, columns(row) if row else self._fresh(event.record))
                if not values:
                    return False
                values |= {"updated_at": self._now()}
                if row is None:  # its row was lost, the change was not
                    fresh = self._fresh(event.record) | values
                    await connection.execute(insert(changes).values(**fresh))
                else:
                    await connection.execute(update(changes).where(here).values(**values))
                if line is not None:
                    await write(line)
                return True
        return False

    async def is_news(self, event: ChangeEvent) -> bool:
        """Whether `note` would change anything: for work that must be done before the event is noted."""
        if event.record is None:
            return False
        here = select(changes).where(changes.c.id == event.record.id)
        row = await self._first("looking what is known of a change", here)
        return bool(_after(event, columns(row) if row else self._fresh(event.record)))

    async def known(self, change_id: str) -> KnownChange | None:
        """The change, ended or not; None for one that was never begun, or whose row cannot be read."""
        row = await self._first("looking what is known of a change", select(changes).where(changes.c.id == change_id))
        return _known(row) if row else None

    async def opened(self) -> list[KnownChange]:
        """The cluster's changes that have not ended, the oldest first."""
        wanted = select(changes).where(changes.c.cluster == self._cluster, changes.c.state.in_(_LATER))
        rows = await self._read("reading the open changes", wanted.order_by(changes.c.created_at))
        return list(filter(None, map(_known, rows)))

    def _fresh(self, record: Record) -> dict[str, Any]:
        return {
            "id": record.id,
            "cluster": self._cluster,
            "target": record.target,
            "uid": "",
            "state": "planned",
            "record": write_record(record),
            "trouble": "",
            "created_at": self._now(),
            "updated_at": self._now(),
        }


def _known(row: Row[Any]) -> KnownChange | None:
    record = read_record(row.record)
    if isinstance(record, Record):
        return KnownChange(record, row.uid, row.state)
    log.error("the store's copy of the change %s of %s cannot be used: %s", row.id, row.target, record.why)
    return None


def _after(event: ChangeEvent, row: dict[str, Any]) -> dict[str, Any]:
    """What the event changes in the row; nothing if it is no news."""
    record = event.record
    # That a change was never raised is inferred from not seeing it: one that is seen later was on its way.
    seen = row["state"] == "never-raised" and event.kind in (ENDS | _LATER.keys()) - {"never-raised"}
    if record is None or not (row["state"] in _LATER or seen):
        return {}
    if event.kind in ENDS:
        return {"state": event.kind, "trouble": event.detail}
    known = read_record(row["record"])
    # On the object somebody may have edited how to revert it.
    text = write_record(with_times_of(known, record) if isinstance(known, Record) else record)
    if event.kind in ("extended", "retimed"):
        return {} if row["record"] == text else {"record": text}
    if event.kind in _LATER:
        if _LATER[event.kind] <= _LATER.get(row["state"], -1):
            return {}
        uid = {"uid": event.uid} if event.uid else {}
        return {"state": event.kind, "record": text, "trouble": ""} | uid
    return {"trouble": event.detail} if row["trouble"] != event.detail else {}


Decision = Literal["approved", "refused", "void"]
State = Literal["pending", "expired", "done", "not-done"] | Decision
"""An approval's state. `done`: the change was begun, and its row tells its outcome; `not-done`: `reason` says why."""
EXPIRES_S = 600.0
"""Seconds until an approval that nobody gave expires."""
_LATELY_S = 3600.0
_OTHER_CLOCK_S = 24 * 3600.0
_COUNTED = ("requested", "over-limit")


class Approval(msgspec.Struct, frozen=True):
    """A change that waits for somebody else's approval. It is decided once, by whoever comes first, and for good:
    pending -> approved | refused | expired | void; later approved -> done | not-done. `digest` is of exactly what is
    approved, `request` (JSON) what is done then. `expires_at` is in seconds since 1970, by the clock of the cluster's
    API server, which replicas share, as is every `now` below.
    """

    id: str
    cluster: str
    target: str
    digest: str
    requester: str
    channel: str
    request: str
    state: State = "pending"
    decided_by: str = ""
    reason: str = ""
    expires_at: float = 0.0

    def as_of(self, now: float) -> "Approval":
        """The approval as it is at `now`: expired where nobody decided in time."""
        late = self.state == "pending" and self.expires_at <= now
        return msgspec.structs.replace(self, state="expired") if late else self

    @property
    def decision(self) -> State:
        """The decision on the approval, without what came of the change: `approved` also for one that is done."""
        return "approved" if self.state in ("done", "not-done") else self.state


class Approvals(AuditedRows):
    """The rows of changes that wait for somebody else's approval."""

    async def ask(self, asked: Approval, now: float) -> Approval:
        """Adds an approval that is pending for `EXPIRES_S` from now on, and gives its row."""
        row = msgspec.structs.replace(asked, expires_at=now + EXPIRES_S)
        new = insert(approvals).values(**msgspec.structs.asdict(row), created_at=now, decided_at=0.0)
        await self._write("noting what is to be approved", new)
        return row

    async def get(self, change_id: str) -> Approval | None:
        """The approval of a change, None without one; a pending one may have expired (`Approval.as_of`)."""
        row = await self._first("reading an approval", select(approvals).where(approvals.c.id == change_id))
        return _approval(row) if row else None

    async def decide(
        self, change_id: str, state: Decision, *, now: float, by: str, reason: str = "", line: AuditLine | None = None
    ) -> bool:
        """Decides an approval, with `line` in the audit log; False where it was decided before, or had expired."""
        here = (approvals.c.state == "pending") & (approvals.c.expires_at > now)
        return await self._move(change_id, here, line, state=state, decided_by=by, reason=reason, decided_at=now)

    async def clusters(self) -> list[str]:
        """The names of the clusters with an approval that is pending or approved, or was refused in the last day."""
        lately = approvals.c.decided_at > self._now() - _LATELY_S - _OTHER_CLOCK_S
        here = approvals.c.state.in_(("pending", "approved")) | (approvals.c.state.in_(("refused", "void")) & lately)
        wanted = select(approvals.c.cluster).where(here).distinct().order_by(approvals.c.cluster)
        return [str(cluster) for cluster in await self._scalars("reading approvals", wanted)]

    async def to_look_after(self, cluster: str, seconds: float, *, now: float) -> list[Approval]:
        """A cluster's approvals that need attention, the oldest first: pending ones, shown as expired where nobody
        decided in time; those approved at least `seconds` ago without a noted outcome; those refused or void in the
        last hour.
        """
        waiting = approvals.c.state == "pending"
        unfinished = (approvals.c.state == "approved") & (approvals.c.decided_at <= now - seconds)
        ended = approvals.c.state.in_(("refused", "void")) & (approvals.c.decided_at > now - _LATELY_S)
        here = (approvals.c.cluster == cluster) & (waiting | unfinished | ended)
        wanted = select(approvals).where(here).order_by(approvals.c.created_at)
        return [_approval(row).as_of(now) for row in await self._read("reading approvals", wanted)]

    async def expire(self, change_id: str, line: AuditLine, *, now: float) -> bool:
        """Ends an approval that nobody decided in time, with `line` in the audit log; False where none was ended."""
        here = (approvals.c.state == "pending") & (approvals.c.expires_at <= now)
        return await self._move(change_id, here, line, state="expired", decided_at=now)

    async def finish(
        self, change_id: str, state: Literal["done", "not-done"], *, reason: str = "", line: AuditLine | None = None
    ) -> bool:
        """Notes what came of an approved change, with `line` in the audit log; False where it was not approved."""
        return await self._move(change_id, approvals.c.state == "approved", line, state=state, reason=reason)

    async def _move(
        self, change_id: str, here: ColumnElement[bool], line: AuditLine | None, **values: str | float
    ) -> bool:
        moved = update(approvals).where(approvals.c.id == change_id, here).values(**values)
        async with self._audit.transaction("noting a decision") as (connection, write):
            if (await connection.execute(moved)).rowcount != 1:
                return False
            if line is not None:
                await write(line)
            return True

    async def count_requests(self, actor: str, since: str) -> int:
        """Counts the changes that `actor` asked for since `since` (RFC 3339), by the audit log, less those over the
        limit. Each is logged before it is counted, so that of two at once, in any replica, none goes uncounted.
        """
        here = (audit.c.actor == actor) & (audit.c.at >= since) & audit.c.outcome.in_(_COUNTED)
        counted = select(audit.c.outcome, func.count().label("n")).where(here).group_by(audit.c.outcome)
        found = {row.outcome: int(row.n) for row in await self._read("counting changes", counted)}
        return found.get("requested", 0) - found.get("over-limit", 0)


def _approval(row: Row[Any]) -> Approval:
    return Approval(*(getattr(row, name) for name in Approval.__struct_fields__))
