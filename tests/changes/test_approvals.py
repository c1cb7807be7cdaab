"""What waits for approval in several clusters: each by its API server's clock, none kept waiting by another."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.changes.changer import Changer
from bot.errors import BotError, SourceError
from bot.settings.schema import AccessSettings
from bot.slack.people import Groups
from bot.store import Store, open_store
from bot.store.changes import Approval, State
from handlers.changes.draft import Pending, Person
from handlers.changes.execute import Capture
from handlers.changes.journal import ChangeJournal
from handlers.changes.leader_pass import WritableCluster, WritableClusters
from handlers.changes.service import ChangeService
from tests.changes.deployments import NOW
from tests.changes.memory import Cluster, Replica
from tests.changes.records import RECORD
from tests.changes.replicas import UNUSED, lent_of
from tests.stores import new_store

LINUS = Person("U2", "C1")


class Clusters:
    """A bot for the clusters a and b, whose clock is ahead by `skew_s`; the login to those in `hanging` never ends."""

    def __init__(self, store: Store, skew_s: float = 0) -> None:
        self.store = store
        self.cluster = Cluster()
        self.replicas = {name: Replica(self.cluster, UNUSED, skew_s) for name in ("a", "b")}
        self.hanging: set[str] = set()
        deps = lent_of(store, self.replicas["a"].now, ("a", "b"))
        capture: Capture = UNUSED

        @asynccontextmanager
        async def opened(name: str) -> AsyncGenerator[Any]:
            if name in self.hanging:
                await asyncio.Event().wait()
            yield self.replicas[name].writer()

        def writable(name: str, writer: Any) -> WritableCluster:
            journal = ChangeJournal(name, lambda: deps, AccessSettings())
            changer = Changer(writer, journal, now=self.replicas[name].now)
            return WritableCluster(name, writer, changer, journal, asyncio.Lock())

        access = AccessSettings.model_construct(operators=("U1",), approvers=("U2",), two_person=True)
        self.service = ChangeService(deps, access, Groups(UNUSED, ()), WritableClusters(opened, writable), capture)

    async def asked(self, change_id: str, cluster: str, *, ago_s: float) -> None:
        """Ada asked for it so long ago."""
        record = msgspec.structs.replace(RECORD, id=change_id, channel="C1")
        request = msgspec.json.encode(Pending(record)).decode()
        asked = Approval(change_id, cluster, record.target, "d", "U1", "C1", request)
        await self.store.approvals.ask(asked, NOW - ago_s)

    async def state(self, change_id: str) -> State:
        found = await self.store.approvals.get(change_id)
        assert found
        return found.state


@asynccontextmanager
async def clusters(folder: Path, skew_s: float = 0) -> AsyncGenerator[Clusters]:
    async with open_store(new_store(folder / "store.db"), now=lambda: NOW + skew_s) as store:
        yield Clusters(store, skew_s)


@pytest.mark.parametrize("skew_s", [10_800, -10_800])
async def test_an_approval_waits_while_the_time_of_its_cluster_is_not_known(skew_s: float, tmp_path: Path) -> None:
    async with clusters(tmp_path, skew_s) as here:
        await here.asked("c1", "b", ago_s=60)
        await here.asked("c2", "b", ago_s=601)
        here.replicas["b"].way.down = True
        await here.service.approving.look_after()
        assert (await here.state("c1"), await here.state("c2")) == ("pending", "pending")
        here.replicas["b"].way.down = False
        await here.service.approving.look_after()
        assert (await here.state("c1"), await here.state("c2")) == ("pending", "expired")


@pytest.mark.parametrize("decide", ["approve", "refuse"])
async def test_a_click_decides_nothing_while_the_time_is_not_known(decide: str, tmp_path: Path) -> None:
    async with clusters(tmp_path, 10_800) as here:
        await here.asked("c1", "b", ago_s=60)
        here.replicas["b"].way.down = True
        with pytest.raises(SourceError):
            await getattr(here.service.approving, decide)(LINUS, "c1", "d")
        assert await here.state("c1") == "pending"


async def test_a_confirm_that_is_resumed_is_told_to_wait_by_the_time_of_its_cluster(tmp_path: Path) -> None:
    async with clusters(tmp_path, 10_800) as here:
        await here.asked("c1", "b", ago_s=60)
        begun_before = here.service._begun_before  # what a resumed deed asks first
        draft: Any = type("Draft", (), {"id": "c1", "cluster": "b"})
        assert "approve" in await begun_before(draft)


async def test_a_cluster_whose_login_hangs_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with clusters(tmp_path) as here:
        here.hanging = {"a"}
        await here.asked("c1", "a", ago_s=601)
        await here.asked("c2", "b", ago_s=601)
        async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(here.service.approving.look_after())
            while await here.state("c2") != "expired":  # noqa: ASYNC110  # the store alone tells
                await asyncio.sleep(0.001)
            looking.cancel()
        assert await here.state("c1") == "pending"


async def test_a_cluster_where_nothing_waits_is_not_opened(tmp_path: Path) -> None:
    async with clusters(tmp_path) as here:
        here.hanging = {"a"}
        await here.asked("c2", "b", ago_s=601)
        async with asyncio.timeout(180):
            await here.service.approving.look_after()
        assert await here.state("c2") == "expired"


async def test_a_click_on_an_expired_approval_ends_that_one_and_waits_for_no_other_cluster(tmp_path: Path) -> None:
    async with clusters(tmp_path) as here:
        here.hanging = {"a"}
        await here.asked("c1", "a", ago_s=601)
        await here.asked("c2", "b", ago_s=601)
        async with asyncio.timeout(180):
            with pytest.raises(BotError, match="expired"):
                await here.service.approving.approve(LINUS, "c2", "d")
        assert (await here.state("c1"), await here.state("c2")) == ("pending", "expired")
