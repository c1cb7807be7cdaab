"""HAMi's scheduler is given more memory where it ran out of it; by size alone the guide's row is only shown."""

from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.world import EXTENDER, Object, card, gpu_node, node, running, scheduler
from tests.tune.lab import row, told, tune

ONE = running("one", "gpu-1", ("GPU-a", 8192, 0))


def cluster(nodes: int, resources: Object | None = None, ends: Object | None = None) -> list[Object]:
    objects = [*scheduler(), gpu_node("gpu-1", card("GPU-a")), ONE, *(node(f"cpu-{n}") for n in range(nodes - 1))]
    for object_ in objects:
        if object_["kind"] == "Pod" and "hami-scheduler" in object_["metadata"]["name"]:
            (extender,) = (part for part in object_["spec"]["containers"] if part["name"] == EXTENDER)
            extender["resources"] = resources or {}
            if ends:
                object_["status"]["containerStatuses"] = [{"name": EXTENDER, "restartCount": 4, "lastState": ends}]
    return objects


def memory(**kinds: str) -> dict[str, Any]:
    return {kind: {"memory": amount} for kind, amount in kinds.items()}


def ended(reason: str, code: int) -> Object:
    return {"terminated": {"reason": reason, "exitCode": code}}


@pytest.mark.parametrize(
    ("nodes", "guide"),
    [
        (49, "CPU 100m/500m, memory 128Mi/512Mi"),
        (50, "CPU 200m/1000m, memory 256Mi/1Gi"),
        (201, "CPU 500m/2000m, memory 512Mi/2Gi"),
    ],
)
def test_the_guides_row_of_the_size_is_shown_beside_what_is_deployed(tmp_path: Path, nodes: int, guide: str) -> None:
    found = row(tune(tmp_path, cluster(nodes, memory(limits="2Gi"))), "scheduler-resources")
    assert (found.direction, found.current, found.recommended) == ("keep", "2Gi", "2Gi")
    assert f"for {nodes} nodes the guide has {guide}" in found.why
    assert "used 82 MiB" in found.why


def test_size_alone_raises_nothing_and_says_why(tmp_path: Path) -> None:
    found = row(tune(tmp_path, cluster(201, memory(limits="512Mi"))), "scheduler-resources")
    assert (found.direction, found.recommended) == ("keep", "512Mi")
    assert "the guide has more" in found.why
    assert "size alone is no reason" in found.why


def test_no_limit_is_kept_as_none(tmp_path: Path) -> None:
    found = row(tune(tmp_path, cluster(60)), "scheduler-resources")
    assert (found.direction, found.current) == ("keep", "no memory limit")


def test_restarts_for_another_reason_are_no_lack_of_memory(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(60, memory(limits="512Mi"), ended("Error", 2)))
    assert row(report, "scheduler-resources").direction == "keep"


def test_without_the_nodes_the_size_is_not_told(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(60, memory(limits="512Mi")), missing=("nodes",))
    found = row(report, "scheduler-resources")
    assert found.direction == "keep"
    assert "node" not in found.why


@pytest.mark.parametrize(
    ("resources", "said", "unsaid"),
    [
        (memory(limits="512Mi"), "limits.memory=1Gi, scheduler.extender.resources.requests.memory=256Mi", "512Mi"),
        (memory(limits="512Mi", requests="300Mi"), "limits.memory=1Gi", "requests"),
    ],
    ids=["no request", "a larger request"],
)
def test_after_an_oomkill_limit_and_request_are_those_of_the_size(
    tmp_path: Path, resources: Object, said: str, unsaid: str
) -> None:
    report = tune(tmp_path, cluster(60, resources, ended("OOMKilled", 137)))
    assert row(report, "scheduler-resources")[1:5] == ("raise", f"memory limit of {EXTENDER}", "512Mi", "1Gi")
    label = told(report, "OOMKilled").next_actions[0].label
    assert said in label
    assert unsaid not in label
