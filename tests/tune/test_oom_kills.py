"""Pods whose containers were OOMKilled: that is host memory, and runs that were cut short prove nothing of the GPU."""

from pathlib import Path

import pytest

from tests.playbooks.world import Object, ago, card, gpu_node, running, scheduler
from tests.tune.lab import GIB, HOURS, LIMIT, USED, FakePrometheus, row, told, tune, use

DAY = 24 * 3600
WEEK = FakePrometheus(
    use(USED, "a", "GPU-a", 4 * GIB) + use(LIMIT, "a", "GPU-a", 8 * GIB),
    use(USED, "a", "GPU-a", 4 * GIB),
    use(USED, "a", "GPU-a", HOURS),
)


def ended(reason: str, seconds: float, *, code: int = 137, where: str = "lastState", name: str = "main") -> Object:
    end = {"terminated": {"reason": reason, "exitCode": code, "finishedAt": ago(seconds)}}
    return {"name": name, "restartCount": 3, where: end}


def cluster(*ends: Object) -> list[Object]:
    held = running("a", "gpu-1", ("GPU-a", 8192, 0))
    held["status"]["containerStatuses"] = [{"name": "proxy", "restartCount": 0, "state": {"running": {}}}, *ends]
    return [*scheduler(config="nvidia:\n  deviceMemoryScaling: 1\n"), gpu_node("gpu-1", card("GPU-a")), held]


@pytest.mark.parametrize("where", ["lastState", "state"])
def test_a_pool_whose_pods_were_oomkilled_is_not_to_promise_more(tmp_path: Path, where: str) -> None:
    report = tune(tmp_path, cluster(ended("OOMKilled", DAY, where=where, name="loader")), prometheus=WEEK)
    found = row(report, "memory-scaling")
    assert (found.direction, found.current, found.recommended) == ("refuse", "1", "1")
    assert "host memory ran out, not the GPU's" in found.why
    (proof,) = told(report, "OOMKilled").evidence
    assert proof.quote == "OOMKilled"
    assert f'(@.name=="loader")].{where}.terminated.reason' in proof.command


def test_an_oomkill_is_not_the_guides_symptom_of_gpu_memory(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(ended("OOMKilled", DAY)), prometheus=WEEK)
    (table,) = (table for table in report.tables if table.title == "scenarios")
    seen = {symptom: cells[0] for symptom, *cells in table.rows}
    assert seen["programs run out of GPU memory"] == "cannot-tell"


@pytest.mark.parametrize(
    "end",
    [ended("Error", DAY, code=1), ended("OOMKilled", 8 * DAY), ended("Completed", DAY, code=0)],
    ids=["CUDA's out-of-memory error ends a program by itself", "before the window", "it finished"],
)
def test_other_ends_do_not_change_what_is_measured(tmp_path: Path, end: Object) -> None:
    assert row(tune(tmp_path, cluster(end), prometheus=WEEK), "memory-scaling").direction == "raise"


OOM_KILLED, FAILED = ended("OOMKilled", DAY), ended("Error", DAY, code=1)


@pytest.mark.parametrize(("end", "direction"), [(OOM_KILLED, "cannot-tell"), (FAILED, "lower")])
def test_little_use_is_a_reason_to_ask_for_less_but_after_an_oomkill(
    tmp_path: Path, end: Object, direction: str
) -> None:
    figures = use(USED, "a", "GPU-a", GIB) + use(LIMIT, "a", "GPU-a", 8 * GIB)
    assert row(tune(tmp_path, cluster(end), monitors={"gpu-1": figures}), "memory-limit-low-use").direction == direction


@pytest.mark.parametrize("end", [OOM_KILLED, FAILED])
def test_high_use_beside_restarts_tells_host_memory_from_the_gpus(tmp_path: Path, end: Object) -> None:
    figures = use(USED, "a", "GPU-a", 7.9 * GIB) + use(LIMIT, "a", "GPU-a", 8 * GIB)
    report = tune(tmp_path, cluster(end), monitors={"gpu-1": figures})
    assert row(report, "memory-limit-high-use").direction == "raise"
    finding, reason = told(report, "ml/a: "), end["lastState"]["terminated"]["reason"]
    assert [proof.quote for proof in finding.evidence[2:]] == ["3", reason]
    of_host = "raise resources.limits.memory for that" in finding.next_actions[0].label
    assert of_host == ("OOMKilled" in finding.next_actions[0].label) == (end is OOM_KILLED)
