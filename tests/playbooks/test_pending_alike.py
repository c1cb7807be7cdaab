"""Which pods of a crowd are judged once for all: those that are alike in everything that decides."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.kube.models import Pod
from bot.kube.recording import RecordedCluster
from bot.texts import Texts
from playbooks._judgement import Judge, Surroundings, said_about
from playbooks._playbook import Sources, find
from playbooks._rules.case import World
from tests.playbooks.pending_support import FULL, full, too_large
from tests.playbooks.world import Object, cluster, given, gpu, pod, record


def judge_of(tmp_path: Path, *objects: Object, most_verdicts: int) -> tuple[Judge, list[Pod]]:
    """A judge with room for so many verdicts, and the pods that wait."""
    playbook = find("pending")
    sources = Sources(RecordedCluster.open(record(tmp_path, cluster(*objects))))
    seen = asyncio.run(playbook.gather(playbook.request(), sources))
    world = World(seen.scene.capacity, seen.install.install, seen.install.config, seen.scene.as_of)
    return Judge(Surroundings(seen.install, world, {}, {}), Texts("en"), most_verdicts=most_verdicts), seen.waiting.pods


def test_pods_that_are_alike_take_the_room_of_one(tmp_path: Path) -> None:
    alike = [too_large(f"p{number}", age=900 - number) for number in range(5)]
    other = too_large("other", 14000, age=10)
    judge, pods = judge_of(tmp_path, *full(), *alike, other, most_verdicts=1)
    judged = [judge.cause(one, said_about(one, (), ())) for one in pods]
    assert [one.code if one else None for one in judged] == ["card-insufficient-memory"] * 5 + [None]
    assert len({id(one) for one in judged[:5]}) == 1


@pytest.mark.parametrize(
    "different",
    [
        {"limits": gpu(memory=14000)},
        {"nodeSelector": {"gpu": "on"}},
        {"annotations": {"nvidia.com/use-gputype": "T4"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"schedulerName": "other"},
        {"schedulingGates": [{"name": "later"}]},
        {"labels": {"hami.io/webhook": "ignore"}},
        {"annotations": given("gpu-1", ("GPU-gpu-1", 1, 0))},
    ],
    ids=lambda one: next(iter(one)),
)
def test_pods_that_differ_in_what_decides_are_not_alike(tmp_path: Path, different: Any) -> None:
    fields = {"limits": gpu(memory=15000), "said": FULL} | different
    judge, pods = judge_of(tmp_path, *full(), too_large("a", age=900), pod("b", age=10, **fields), most_verdicts=1)
    first, second = (judge.cause(one, said_about(one, (), ())) for one in pods)
    assert first is not None
    assert second is None
