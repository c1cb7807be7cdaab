"""`watch POD`: who waits for a pod is told once, whatever happens to the bot meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import WatchAsked
from handlers.watches import LONGEST_S, PACE_S, Watches
from tests.oncall.rig import Rig, on_rig, text
from tests.playbooks.world import Object, card, cluster, gpu_node, pod, record, running
from tests.slack.outbox_support import ONCALL

ADA = "U0ADA00001"
FULL: dict[str, object] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000}


def world(folder: Path, *pods: Object) -> Path:
    folder.mkdir()
    return record(folder, cluster(gpu_node("gpu-1", card("GPU-1")), *pods))


async def watch(rig: Rig, words: str = "ml/wl", verb: str = "watch") -> str:
    question = Question(words=f"{verb} {words}", user=ADA, channel=ONCALL, asked_at=rig.now)
    asked = WatchAsked(verb, words, {})
    return (await Watches(rig.deps(), "a").answer(question, asked, "", rig.sources(""))).text


async def look(rig: Rig, times: int = 1) -> list[str]:
    """What Ada has been told once other processes have looked so often."""
    for number in range(times):
        await rig.bot.clock.advance(4 * PACE_S)
        await Watches(rig.deps(), f"later-{number}").look()
        await rig.send()
    room = rig.bot.slack.dm("ada")
    return [text(message) for _, message in rig.bot.slack.workspace.everything(room) if message.get("bot_id")]


@pytest.mark.parametrize(
    ("becomes", "told"),
    [
        ([running("wl", "gpu-1", ("GPU-1", 1000, 0), status={"phase": "Running"})], "ml/wl runs, on gpu-1"),
        ([], "ml/wl is gone before it ran"),
        ([pod("wl", annotations={"nvidia.com/use-gputype": "A100"})], "ml/wl waits for another cause"),
    ],
    ids=["runs", "gone", "another cause"],
)
@on_rig(lambda folder: world(folder / "before", pod("wl", FULL)), new=True)
async def test_it_is_told_once_also_by_a_process_that_came_later(
    rig: Rig, *, tmp_path: Path, becomes: list[Any], told: str
) -> None:
    assert "I will tell you once" in await watch(rig)
    assert await look(rig, 2) == []
    rig.recording = world(tmp_path / "after", *becomes)
    [said] = await look(rig, 4)
    assert told in said


@on_rig(lambda folder: world(folder / "before", pod("wl", FULL)), new=True)
async def test_what_is_not_watched_any_more_is_not_told(rig: Rig, *, tmp_path: Path) -> None:
    await watch(rig)
    assert "ml/wl" in await watch(rig, "")
    assert "no more of ml/wl" in await watch(rig, "wl", "unwatch")
    assert "watch no pod" in await watch(rig, "")
    rig.recording = world(tmp_path / "after")
    assert await look(rig, 3) == []


@on_rig(lambda folder: world(folder / "before", pod("wl", FULL)), new=True)
async def test_a_cluster_that_cannot_be_read_ends_no_watch(rig: Rig, *, tmp_path: Path) -> None:
    await watch(rig)
    before, rig.recording = rig.recording, tmp_path / "nowhere"
    assert await look(rig, 2) == []
    rig.recording = before
    assert "ml/wl" in await watch(rig, "")
    await rig.bot.clock.advance(LONGEST_S)
    [said] = await look(rig, 2)
    assert "still waits after 7 days" in said


@on_rig(lambda folder: world(folder / "before", running("wl", "gpu-1", ("GPU-1", 1000, 0))), new=True)
async def test_a_pod_that_does_not_wait_is_answered_and_not_watched(rig: Rig) -> None:
    assert "does not wait" in await watch(rig)
    assert "watch no pod" in await watch(rig, "")
