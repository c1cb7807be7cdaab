"""What would be done to a recorded cluster, as the report says it: the patches hold, the inverse is exact."""

import asyncio
import copy
import io
import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.changes.kinds import KINDS, VERBOSITY, VERBS, ChangeKind
from bot.changes.plan import Raise
from bot.changes.record import KEY
from bot.hami.vendors import ANNOTATIONS
from bot.kube.recording.record import record
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report, as_json, in_words
from bot.texts import LANGUAGES, Texts
from handlers.changes.report import planned_report, shown_report
from handlers.changes.request import ChangeSnapshot, look, prepare
from handlers.changes.words import Show
from playbooks.playbook import Sources
from sandbox.apiserver.jsonpatch import apply_json_patch
from tests.cases_support import CASES, VERSIONS, files_of
from tests.changes.deployments import EVERY, EXTENDER, KUBE_SCHEDULER, new_value, recorded

DEPLOYMENTS = "objects/deployments.apps.json"


def seen(cluster: RecordedCluster) -> ChangeSnapshot:
    return asyncio.run(look(Sources(cluster), Raise((("v", "5"),), EXTENDER, 600)))


def asked(found: ChangeSnapshot, request: Raise, language: Any = "en") -> Report:
    say = Texts(language)
    return in_words(planned_report(found, request, prepare(found, request, "c1", by="U1")), say)


def whole(version: str) -> ChangeSnapshot:
    return seen(RecordedCluster.open(CASES / version / "recording.tar.gz"))


def edited(folder: Path, version: str, deployment: dict[str, Any], *, without: Sequence[str] = ()) -> RecordedCluster:
    """The recording with another Deployment of the scheduler, and without some files."""
    files = {name: data for name, data in files_of(version).items() if name not in without}
    files[DEPLOYMENTS] = json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment]}).encode()
    path = folder / "edited.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return RecordedCluster.open(path)


def there_and_back(report: Report, before: dict[str, Any]) -> dict[str, Any]:
    """The Deployment as it is meanwhile; it is put back to the byte."""
    assert report.change
    after = apply_json_patch(copy.deepcopy(before), report.change.patch)
    undone = apply_json_patch(copy.deepcopy(after), report.change.revert_patch)
    assert json.dumps(undone["spec"]) == json.dumps(before["spec"])
    assert KEY not in (undone["metadata"].get("annotations") or {})
    return after


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("kind", "container"), EVERY)
def test_the_patches_of_a_recorded_chart_go_there_and_back(version: str, kind: ChangeKind, container: str) -> None:
    found = whole(version)
    report = asked(found, Raise(((kind.name, new_value(kind)),), container, 600))
    if kind.since and container == EXTENDER and found.around.version and found.around.version < kind.since:
        assert [finding.code for finding in report.findings] == ["change-refused"]
        assert not report.change
        return
    before = recorded(version)
    assert json.dumps(there_and_back(report, before)["spec"]) != json.dumps(before["spec"])
    assert [finding.code for finding in report.findings] == ["change-planned"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plan_is_told_in_one_line_with_what_it_brings(version: str, language: str) -> None:
    report = asked(whole(version), Raise((("v", "5"),), EXTENDER, 600), language)
    assert len(report.verdict) <= 140
    assert not report.verdict.endswith("…")
    assert report.change
    assert {"pods-restart", "leader-moves", "webhook-bypassed", "memory-lost", "helm"} <= {
        impact.code for impact in report.change.blast_radius
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_change_causes_is_shown_in_chinese_from_a_report_that_was_kept_in_english(version: str) -> None:
    request = Raise((("v", "5"),), EXTENDER, 600)
    kept = msgspec.json.decode(as_json(asked(whole(version), request)), type=Report)
    chinese = asked(whole(version), request, "zh")
    assert kept.change
    assert chinese.change
    shown = in_words(kept, Texts("zh")).change
    assert shown
    assert [impact.text for impact in shown.blast_radius] == [impact.text for impact in chinese.change.blast_radius]
    assert {impact.text for impact in shown.blast_radius}.isdisjoint(impact.text for impact in kept.change.blast_radius)


def test_what_could_not_be_read_is_a_gap_and_told_as_that(tmp_path: Path) -> None:
    gone = [
        "objects/pods.json",
        "objects/nodes.json",
        "objects/services.json",
        "objects/mutatingwebhookconfigurations.admissionregistration.k8s.io.json",
    ]
    found = seen(edited(tmp_path, "hami-2.9.0", recorded("hami-2.9.0"), without=gone))
    report = asked(found, Raise((("profiling", "true"),), EXTENDER, 600))
    assert report.change
    impacts = {impact.code for impact in report.change.blast_radius}
    assert {"pods-restart-unseen", "rollout-may-wait", "webhook-unseen", "profiles-unseen"} <= impacts
    assert {"scheduler pods", "nodes", "services", "webhooks"} <= {gap.source for gap in report.gaps}


STATES = {
    "verbosity": "vgpu-scheduler-extender logs at -v=4 (kube-scheduler at -v=4)",
    "profiling": "--profiling is not set",
    "tune try": "--kube-qps is 5 (the default), --kube-burst is 10 (the default), --kube-timeout is 0 (the default)",
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_without_words_what_is_set_is_the_verdict(version: str, kind: ChangeKind) -> None:
    report = in_words(shown_report(whole(version), Show(kind.verb), ""), Texts("en"))
    assert report.verdict == f"{STATES[kind.verb]}; no change is open"
    (finding,) = report.findings
    assert finding.code == "no-change-open"
    rows = {row[:2]: row[2:] for row in report.tables[0].rows}
    of_verb = [(container, each.flag.shown) for each in VERBS[kind.verb] for container in each.containers]
    assert sorted(rows) == sorted(of_verb)
    if kind is VERBOSITY:
        assert rows[EXTENDER, "-v"] == rows[KUBE_SCHEDULER, "-v"] == ("4", "-v=4")
        assert finding.evidence[0].quote == "-v=4"
    else:
        assert rows[EXTENDER, kind.flag.shown] == (kind.values.default, "")
        assert finding.evidence[0].quote.startswith("scheduler ")


def test_what_is_set_is_the_verdict_while_another_change_is_open(tmp_path: Path) -> None:
    plan = asked(whole("hami-2.10"), Raise((("profiling", "true"),), EXTENDER, 600)).change
    assert plan
    found = seen(edited(tmp_path, "hami-2.10", apply_json_patch(recorded("hami-2.10"), plan.patch)))
    report = in_words(shown_report(found, Show("verbosity"), ""), Texts("en"))
    assert report.verdict == f"{STATES['verbosity']}; a change is open"
    assert report.findings[0].claim.startswith("--profiling=true is set on vgpu-scheduler-extender until")
    assert (
        in_words(shown_report(found, Show("profiling"), ""), Texts("en")).verdict
        == "--profiling is true; a change is open"
    )


def test_an_open_change_is_shown_with_its_deadline_and_reason(tmp_path: Path) -> None:
    request = Raise((("v", "5"),), EXTENDER, 600, because="a pod hangs")
    plan = asked(whole("hami-2.10"), request).change
    assert plan
    raised = apply_json_patch(recorded("hami-2.10"), plan.patch)
    report = in_words(shown_report(seen(edited(tmp_path, "hami-2.10", raised)), Show("verbosity"), ""), Texts("en"))
    (finding,) = report.findings
    assert finding.code == "change-open"
    assert "a pod hangs" in finding.claim
    assert "10m" in finding.claim
    assert [action.command for action in finding.next_actions] == ["verbosity revert", "verbosity extend 10m"]
    assert all(action.changes_cluster for action in finding.next_actions)


def test_a_record_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    broken = recorded("hami-2.10")
    broken["metadata"]["annotations"][KEY] = "{"
    found = seen(edited(tmp_path, "hami-2.10", broken))
    assert in_words(shown_report(found, Show("verbosity"), ""), Texts("en")).findings[0].code == "change-unreadable"
    refused = asked(found, Raise((("v", "5"),), EXTENDER, 600))
    assert [finding.code for finding in refused.findings] == ["change-refused"]


@pytest.mark.parametrize("version", ["hami-2.9.0", "hami-2.10"])
def test_what_record_writes_can_be_planned_on_as_the_cluster_itself(tmp_path: Path, version: str) -> None:
    original = RecordedCluster.open(CASES / version / "recording.tar.gz")
    out = tmp_path / "again.tar.gz"
    asyncio.run(record(original, out, pod=None, server_version="v1.34.1", annotations=ANNOTATIONS))
    request = Raise((("v", "5"),), EXTENDER, 600)
    plans = [asked(seen(cluster), request).change for cluster in (original, RecordedCluster.open(out))]
    assert plans[0]
    assert plans[1]
    assert plans[0].target == plans[1].target
    assert plans[0].blast_radius == plans[1].blast_radius


@pytest.mark.parametrize(
    "request_",
    [
        Raise((("v", "9"),), EXTENDER, 600),
        Raise((("v", "5"),), EXTENDER, 20 * 3600),
        Raise((("v", "5"),), "no-such-container", 600),
        Raise((("profiling", "true"),), EXTENDER, 600),
    ],
    ids=["too high", "too long", "no container", "no such flag"],
)
def test_a_refusal_and_its_reason_are_in_the_readers_language(request_: Raise) -> None:
    claim = asked(whole("hami-2.5.1"), request_, "zh").findings[0].claim
    assert claim.startswith("未执行")
    assert not re.search(r"[A-Za-z]+ [a-z]+ [a-z]+", claim.replace("kubectl get deployment -o yaml", "")), claim


def test_a_rollout_under_way_is_told_in_the_readers_language(tmp_path: Path) -> None:
    deployment = recorded("hami-2.10")
    deployment["status"]["updatedReplicas"] = 0
    claim = asked(seen(edited(tmp_path, "hami-2.10", deployment)), Raise((("v", "5"),), EXTENDER, 600), "zh")
    assert "正在滚动更新：1 个 Pod 中有 0 个属于最新模板" in claim.findings[0].claim
