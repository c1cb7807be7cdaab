"""The rows of the outbox: what is to be said in Slack, and how far each message and file has come.

A row goes new -> sending -> done or failed. The process that sends it owns it until `lease_until`, which it renews as
long as it lives (`OutboxRows.hold`); a row still `sending` after that was left by a process that died, and whoever
takes it over has to look whether Slack has the message. `version` counts its contents: `sent_version < version` is work
to do. A row in `files` is posted and owned by nobody; its files are tried again from `lease_until` on, after all new
rows.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Row, and_, case, delete, exists, func, insert, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.base import StoredRows, columns, insert_unless
from bot.store.facts import Fact, keep_fact
from bot.store.tables import outbox, outbox_files

SPACING = 1.0
"""Seconds between two messages to one channel: Slack's limit."""
ROUND = 600.0
"""Seconds after which a person no longer counts as just answered: more than an answer to each of many people takes."""
DONE_KEPT = 7 * 86400.0
"""Seconds that a sent row is kept: a message with the same key is until then a repetition."""
FAILED_KEPT = 90 * 86400.0

_OPEN = ("new", "staged", "sharing")

Values = dict[str, Any]


class StoredFile(NamedTuple):
    """A file of a message in the outbox. `about` is {"name", "title", "alt_text"}. `state` is new, staged (Slack has
    it), sharing (it may stand in the thread since the row's `sent_at`), done, failed.
    """

    digest: str
    about: Values
    content: bytes
    state: str = "new"
    file_id: str = ""
    reason: str = ""


class QueuedMessage(msgspec.Struct, frozen=True):
    """A row of the outbox, see `bot.store.tables`. `content` has "text" and "blocks", some "broadcast" and "newer"."""

    id: int
    channel: str
    key: str
    thread_ts: str
    content: Values
    severity: int
    update_ts: str
    queued_at: float
    state: str
    version: int
    tried_version: int
    sent_version: int
    owner: str
    lease_until: float
    claimed_at: float
    sent_at: float
    posted_channel: str
    posted_ts: str
    reason: str
    asker: str


def stored_file(about: Values, content: bytes) -> StoredFile:
    """A new file for the outbox; its `digest` is made of its description and content."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode() + b"\0" + content).hexdigest()
    return StoredFile(digest, about, content)


class OutboxRows(StoredRows):
    """The rows of the outbox. `now` is seconds since 1970."""

    async def put(
        self,
        channel: str,
        key: str,
        content: Values,
        files: Sequence[StoredFile],
        *,
        thread_ts: str,
        severity: int,
        update_ts: str,
        now: float,
        sought_since: float = 0.0,
        fact: Fact | None = None,
        asker: str = "",
    ) -> None:
        """Makes `content` and `files` what the channel's message `key` says, and keeps `fact`. The same again changes
        nothing, unless it had failed. `sought_since`: where the key is new here, its message may stand in the channel
        since then, by another store; the row is then as a process leaves it that died while it posted an older content.
        """
        values = {
            "content": json.dumps(content),
            "thread_ts": thread_ts,
            "severity": severity,
            "update_ts": update_ts,
            "asker": asker,
        }
        fresh: Values = dict.fromkeys(("tried_version", "sent_version", "lease_until", "claimed_at", "sent_at"), 0)
        fresh |= dict.fromkeys(("owner", "posted_channel", "posted_ts", "reason"), "")
        fresh |= {"channel": channel, "key": key, "queued_at": now, "state": "new", "version": 1}
        if sought_since:
            fresh |= {"state": "sending", "version": 2, "tried_version": 1, "claimed_at": sought_since}
        here = and_(outbox.c.channel == channel, outbox.c.key == key)
        new = insert_unless(self._engine, outbox).values(**fresh, **values).on_conflict_do_nothing()
        async with self._writing("queueing a message") as connection:
            added = await connection.scalar(new.returning(outbox.c.id))
            if added is None:
                old = _queued((await connection.execute(select(outbox).where(here).with_for_update())).one())
                await _renew(connection, old, values, files, now)
            else:
                await _add_files(connection, added, files)
            if fact:
                await keep_fact(connection, fact, now)

    async def posted(self, channel: str, ts: str) -> bool:
        """Whether a row of the outbox was posted as this message of the channel."""
        here = and_(outbox.c.posted_channel == channel, outbox.c.posted_ts == ts)
        return bool(await self._scalar("looking up a message", select(exists(select(outbox.c.id).where(here)))))

    async def waiting(self) -> int:
        """How many rows are not settled: new, sending, or with files to try again."""
        return await self._scalar("counting the outbox", select(func.count()).where(_waiting)) or 0

    async def oldest(self) -> tuple[str, float] | None:
        """The channel of the message that has waited for longest, and since when; None if no message waits."""
        unsaid = outbox.c.state.in_(("new", "sending"))
        query = select(outbox.c.channel, outbox.c.queued_at).where(unsaid).order_by(outbox.c.queued_at)
        row = await self._first("reading the outbox", query.limit(1))
        return (row.channel, row.queued_at) if row else None

    async def channels(self) -> list[str]:
        """The channels that have rows which are not settled: new, sending, or with files to try again."""
        return list(await self._scalars("reading the outbox", select(outbox.c.channel).where(_waiting).distinct()))

    async def next_turn(self, channel: str, owner: str, now: float) -> float | None:
        """Seconds until `unsettled` or `claim` may find a row for the channel; None if no row waits there."""
        here = outbox.c.channel == channel
        theirs = and_(here, outbox.c.state == "sending", outbox.c.owner != owner)
        async with self._reading("reading the outbox") as connection:
            if not await connection.scalar(select(exists(select(outbox.c.id).where(here, _waiting)))):
                return None
            lease = await connection.scalar(select(func.min(outbox.c.lease_until)).where(theirs))
            if lease is None and not await connection.scalar(select(exists(select(outbox.c.id).where(here, _new)))):
                lease = await connection.scalar(select(func.min(outbox.c.lease_until)).where(here, _files))
            last = await connection.scalar(select(func.max(outbox.c.sent_at)).where(here, outbox.c.sent_at <= now))
        return max((lease or 0.0) - now, (last or 0.0) + SPACING - now, 0.0)

    async def hold(self, owner: str, now: float, lease: float) -> None:
        """Keeps the rows that `owner` is sending its own for `lease` seconds from `now`."""
        theirs = and_(outbox.c.state == "sending", outbox.c.owner == owner)
        await self._write("showing that a sender lives", update(outbox).where(theirs).values(lease_until=now + lease))

    async def unsettled(self, channel: str, owner: str, now: float, lease: float) -> QueuedMessage | None:
        """The channel's row that `owner` is sending, or one left by a dead process, taken over for `lease` seconds."""
        free = or_(outbox.c.owner == owner, outbox.c.lease_until <= now)
        async with self._writing("taking over a message") as connection:
            wanted = and_(outbox.c.channel == channel, outbox.c.state == "sending", free)
            found = await connection.scalar(select(outbox.c.id).where(wanted).order_by(*_turn).limit(1))
            if found is None:
                return None
            mine = and_(outbox.c.id == found, outbox.c.state == "sending", free)
            return await _change(connection, mine, {"owner": owner, "lease_until": now + lease})

    async def claim(self, channel: str, owner: str, now: float, lease: float) -> QueuedMessage | None:
        """Claims the channel's next row, which is then `sending`, and the owner's for `lease` seconds. The most severe
        goes first, then one for the person answered there longest ago, then the oldest; last, files to try again. None
        without a row, while another process sends to the channel, and less than `SPACING` after anyone did.
        """
        other = outbox.alias()
        theirs = select(other.c.id).where(other.c.channel == channel)
        sending = and_(other.c.state == "sending", other.c.lease_until > now, other.c.owner != owner)
        just_sent = and_(other.c.sent_at > now - SPACING, other.c.sent_at <= now)
        busy = or_(exists(theirs.where(sending)), exists(theirs.where(just_sent)))
        async with self._writing("claiming a message") as connection:
            due = and_(or_(_new, and_(_files, outbox.c.lease_until <= now)), not_(busy))
            lately = select(outbox.c.asker, func.max(outbox.c.sent_at).label("at")).group_by(outbox.c.asker)
            had = lately.where(outbox.c.channel == channel, outbox.c.sent_at > now - ROUND).subquery()
            wanted = select(outbox.c.id).outerjoin(had, had.c.asker == outbox.c.asker)
            wanted = wanted.where(outbox.c.channel == channel, due)
            severity, *oldest = _turn
            turn = (not_(_new), severity, func.coalesce(had.c.at, 0.0), *oldest)
            found = await connection.scalar(wanted.order_by(*turn).limit(1))
            if found is None:
                return None
            still = and_(outbox.c.id == found, due)
            since = case((_new, now), else_=outbox.c.claimed_at)
            values = {"state": "sending", "owner": owner, "lease_until": now + lease, "claimed_at": since}
            return await _change(connection, still, values)

    async def trying(self, row: QueuedMessage, now: float, lease: float) -> QueuedMessage | None:
        """Notes, before Slack is called, that the newest content is being sent; None if the row was taken away."""
        return await self._mine(row, {"tried_version": outbox.c.version, "sent_at": now, "lease_until": now + lease})

    async def sent(
        self, row: QueuedMessage, channel: str, ts: str, files: Sequence[StoredFile] = ()
    ) -> QueuedMessage | None:
        """Notes that Slack has the content tried last, at `ts`, and adds `files`. None if the row was taken away."""
        values = {"sent_version": row.tried_version, "posted_channel": channel, "posted_ts": ts}
        async with self._writing("noting a message as sent") as connection:
            changed = await _change(connection, _owned(row), values)
            if changed:
                known = select(outbox_files.c.digest).where(outbox_files.c.row_id == row.id)
                have = set((await connection.scalars(known)).all())
                await _add_files(connection, row.id, [file for file in files if file.digest not in have])
            return changed

    async def release(self, row: QueuedMessage) -> None:
        """Makes the row new again: Slack got nothing of what was tried, or only older content."""
        await self._mine(row, {"state": "new", "owner": ""})

    async def files_later(self, row: QueuedMessage, at: float) -> None:
        """Notes that the message is posted, its files due at `at`; a row with newer content becomes new."""
        values = {"state": case((_unsaid, "new"), else_="files"), "owner": "", "lease_until": at}
        await self._mine(row, values)

    async def settle(self, row: QueuedMessage) -> None:
        """Marks the row as done, or as new again if there is newer content by now."""
        await self._mine(row, {"state": case((_unsaid, "new"), else_="done"), "owner": ""})

    async def fail(self, row: QueuedMessage, reason: str) -> None:
        """Marks the row as failed, keeping the reason and no files' content; with newer content it is new again."""
        open_ = and_(outbox_files.c.row_id == row.id, outbox_files.c.state.in_(_OPEN))
        newer = outbox.c.version > row.version
        values = {"state": case((newer, "new"), else_="failed"), "owner": "", "reason": case((newer, ""), else_=reason)}
        async with self._writing("noting that a message cannot be sent") as connection:
            changed = await _change(connection, _owned(row), values)
            if changed and changed.state == "failed":
                await connection.execute(update(outbox_files).where(open_).values(state="failed", content=b""))

    async def open_files(self, row: QueuedMessage) -> list[StoredFile]:
        """The row's files that are neither shared nor given up, in order of their position."""
        open_ = and_(outbox_files.c.row_id == row.id, outbox_files.c.state.in_(_OPEN))
        query = select(outbox_files).where(open_).order_by(outbox_files.c.position)
        found = await self._read("reading the files of a message", query)
        return [
            StoredFile(row.digest, json.loads(row.about), row.content, row.state, row.file_id, row.reason)
            for row in found
        ]

    async def note_file(
        self,
        row: QueuedMessage,
        file: StoredFile,
        state: str,
        *,
        file_id: str = "",
        reason: str = "",
        now: float,
        lease: float,
    ) -> None:
        """Notes how far a file has come, and renews the row's lease. A done or failed file loses its content."""
        values: Values = {"state": state, "file_id": file_id, "reason": reason}
        if state in {"done", "failed"}:
            values["content"] = b""
        here = and_(outbox_files.c.row_id == row.id, outbox_files.c.digest == file.digest)
        async with self._writing("noting a file of a message") as connection:
            if await _change(connection, _owned(row), {"sent_at": now, "lease_until": now + lease}):
                await connection.execute(update(outbox_files).where(here).values(**values))

    async def sweep(self, now: float) -> None:
        """Forgets sent rows queued more than `DONE_KEPT`, and failed ones more than `FAILED_KEPT`, seconds ago."""
        old = or_(
            and_(outbox.c.state == "done", outbox.c.queued_at <= now - DONE_KEPT),
            and_(outbox.c.state == "failed", outbox.c.queued_at <= now - FAILED_KEPT),
        )
        await self._write("sweeping the outbox", delete(outbox).where(old))

    async def _mine(self, row: QueuedMessage, values: Values) -> QueuedMessage | None:
        async with self._writing("noting how far a message has come") as connection:
            return await _change(connection, _owned(row), values)


_new, _files = outbox.c.state == "new", outbox.c.state == "files"
_waiting = outbox.c.state.in_(("new", "sending", "files"))
_unsaid = outbox.c.version > outbox.c.sent_version
"""The row has unsent content. Decided in the statement that writes: PostgreSQL lets others write between two."""
_turn = (outbox.c.severity, outbox.c.queued_at, outbox.c.id)


def _owned(row: QueuedMessage) -> Any:
    return and_(outbox.c.id == row.id, outbox.c.state == "sending", outbox.c.owner == row.owner)


async def _change(connection: AsyncConnection, where: Any, values: Values) -> QueuedMessage | None:
    changed = (await connection.execute(update(outbox).where(where).values(**values).returning(outbox))).first()
    return _queued(changed) if changed else None


async def _renew(
    connection: AsyncConnection, old: QueuedMessage, values: Values, files: Sequence[StoredFile], now: float
) -> None:
    here = outbox_files.c.row_id == old.id
    kept = set((await connection.scalars(select(outbox_files.c.digest).where(here))).all())
    wanted = {file.digest for file in files}
    same = values["content"] == json.dumps(old.content) and wanted <= kept
    same = same and (values["thread_ts"], values["update_ts"]) == (old.thread_ts, old.update_ts)
    if same and old.state != "failed":
        return
    changes: Values = {**values, "version": old.version + 1}
    if old.state in {"done", "failed", "files"}:
        changes |= {"state": "new", "queued_at": now, "reason": ""}
    await connection.execute(update(outbox).where(outbox.c.id == old.id).values(**changes))
    replaced = and_(outbox_files.c.digest.not_in(wanted), outbox_files.c.state != "done")
    gone = or_(replaced, outbox_files.c.state == "failed")  # one that failed has lost its content
    removed = set(
        (await connection.scalars(delete(outbox_files).where(here, gone).returning(outbox_files.c.digest))).all()
    )
    await _add_files(connection, old.id, [file for file in files if file.digest not in kept - removed])


async def _add_files(connection: AsyncConnection, row_id: int, files: Sequence[StoredFile]) -> None:
    unique = {file.digest: file for file in files}
    for position, file in enumerate(unique.values()):
        values = {**file._asdict(), "about": json.dumps(file.about), "row_id": row_id, "position": position}
        await connection.execute(insert(outbox_files).values(**values))


def _queued(row: Row[Any]) -> QueuedMessage:
    return QueuedMessage(**{**columns(row), "content": json.loads(row.content)})
