"""The store, on every database that it knows."""

import asyncio
import contextlib
import sqlite3
import stat
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bot.store import Store, StoreError, open_store
from bot.store.base import BEAT_S, DROPPED, HOLDS_S, REMEMBERED, TRIES
from bot.store.facts import Fact, Mark
from bot.store.outbox_rows import DONE_KEPT, QueuedMessage, stored_file
from bot.store.store import THREADS_KEPT
from bot.texts import in_english
from tests.scenes import as_test
from tests.stores import queued, shown


class Now:
    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


def with_store(database: str, work: Callable[[Store, Now], Awaitable[None]]) -> None:
    async def main() -> None:
        now = Now()
        async with open_store(database, now=now, patience=0.1) as store:
            await work(store, now)

    asyncio.run(main())


class Processes:
    """Those that share a database."""

    def __init__(self, database: str, stack: contextlib.AsyncExitStack) -> None:
        self._database, self._stack, self.now = database, stack, Now()

    async def begin(self) -> Store:
        store = await self._stack.enter_async_context(open_store(self._database, now=self.now, patience=5))
        await store.hold()
        return store

    async def passes(self, seconds: float, *living: Store) -> None:
        """Only these show meanwhile that they live."""
        end = self.now.at + seconds
        while self.now.at < end:
            self.now.at = min(self.now.at + BEAT_S, end)
            for store in living:
                await store.hold()

    async def dies_at(self, heir: Store, *keys: str) -> None:
        """A process takes these up, and dies; the heir lives on."""
        process = await self.begin()
        assert await process.claim_all(dict.fromkeys(keys, "the event itself")) == set(keys)
        await self.passes(HOLDS_S, heir)


def with_processes(database: str, work: Callable[[Processes], Awaitable[None]]) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            await work(Processes(database, stack))

    asyncio.run(main())


async def left(store: Store) -> list[tuple[str, str]]:
    """The key and payload of what nobody is at."""
    return [(one.key, one.payload) for one in await store.unfinished()]


async def test_what_a_process_with_its_own_file_left_when_it_died_can_be_claimed_by_the_next_that_is_alone(
    tmp_path: Path,
):
    now, file = Now(), f"sqlite:///{tmp_path}/state.db"
    async with open_store(file, now=now) as dies:
        assert await dies.claim("Ev1", "the event itself")
        assert await dies.claim("Ev2", "done before")
        await dies.done("Ev2")
        assert await dies.unfinished() == []
    async with open_store(file, now=now) as beside:
        assert await beside.unfinished() == []
        assert not await beside.claim("Ev1")
    async with open_store(file, now=now, alone=True) as comes_back:
        assert await left(comes_back) == [("Ev1", "the event itself")]
        assert await comes_back.claim("Ev1")
        assert await comes_back.unfinished() == []
        assert not await comes_back.claim("Ev2")


@as_test(with_processes, "database")
async def test_what_a_living_process_is_at_stays_its_own_however_long_it_takes(processes: Processes) -> None:
    slow, heir = await processes.begin(), await processes.begin()
    assert await slow.claim("Ev1", "the event itself")
    await processes.passes(20 * HOLDS_S, slow, heir)
    assert await heir.unfinished() == []
    assert not await heir.claim("Ev1")
    await processes.passes(HOLDS_S - 1, heir)
    assert await heir.unfinished() == []
    await processes.passes(1, heir)
    assert await left(heir) == [("Ev1", "the event itself")]
    assert await heir.claim("Ev1")
    assert await heir.unfinished() == []


@as_test(with_processes, "database")
async def test_who_could_not_reach_the_store_holds_nobody_dead_for_having_been_silent_meanwhile(
    processes: Processes,
) -> None:
    one, other = await processes.begin(), await processes.begin()
    assert await one.claim("Ev1", "the event itself")
    await processes.passes(BEAT_S, one, other)
    processes.now.at += 3 * HOLDS_S
    assert await other.unfinished() == []
    await processes.passes(2 * HOLDS_S, one, other)
    assert await other.unfinished() == []
    await processes.passes(HOLDS_S, other)
    assert await left(other) == [("Ev1", "the event itself")]


@as_test(with_processes, "database")
async def test_who_starts_when_the_store_is_back_holds_nobody_dead_for_having_been_silent_before(
    processes: Processes,
) -> None:
    one = await processes.begin()
    assert await one.claim("Ev1", "the event itself")
    processes.now.at += 3 * HOLDS_S
    new = await processes.begin()
    assert await new.unfinished() == []
    await processes.passes(2 * HOLDS_S, one, new)
    assert await new.unfinished() == []


@as_test(with_processes, "database")
async def test_who_starts_takes_at_once_what_is_nobody_s_and_soon_what_a_dead_process_was_at(
    processes: Processes,
) -> None:
    dies = await processes.begin()
    await dies.claim_all({"Ev1": "was at it", "Ev2": "left it"})
    await dies.let_go({"Ev2"})
    processes.now.at += 3 * HOLDS_S
    new = await processes.begin()
    assert await left(new) == [("Ev2", "left it")]
    await processes.passes(HOLDS_S, new)
    assert await left(new) == [("Ev2", "left it"), ("Ev1", "was at it")]


@as_test(with_processes, "database")
async def test_of_several_that_a_process_was_at_when_it_died_none_is_held_to_have_ended_it(
    processes: Processes,
) -> None:
    heir, keys = await processes.begin(), ["Ev1", "Ev2"]
    for _ in range(3 * TRIES):
        await processes.dies_at(heir, *keys)
        assert [key for key, _ in await left(heir)] == keys
    await processes.dies_at(heir, "Ev1")
    # What most processes died of comes last.
    assert [(one.key, one.deaths) for one in await heir.unfinished()] == [
        ("Ev2", 3 * TRIES),
        ("Ev1", 3 * TRIES + 1),
    ]


@as_test(with_processes, "database")
async def test_what_a_process_was_at_alone_when_it_died_is_given_up_after_some_deaths_and_told_until_it_is_known(
    processes: Processes,
) -> None:
    heir, told = await processes.begin(), f"Ev1{DROPPED}"
    for _ in range(TRIES - 1):
        await processes.dies_at(heir, "Ev1")
        assert await left(heir) == [("Ev1", "the event itself")]
    await processes.dies_at(heir, "Ev1")
    for _ in range(2 * TRIES):
        assert await left(heir) == [(told, "the event itself")]
        assert not await heir.claim("Ev1")
        await processes.dies_at(heir, told)
    await heir.sweep(processes.now.at + 10 * REMEMBERED)
    assert await left(heir) == [(told, "the event itself")]
    assert await heir.claim(told)
    await heir.done(told)
    assert await heir.unfinished() == []


@as_test(with_processes, "database")
async def test_what_a_living_process_leaves_is_another_s_at_once_and_no_death_of_it(processes: Processes) -> None:
    one, other = await processes.begin(), await processes.begin()
    for _ in range(TRIES + 1):
        assert "Ev1" in await one.claim_all({"Ev1": "the event itself", "Ev2": "still at it"})
        assert await one.held_keys() == {"Ev1", "Ev2"}
        await one.let_go({"Ev1"})
        assert await left(other) == [("Ev1", "the event itself")]


@as_test(with_processes, "database")
async def test_a_claim_that_is_no_work_is_not_among_what_is_left_to_others(processes: Processes) -> None:
    one, other = await processes.begin(), await processes.begin()
    assert await one.claim_all({"Ev1": "the event itself", "draft:1": ""}) == {"Ev1", "draft:1"}
    await one.let_go(await one.held_keys())
    assert await other.claim("Ev1")
    assert not await other.claim("draft:1")


@as_test(with_store, "database")
async def test_what_was_done_stays_a_duplicate_for_an_hour(store: Store, now: Now) -> None:
    await store.claim("Ev1")
    await store.done("Ev1")
    now.at += REMEMBERED - 1
    assert not await store.claim("Ev1")
    now.at += 1
    assert await store.claim("Ev1")


@as_test(with_store, "database")
async def test_a_thread_remembers_its_last_question(store: Store, now: Now) -> None:
    assert await store.thread("C1", "1.0") is None
    await store.remember_thread("C1", "1.0", "why ml/x", "lab")
    await store.remember_thread("C1", "1.0", "why ml/ÿ\ud83d\0", "")
    await store.remember_thread("C2", "1.0", "gpus", "prod")
    assert await store.thread("C1", "1.0") == ("why ml/ÿ?", "")
    assert await store.thread("C2", "1.0") == ("gpus", "prod")


@as_test(with_store, "database")
async def test_sweeping_forgets_only_what_is_over(store: Store, now: Now) -> None:
    await store.remember_thread("C1", "1.0", "gpus", "")
    await store.claim("undone", "payload")
    await store.claim("done")
    await store.done("done")
    await store.let_go({"undone"})
    await store.sweep(now.at)
    assert await store.thread("C1", "1.0")
    assert not await store.claim("done")
    await store.sweep(now.at + THREADS_KEPT)
    assert await left(store) == [("undone", "payload")]
    assert await store.thread("C1", "1.0") is None
    assert await store.claim("done")


@as_test(with_store, "database")
async def test_the_outbox_forgets_what_it_sent_a_week_ago_and_keeps_what_waits(store: Store, now: Now) -> None:
    rows = store.outbox
    for key in ("sent", "waiting"):
        await queued(rows, key, now.at, stored_file({}, b"x"))
    await rows.settle(await shown(rows, now.at))
    await store.sweep(now.at + DONE_KEPT)
    assert await rows.waiting() == 1
    async with store._engine.connect() as connection:
        kept = [
            (await connection.exec_driver_sql(f"SELECT count(*) FROM {name}")).scalar()
            for name in ("outbox", "outbox_files")
        ]
    assert kept == [1, 1]


@as_test(with_store, "database")
async def test_a_message_that_cannot_be_sent_keeps_no_files_and_can_be_given_again_with_them(
    store: Store, now: Now
) -> None:
    rows, files = store.outbox, [stored_file({"name": "a"}, b"x" * 100)]

    async def failed() -> QueuedMessage:
        await queued(rows, "a", now.at, *files)
        row = await rows.claim("C1", "me", now.at, 60)
        assert row
        assert [file.content for file in await rows.open_files(row)] == [b"x" * 100]
        await rows.fail(row, "no such channel")
        return row

    row = await failed()
    assert await rows.open_files(row) == []
    async with store._engine.connect() as connection:
        assert (await connection.exec_driver_sql("SELECT length(content) FROM outbox_files")).scalars().all() == [0]
    await failed()


async def test_the_folder_is_made_for_its_owner_only(tmp_path: Path):
    async with open_store(f"sqlite:///{tmp_path}/a/b/state.db") as store:
        assert await store.claim("Ev1")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def modes_in(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


async def test_nobody_but_its_owner_may_read_the_file_even_one_that_others_could(tmp_path: Path):
    (tmp_path / "state.db").touch(0o666)
    async with open_store(f"sqlite:///{tmp_path}/state.db") as store:
        assert await store.claim("Ev1")
        assert modes_in(tmp_path) == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm"), 0o600)


async def test_it_is_written_to_survive_a_power_cut(tmp_path: Path):
    async with (
        open_store(f"sqlite:///{tmp_path}/state.db", patience=0.1) as store,
        store._engine.connect() as connection,
    ):
        settings = [
            (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
        assert settings == ["wal", 2, 100, 1]


def refusal(url: str) -> StoreError:
    async def main() -> None:
        async with open_store(url, patience=0.1) as store:
            await store.claim("Ev1")

    with pytest.raises(StoreError) as caught:
        asyncio.run(main())
    assert in_english(caught.value.hint)
    return caught.value


def test_a_file_that_is_no_database_is_named(tmp_path: Path):
    (tmp_path / "state.db").write_text("these are my notes, " * 100)
    error = refusal(f"sqlite:///{tmp_path}/state.db")
    assert "state.db" in in_english(error.message)
    assert "file is not a database" in in_english(error.message)


def test_a_file_that_another_process_holds_is_an_error_and_no_endless_wait(tmp_path: Path):
    with_store(f"sqlite:///{tmp_path}/state.db", lambda store, now: store.sweep(0))
    holder = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    holder.execute("begin exclusive")
    error = refusal(f"sqlite:///{tmp_path}/state.db")
    holder.close()
    assert "locked" in in_english(error.message)
    assert "another process" in in_english(error.hint)


@pytest.mark.parametrize(
    "url",
    [
        *("", "nonsense", "oracle://u:secret@h/x", "mariadb+nodriver://u:secret@h/x", "redis://h"),
        *("postgresql://u:p@secret@h/x", "postgresql://h:secret/x", "postgresql://127.0.0.1:1/x?password=secret"),
    ],
)
def test_an_address_that_cannot_be_used_is_not_repeated(url: str):
    assert "secret" not in "".join(traceback.format_exception(refusal(url)))


def test_a_database_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path):
    error = refusal(f"postgresql://hami:hush-hush@/hami?host={tmp_path}")
    assert "opening the store postgresql+asyncpg://hami:***@/hami" in str(error)
    assert "hush-hush" not in f"{error} {error.__cause__!r}"


async def test_the_event_loop_goes_on_while_the_store_is_written(tmp_path: Path):
    async with open_store(f"sqlite:///{tmp_path}/state.db", patience=30) as store:
        holder = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        holder.execute("begin immediate")
        claim = asyncio.ensure_future(store.claim("Ev1"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not claim.done()
        holder.execute("rollback")
        holder.close()
        assert await claim


async def test_while_another_process_makes_the_file_the_start_waits_for_it(tmp_path: Path):
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = asyncio.create_task(_starts(f"sqlite:///{tmp_path}/state.db"))
        await asyncio.wait({start}, timeout=0.5)
        assert not start.done()
        other.execute("COMMIT")
        await start


async def _starts(database: str) -> None:
    async with open_store(database, patience=30) as store:
        await store.outbox.waiting()


@as_test(with_store, "database")
async def test_a_moment_replaces_an_earlier_one_of_its_name_and_can_be_forgotten(store: Store, now: Now) -> None:
    await store.marks.set("trouble:a", "first")
    await store.marks.set("trouble:a", "second")
    await store.marks.set("troubles")
    assert await store.marks.all("trouble:") == [Mark("trouble:a", now.at, "second")]
    await store.marks.drop("trouble:a")
    assert await store.marks.all("trouble:") == []
    await asyncio.gather(*(store.marks.set("probe") for _ in range(8)))
    assert await store.marks.all("probe") == [Mark("probe", now.at, "")]


@as_test(with_store, "database")
async def test_a_fact_is_kept_with_its_message_and_the_first_one_stays(store: Store, now: Now) -> None:
    async def put(key: str, text: str, fact: Fact | None = None) -> None:
        what = {"thread_ts": "", "severity": 0, "update_ts": "", "now": now.at}
        await store.outbox.put("C1", key, {"text": text}, [], **what, fact=fact)

    await put("a", "looking")
    assert await store.facts.get("answered:a") is None
    await put("a", "found", Fact("answered:a", "first"))
    await put("a", "found again", Fact("answered:a", "second"))
    await put("b", "found", Fact("answered:b", "new"))
    assert await store.facts.get("answered:a") == "first"
    assert await store.facts.get("answered:b") == "new"
