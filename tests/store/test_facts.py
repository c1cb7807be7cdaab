"""Facts that are kept with what they are about."""

import asyncio

from bot.store import open_store
from bot.store.facts import Fact


def test_a_fact_is_kept_with_its_message_and_the_first_one_stays(database: str) -> None:
    async def play() -> None:
        async with open_store(database, patience=30) as store:

            async def put(key: str, text: str, fact: Fact | None = None) -> None:
                await store.outbox.put(
                    "C1", key, {"text": text}, [], thread_ts="", severity=0, update_ts="", now=7.0, fact=fact
                )

            await put("a", "looking")
            assert await store.facts.get("answered:a") is None
            await put("a", "found", Fact("answered:a", "first"))
            await put("a", "found again", Fact("answered:a", "second"))
            await put("b", "found", Fact("answered:b", "new"))
            assert await store.facts.get("answered:a") == "first"
            assert await store.facts.get("answered:b") == "new"

    asyncio.run(play())
