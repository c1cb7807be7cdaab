"""Every row of the guide has its place: in the data, in the answer, in the documentation."""

from pathlib import Path
from typing import get_args

import pytest
import yaml

from bot.hami.metrics.gpu_usage import NAMES
from bot.texts import Texts
from handlers.parsing.grammar import ParsedQuestion
from handlers.shell_commands import tune_command
from playbooks.tune.advice import Topic
from playbooks.tune.guide import SYMPTOMS, TEMPLATES, client_for, lock_minutes, scenarios, splits_for, template
from tests.playbooks.world import Object, card, gpu_node, running, scheduler
from tests.tune.lab import tune
from tests.tune.support import cases

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tuning.md").read_text(encoding="utf-8")
EXISTS_NOWHERE = ("hami_vgpu_core_used_percent", "hami_vgpu_core_limit_percent")
CASES = {case.name: case for case in cases()}


def test_the_guide_is_found_by_size() -> None:
    assert [client_for(nodes)[1:] for nodes in (49, 50, 200, 201)] == [
        (5, 10, 15),
        (20, 40, 20),
        (20, 40, 20),
        (50, 100, 30),
    ]
    assert [splits_for(mib) for mib in (1024, 2048, 8192, 16384)] == [30, 20, 10, 5]
    assert lock_minutes() == (2, 10)


def test_the_page_names_every_topic() -> None:
    assert [topic for topic in get_args(Topic) if f"`{topic}`" not in PAGE] == []


@pytest.mark.parametrize("one", scenarios(), ids=lambda case: case.symptom)
def test_the_page_has_every_symptom_with_its_parameter_value_and_topic(one: object) -> None:
    symptom, parameter, value, topic, _ = one  # type: ignore[misc]
    assert f"| {Texts('en')(f'scenario.{symptom}')} | `{parameter}` | {value} | `{topic}` |" in PAGE


def test_every_symptom_has_a_row_and_a_topic_that_exists() -> None:
    assert {scenario.symptom for scenario in scenarios()} == set(SYMPTOMS)
    assert {scenario.topic for scenario in scenarios()} <= set(get_args(Topic))


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_page_has_every_value_of_a_template(name: str) -> None:
    column = 1 + TEMPLATES.index(name)
    rows = {cells[0].strip("` "): cells for line in PAGE.splitlines() if len(cells := line.strip("|").split("|")) == 3}
    for setting in template(name):
        assert rows[setting.path][column].strip() == str(setting.value).lower()


def test_the_page_names_every_metric_that_is_read_and_those_that_exist_nowhere() -> None:
    assert [name for name in (*NAMES, *EXISTS_NOWHERE) if f"`{name}`" not in PAGE] == []


def test_a_symptom_is_seen_where_its_advice_is_given() -> None:
    report = CASES["throttled-client"].ask()
    (table,) = (table for table in report.tables if table.title == "scenarios")
    seen = {symptom: cells for symptom, *cells in table.rows}
    assert seen["GPU pods are scheduled slowly"] == [
        "yes",
        "--kube-qps, --kube-burst",
        "50, 100",
        "kube-qps",
        "raise 50",
    ]
    assert seen["HAMi's scheduler is OOMKilled"][0] == "no"
    assert seen["programs run out of GPU memory"][0] == "cannot-tell"


def lab(*flags: str, config: str = "nvidia: {}\n", version: str = "2.10.0") -> list[Object]:
    held = running("one", "gpu-1", ("GPU-a", 4096, 0))
    return [*scheduler(version, flags=flags, config=config), gpu_node("gpu-1", card("GPU-a")), held]


def test_a_template_is_compared_with_what_is_deployed(tmp_path: Path) -> None:
    objects = lab("--kube-qps=50", config="nvidia:\n  gpuCorePolicy: force\n  libCudaLogLevel: 1\n")
    report = tune(tmp_path, objects, template="production")
    shown, lines = report.tables
    use = {setting: (deployed, wanted, used) for setting, deployed, wanted, used in shown.rows}
    assert use["scheduler.extender.extraArgs --kube-qps"] == ("50", "50", "same")
    assert use["scheduler.extender.extraArgs --kube-burst"] == ("10 (the default)", "100", "yes")
    assert use["devices.nvidia.gpuCorePolicy"][2] == "same"
    values = yaml.safe_load("\n".join(line for (line,) in lines.rows))
    assert values == {
        "scheduler": {
            "replicas": 2,
            "defaultSchedulerPolicy": {"nodeSchedulerPolicy": "spread"},
            "extender": {"extraArgs": ["-v=4", "--kube-qps=50", "--kube-burst=100"]},
        },
        "devices": {"nvidia": {"libCudaLogLevel": 0}},
    }
    assert "libCudaLogLevel: 1" in [proof.quote for proof in report.findings[0].evidence]


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (("--debug", "--node-lock-timeout=8m"), ["-v=4", "--debug", "--node-lock-timeout=8m"]),
        (("--node-lock-timeout", "8m"), ["-v=4", "--node-lock-timeout", "8m"]),
        (("--metrics-bind-address=:9395", "--legacy-metrics=true"), ["-v=4", "--legacy-metrics=true"]),
        (("--kube-qps", "5"), ["-v=4"]),
    ],
    ids=["more flags", "a flag of two words", "flags that the chart writes", "what the template sets"],
)
def test_the_yaml_keeps_the_flags_that_the_template_says_nothing_of(
    tmp_path: Path, flags: tuple[str, ...], kept: list[str]
) -> None:
    lines = tune(tmp_path, lab(*flags), template="production").tables[1]
    values = yaml.safe_load("\n".join(line for (line,) in lines.rows))
    assert values["scheduler"]["extender"]["extraArgs"] == [*kept, "--kube-qps=50", "--kube-burst=100"]


def test_over_commit_that_is_not_measured_to_be_safe_is_left_out(tmp_path: Path) -> None:
    shown, lines = tune(tmp_path, lab(), template="development").tables
    (used,) = (row[3] for row in shown.rows if row[0] == "devicePlugin.deviceMemoryScaling")
    assert used == "not measured to be safe: cannot-tell"
    assert not [line for (line,) in lines.rows if "deviceMemoryScaling" in line]


def test_nodes_with_a_value_of_their_own_are_named() -> None:
    shown = CASES["oom-risk"].ask(template="production").tables[0]
    (used,) = (row[3] for row in shown.rows if row[0] == "devicePlugin.deviceMemoryScaling")
    assert used == "gpu-node-03, gpu-node-04 have 1.5: see the nodeconfig of the device plugin's ConfigMap"


def test_a_value_that_this_version_does_not_have_is_left_out(tmp_path: Path) -> None:
    shown, lines = tune(tmp_path, lab(version="2.5.1"), template="production").tables
    assert {row[0] for row in shown.rows if row[3] == "HAMi has it since 2.6.0"} >= {"devices.nvidia.gpuCorePolicy"}
    assert not [line for (line,) in lines.rows if "gpuCorePolicy" in line or "kube" in line]


def test_what_could_not_be_read_is_not_compared(tmp_path: Path) -> None:
    shown, lines = tune(tmp_path, lab(), missing=("configmaps",), template="production").tables
    assert {row[1:] for row in shown.rows if row[0].startswith("devices.")} == {
        ("?", "force", "could not be read"),
        ("?", "0", "could not be read"),
    }
    assert not [line for (line,) in lines.rows if "devices" in line]


def test_a_template_is_asked_for_in_a_shell() -> None:
    asked = tune_command("hami-bot", ()).main(["--template", "production"], standalone_mode=False)
    assert isinstance(asked, ParsedQuestion)
    assert asked.request.template == "production"
