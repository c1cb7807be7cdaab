"""The recorded incidents: what has to change comes first, and nothing is said that would mislead."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from bot.errors import SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import as_json
from tests.cases_support import Files, ask_cluster, text_in, write_recording
from tests.incidents_support import Incident, incidents, recorded_files

each_incident = pytest.mark.parametrize("incident", incidents(), ids=lambda incident: incident.name)


@each_incident
def test_the_cause_comes_first_answers_the_person_and_nothing_misleads(incident: Incident) -> None:
    findings = incident.ask().findings
    first = findings[0]
    assert first.code in incident.first
    misleading = {finding.code for finding in findings if finding is first or finding.severity != "info"}
    assert misleading.isdisjoint(incident.wrong)

    steps = [f"{action.label} {action.command}" for action in first.next_actions]
    told = " ".join([first.claim, *steps, *(evidence.quote for evidence in first.evidence)])
    everything = " ".join(
        [finding.claim + " ".join(action.label for action in finding.next_actions) for finding in findings]
    )
    assert [pattern for pattern in incident.says if not re.search(pattern, told, re.IGNORECASE)] == []
    assert [pattern for pattern in incident.never if re.search(pattern, everything)] == []
    assert [finding.code for finding in findings if finding.severity != "info" and not finding.next_actions] == []

    seen = text_in(recorded_files(incident.name))
    quotes = [evidence.quote for finding in findings for evidence in finding.evidence]
    assert [quote for quote in quotes if quote not in seen] == []


TELLS_ALL = {
    ("HAMi-1346", "main.log"),
    ("f1-ghost-after-annotations-stripped", "pods.json"),
    ("f1-ghost-of-recreated-statefulset-pod", "pods.json"),
    ("f1-ghost-of-recreated-statefulset-pod", "events.json"),
}
"""Inputs without which nothing else tells the cause: the container's own log; the pods, whose words of HAMi remain; the
events of the pod that had the name before."""


@pytest.mark.sampled(2)
@each_incident
def test_without_one_input_the_answer_is_weaker_but_not_wrong(incident: Incident, tmp_path: Path) -> None:
    whole = incident.ask()
    for missing in sorted({name.rpartition("/")[2] for name in recorded_files(incident.name)} - {"meta.json"}):
        left = {name: data for name, data in recorded_files(incident.name).items() if not name.endswith("/" + missing)}
        try:
            report = incident.ask(RecordedCluster.open(write_recording(left, tmp_path / f"{missing}.tar.gz")))
        except SourceError:
            continue
        told = [finding.code for at, finding in enumerate(report.findings) if at == 0 or finding.severity != "info"]
        if (incident.name, missing) not in TELLS_ALL:
            assert set(told).isdisjoint(incident.wrong), missing
        assert told[0] in incident.first or set(report.gaps) - set(whole.gaps), missing


SECRET = "hunter2hunter2"


def with_secrets(value: Any, key: str = "") -> Any:
    """JSON whose messages all end with a password, as a program may have written them."""
    if isinstance(value, dict):
        return {name: with_secrets(one, name) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [with_secrets(item) for item in cast("list[Any]", value)]
    return f"{value} password={SECRET}" if key == "message" and value else value


def leaking(files: Files) -> Files:
    """A recording in which every message and every line of a log holds a password."""
    told = {
        name: data.replace(b"\n", f" password={SECRET}\n".encode()) for name, data in files.items() if "logs/" in name
    }
    objects = {
        name: json.dumps(with_secrets(json.loads(data))).encode() for name, data in files.items() if "objects/" in name
    }
    return files | told | objects


@pytest.mark.sampled(8)
@each_incident
def test_no_answer_shows_a_password_that_another_program_wrote(incident: Incident, tmp_path: Path) -> None:
    there = RecordedCluster.open(write_recording(leaking(recorded_files(incident.name)), tmp_path / "one.tar.gz"))
    verbs = ("why", "pending", "nodes", "gpus", "status") if incident.verb == "why" else ("nodes", "gpus", "status")
    for verb in verbs:
        target = {"pod": incident.pod} if verb == "why" else {}
        report = as_json(ask_cluster(there, verb=verb, **target))
        assert SECRET not in report, (verb, report[max(0, report.find(SECRET) - 300) : report.find(SECRET)])
