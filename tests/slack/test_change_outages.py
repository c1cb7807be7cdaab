"""What is due is undone, and told when it can be, whatever is out of reach when the bot starts."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from sandbox.slack import Fault
from tests.slack.changing import World, a_bot, a_place
from tests.slack.outages import free_port, readiness

Outage = Callable[[World], AbstractContextManager[None]]


@contextmanager
def slack_out_of_reach(world: World) -> Generator[None]:
    fault = world.slack.faults.append(Fault("outage"))
    yield
    world.slack.faults.remove(fault)


@contextmanager
def store_out_of_reach(world: World) -> Generator[None]:
    files = [path for path in world.folder.iterdir() if path.name.startswith("bot.db")]
    for file in files:
        file.rename(world.folder / f"kept-{file.name}")
    (world.folder / "bot.db").mkdir()
    yield
    (world.folder / "bot.db").rmdir()
    for file in files:
        (world.folder / f"kept-{file.name}").rename(file)


@pytest.mark.parametrize(
    ("out_of_reach", "word"),
    [(slack_out_of_reach, "auth.test"), (store_out_of_reach, "opening the store")],
    ids=["Slack", "the store"],
)
async def test_what_is_due_is_undone_at_once_and_told_later(out_of_reach: Outage, word: str, tmp_path: Path) -> None:
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world):
            await world.raised()
        world.ahead_s = 3600
        bind = free_port()
        with out_of_reach(world):
            started, ended = asyncio.Event(), asyncio.Event()
            bot = asyncio.create_task(running(world, bind, started, ended))
            await world.until(world.is_closed)
            while word not in await readiness(bind):  # what is due may be undone before that was tried
                continue
            assert not started.is_set()
        await world.card("Reverted")
        ended.set()
        await bot


async def running(world: World, bind: str, started: asyncio.Event, ended: asyncio.Event) -> None:
    async with a_bot(world, bind=bind):
        started.set()
        await ended.wait()
