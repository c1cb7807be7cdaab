"""The newest lines of a log, where so many lines are more than may be read."""

import asyncio

import pytest

from bot.kube.cluster import LogLines, LogWanted, newest_lines
from bot.kube.recording.recorded_cluster import RecordedCluster
from tests.kube.samples import folder

PLUGIN = ("hami-system", "hami-device-plugin-1", "device-plugin")
LOG = f"logs/{'/'.join(PLUGIN)}.log"


def read(tmp_path, lines, *, limit_bytes, needle=b"", tail=400) -> LogLines:
    there = RecordedCluster.open(folder(tmp_path / "lab", {LOG: "".join(f"{line}\n" for line in lines).encode()}))
    return asyncio.run(newest_lines(there, LogWanted(*PLUGIN, needle, tail=tail, limit_bytes=limit_bytes)))


def test_a_recording_leaves_out_the_newest_lines_as_an_api_server_does(tmp_path):
    there = RecordedCluster.open(folder(tmp_path / "lab", {LOG: b"one\ntwo\nthree\nfour\n"}))
    found = asyncio.run(there.log(LogWanted(*PLUGIN, b"", tail=3, limit_bytes=10)))
    assert found == LogLines(("two", "three"), cut=True, ends_early=True, first="two")


@pytest.mark.parametrize("width", [4, 100, 1_500])
def test_the_last_line_is_read_however_long_the_lines_before_are(tmp_path, width):
    found = read(tmp_path, [f"{number:0{width}}" for number in range(500)] + ["the cause"], limit_bytes=20_000)
    assert (found.lines[-1], found.ends_early) == ("the cause", False)


def test_a_last_line_longer_than_the_limit_is_said_to_be_missing(tmp_path):
    assert read(tmp_path, ["before", "x" * 30_000], limit_bytes=20_000).ends_early


def test_without_a_number_of_lines_a_log_is_read_once_from_its_beginning(tmp_path):
    assert read(tmp_path, ["one", "two"], tail=0, limit_bytes=100).lines == ("one", "two")


def test_a_needle_is_looked_for_in_the_last_lines_only(tmp_path):
    assert read(tmp_path, ["panic: old", "1", "panic: new"], needle=b"panic", tail=2, limit_bytes=100).lines == (
        "panic: new",
    )
