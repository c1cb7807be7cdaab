"""Of several candidates one works at a time, also when the API server is out of reach of some of them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.kube.client.connect import open_writer
from bot.kube.client.leader import Leader, Rhythm
from bot.kube.client.writer import Conflict, Writer
from sandbox.apiserver import ApiServer, Fault

QUICK = Rhythm(lease_s=1.0, renew_s=0.6, retry_s=0.05)
PATIENT = Rhythm(lease_s=60.0, renew_s=40.0, retry_s=30.0)
LEASES = r"/leases"


class Candidate:
    """One replica: `working` is set while it leads; the last to have begun and all overlaps are noted."""

    busy: set[str]

    def __init__(self, name: str, busy: set[str], overlaps: list[set[str]]) -> None:
        self.name = name
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self._busy = busy
        self._overlaps = overlaps

    async def work(self) -> None:
        self._busy.add(self.name)
        if len(self._busy) > 1:
            self._overlaps.append(set(self._busy))
        self.ended.clear()
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._busy.discard(self.name)
            self.began.clear()
            self.ended.set()


class Cluster:
    """Candidates for one Lease, and when two of them worked at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.busy: set[str] = set()
        self.overlaps: list[set[str]] = []

    @asynccontextmanager
    async def candidate(
        self, server: ApiServer, name: str, rhythm: Rhythm = QUICK
    ) -> AsyncGenerator[tuple[Candidate, asyncio.Task[Any]]]:
        config = self.folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with await open_writer(kubeconfig=config, timeout_s=rhythm.lease_s / 2) as writer:
            one = Candidate(name, self.busy, self.overlaps)
            leader = Leader(writer, "default", "hami-bot", name, rhythm=rhythm)
            task = asyncio.create_task(leader.run(one.work))
            try:
                yield one, task
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def within(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 60)


def moment(server: ApiServer, field: str) -> datetime:
    """A time in the Lease as the server has it."""
    lease = server.object("leases.coordination.k8s.io", "default", "hami-bot")
    assert lease
    return datetime.fromisoformat(lease["spec"][field])


async def take_over(other: Writer) -> None:
    """Writes another holder, however often the present one renews it meanwhile."""
    while True:
        lease = await other.lease("default", "hami-bot")
        lease["spec"]["holderIdentity"] = "kubectl"
        with contextlib.suppress(Conflict):
            await other.replace_lease("default", lease)
            return


async def test_the_first_leads_and_the_second_waits_until_it_ends(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with ApiServer({}) as server, cluster.candidate(server, "a") as (a, task):
        await within(a.began)
        async with cluster.candidate(server, "b") as (b, _):
            task.cancel()
            await within(a.ended)
            await within(b.began)
    assert cluster.overlaps == []


async def test_a_leader_that_cannot_reach_the_server_stops_before_another_begins(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with ApiServer({}) as server, cluster.candidate(server, "a") as (a, _):
        await within(a.began)
        outage = Fault(LEASES, "hang")
        server.faults.append(outage)
        await within(a.ended)
        server.faults.remove(outage)
        await within(a.began)
    assert cluster.overlaps == []


async def test_a_leader_that_died_is_followed_when_its_lease_has_lapsed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with ApiServer({}) as server:
        async with cluster.candidate(server, "a") as (a, task):
            await within(a.began)
            release = Fault(LEASES, "status", status=503)
            server.faults.append(release)  # it dies without giving the Lease up
            task.cancel()
            await within(a.ended)
        server.faults.remove(release)
        last_renewed = moment(server, "renewTime")
        async with cluster.candidate(server, "b") as (b, _):
            await within(b.began)
            taken = moment(server, "acquireTime")
    assert (taken - last_renewed).total_seconds() >= QUICK.lease_s


async def test_somebody_who_takes_the_lease_ends_the_work(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with ApiServer({}) as server:
        config = tmp_path / "other"
        config.write_text(server.kubeconfig())
        async with cluster.candidate(server, "a") as (a, _), await open_writer(kubeconfig=config) as other:
            await within(a.began)
            await take_over(other)
            await within(a.ended)
            await within(a.began)  # nobody renews it for the other


async def test_its_lease_says_who_leads_and_how_often_that_changed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with ApiServer({}) as server:
        config = tmp_path / "other"
        config.write_text(server.kubeconfig())
        async with await open_writer(kubeconfig=config) as other:
            for name in ("a", "b"):
                async with cluster.candidate(server, name, PATIENT) as (one, _):
                    await within(one.began)
                    spec = (await other.lease("default", "hami-bot"))["spec"]
                    assert spec["holderIdentity"] == name
            assert spec["leaseTransitions"] == 2
            assert not (await other.lease("default", "hami-bot"))["spec"].get("holderIdentity")
