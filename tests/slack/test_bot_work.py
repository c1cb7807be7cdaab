"""Many questions at once: what is done before their acks is little, and answers go on when no ack waits."""

import asyncio
import sqlite3
import threading
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from bot.errors import BotError, UsageError
from bot.slack.question_tasks import OF_ONE, Asker, Turns, Work
from bot.store import open_store
from bot.texts import in_english


async def untold(error: BotError) -> None:
    raise error


async def test_of_many_questions_one_is_begun_at_each_turn_of_the_event_loop(tmp_path: Path) -> None:
    turn, begun = 0, list[int]()

    async def job() -> None:
        begun.append(turn)

    async with asyncio.timeout(180), open_store(f"sqlite:///{tmp_path}/state.db") as store:
        work = Work(store)
        for number in range(20):
            work.start(f"Ev{number}", job, untold)
        while len(work):
            await asyncio.sleep(0)
            turn += 1
    assert len(begun) == len(set(begun)) == 20


async def test_an_answer_goes_on_when_what_was_taken_is_in_the_store(tmp_path: Path) -> None:
    order = list[str]()
    async with asyncio.timeout(180), open_store(f"sqlite:///{tmp_path}/state.db", patience=60) as store:
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
    assert order[0] == "the second is acked"
    assert sorted(order[1:]) == ["the first goes on", "the second begins"]


ADA, GRACE = "ada", "grace"


def in_turn(asked: list[Asker], given_up: int = -1) -> list[int]:
    """The order in which these get the one place, all of whom ask while somebody else has it."""
    order = list[int]()

    async def main() -> None:
        turns, gate = Turns(1), asyncio.Event()

        async def hold(number: int, who: Asker) -> None:
            async with turns.turn(who):
                order.append(number)
                await gate.wait()

        waiting = [asyncio.create_task(hold(-1, Asker("linus", "x")))]
        waiting += [asyncio.create_task(hold(number, who)) for number, who in enumerate(asked)]
        await asyncio.sleep(0)
        assert order == [-1]
        if given_up >= 0:
            waiting.pop(given_up + 1).cancel()
        gate.set()
        await asyncio.gather(*waiting)

    asyncio.run(main())
    return order[1:]


def test_turns_go_round_by_person_and_of_one_person_by_channel() -> None:
    alone = [Asker(ADA, "oncall")] * 5
    assert in_turn(alone) == [0, 1, 2, 3, 4]
    assert in_turn([*alone, Asker(GRACE, "oncall"), Asker(GRACE, "oncall")]) == [0, 5, 1, 6, 2, 3, 4]
    assert in_turn([*alone, Asker(ADA, "general"), Asker(GRACE, "oncall")]) == [0, 6, 5, 1, 2, 3, 4]


def test_who_gives_up_waiting_takes_nobodys_turn() -> None:
    asked = [Asker(ADA, "oncall"), Asker(GRACE, "oncall"), Asker(ADA, "oncall"), Asker(GRACE, "general")]
    assert in_turn(asked, given_up=1) == [0, 3, 2]


def test_who_gives_up_in_the_moment_of_their_turn_leaves_the_place_to_the_next() -> None:
    async def main() -> None:
        turns = Turns(1)
        async with asyncio.timeout(60):
            async with turns.turn(Asker(ADA)):
                late = asyncio.create_task(taken(turns))
                await asyncio.sleep(0)
            late.cancel()  # the place is theirs, and they have not run since
            await taken(turns)

    async def taken(turns: Turns) -> None:
        async with turns.turn(Asker(GRACE)):
            pass

    asyncio.run(main())


async def test_a_question_that_waits_behind_the_same_persons_until_its_time_is_over_is_told_so(tmp_path: Path) -> None:
    told = list[BotError]()
    async with (
        asyncio.timeout(180),
        open_store(f"sqlite:///{tmp_path}/state.db") as store,
        AsyncExitStack() as held,
    ):
        work = Work(store, longest_s=0.05)
        for _ in range(OF_ONE):
            await held.enter_async_context(work.turn(Asker(ADA)))

        async def job(who: Asker) -> None:
            async with work.turn(who):
                pass

        async def tell(error: BotError) -> None:
            told.append(error)

        for who in (ADA, GRACE):
            work.start(who, partial(job, Asker(who)), tell)
            await work.ended(who, 60)
    [late] = told
    assert "asked many questions" in in_english(late.hint)


async def test_only_two_steps_at_once_keep_a_processor_busy(tmp_path: Path) -> None:
    entered, go_on = threading.Semaphore(0), threading.Event()

    def step() -> int:
        entered.release()
        go_on.wait(60)
        return 1

    async with asyncio.timeout(180), open_store(f"sqlite:///{tmp_path}/state.db") as store:
        work = Work(store)
        steps = [asyncio.create_task(work.beside(step)) for _ in range(5)]
        for _ in range(2):
            assert await asyncio.to_thread(entered.acquire, timeout=60)
        for _ in range(100):  # turns of the loop, in which a third would be handed to a thread
            await asyncio.sleep(0)
        assert not entered.acquire(blocking=False)
        go_on.set()
        assert await asyncio.gather(*steps) == [1] * 5


class Hung:
    """A step that lasts until it is let go; `threads` are those that entered it."""

    def __init__(self) -> None:
        self.threads = list[threading.Thread]()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.threads.append(threading.current_thread())
        self.begun.set()
        self.go_on.wait(60)


async def test_a_step_that_was_given_up_keeps_its_place_and_who_had_none_is_told_so(tmp_path: Path) -> None:
    hung, told = Hung(), list[BotError]()
    async with asyncio.timeout(180), open_store(f"sqlite:///{tmp_path}/state.db") as store:
        work = Work(store, longest_s=0.05)

        async def job() -> None:
            await work.beside(hung)

        async def tell(error: BotError) -> None:
            told.append(error)

        while len(hung.threads) < 2:
            key = f"Ev{len(told)}"
            work.start(key, job, tell)
            await work.ended(key, 60)
        work.start("one more", job, tell)
        await work.ended("one more", 60)
        hung.go_on.set()
        assert await work.beside(lambda: 1) == 1
    assert len(hung.threads) == 2
    assert sum("working out" in in_english(text.hint) for text in told) == 2
    assert "did not start" in in_english(told[-1].hint)


async def test_the_bot_ends_while_a_step_that_was_given_up_goes_on(tmp_path: Path) -> None:
    hung = Hung()
    async with asyncio.timeout(180), open_store(f"sqlite:///{tmp_path}/state.db") as store:
        given_up = asyncio.create_task(Work(store).beside(hung))
        assert await asyncio.to_thread(hung.begun.wait, 60)
        given_up.cancel()
    [thread] = hung.threads
    assert thread.is_alive()
    assert thread.daemon  # else the interpreter waits for it
    hung.go_on.set()
    thread.join(60)


async def test_what_a_step_raises_is_raised_where_it_is_awaited(tmp_path: Path) -> None:
    def step() -> None:
        raise UsageError("no such card")

    async with open_store(f"sqlite:///{tmp_path}/state.db") as store:
        with pytest.raises(UsageError, match="no such card"):
            await Work(store).beside(step)
