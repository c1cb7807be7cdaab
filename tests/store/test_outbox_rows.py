"""Newer content that is put while a process notes what became of the older one, as another process puts it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import select, update

from bot.store import Store, open_store
from bot.store.outbox_rows import OutboxRows, QueuedMessage
from bot.store.tables import outbox
from tests.stores import blocked, queued, shown

NOW, LEASE = 1000.0, 120.0

End = Callable[[OutboxRows, QueuedMessage], Awaitable[None]]
ENDS: dict[str, End] = {
    "done": lambda rows, row: rows.settle(row),
    "files tried again later": lambda rows, row: rows.files_later(row, NOW + 60),
    "given up": lambda rows, row: rows.fail(row, "invalid_blocks"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_content_that_is_put_while_its_row_is_being_ended_is_sent(database: str, end: End) -> None:
    async with open_store(database) as store, open_store(database, patience=30) as other:
        row = await being_sent(other)
        async with store.outbox._engine.begin() as connection:
            await connection.execute(select(outbox.c.id).with_for_update())
            await connection.execute(update(outbox).values(version=outbox.c.version + 1))
            ending = asyncio.ensure_future(end(other.outbox, row))
            await blocked(store.outbox._engine, ending)
        await ending
        claimed = await other.outbox.claim("C1", "me", NOW + 10, LEASE)
        assert claimed
        assert claimed.version > claimed.sent_version


async def test_what_a_living_process_sends_stays_its_own_and_of_one_that_is_silent_another_s(database: str) -> None:
    async with open_store(database) as store:
        await being_sent(store)
        rows, later = store.outbox, NOW + 5 * LEASE
        await rows.hold("me", later, LEASE)
        await rows.hold("other", later + LEASE, LEASE)
        assert await rows.unsettled("C1", "other", later + LEASE - 1, LEASE) is None
        assert await rows.unsettled("C1", "other", later + LEASE, LEASE)


async def being_sent(store: Store) -> QueuedMessage:
    """A row whose content Slack has shown, and nothing more is noted yet."""
    await queued(store.outbox, "triage:1", NOW)
    return await shown(store.outbox, NOW)
