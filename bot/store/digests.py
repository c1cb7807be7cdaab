"""The rows of digests: which channel wants one when, and what became of each.

A due digest is claimed by inserting its row, and its message has one key in the outbox: it is posted only once.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Row, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.digest.figures import Figures
from bot.digest.schedule import Occurrence, Schedule
from bot.store.audit import Audit, AuditedRows, AuditLine
from bot.store.base import HOLDS_S, insert_unless
from bot.store.facts import is_known, make_known
from bot.store.tables import digest_runs, digests

AGAIN_S = 300.0
"""Seconds after which a digest that could not be made is tried again."""
_SETTINGS = "settings"
"""Who asked for a digest that the settings name."""
RUNS_KEPT_S = 400 * 86400.0


DigestKind = Literal["digest", "oncall"]


class Digest(msgspec.Struct, frozen=True):
    """A digest that a channel wants, of a cluster or of on-call; no occurrence up to `since` (unix seconds) is due."""

    id: str
    channel: str
    cluster: str
    schedule: Schedule
    by: str
    since: float
    kind: DigestKind = "digest"


class GivenDigest(NamedTuple):
    """A digest that the settings name."""

    channel: str
    cluster: str
    schedule: Schedule


class PostedDigest(NamedTuple):
    """A digest that was posted: when it was due (unix seconds), and its figures."""

    at: float
    figures: Figures


Noted = Callable[[Digest], AuditLine]


class DigestRows(AuditedRows):
    """The rows of the digests that channels want, and of what became of each."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], audit_log: Audit, owner: str) -> None:
        super().__init__(engine, now, audit_log)
        self._owner = owner

    async def add(
        self,
        channel: str,
        cluster: str,
        schedule: Schedule,
        by: str,
        *,
        kind: DigestKind = "digest",
        noted: Noted | None = None,
        once: str = "",
    ) -> Digest:
        """Adds a digest due from now on, with `noted`'s audit line; again for the key `once`, it gives the same."""
        made = Digest(_id_of(once), channel, cluster, schedule, by=by, since=self._now(), kind=kind)
        values = {
            **msgspec.structs.asdict(made),
            "schedule": msgspec.json.encode(tuple(schedule)).decode(),
            "stopped": 0,
        }
        async with self._audit.transaction("keeping a digest") as (connection, write):
            if not await is_known(connection, once):
                await connection.execute(insert(digests).values(**values))
                await make_known(connection, once, self._now())
                if noted is not None:
                    await write(noted(made))
        return made

    async def keep_given(self, given: Sequence[GivenDigest]) -> None:
        """Adds and removes digests until the settings' are those of `given`; one that people stopped stays stopped."""
        named = {_id_of(json.dumps(one)): one for one in given}
        async with self._writing("keeping the digests of the settings") as connection:
            gone = and_(digests.c.by == _SETTINGS, digests.c.id.not_in(named))
            await connection.execute(delete(digests).where(gone))
            for key, one in named.items():
                schedule = msgspec.json.encode(tuple(one.schedule)).decode()
                values = {"id": key, "by": _SETTINGS, "since": self._now(), "stopped": 0, "schedule": schedule}
                new = insert_unless(connection, digests).values(**one._asdict() | values)
                await connection.execute(new.on_conflict_do_nothing())

    async def is_added(self, once: str) -> bool:
        """Whether the deed with the key `once` has added its digest already."""
        async with self._reading("looking for a digest") as connection:
            return await is_known(connection, once)

    async def stop(self, digest_id: str, channel: str, line: AuditLine | None = None, once: str = "") -> bool:
        """Stops the channel's digest and audits `line`; False if none runs, unless the key `once` stopped it before."""
        here = and_(digests.c.id == digest_id, digests.c.channel == channel, digests.c.stopped == 0)
        async with self._audit.transaction("stopping a digest") as (connection, write):
            if await is_known(connection, once):
                return True
            if (await connection.execute(update(digests).where(here).values(stopped=1))).rowcount != 1:
                return False
            await make_known(connection, once, self._now())
            if line is not None:
                await write(line)
            return True

    async def wanted(self, channel: str = "") -> list[Digest]:
        """The digests that are not stopped, of one channel or of all."""
        here = and_(digests.c.stopped == 0, *([digests.c.channel == channel] if channel else []))
        query = select(digests).where(here).order_by(digests.c.channel, digests.c.id)
        return [_digest(row) for row in await self._read("reading the digests", query)]

    async def claim(self, digest: Digest, occurrence: Occurrence) -> bool:
        """Claims the digest due at `occurrence`; True if the caller may post it, while this process lives (`hold`)."""
        now = self._now()
        values = {"claimed_until": now + HOLDS_S, "state": "claimed", "owner": self._owner}
        fresh = {"digest": digest.id, "wall": occurrence.wall, "at": occurrence.at, "figures": "{}"}
        free = or_(digest_runs.c.claimed_until <= now, digest_runs.c.owner == self._owner)
        left = and_(digest_runs.c.state == "claimed", free)
        new = insert_unless(self._engine, digest_runs).values(**fresh, **values)
        claimed = new.on_conflict_do_update(index_elements=["digest", "wall"], set_=values, where=left)
        return await self._write("claiming a digest", claimed) == 1

    async def hold(self, connection: AsyncConnection) -> None:
        """Renews this process's claims of digests, in the transaction of `connection`."""
        values = {"claimed_until": self._now() + HOLDS_S}
        await connection.execute(update(digest_runs).where(self._mine).values(**values))

    async def put_off(self, digest: Digest) -> None:
        """Gives up this process's claim of the digest, so that any process tries again after `AGAIN_S` seconds."""
        values = {"owner": "", "claimed_until": self._now() + AGAIN_S}
        ours = and_(self._mine, digest_runs.c.digest == digest.id)
        await self._write("putting a digest off", update(digest_runs).where(ours).values(**values))

    @property
    def _mine(self) -> ColumnElement[bool]:
        return and_(digest_runs.c.state == "claimed", digest_runs.c.owner == self._owner)

    async def mark_posted(self, digest: Digest, occurrence: Occurrence, figures: Figures) -> None:
        """Notes that a digest's message is safe in the outbox, and its figures, to compare the next one with."""
        here = and_(digest_runs.c.digest == digest.id, digest_runs.c.wall == occurrence.wall)
        values = {"state": "posted", "figures": json.dumps(dict(figures))}
        async with self._writing("noting a digest") as connection:
            await connection.execute(update(digest_runs).where(here).values(**values))
            await connection.execute(_since(digest, occurrence))

    async def skip(self, digest: Digest, missed: Sequence[Occurrence]) -> None:
        """Notes the occurrences of a digest that nobody will post: the bot was away, or could not read the cluster."""
        nobodys = {"claimed_until": 0.0, "owner": ""}
        for occurrence in missed:
            values = {"digest": digest.id, "wall": occurrence.wall, "state": "skipped", "at": occurrence.at}
            new = insert_unless(self._engine, digest_runs).values(**values, **nobodys, figures="{}")
            await self._write("noting a missed digest", new.on_conflict_do_nothing())
        if missed:
            these = and_(digest_runs.c.digest == digest.id, digest_runs.c.wall.in_([one.wall for one in missed]))
            begun = and_(these, digest_runs.c.state == "claimed")
            async with self._writing("noting a missed digest") as connection:
                await connection.execute(update(digest_runs).where(begun).values(state="skipped"))
                await connection.execute(_since(digest, missed[-1]))

    async def last(self, channel: str, cluster: str, most: int) -> list[PostedDigest]:
        """The figures of the last digests of that cluster posted in the channel, the oldest first, at most `most`."""
        about = and_(digests.c.kind == "digest", digests.c.cluster == cluster)
        ours = select(digests.c.id).where(digests.c.channel == channel, about)
        here = and_(digest_runs.c.digest.in_(ours), digest_runs.c.state == "posted")
        query = select(digest_runs.c.at, digest_runs.c.figures).where(here)
        found = await self._read("reading the last digests", query.order_by(digest_runs.c.at.desc()).limit(most))
        return [PostedDigest(row.at, msgspec.json.decode(row.figures, type=dict[str, str])) for row in reversed(found)]

    async def sweep(self, now: float) -> None:
        """Forgets digests that were due more than `RUNS_KEPT_S` seconds before `now`."""
        await self._write("sweeping digests", delete(digest_runs).where(digest_runs.c.at <= now - RUNS_KEPT_S))


def _id_of(deed: str) -> str:
    """The id of the digest that the deed adds: the same for the same key."""
    return hashlib.sha256(deed.encode()).hexdigest()[:6] if deed else uuid.uuid4().hex[:6]


def _since(digest: Digest, occurrence: Occurrence) -> Any:
    later = and_(digests.c.id == digest.id, digests.c.since < occurrence.at)
    return update(digests).where(later).values(since=occurrence.at)


def _digest(row: Row[Any]) -> Digest:
    schedule = Schedule(*msgspec.json.decode(row.schedule, type=tuple[str, str]))
    return Digest(row.id, row.channel, row.cluster, schedule, by=row.by, since=row.since, kind=row.kind)
