"""The recorded clusters: the same answers as ever, and still right when something is taken away."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.render.overview import steps_shown
from bot.report import VERDICT_LIMIT, Report, as_json
from tests.cases_support import (
    CASES,
    VERSIONS,
    Edit,
    Question,
    Scenario,
    ask,
    ask_cluster,
    change,
    edited,
    files_of,
    gist,
    questions,
    scenarios,
    text_of,
    without,
    without_conditions,
    without_logs,
    write_recording,
)

SCENARIOS = scenarios()
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.version} {scenario.pod}")
KINDS = sorted({name.split("/")[1].split(".")[0] for name in files_of(VERSIONS[0]) if name.startswith("objects/")})
HONEST = ("not-enough-evidence", "node-unfit-pod", "node-unregistered", "binding-failed")


def recording(version: str) -> Path:
    return CASES / version / "recording.tar.gz"


@pytest.fixture(scope="session")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Opened recordings with some edits, each made once."""
    folder = tmp_path_factory.mktemp("variants")

    @cache
    def make(version: str, name: str, *edits: Edit) -> RecordedCluster:
        return RecordedCluster.open(edited(version, folder / f"{version}-{name}.tar.gz", *edits))

    return make


def is_right(scenario: Scenario, report: Report) -> bool:
    first = report.findings[0]
    return first.code in scenario.first and scenario.nodes in (None, first.scope.nodes)


@pytest.mark.parametrize("question", [*questions(), *(one.question for one in SCENARIOS)], ids=str)
def test_no_warning_is_told_without_anything_to_do(question: Question) -> None:
    report = ask_cluster(RecordedCluster.open(recording(question.version)), verb=question.verb, **question.values)
    assert [found.code for found in report.findings if found.severity != "info" and not found.next_actions] == []


@by_name
def test_the_answer_is_the_expected_one(scenario: Scenario) -> None:
    report = ask(recording(scenario.version), scenario.pod)
    assert gist(report) == scenario.question.expected


@by_name
def test_the_cause_comes_first(scenario: Scenario) -> None:
    assert is_right(scenario, ask(recording(scenario.version), scenario.pod))


@by_name
def test_the_cause_is_found_without_events(scenario: Scenario, variant: Any) -> None:
    assert is_right(scenario, ask_cluster(variant(scenario.version, "no-events", without("events")), scenario.pod))


@by_name
def test_the_cause_is_found_without_logs(scenario: Scenario, variant: Any) -> None:
    assert is_right(scenario, ask_cluster(variant(scenario.version, "no-logs", without_logs), scenario.pod))


@by_name
def test_the_fit_alone_finds_the_cause_and_only_suspects_it(scenario: Scenario, variant: Any) -> None:
    edits = (without("events"), without_logs, without_conditions)
    report = ask_cluster(variant(scenario.version, "fit-alone", *edits), scenario.pod)
    assert is_right(scenario, report)
    certain_from_the_pod_alone = ("running", "wrong-scheduler")
    assert report.findings[0].confidence == "suspected" or report.findings[0].code in certain_from_the_pod_alone


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_without_one_kind_of_object_weakens_but_is_not_wrong(version: str, kind: str, variant: Any) -> None:
    cluster = variant(version, f"no-{kind}", without(kind))
    for scenario in (scenario for scenario in SCENARIOS if scenario.version == version):
        report = ask_cluster(cluster, scenario.pod)
        if is_right(scenario, report):
            continue
        first = report.findings[0]
        assert report.gaps, scenario
        assert first.confidence == "suspected", scenario
        assert first.code in HONEST or first.code in {
            finding.code for finding in ask(recording(version), scenario.pod).findings
        }


@by_name
def test_every_quote_stands_verbatim_in_the_recording(scenario: Scenario) -> None:
    seen = text_of(scenario.version)
    for finding in ask(recording(scenario.version), scenario.pod).findings:
        assert finding.evidence, finding.code
        for evidence in finding.evidence:
            assert evidence.quote
            assert evidence.quote in seen, evidence


@by_name
def test_the_report_survives_json_and_keeps_its_limits(scenario: Scenario) -> None:
    report = ask(recording(scenario.version), scenario.pod)
    assert msgspec.json.decode(as_json(report), type=Report) == report
    assert len(report.verdict) <= VERDICT_LIMIT
    assert "\n" not in report.verdict
    assert len(steps_shown(report)) <= 3
    assert all(len(row) == len(table.columns) for table in report.tables for row in table.rows)


@by_name
def test_a_healthy_pod_has_nothing_above_info(scenario: Scenario) -> None:
    report = ask(recording(scenario.version), scenario.pod)
    healthy = report.findings[0].code in ("running", "succeeded")
    assert (report.severity == "info") is healthy


@pytest.mark.parametrize("version", VERSIONS)
def test_a_blind_cluster_gives_gaps_and_no_claim(version: str, tmp_path: Path) -> None:
    blind = write_recording({"meta.json": files_of(version)["meta.json"]}, tmp_path / "blind.tar.gz")
    for scenario in (scenario for scenario in SCENARIOS if scenario.version == version):
        report = ask(blind, scenario.pod)
        assert [finding.code for finding in report.findings] == ["not-enough-evidence"]
        assert report.gaps


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_version_never_makes_an_answer_wrong(version: str, variant: Any) -> None:
    def forget(items: list[dict[str, Any]]) -> None:
        for item in items:
            item["metadata"].pop("labels", None) if "scheduler" in item["metadata"]["name"] else None
            for container in item["spec"].get("template", item).get("spec", {}).get("containers", []):
                if container["name"] == "vgpu-scheduler-extender":
                    container["image"] = "registry.example/hami"

    def forget_meta(files: dict[str, bytes]) -> None:
        meta = json.loads(files["meta.json"])
        meta.pop("hami_version")
        files["meta.json"] = json.dumps(meta).encode()

    edits = (change("deployments", forget), change("pods", forget), forget_meta)
    cluster = variant(version, "no-version", *edits)
    for scenario in (scenario for scenario in SCENARIOS if scenario.version == version):
        report = ask_cluster(cluster, scenario.pod)
        if not is_right(scenario, report):
            assert report.findings[0].confidence == "suspected", scenario
            assert any(gap.source == "HAMi version" for gap in report.gaps), scenario
