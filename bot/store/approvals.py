"""Changes that wait for somebody else's yes. A row is decided once, whoever comes first; nothing leads back to pending.

pending -> approved | refused | expired | void
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from sqlalchemy import RowMapping, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.engine import told
from bot.store.tables import approvals, audit

State = Literal["pending", "approved", "refused", "expired", "void"]
EXPIRES_S = 600.0
"""Seconds that an approval is waited for."""
_COUNTED = ("requested", "over-limit")


class Approval(NamedTuple):
    """One row. `digest` is of exactly what is approved, `request` (JSON) what is done then; times are unix seconds."""

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


class Approvals:
    """Every method is one transaction and raises only StoreError."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float]) -> None:
        self._engine = engine
        self._now = now

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
    ) -> Approval:
        """Adds a row that waits for its approval."""
        now = self._now()
        row = Approval(
            change_id, cluster, target, digest, requester, channel, request, "pending", "", "", now + EXPIRES_S
        )
        with told("noting what is to be approved"):
            async with self._engine.begin() as connection:
                await connection.execute(insert(approvals).values(**row._asdict(), created_at=now, decided_at=0.0))
        return row

    async def get(self, change_id: str) -> Approval | None:
        """The row as it is now; a pending one that is too old is shown as expired."""
        with told("reading an approval"):
            async with self._engine.connect() as connection:
                row = (
                    (await connection.execute(select(approvals).where(approvals.c.id == change_id))).mappings().first()
                )
        if row is None:
            return None
        found = _approval(row)
        late = found.state == "pending" and found.expires_at <= self._now()
        return found._replace(state="expired") if late else found

    async def decide(self, change_id: str, state: State, *, by: str, reason: str = "") -> bool:
        """Whether this decided it: False when it was decided before, or had expired."""
        now = self._now()
        here = (approvals.c.id == change_id) & (approvals.c.state == "pending") & (approvals.c.expires_at > now)
        values = {"state": state, "decided_by": by, "reason": reason, "decided_at": now}
        with told("noting a decision"):
            async with self._engine.begin() as connection:
                return (await connection.execute(update(approvals).where(here).values(**values))).rowcount == 1

    async def expire(self) -> list[Approval]:
        """Ends those that nobody decided in time; which ones. Each is returned to one caller only."""
        now = self._now()
        late = (approvals.c.state == "pending") & (approvals.c.expires_at <= now)
        ended = update(approvals).where(late).values(state="expired", decided_at=now).returning(approvals)
        with told("ending old approvals"):
            async with self._engine.begin() as connection:
                return [_approval(row) for row in (await connection.execute(ended)).mappings()]

    async def asked_for(self, actor: str, since: str) -> int:
        """How many changes the audit log says that somebody asked for since then (RFC 3339), less those over a limit.

        Each is written down before it is counted, so that of two at once, in whatever replica, none goes uncounted.
        """
        here = (audit.c.actor == actor) & (audit.c.at >= since) & audit.c.outcome.in_(_COUNTED)
        counted = select(audit.c.outcome, func.count()).where(here).group_by(audit.c.outcome)
        with told("counting changes"):
            async with self._engine.connect() as connection:
                found = {outcome: int(count) for outcome, count in await connection.execute(counted)}
        return found.get("requested", 0) - found.get("over-limit", 0)


def _approval(row: RowMapping) -> Approval:
    return Approval(*(row[name] for name in Approval._fields))
