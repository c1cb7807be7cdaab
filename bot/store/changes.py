"""The rows of temporary changes, and of changes that wait for somebody else's yes (`Approvals`).

The record on the object says how a change is reverted; the row's copy does where that record is damaged or gone. It
also serves for telling, and for noticing what ended unseen.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

from sqlalchemy import ColumnElement, Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.changes.journal import ENDS, ChangeEvent, Open
from bot.changes.record import Record, UnreadableRecord, read_record, with_times_of, write_record
from bot.store.audit import Audit, AuditedRows, AuditLine
from bot.store.engine import TakenError, columns
from bot.store.tables import approvals, audit, changes

log = logging.getLogger(__name__)

_LATER = {"planned": 0, "raised": 1, "effective": 2}


class KnownRecord(NamedTuple):
    """The record as it was last seen, or planned. `state`: planned, raised, effective, or how it ended."""

    record: Record
    state: str


class ChangeRows(AuditedRows):
    """The changes of one cluster."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], audit_log: Audit, cluster: str) -> None:
        super().__init__(engine, now, audit_log)
        self._cluster = cluster

    async def planned(self, record: Record, uid: str, line: AuditLine | None = None) -> None:
        """Before anything is written to the cluster. Planned again (another attempt) it replaces the plan.

        The first time `line` is in the audit log with it.
        """
        values = {"uid": uid, "record": write_record(record), "updated_at": self._now()}
        async with self._audit.transaction("noting a planned change") as (connection, write):
            here = (changes.c.id == record.id) & (changes.c.state == "planned")
            if (await connection.execute(update(changes).where(here).values(**values))).rowcount == 0:
                fresh = self._fresh(record) | values
                await connection.execute(insert(changes).values(**fresh))
                if line is not None:
                    await write(line)

    async def note(self, event: ChangeEvent, line: AuditLine | None = None) -> bool:
        """Whether this is news, and `line` is in the audit log: the same event again, and anything after the end,
        changes nothing.
        """
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
        """Whether `note` would change anything. For what has to be done before it is noted, or be lost with us."""
        if event.record is None:
            return False
        here = select(changes).where(changes.c.id == event.record.id)
        row = await self._first("looking what is known of a change", here)
        return bool(_after(event, columns(row) if row else self._fresh(event.record)))

    async def known(self, change_id: str) -> KnownRecord | None:
        """None for a change that was never begun."""
        wanted = select(changes.c.record, changes.c.state).where(changes.c.id == change_id)
        row = await self._first("looking what is known of a change", wanted)
        record = read_record(row.record) if row else None
        return KnownRecord(record, row.state) if row and isinstance(record, Record) else None

    async def opened(self) -> list[Open]:
        """The changes that have not ended, the oldest first."""
        wanted = select(changes).where(changes.c.cluster == self._cluster, changes.c.state.in_(_LATER))
        rows = await self._read("reading the open changes", wanted.order_by(changes.c.created_at))
        found: list[Open] = []
        for row in rows:
            record = read_record(row.record)
            if isinstance(record, UnreadableRecord):
                log.error("the store's copy of the change %s of %s cannot be used: %s", row.id, row.target, record.why)
            else:
                state = cast(Literal["planned", "raised", "effective"], row.state)
                found.append(Open(record, row.uid, state))
        return found

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


def _after(event: ChangeEvent, row: dict[str, Any]) -> dict[str, Any]:
    """What the event changes in the row; nothing if it is no news."""
    record = event.record
    # That a change was never raised is inferred from not seeing it: one that is seen later was on its way.
    seen = row["state"] == "never-raised" and event.kind in ENDS | _LATER.keys() - {"never-raised"}
    if record is None or not (row["state"] in _LATER or seen):
        return {}
    if event.kind in ENDS:
        return {"state": event.kind, "trouble": event.detail}
    known = read_record(row["record"])
    # On the object somebody may have edited how to undo it.
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
"""`done`: it was begun, and its own row tells what became of it; `not-done`: nothing was, `reason` says why."""
EXPIRES_S = 600.0
"""Seconds that an approval is waited for."""
_LATELY_S = 3600.0
_OTHER_CLOCK_S = 24 * 3600.0
_COUNTED = ("requested", "over-limit")


class Approval(NamedTuple):
    """A change that waits for somebody else's yes. It is decided once, whoever comes first; nothing leads back.

    pending -> approved | refused | expired | void
    approved -> done | not-done

    `digest` is of exactly what is approved, `request` (JSON) what is done then.

    `expires_at` is in seconds since 1970, by the clock of the cluster's API server as is every `now` below: replicas
    share it.
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

    def at(self, now: float) -> "Approval":
        """The row as it is then: expired where nobody decided in time."""
        late = self.state == "pending" and self.expires_at <= now
        return self._replace(state="expired") if late else self

    @property
    def decision(self) -> State:
        """What was decided, whatever came of it."""
        return "approved" if self.state in ("done", "not-done") else self.state


class Approvals(AuditedRows):
    """The changes that wait for somebody else's yes."""

    async def ask(self, asked: Approval, now: float) -> Approval:
        """Adds a row that waits for its approval, for `EXPIRES_S` from now on."""
        row = asked._replace(expires_at=now + EXPIRES_S)
        new = insert(approvals).values(**row._asdict(), created_at=now, decided_at=0.0)
        await self._write("noting what is to be approved", new)
        return row

    async def get(self, change_id: str) -> Approval | None:
        """The row; a pending one may have expired."""
        row = await self._first("reading an approval", select(approvals).where(approvals.c.id == change_id))
        return _approval(row) if row else None

    async def decide(
        self, change_id: str, state: Decision, *, now: float, by: str, reason: str = "", line: AuditLine | None = None
    ) -> bool:
        """Whether this decided it, and `line` is in the audit log: False when it was decided before, or had expired."""
        here = (approvals.c.state == "pending") & (approvals.c.expires_at > now)
        return await self._move(change_id, here, line, state=state, decided_by=by, reason=reason, decided_at=now)

    async def clusters(self) -> list[str]:
        """The clusters where `left` may find anything, whatever the time is there."""
        lately = approvals.c.decided_at > self._now() - _LATELY_S - _OTHER_CLOCK_S
        here = approvals.c.state.in_(("pending", "approved")) | (approvals.c.state.in_(("refused", "void")) & lately)
        wanted = select(approvals.c.cluster).where(here).distinct().order_by(approvals.c.cluster)
        return [str(cluster) for cluster in await self._scalars("reading approvals", wanted)]

    async def left(self, cluster: str, seconds: float, *, now: float) -> list[Approval]:
        """A cluster's approvals that wait, shown as expired where nobody decided in time; those that were approved at
        least so long ago and of which nobody noted what came of it; and those that were refused or void lately. The
        oldest first.
        """
        waiting = approvals.c.state == "pending"
        unfinished = (approvals.c.state == "approved") & (approvals.c.decided_at <= now - seconds)
        ended = approvals.c.state.in_(("refused", "void")) & (approvals.c.decided_at > now - _LATELY_S)
        here = (approvals.c.cluster == cluster) & (waiting | unfinished | ended)
        wanted = select(approvals).where(here).order_by(approvals.c.created_at)
        return [_approval(row).at(now) for row in await self._read("reading approvals", wanted)]

    async def expire(self, change_id: str, line: AuditLine, *, now: float) -> bool:
        """Ends one that nobody decided in time; whether this did, and `line` is in the audit log."""
        here = (approvals.c.state == "pending") & (approvals.c.expires_at <= now)
        return await self._move(change_id, here, line, state="expired", decided_at=now)

    async def finish(
        self, change_id: str, state: Literal["done", "not-done"], *, reason: str = "", line: AuditLine | None = None
    ) -> bool:
        """Notes what came of an approved one; whether this did, and `line` is in the audit log."""
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

    async def asked_for(self, actor: str, since: str) -> int:
        """How many changes the audit log says that somebody asked for since then (RFC 3339), less those over a limit.

        Each is written down before it is counted, so that of two at once, in whatever replica, none goes uncounted.
        """
        here = (audit.c.actor == actor) & (audit.c.at >= since) & audit.c.outcome.in_(_COUNTED)
        counted = select(audit.c.outcome, func.count().label("n")).where(here).group_by(audit.c.outcome)
        found = {row.outcome: int(row.n) for row in await self._read("counting changes", counted)}
        return found.get("requested", 0) - found.get("over-limit", 0)


def _approval(row: Row[Any]) -> Approval:
    return Approval(*(getattr(row, name) for name in Approval._fields))
