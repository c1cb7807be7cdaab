"""The logs of HAMi's scheduler as every question reads them: what is left out of them is a gap."""

import asyncio
from pathlib import Path

import pytest

from bot.kube.client.connect import open_cluster
from bot.kube.cluster import MOST_LINES
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.texts import in_english
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines
from playbooks.gather.scheduler_process import gather_panics
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from tests.playbooks.world import READY, cluster, record, scheduler

LINES = [f"line {number} about wl" for number in range(100)]
LOG = "\n".join(LINES) + "\n"


async def read(reached: RecordedCluster, limit_bytes: int = 1024 * 1024) -> ExtenderLines:
    seen = await gather_install(Sources(reached))
    return await gather_extender_lines(reached, seen.install, ["wl"], limit_bytes)


async def read_live(recording: Path, folder: Path, limit_bytes: int) -> ExtenderLines:
    async with ApiServer.from_recording(recording) as server:
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with await open_cluster(kubeconfig=config) as reached:
            return await read(reached, limit_bytes)


def test_a_log_that_is_read_whole_leaves_no_gap(tmp_path: Path) -> None:
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, cluster(), logs=LOG))))
    assert ([line for _, line in found.lines], found.gaps) == (LINES, ())


def test_a_recorded_log_that_is_too_long_is_read_at_its_end(tmp_path: Path) -> None:
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, cluster(), logs=LOG)), 100))
    assert found.lines[-1][1] == LINES[-1]
    assert [(gap.source, in_english(gap.text)) for gap in found.gaps] == [
        ("log of hami-system/hami-scheduler-0", "the log is too long to be read whole: older lines are missing")
    ]


def test_panics_of_a_log_that_was_not_read_whole_leave_a_gap(tmp_path: Path) -> None:
    long = "http: panic serving 10.0.0.1:1: one of too many\n" * (MOST_LINES + 1)
    there = RecordedCluster.open(record(tmp_path, cluster(), logs=long))

    async def gaps() -> list[str]:
        seen = await gather_install(Sources(there))
        return [gap.source for gap in (await gather_panics(there, seen.install))[1]]

    assert asyncio.run(gaps()) == ["log of hami-system/hami-scheduler-0"]


def test_of_many_replicas_the_one_that_decides_is_read(tmp_path: Path) -> None:
    objects = scheduler(replicas=5, statuses=[READY] * 5)
    lease = next(object_ for object_ in objects if object_["kind"] == "Lease")
    lease["spec"]["holderIdentity"] = lease["spec"]["holderIdentity"].replace("hami-scheduler-0", "hami-scheduler-4")
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, objects, logs=LOG))))
    assert found.lines[0][0].name == "hami-scheduler-4"


def test_a_live_log_that_is_too_long_is_told_to_lack_its_newest_lines(tmp_path: Path) -> None:
    found = asyncio.run(read_live(record(tmp_path, cluster(), logs=LOG), tmp_path, 100))
    assert found.lines[0][1] == LINES[0]
    assert [in_english(gap.text) for gap in found.gaps] == [
        "the log is too long to be read whole: its newest lines are missing"
    ]
    assert "logs POD --since 10m" in in_english(found.gaps[0].advice)


@pytest.mark.parametrize(("replicas", "told"), [(3, []), (5, ["scheduler pods"])])
def test_replicas_whose_logs_were_not_read_are_a_gap(tmp_path: Path, replicas: int, told: list[str]) -> None:
    objects = scheduler(replicas=replicas, statuses=[READY] * replicas)
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, objects, logs=LOG))))
    assert [gap.source for gap in found.gaps] == told
