"""A recording is served as if it had been taken now: every time in it is moved by one offset, and nothing else."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sandbox.apiserver import ApiServer
from sandbox.apiserver.recordings import read_recording
from sandbox.apiserver.timeshift import shift_objects

CASE = Path(__file__).parents[1] / "cases" / "hami-2.10" / "recording.tar.gz"
TAKEN_AT = datetime(2026, 11, 21, 6, 13, 30, tzinfo=UTC)
DAY = timedelta(days=1, hours=1)


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("2026-11-21T06:13:30Z", "2026-11-22T07:13:30Z"),
        ("2026-12-31T23:00:00.123456Z", "2027-01-02T00:00:00.123456Z"),
        ("2026-11-21T14:13:30+08:00", "2026-11-22T15:13:30+08:00"),
        ("Requesting_2026-11-21 05:52:25", "Requesting_2026-11-22 06:52:25"),
        ("Requesting_2026.11.21 05:52:25", "Requesting_2026.11.22 06:52:25"),
        ("Reported 2026-11-21 05:52:25.1 +0000 UTC m=+1", "Reported 2026-11-22 06:52:25.1 +0000 UTC m=+1"),
        ("2026-11-21T06:11:11Z,ml,trainer-0", "2026-11-22T07:11:11Z,ml,trainer-0"),
        ("2026-13-41T06:11:11Z", "2026-13-41T06:11:11Z"),
        ("10.2026-11-21", "10.2026-11-21"),
    ],
)
def test_times_keep_their_format(text, moved):
    assert json.loads(shift_objects(json.dumps({"a": text}).encode(), DAY)) == {"a": moved}


def test_seconds_since_1970_are_moved_where_hami_writes_them():
    text = json.dumps({"hami.io/bind-time": "1795241448", "hami.io/vgpu-time": "1795241448", "other": "1795241448"})
    assert json.loads(shift_objects(text.encode(), DAY)) == {
        "hami.io/bind-time": "1795331448",
        "hami.io/vgpu-time": "1795331448",
        "other": "1795241448",
    }


TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def differences(old: Any, new: Any) -> set[timedelta | str]:
    """By how much each time in two copies of a document differs; anything else that differs is named."""
    if isinstance(old, dict):
        assert old.keys() == new.keys()
        return {difference for key in old for difference in differences(old[key], new[key])}
    if isinstance(old, list):
        return {difference for pair in zip(old, new, strict=True) for difference in differences(*pair)}
    if old == new:
        return {"a time that was not moved"} if isinstance(old, str) and TIME.match(old) else set()
    if isinstance(old, str) and TIME.match(old):
        return {datetime.fromisoformat(new) - datetime.fromisoformat(old)}
    return {re.sub(r"\d", "0", old)}


def test_every_time_of_a_recorded_cluster_is_moved_by_the_same():
    now = TAKEN_AT + timedelta(days=3, seconds=5, microseconds=400_000)
    plain, moved = read_recording(CASE), read_recording(CASE, now)
    found = differences(plain.objects, moved.objects)
    handshake, lock, unix = "Requesting_0000-00-00 00:00:00", "0000-00-00T00:00:00Z,ml,", "0000000000"
    others = {entry for entry in found if isinstance(entry, str)}
    assert found - others == {timedelta(days=3, seconds=5)}
    assert {handshake, unix} <= others
    assert all(other in {handshake, unix} or other.startswith(lock) or "0000-00-00" in other for other in others)
    [key] = plain.logs
    assert moved.logs[key].splitlines()[-1][5:].split()[0] != plain.logs[key].splitlines()[-1][5:].split()[0]
    assert len(moved.logs[key]) == len(plain.logs[key])


async def test_a_shifted_recording_is_served():
    now = datetime(2030, 2, 3, 4, 5, 6, tzinfo=UTC)
    async with (
        ApiServer.from_recording(CASE, shift_to=now) as server,
        aiohttp.ClientSession(server.url) as client,
        client.get("/api/v1/namespaces/ml/pods") as response,
    ):
        pods = (await response.json())["items"]
    assert (
        timedelta()
        < now - max(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in pods)
        < timedelta(minutes=5)
    )
