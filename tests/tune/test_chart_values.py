"""Where the chart takes a value from: by the chart that HAMi was installed with, not by the newest one."""

from pathlib import Path

import pytest
import yaml

from bot.report import Report
from tests.playbooks.world import COMPONENT, Object, card, gpu_node, node, running, scheduler
from tests.tune.lab import GIB, HOURS, USED, FakePrometheus, told, tune, use

CPU_NODES = [node(f"cpu-{number}") for number in range(60)]
ONE = running("one", "gpu-1", ("GPU-a", 8192, 0))
DOUBLE = "nvidia:\n  deviceMemoryScaling: 2\n"
FULL_WEEK = FakePrometheus(peaks=use(USED, "one", "GPU-a", 7 * GIB), hours=use(USED, "one", "GPU-a", HOURS))


def installed(version: str, *flags: str, chart: str = "", config: str = DOUBLE) -> list[Object]:
    labels = COMPONENT | ({"helm.sh/chart": f"hami-{chart}"} if chart else {})
    text = version < "2.8"
    gpus = gpu_node("gpu-1", card("GPU-a", devcore=200), text=text)
    return [*scheduler(version, flags=flags, labels=labels, config=config), gpus, ONE, *CPU_NODES]


def steps(report: Report, words: str) -> str:
    return "\n".join(action.label for action in told(report, words).next_actions)


@pytest.mark.parametrize(
    ("version", "chart", "expected"),
    [
        ("2.10.0", "", "scheduler.extender.extraArgs: --kube-qps=20"),
        ("2.11.0", "", "scheduler.kubeQPS=20"),
        ("2.11.0", "2.10.0", "scheduler.extender.extraArgs: --kube-qps=20"),
        ("2.10.0", "2.11.2", "scheduler.kubeQPS=20"),
    ],
    ids=["2.10", "2.11", "new image, old chart", "old image, new chart"],
)
def test_the_rate_is_set_where_the_chart_has_it(tmp_path: Path, version: str, chart: str, expected: str) -> None:
    report = tune(tmp_path, installed(version, chart=chart))
    assert expected in steps(report, "--kube-qps")


def test_a_rate_with_a_value_of_its_own_is_to_leave_the_list_that_would_win(tmp_path: Path) -> None:
    report = tune(tmp_path, installed("2.11.0", "--kube-burst=15"))
    assert "remove --kube-burst from scheduler.extender.extraArgs" in steps(report, "--kube-burst")


@pytest.mark.parametrize(
    ("version", "memory", "cores"),
    [
        ("2.10.0", "devicePlugin.deviceMemoryScaling=1", "devicePlugin.deviceCoreScaling=1"),
        ("2.11.0", "devices.nvidia.deviceMemoryScaling=1", "devices.nvidia.deviceCoreScaling=1"),
        ("2.5.1", "devicePlugin.deviceMemoryScaling=1", "devicePlugin.deviceCoreScaling=1"),
    ],
)
def test_the_plugins_values_stand_where_the_chart_has_them(
    tmp_path: Path, version: str, memory: str, cores: str
) -> None:
    report = tune(tmp_path, installed(version), prometheus=FULL_WEEK)
    assert memory in steps(report, "deviceMemoryScaling of NVIDIA-Tesla T4 is 2")
    assert cores in steps(report, "deviceCoreScaling")


def test_until_2_4_cores_are_scaled_in_the_nodeconfig_alone(tmp_path: Path) -> None:
    said = steps(tune(tmp_path, installed("2.4.1")), "deviceCoreScaling")
    assert "devicecorescaling to 1" in said
    assert "nodeconfig" in said
    assert "devicePlugin" not in said


def test_a_template_has_the_paths_of_the_chart_that_is_deployed(tmp_path: Path) -> None:
    deployed = installed("2.11.0", "--kube-qps=5", config="nvidia:\n  deviceSplitCount: 5\n")
    report = tune(tmp_path, deployed, template="production")
    (lines,) = (table for table in report.tables if table.title == "values.yaml")
    values = yaml.safe_load("\n".join(str(line) for (line,) in lines.rows))
    assert values["scheduler"]["kubeQPS"] == 50
    assert values["scheduler"]["kubeBurst"] == 100
    assert values["scheduler"]["extender"]["extraArgs"] == ["-v=4"]
    assert values["devices"]["nvidia"]["deviceSplitCount"] == 10
    assert "devicePlugin" not in values
    (rows,) = (table for table in report.tables if table.title == "template")
    assert "scheduler.kubeBurst" in {cells[0] for cells in rows.rows}
