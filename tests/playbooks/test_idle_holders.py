"""A pod without room is told who holds GPUs and does not use them: only by figures, and where their end lets it in."""

from datetime import datetime
from pathlib import Path
from typing import ClassVar

import pytest

from bot.hami.metrics.exposition import Sample
from bot.report import Report
from tests.playbooks.world import (
    Object,
    ago,
    ask,
    card,
    cause,
    cluster,
    codes,
    fit,
    gpu,
    gpu_node,
    none_of,
    plugin_pod,
    pod,
    refused,
    running,
)
from tests.tune.lab import GIB, KERNEL, USED, FakePrometheus, use

HOUR = 3600
FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
UNUSED = use(USED, "old", "GPU-gpu-1", 4 * GIB) + use(KERNEL, "old", "GPU-gpu-1", 22500)
BUSY = use(USED, "old", "GPU-gpu-1", 4 * GIB) + use(KERNEL, "old", "GPU-gpu-1", 30)


def holder(name: str = "old", memory: int = 12000, uuid: str = "GPU-gpu-1", **fields: object) -> Object:
    return running(name, "gpu-1", (uuid, memory, 0), **{"age": 48 * HOUR} | fields)


def of_team(one: Object, team: str) -> Object:
    one["metadata"]["labels"]["team"] = team
    return one


def why(folder: Path, *holders: Object, monitor: str | None = UNUSED, memory: int = 9000, **more: object) -> Report:
    """The answer about a pod that the only node refused for want of memory."""
    waiting = pod(limits=gpu(memory=memory), said=FULL)
    objects = cluster(waiting, gpu_node(), plugin_pod("gpu-1"), *(holders or [holder()]))
    return ask(folder, objects, monitors={} if monitor is None else {"gpu-1": monitor}, **more)


def test_why_names_the_holder_that_launches_no_kernel(tmp_path: Path) -> None:
    report = why(tmp_path, of_team(holder(), "vision"))
    assert codes(report)[:2] == ["card-insufficient-memory", "idle-holder"]
    assert report.findings[1].claim == (
        "Waiting for ml/old: 12,000 MiB, no kernel for 6h15m, owner vision; "
        "with that given back, gpu-1 would take the pod."
    )
    assert cause(report).next_actions[0].label.startswith("Ask vision to delete ml/old")


def test_its_figure_and_what_hami_gave_it_are_quoted(tmp_path: Path) -> None:
    figure, held = why(tmp_path).findings[1].evidence
    assert figure.quote == UNUSED.splitlines()[1]
    assert "pods/hami-device-plugin-gpu-1:9394/proxy/metrics" in figure.command
    assert "GPU-gpu-1,NVIDIA,12000,0" in held.quote


def test_a_manifest_without_room_is_told_it_too(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), plugin_pod("gpu-1"), holder())
    limits = "{nvidia.com/gpu: 1, nvidia.com/gpumem: 9000}"
    manifest = f"{{kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{resources: {{limits: {limits}}}}}]}}}}"
    report = fit(tmp_path, objects, manifest, monitors={"gpu-1": UNUSED})
    assert codes(report)[:2] == ["fits-nowhere", "idle-holder"]
    assert cause(report).next_actions[0].command == "gpus --idle --node gpu-1"


def test_prometheus_is_asked_for_these_gpus_where_there_is_one(tmp_path: Path) -> None:
    asked = FakePrometheus(UNUSED)
    report = why(tmp_path, monitor=UNUSED, settings={"prometheus": asked})
    assert report.findings[1].evidence[0].command.startswith("PromQL: hami_container_last_kernel_elapsed_seconds")


@pytest.mark.parametrize("prometheus", [FakePrometheus(), FakePrometheus(fails="connection refused")], ids=["", "down"])
def test_where_prometheus_has_no_figure_the_monitor_is_asked(tmp_path: Path, prometheus: FakePrometheus) -> None:
    report = why(tmp_path, monitor=UNUSED, settings={"prometheus": prometheus})
    assert "9394/proxy/metrics" in report.findings[1].evidence[0].command


def test_a_name_that_is_no_uuid_does_not_get_into_a_query(tmp_path: Path) -> None:
    class Listening(FakePrometheus):
        asked: ClassVar[list[str]] = []

        async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
            self.asked.append(expression)
            return await super().query(expression, at)

    odd = running("old", "gpu-1", ('G"} or up{a=~".*', 12000, 0), age=48 * HOUR)
    node = gpu_node("gpu-1", card('G"} or up{a=~".*'))
    waiting = pod(limits=gpu(memory=9000), said=FULL)
    objects = cluster(waiting, node, plugin_pod("gpu-1"), odd)
    ask(tmp_path, objects, monitors={"gpu-1": UNUSED}, settings={"prometheus": Listening(UNUSED)})
    assert not [query for query in Listening.asked if "up{" in query]


@pytest.mark.parametrize(
    ("monitor", "holders"),
    [
        pytest.param(BUSY, [holder()], id="it uses its GPU"),
        pytest.param("", [holder()], id="nothing is measured of it"),
        pytest.param(None, [holder()], id="there is no monitor"),
        pytest.param(use(KERNEL, "old", "GPU-gpu-1", "NaN"), [holder()], id="its figure is no number"),
        pytest.param(UNUSED, [holder(memory=1000), holder("new", 11000, age=60)], id="its end would not be enough"),
        pytest.param(UNUSED, [holder(deleted=ago(5))], id="it is ending already"),
    ],
)
def test_nobody_is_named_where(tmp_path: Path, monitor: str | None, holders: list[Object]) -> None:
    report = why(tmp_path, *holders, monitor=monitor)
    assert "idle-holder" not in codes(report)
    assert not [gap for gap in report.gaps if "monitor" in gap.source.casefold()]


def test_of_two_gpus_that_a_holder_has_both_must_be_measured(tmp_path: Path) -> None:
    both = running("old", "gpu-1", ("GPU-gpu-1", 12000, 0), ("GPU-b", 12000, 0), age=48 * HOUR)
    waiting = pod(limits=gpu(memory=9000), said=FULL)
    node = gpu_node("gpu-1", card("GPU-gpu-1"), card("GPU-b"))
    report = ask(tmp_path, cluster(waiting, node, plugin_pod("gpu-1"), both), monitors={"gpu-1": UNUSED})
    assert "idle-holder" not in codes(report)


def test_two_are_named_where_neither_alone_is_enough(tmp_path: Path) -> None:
    figures = "".join(use(KERNEL, name, "GPU-gpu-1", 8 * HOUR) for name in ("old", "older", "small"))
    holders = [holder(memory=7000), holder("older", 7000), holder("small", 500)]
    report = why(tmp_path, *holders, monitor=figures, memory=14000)
    assert "Waiting for ml/old, ml/older: 14,000 MiB, no kernel for 8h" in report.findings[1].claim


def test_a_monitor_that_does_not_answer_beside_one_that_does_is_a_gap(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=9000), said=FULL)
    other = running("there", "gpu-2", ("GPU-gpu-2", 12000, 0), age=48 * HOUR)
    nodes = [gpu_node("gpu-1"), gpu_node("gpu-2"), plugin_pod("gpu-1"), plugin_pod("gpu-2")]
    report = ask(tmp_path, cluster(waiting, *nodes, holder(), other), monitors={"gpu-1": UNUSED})
    assert codes(report)[:2] == ["card-insufficient-memory", "idle-holder"]
    assert [gap.source for gap in report.gaps] == ["vGPUmonitor metrics of hami-system/hami-device-plugin-gpu-2"]


def test_a_scheduler_that_is_down_is_not_waited_for_with_the_holder(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=9000), said=FULL)
    objects = [waiting, gpu_node(), plugin_pod("gpu-1"), holder()]
    report = ask(tmp_path, objects, monitors={"gpu-1": UNUSED})
    assert cause(report).code != "card-insufficient-memory"
    assert "idle-holder" not in codes(report)
