"""Many questions at once: what is done before their acks is little, and answers go on when no ack waits."""

import asyncio
import sqlite3
import threading
from pathlib import Path

from bot.errors import BotError
from bot.slack.app import Grouped
from bot.slack.work import Work
from bot.store import open_store


async def untold(error: BotError) -> None:
    raise error


def test_of_many_questions_one_is_begun_at_each_turn_of_the_event_loop(tmp_path: Path) -> None:
    turn, begun = 0, list[int]()

    async def job() -> None:
        begun.append(turn)

    async def main() -> None:
        nonlocal turn
        async with asyncio.timeout(60), open_store(f"sqlite:///{tmp_path}/state.db") as store:
            work = Work(store)
            for number in range(20):
                work.start(f"Ev{number}", job, untold)
            while len(work):
                await asyncio.sleep(0)
                turn += 1

    asyncio.run(main())
    assert len(begun) == len(set(begun)) == 20


def test_an_answer_goes_on_when_what_was_taken_is_in_the_store(tmp_path: Path) -> None:
    order = list[str]()

    async def main() -> None:
        async with asyncio.timeout(60), open_store(f"sqlite:///{tmp_path}/state.db", patience=60) as store:
            work = Work(store, keeping_s=60)
            at_work, locked = asyncio.Event(), asyncio.Event()

            async def first() -> None:
                at_work.set()
                await locked.wait()
                await work.acks_first()
                order.append("the first goes on")

            async def second() -> None:
                order.append("the second begins")

            async def acked() -> None:
                await work.kept()
                order.append("the second is acked")

            work.start("Ev1", first, untold)
            await at_work.wait()
            holder = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
            holder.execute("begin immediate")
            work.start("Ev2", second, untold)
            waiting = asyncio.create_task(acked())
            await asyncio.sleep(0)
            locked.set()
            for _ in range(20):
                await asyncio.sleep(0)
            assert order == []
            holder.execute("rollback")
            holder.close()
            await waiting
            await work.drain(60)

    asyncio.run(main())
    assert order[0] == "the second is acked"
    assert sorted(order[1:]) == ["the first goes on", "the second begins"]


def test_only_two_steps_at_once_keep_a_processor_busy(tmp_path: Path) -> None:
    entered, go_on = threading.Semaphore(0), threading.Event()

    def step() -> int:
        entered.release()
        go_on.wait(60)
        return 1

    async def main() -> list[int]:
        async with asyncio.timeout(60), open_store(f"sqlite:///{tmp_path}/state.db") as store:
            work = Work(store)
            steps = [asyncio.create_task(work.beside(step)) for _ in range(5)]
            for _ in range(2):
                assert await asyncio.to_thread(entered.acquire, timeout=60)
            for _ in range(100):  # turns of the loop, in which a third would be handed to a thread
                await asyncio.sleep(0)
            assert not entered.acquire(blocking=False)
            go_on.set()
            return await asyncio.gather(*steps)

    assert asyncio.run(main()) == [1] * 5


class Registered:
    """What an app was given: the kind and the name of each listener."""

    def __init__(self) -> None:
        self.listeners = list[str]()

    def __getattr__(self, kind: str):
        return lambda name: lambda _: self.listeners.append(f"{kind} {name}")


def test_bolt_asks_the_listeners_of_commands_first_and_each_kind_in_its_order() -> None:
    grouped, app = Grouped(), Registered()
    for feature in ("changes", "everything"):
        grouped.action(feature)(print)
        grouped.command(feature)(print)
        grouped.event(feature)(print)
    grouped.register(app)
    kinds = ("command", "event", "action")
    assert app.listeners == [f"{kind} {feature}" for kind in kinds for feature in ("changes", "everything")]
