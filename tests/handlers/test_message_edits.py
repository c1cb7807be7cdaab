"""Which words a message has, when Slack delivers it to several replicas at once."""

import asyncio
from collections.abc import Callable
from typing import Any

from bot.store import open_store
from handlers.parsing.question import Question
from handlers.threads import Edits


async def test_of_two_deliveries_of_one_message_at_once_one_is_the_first(new_database: Callable[[], str]) -> None:
    address = new_database()
    async with asyncio.timeout(180), open_store(address) as one, open_store(address) as other:
        both_looked = asyncio.Barrier(2)

        def of(store: Any) -> Edits:
            get = store.facts.get

            async def looks(key: str) -> str | None:
                known = await get(key)
                await both_looked.wait()
                return known

            store.facts.get = looks
            return Edits(store)

        asked = Question("verbosity 5", "U0ADA00001", "C0GPUONC01", 1.0, asked_ts="1.0", edited_ts="2.0")
        news = await asyncio.gather(of(one).news("Ev1", asked), of(other).news("Ev2", asked))
        assert sorted(news) == ["first", "same"]
