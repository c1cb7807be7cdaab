"""What is missing, broken or too short becomes a gap or `cannot-tell`, never advice to change something."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from bot.hami.metrics.exposition import Sample
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from handlers.shell_output import asked_there
from playbooks.gather import usage
from playbooks.playbook import Sources
from playbooks.tune.guide import ScenarioRow
from playbooks.tune.playbook import PLAYBOOK, Request
from tests.playbooks.world import Object, card, gpu_node, plugin_pod, record, running, scheduler
from tests.tune.lab import GIB, HOURS, KERNEL, LIMIT, USED, FakePrometheus, advised, row, told, tune, use
from tests.tune.support import rows_of

HOUR = 3600
NOTHING_TO_CHANGE = {("monitor-gap", "repair")}
A, B = running("a", "gpu-1", ("GPU-a", 8192, 0)), running("b", "gpu-1", ("GPU-b", 8192, 0))
UNTOLD = ("memory-scaling", "idle-holder", "memory-limit-low-use", "memory-limit-high-use")


def cluster(*pods: Object) -> list[Object]:
    cards = (card("GPU-a"), card("GPU-b"))
    return [*scheduler(config="nvidia:\n  deviceMemoryScaling: 1\n"), gpu_node("gpu-1", *cards), *(pods or (A, B))]


def measured(
    pod: str, uuid: str, used: float | str = 4 * GIB, limit: float | str = 8 * GIB, kernel: float | str = 60
) -> str:
    return use(USED, pod, uuid, used) + use(LIMIT, pod, uuid, limit) + use(KERNEL, pod, uuid, kernel)


BOTH = measured("a", "GPU-a") + measured("b", "GPU-b")
PEAKS = use(USED, "a", "GPU-a", 4 * GIB) + use(USED, "b", "GPU-b", 4 * GIB)
WEEK = use(USED, "a", "GPU-a", HOURS) + use(USED, "b", "GPU-b", HOURS)


def of(topic: str, report: Report) -> list[tuple[str, str]]:
    return [(advice.direction, advice.object) for advice in rows_of(report) if advice.topic == topic]


def sources(report: Report) -> list[str]:
    return [gap.source for gap in report.gaps]


def test_a_whole_week_of_every_pod_is_enough(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(BOTH, PEAKS, WEEK))
    found = row(report, "memory-scaling")
    assert (found.direction, found.current, found.recommended) == ("raise", "1", "1.8")
    assert "16,384 MiB / 8,192 MiB x 0.9 = 1.80" in found.why


def test_little_use_now_is_told_with_the_peak_of_the_week(tmp_path: Path) -> None:
    low = measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b", used=GIB)
    peaks = use(USED, "a", "GPU-a", 4 * GIB) + use(USED, "b", "GPU-b", 7.5 * GIB)
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(low, peaks, WEEK))
    assert of("memory-limit-low-use", report) == [("lower", "ml/a")]
    finding = told(report, "ml/a: 1,024 MiB")
    assert "the most it used in 7 days is 4,096 MiB" in finding.next_actions[0].label
    assert finding.evidence[2].quote == peaks.splitlines()[0]
    assert row(report, "memory-limit-low-use").recommended == "4,552 MiB"
    assert "4,096 MiB / 0.9 = 4,552 MiB" in finding.claim


def test_how_much_less_is_not_told_without_a_whole_week(tmp_path: Path) -> None:
    low = measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b")
    young = FakePrometheus(low, PEAKS, use(USED, "a", "GPU-a", 50) + use(USED, "b", "GPU-b", HOURS))
    assert row(tune(tmp_path, cluster(), prometheus=young), "memory-limit-low-use").recommended == ""


def test_more_is_recommended_by_the_peak_and_never_more_than_a_gpu_has(tmp_path: Path) -> None:
    full = measured("a", "GPU-a", used=7.5 * GIB) + measured("b", "GPU-b", used=7.5 * GIB)
    peaks = use(USED, "a", "GPU-a", 7.8 * GIB) + use(USED, "b", "GPU-b", 15.9 * GIB)
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(full, peaks, WEEK))
    wanted = {
        advice.object: advice.recommended for advice in rows_of(report) if advice.topic == "memory-limit-high-use"
    }
    assert wanted == {"ml/a": "8,875 MiB", "ml/b": ""}
    assert told(report, "ml/a: ").evidence[2].quote == peaks.splitlines()[0]


@pytest.mark.parametrize("why", ["connection refused", "no answer within 30 s", "HTTP 401"])
def test_a_prometheus_that_does_not_answer_is_a_gap(tmp_path: Path, why: str) -> None:
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(fails=why))
    (gap,) = (gap for gap in report.gaps if gap.source == "Prometheus")
    assert why in gap.why
    assert advised(report) <= NOTHING_TO_CHANGE
    assert {row(report, topic).direction for topic in UNTOLD} == {"cannot-tell"}


def test_where_prometheus_does_not_answer_the_monitors_are_asked(tmp_path: Path) -> None:
    low = measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b")
    report = tune(tmp_path, cluster(), monitors={"gpu-1": low}, prometheus=FakePrometheus(fails="connection refused"))
    assert sources(report) == ["Prometheus"]
    assert of("memory-limit-low-use", report) == [("lower", "ml/a")]
    assert row(report, "memory-scaling").direction == "cannot-tell"


def test_a_prometheus_that_takes_too_long_for_all_questions_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(FakePrometheus):
        async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
            return await asyncio.Future[list[Sample]]()

    monkeypatch.setattr(usage, "PROMETHEUS_WITHIN_S", 0)
    report = tune(tmp_path, cluster(), monitors={"gpu-1": BOTH}, prometheus=Silent())
    assert [gap.why for gap in report.gaps] == ["no answer to all questions within 0 s"]
    assert advised(report) == set()


def test_of_a_prometheus_without_a_series_of_hami_the_monitors_are_asked(tmp_path: Path) -> None:
    low = measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b")
    report = tune(tmp_path, cluster(), monitors={"gpu-1": low}, prometheus=FakePrometheus())
    assert [gap.why for gap in report.gaps] == ["it has no figure of vGPUmonitor"]
    assert of("memory-limit-low-use", report) == [("lower", "ml/a")]
    assert of("monitor-gap", report) == []


def test_a_series_of_two_prometheus_replicas_counts_once(tmp_path: Path) -> None:
    def twice(text: str) -> str:
        return text + text.replace('container="main"', 'container="main",replica="b"')

    now = twice(measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b"))
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(now, twice(PEAKS), twice(WEEK)))
    assert of("memory-limit-low-use", report) == [("lower", "ml/a")]
    assert "16,384 MiB / 8,192 MiB x 0.9" in row(report, "memory-scaling").why


def test_of_two_series_of_one_share_the_higher_peak_counts(tmp_path: Path) -> None:
    moved = use(USED, "a", "GPU-a", 7 * GIB, instance="10.0.0.2:9394")
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(BOTH, PEAKS + moved, WEEK))
    assert "16,384 MiB / 11,264 MiB x 0.9 = 1.31" in row(report, "memory-scaling").why


def test_a_program_that_started_again_is_not_idle(tmp_path: Path) -> None:
    restarted = measured("a", "GPU-a", used=2 * GIB, limit=4 * GIB, kernel=5) + measured("b", "GPU-b")
    report = tune(tmp_path, cluster(), monitors={"gpu-1": restarted})
    assert of("idle-holder", report) == []


@pytest.mark.parametrize(
    "hours",
    [
        use(USED, "a", "GPU-a", 72) + use(USED, "b", "GPU-b", 72),
        use(USED, "a", "GPU-a", HOURS) + use(USED, "b", "GPU-b", 20),
        use(USED, "a", "GPU-a", HOURS),
    ],
    ids=["three days", "a younger pod", "no hours of one"],
)
def test_less_than_a_week_is_too_little_for_memory_scaling(tmp_path: Path, hours: str) -> None:
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(BOTH, PEAKS, hours))
    assert row(report, "memory-scaling").direction == "cannot-tell"
    assert advised(report) == set()


def test_a_pool_without_one_pods_peaks_cannot_be_told(tmp_path: Path) -> None:
    peaks = use(USED, "a", "GPU-a", 4 * GIB)
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(BOTH, peaks, WEEK))
    assert row(report, "memory-scaling").direction == "cannot-tell"


def two_nodes() -> list[Object]:
    far = running("b", "gpu-2", ("GPU-b", 8192, 0))
    return [*scheduler(), gpu_node("gpu-1", card("GPU-a")), gpu_node("gpu-2", card("GPU-b")), A, far]


def test_a_node_without_a_monitor_is_named_and_nothing_is_said_of_its_pods(tmp_path: Path) -> None:
    report = tune(tmp_path, two_nodes(), monitors={"gpu-1": measured("a", "GPU-a", kernel=9 * HOUR)})
    assert of("monitor-gap", report) == [("cannot-tell", "gpu-2")]
    assert set(of("idle-holder", report)) == {("lower", "ml/a"), ("cannot-tell", "ml/b")}


def test_monitors_that_cannot_be_read_are_no_fault(tmp_path: Path) -> None:
    report = tune(tmp_path, two_nodes())
    assert of("monitor-gap", report) == [("cannot-tell", "gpu-1,gpu-2")]
    assert advised(report) == set()
    (seen,) = (row.seen for row in report.typed(ScenarioRow) if row.topic == "monitor-gap")
    assert seen == "cannot-tell"


def test_a_monitor_without_a_figure_is_a_fault_beside_one_that_cannot_be_read(tmp_path: Path) -> None:
    report = tune(tmp_path, two_nodes(), monitors={"gpu-1": "go_goroutines 12\n"})
    assert of("monitor-gap", report) == [("repair", "gpu-1"), ("cannot-tell", "gpu-2")]


def test_a_node_without_a_plugin_pod_has_no_monitor(tmp_path: Path) -> None:
    path = record(tmp_path, [*two_nodes(), plugin_pod("gpu-1")], monitors={"gpu-1": measured("a", "GPU-a")})
    opened = RecordedCluster.open(path)
    seen = asyncio.run(PLAYBOOK.gather(Request(all=True), Sources(opened, ports=opened)))
    assert of("monitor-gap", PLAYBOOK.diagnose(seen)) == [("repair", "gpu-2")]


def test_a_node_of_which_prometheus_has_no_figure_is_a_fault(tmp_path: Path) -> None:
    report = tune(tmp_path, two_nodes(), prometheus=FakePrometheus(measured("a", "GPU-a")))
    assert of("monitor-gap", report) == [("repair", "gpu-2")]


@pytest.mark.parametrize("answer", ["", "go_goroutines 12\n", "<html>404</html>\n"])
def test_a_monitor_that_answers_without_a_figure_has_measured_nothing(tmp_path: Path, answer: str) -> None:
    report = tune(tmp_path, cluster(), monitors={"gpu-1": answer})
    assert of("monitor-gap", report) == [("repair", "gpu-1")]
    assert sources(report) == ["vGPUmonitor metrics of hami-system/hami-device-plugin-gpu-1"]


def test_holders_are_named_where_the_monitor_has_figures_of_the_gpus_alone(tmp_path: Path) -> None:
    of_gpus = f'hami_host_gpu_memory_used_bytes{{device_uuid="GPU-a"}} {GIB}\n'
    report = tune(tmp_path, cluster(), monitors={"gpu-1": of_gpus})
    assert set(of("idle-holder", report)) == {("cannot-tell", "ml/a"), ("cannot-tell", "ml/b")}
    assert advised(report) == set()


def test_of_very_many_monitors_those_where_pods_hold_gpus_are_asked(tmp_path: Path) -> None:
    idle = [gpu_node(f"gpu-0-{number}", card(f"GPU-0-{number}")) for number in range(200)]
    objects = [*idle, *cluster()]
    report = tune(tmp_path, objects, monitors={"gpu-1": measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b")})
    assert of("memory-limit-low-use", report) == [("lower", "ml/a")]
    assert of("monitor-gap", report) == []


TWO_GPUS = running("wide", "gpu-1", ("GPU-a", 8192, 0), ("GPU-b", 8192, 0))


@pytest.mark.parametrize(
    "text",
    [
        measured("wide", "GPU-a", used=GIB, kernel=9 * HOUR) + measured("wide", "GPU-b", kernel=10),
        measured("wide", "GPU-a", used=GIB, kernel=9 * HOUR),
    ],
    ids=["one is idle", "one is not measured"],
)
def test_a_pod_is_not_idle_for_one_of_its_gpus(tmp_path: Path, text: str) -> None:
    report = tune(tmp_path, cluster(TWO_GPUS), monitors={"gpu-1": text})
    assert advised(report) == set()


def test_a_limit_of_0_is_no_limit(tmp_path: Path) -> None:
    text = measured("a", "GPU-a", used=GIB // 8, limit=0) + measured("b", "GPU-b", used=15 * GIB, limit=0)
    assert advised(tune(tmp_path, cluster(), monitors={"gpu-1": text})) == set()


def test_a_pod_whose_process_is_gone_holds_its_gpu_and_uses_not_too_little(tmp_path: Path) -> None:
    text = measured("a", "GPU-a", used=0, kernel=9 * HOUR) + measured("b", "GPU-b")
    report = tune(tmp_path, cluster(), monitors={"gpu-1": text})
    assert advised(report) == {("idle-holder", "lower")}
    assert "no process of it is on the GPU" in row(report, "idle-holder").why


def test_used_0_without_the_time_of_a_kernel_tells_nothing(tmp_path: Path) -> None:
    text = use(USED, "a", "GPU-a", 0) + use(LIMIT, "a", "GPU-a", 8 * GIB) + measured("b", "GPU-b")
    report = tune(tmp_path, cluster(), monitors={"gpu-1": text})
    assert of("idle-holder", report) == [("cannot-tell", "ml/a")]
    assert advised(report) == set()


@pytest.mark.parametrize("missing", ["nodes", "pods", "configmaps", "deployments", "daemonsets", "logs"])
def test_without_one_input_there_is_less_advice_and_none_that_is_new(tmp_path: Path, missing: str) -> None:
    low = measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b", kernel=9 * HOUR)
    with_all, without = tmp_path / "all", tmp_path / "without"
    whole = _rows(tune(with_all, cluster(), monitors={"gpu-1": low}))
    part = _rows(tune(without, cluster(), monitors={"gpu-1": low}, missing=(missing,)))
    assert [advice for advice in part if advice[:2] not in {two[:2] for two in whole}] == []


def _rows(report: Report) -> Sequence[tuple[str, str, str]]:
    return [
        (advice.topic, advice.object, advice.direction)
        for advice in rows_of(report)
        if advice.direction in ("raise", "lower")
    ]


def test_a_figure_of_prometheus_is_shown_again_by_its_own_query(tmp_path: Path) -> None:
    low = measured("a", "GPU-a", used=GIB) + measured("b", "GPU-b")
    report = tune(tmp_path, cluster(), prometheus=FakePrometheus(low, PEAKS, WEEK))
    shown = asked_there(report, (), ("--cluster", "prod"))
    (finding,) = (finding for finding in shown.findings if "ml/a:" in finding.claim)
    series = low.splitlines()[0].rpartition(" ")[0]
    assert finding.evidence[0].command == f"PromQL: {series}"
