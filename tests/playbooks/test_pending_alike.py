"""Which pods of a crowd are judged once for all: those that are alike in everything that decides."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.kube.models import Pod
from bot.kube.recording.recorded_cluster import RecordedCluster
from playbooks.judgement.waiting import Judge
from playbooks.playbook import Sources, find
from playbooks.scenes.cluster import ClusterScene
from tests.playbooks.pending_support import FULL, full, too_large
from tests.playbooks.world import Object, cluster, given, gpu, pod, quota, record


def judge_of(tmp_path: Path, *objects: Object, **room: int) -> tuple[Judge, list[Pod]]:
    """A judge with room for so much (`most_verdicts`, `most_runs`), and the pods that wait."""
    playbook = find("pending")
    sources = Sources(RecordedCluster.open(record(tmp_path, cluster(*objects))))
    seen = asyncio.run(playbook.gather(playbook.request(), sources))
    scene = ClusterScene(seen.install, seen.scene.capacity, seen.scene.now)
    return Judge(scene, **room), seen.waiting.pods


def test_pods_that_are_alike_take_the_room_of_one(tmp_path: Path) -> None:
    alike = [too_large(f"p{number}", age=900 - number) for number in range(5)]
    other = too_large("other", 14000, age=10)
    judge, pods = judge_of(tmp_path, *full(), *alike, other, most_verdicts=1)
    judged = [judge.cause(pod) for pod in pods]
    assert [cause.code if cause else None for cause in judged] == ["card-insufficient-memory"] * 5 + [None]
    assert len({id(cause) for cause in judged[:5]}) == 1


@pytest.mark.parametrize(
    "different",
    [
        {"limits": gpu(memory=14000)},
        {"nodeSelector": {"gpu": "on"}},
        {"annotations": {"nvidia.com/use-gputype": "T4"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"schedulerName": "hami-schedulr"},
        {"schedulingGates": [{"name": "later"}]},
        {"labels": {"hami.io/webhook": "ignore"}},
        {"annotations": given("gpu-1", ("GPU-gpu-1", 1, 0))},
    ],
    ids=lambda different: next(iter(different)),
)
def test_pods_that_differ_in_what_decides_are_not_alike(tmp_path: Path, different: Any) -> None:
    fields = {"limits": gpu(memory=15000), "said": FULL} | different
    judge, pods = judge_of(tmp_path, *full(), too_large("a", age=900), pod("b", age=10, **fields), most_verdicts=1)
    first, second = (judge.cause(pod) for pod in pods)
    assert first is not None
    assert second is None


def test_requests_that_cost_too_many_runs_of_the_filter_are_left_and_told(tmp_path: Path) -> None:
    pods = [too_large(f"p{number}", 15000 + number, age=900 - number) for number in range(3)]
    judge, waiting = judge_of(tmp_path, *full(), *pods, most_runs=1)
    judged = [judge.cause(pod) for pod in waiting]
    assert [cause.code if cause else None for cause in judged] == ["card-insufficient-memory", None, None]


def test_namespaces_with_room_for_the_request_share_what_was_worked_out(tmp_path: Path) -> None:
    """Hundreds of quotas of different sizes cost no more runs of the filter than one."""
    names = [f"team-{number}" for number in range(20)]
    pods = [too_large("p", age=900 - number, namespace=name) for number, name in enumerate(names)]
    quotas = [quota(namespace=name, gpumem=100_000 + number) for number, name in enumerate(names)]
    judge, waiting = judge_of(tmp_path, *full(), *pods, *quotas, most_runs=10)
    judged = [judge.cause(pod) for pod in waiting]
    assert [cause.code if cause else None for cause in judged] == ["card-insufficient-memory"] * 20
