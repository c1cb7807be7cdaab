"""The rows of changes follow what happened to them, whatever order the news comes in."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from bot.changes.deployments import ChangeFailed
from bot.changes.journal import ChangeEvent
from bot.store import open_store
from bot.store.changes import ChangeRows
from tests.changes.deployments import NOW, but
from tests.changes.memory import Cluster, MemoryJournal, Replica
from tests.changes.records import RECORD
from tests.changes.rig import LEVEL, NAME, NAMESPACE, Killed, Steps, raised


@asynccontextmanager
async def rows_in(folder: Path) -> AsyncGenerator[ChangeRows]:
    async with open_store(f"sqlite:///{folder}/store.db", now=lambda: NOW) as store:
        yield store.changes("lab")


async def test_a_change_that_comes_through_late_is_known_again_after_it_was_given_up(tmp_path: Path) -> None:
    async with rows_in(tmp_path) as rows:
        await rows.planned(RECORD, "u-1")
        assert await rows.note(ChangeEvent("never-raised", "a/b", RECORD))
        assert not await rows.note(ChangeEvent("never-raised", "a/b", RECORD))  # told once, also by two replicas
        assert await rows.opened() == []
        assert await rows.note(ChangeEvent("raised", "a/b", RECORD))
        [one] = await rows.opened()
        assert (one.state, one.uid) == ("raised", "u-1")
        assert await rows.note(ChangeEvent("reverted", "a/b", RECORD))
        assert not await rows.note(ChangeEvent("raised", "a/b", RECORD))
        assert not await rows.note(ChangeEvent("never-raised", "a/b", RECORD))
        assert await rows.opened() == []


async def test_a_change_whose_row_was_lost_is_known_with_its_uid(tmp_path: Path) -> None:
    async with rows_in(tmp_path) as rows:
        assert await rows.note(ChangeEvent("raised", "a/b", RECORD, uid="u-1"))
        assert [(change.state, change.uid) for change in await rows.opened()] == [("raised", "u-1")]


async def test_the_row_has_the_record_that_stands_on_the_object(tmp_path: Path) -> None:
    async with rows_in(tmp_path) as rows:
        later = msgspec.structs.replace(RECORD, at="2026-11-21T05:11:00Z")
        await rows.planned(RECORD, "u-1")
        await rows.note(ChangeEvent("raised", "a/b", later))
        [one] = await rows.opened()
        assert one.record == later


async def test_an_extension_that_nobody_noted_is_found_on_the_object() -> None:
    replica = Replica(Cluster(), MemoryJournal())
    await raised(replica.changer())
    with pytest.raises(Killed):
        await replica.changer(Steps(1, "after")).extend(NAMESPACE, NAME, NOW + 1200, by="U2")
    await replica.changer().passes.reconcile()
    [one] = await replica.journal.opened()
    assert one.record.deadline == NOW + 1200
    assert one.record.extended == 1


async def test_what_was_done_is_no_failure_where_it_could_not_be_noted() -> None:
    cluster, journal = Cluster(), MemoryJournal()
    replica = Replica(cluster, journal)
    await raised(replica.changer())
    journal.down = True
    assert await replica.changer().extend(NAMESPACE, NAME, NOW + 1200, by="U2") == cluster.record()
    cluster.asked_early.add("c1")
    assert (await replica.changer().revert(NAMESPACE, NAME, by="U2")).kind == "reverted"


async def test_a_copy_of_a_record_can_be_neither_extended_nor_reverted() -> None:
    replica = Replica(Cluster(), MemoryJournal())
    await raised(replica.changer())
    copied = replica.cluster.live()
    copied["metadata"] |= {"name": "copy", "uid": "u-2"}
    replica.cluster.store.of("deployments.apps").write(copied)
    with pytest.raises(ChangeFailed, match="copy"):
        await replica.changer().extend(NAMESPACE, "copy", NOW + 1200, by="U2")
    with pytest.raises(ChangeFailed, match="copy"):
        await replica.changer().revert(NAMESPACE, "copy", by="U2")


async def test_an_extension_is_of_the_change_that_it_was_meant_for_alone() -> None:
    replica = Replica(Cluster(), MemoryJournal())
    await raised(replica.changer())
    replica.cluster.asked_early.add("c1")
    await replica.changer().revert(NAMESPACE, NAME, by="U2")
    await raised(replica.changer(), change_id="c2")
    other = replica.cluster.record()
    with pytest.raises(ChangeFailed, match="another one is open"):
        await replica.changer().extend(NAMESPACE, NAME, NOW + 1200, by="U2", change_id="c1")
    assert replica.cluster.record() == other


async def test_a_lost_answer_to_an_extension_ends_no_change() -> None:
    """Of a level that was set in the running process."""
    cluster = Cluster()
    replica = Replica(cluster, MemoryJournal())
    await raised(replica.changer(), but(LEVEL, container="kube-scheduler", means="debug-flags"))
    cluster.silent |= set(cluster.levels)
    replica.way.next = "lost, done"
    await replica.changer().extend(NAMESPACE, NAME, NOW + 1200, by="U2")
    assert cluster.record() is not None
