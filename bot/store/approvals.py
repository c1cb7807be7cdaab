"""Changes that wait for somebody else's yes. A row is decided once, whoever comes first; nothing leads back to pending.

pending -> approved | refused | expired | void
approved -> done | not-done
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, RowMapping, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.audit import Audit, Line
from bot.store.engine import store_errors
from bot.store.tables import approvals, audit

Decision = Literal["approved", "refused", "void"]
State = Literal["pending", "expired", "done", "not-done"] | Decision
"""`done`: it was begun, and its own row tells what became of it; `not-done`: nothing was, `reason` says why."""
EXPIRES_S = 600.0
"""Seconds that an approval is waited for."""
_LATELY_S = 3600.0
_OTHER_CLOCK_S = 24 * 3600.0
_COUNTED = ("requested", "over-limit")


class Approval(NamedTuple):
    """One row. `digest` is of exactly what is approved, `request` (JSON) what is done then.

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
    state: State
    decided_by: str
    reason: str
    expires_at: float

    def at(self, now: float) -> "Approval":
        """The row as it is then: expired where nobody decided in time."""
        late = self.state == "pending" and self.expires_at <= now
        return self._replace(state="expired") if late else self

    @property
    def decision(self) -> State:
        """What was decided, whatever came of it."""
        return "approved" if self.state in ("done", "not-done") else self.state


class Approvals:
    """Every method is one transaction and raises only StoreError."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], log: Audit) -> None:
        self._engine = engine
        self._now = now
        self._audit = log

    async def ask(
        self,
        *,
        change_id: str,
        cluster: str,
        target: str,
        digest: str,
        requester: str,
        channel: str,
        request: str,
        now: float,
    ) -> Approval:
        """Adds a row that waits for its approval."""
        row = Approval(
            change_id, cluster, target, digest, requester, channel, request, "pending", "", "", now + EXPIRES_S
        )
        with store_errors("noting what is to be approved"):
            async with self._engine.begin() as connection:
                await connection.execute(insert(approvals).values(**row._asdict(), created_at=now, decided_at=0.0))
        return row

    async def get(self, change_id: str) -> Approval | None:
        """The row; a pending one may have expired."""
        with store_errors("reading an approval"):
            async with self._engine.connect() as connection:
                row = (
                    (await connection.execute(select(approvals).where(approvals.c.id == change_id))).mappings().first()
                )
        return None if row is None else _approval(row)

    async def decide(
        self, change_id: str, state: Decision, *, now: float, by: str, reason: str = "", line: Line | None = None
    ) -> bool:
        """Whether this decided it, and `line` is in the audit log: False when it was decided before, or had expired."""
        here = (approvals.c.state == "pending") & (approvals.c.expires_at > now)
        return await self._move(change_id, here, line, state=state, decided_by=by, reason=reason, decided_at=now)

    async def clusters(self) -> list[str]:
        """Those where `left` may find anything, whatever the time is there."""
        lately = approvals.c.decided_at > self._now() - _LATELY_S - _OTHER_CLOCK_S
        here = approvals.c.state.in_(("pending", "approved")) | (approvals.c.state.in_(("refused", "void")) & lately)
        with store_errors("reading approvals"):
            async with self._engine.connect() as connection:
                wanted = select(approvals.c.cluster).where(here).distinct().order_by(approvals.c.cluster)
                return [str(cluster) for cluster in (await connection.execute(wanted)).scalars()]

    async def left(self, cluster: str, seconds: float, *, now: float) -> list[Approval]:
        """Those of a cluster that wait, shown as expired where nobody decided in time; those that were approved at
        least so long ago and of which nobody noted what came of it; and those that were refused or void lately. The
        oldest first.
        """
        waiting = approvals.c.state == "pending"
        unfinished = (approvals.c.state == "approved") & (approvals.c.decided_at <= now - seconds)
        ended = approvals.c.state.in_(("refused", "void")) & (approvals.c.decided_at > now - _LATELY_S)
        with store_errors("reading approvals"):
            async with self._engine.connect() as connection:
                here = (approvals.c.cluster == cluster) & (waiting | unfinished | ended)
                wanted = select(approvals).where(here).order_by(approvals.c.created_at)
                found = [_approval(row) for row in (await connection.execute(wanted)).mappings()]
        return [approval.at(now) for approval in found]

    async def expire(self, change_id: str, line: Line, *, now: float) -> bool:
        """Ends one that nobody decided in time; whether this did, and `line` is in the audit log."""
        here = (approvals.c.state == "pending") & (approvals.c.expires_at <= now)
        return await self._move(change_id, here, line, state="expired", decided_at=now)

    async def finish(
        self, change_id: str, state: Literal["done", "not-done"], *, reason: str = "", line: Line | None = None
    ) -> bool:
        """Notes what came of an approved one; whether this did, and `line` is in the audit log."""
        return await self._move(change_id, approvals.c.state == "approved", line, state=state, reason=reason)

    async def _move(self, change_id: str, here: ColumnElement[bool], line: Line | None, **values: str | float) -> bool:
        moved = update(approvals).where(approvals.c.id == change_id, here).values(**values)
        with store_errors("noting a decision"):
            async with self._audit.transaction() as (connection, write):
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
        counted = select(audit.c.outcome, func.count()).where(here).group_by(audit.c.outcome)
        with store_errors("counting changes"):
            async with self._engine.connect() as connection:
                found = {outcome: int(count) for outcome, count in await connection.execute(counted)}
        return found.get("requested", 0) - found.get("over-limit", 0)


def _approval(row: RowMapping) -> Approval:
    return Approval(*(row[name] for name in Approval._fields))
