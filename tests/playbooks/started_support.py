"""Pods that were placed and whose containers do not start, with what the node says of them."""

from pathlib import Path

from bot.report import Report
from tests.playbooks.world import Object, ask, cause, cluster, given, pod

PLACED = given("gpu-1", ("GPU-gpu-1", 1000, 0))
REJECTED = "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = {}, which is unexpected"


def placed(annotations: Object | None = None, age: float = 3600, **status: object) -> Object:
    """A pod on gpu-1 in this status."""
    one = pod(annotations=PLACED if annotations is None else annotations, nodeName="gpu-1", age=age)
    one["status"] = status
    return one


def report_on(tmp_path: Path, waiting: Object, *objects: Object) -> Report:
    report = ask(tmp_path, cluster(waiting, *objects))
    assert cause(report).scope.nodes == ("gpu-1",)
    assert not report.tables
    return report


def container_status(**state: Object) -> list[Object]:
    return [{"name": "main", "state": state.pop("state"), **state}]
