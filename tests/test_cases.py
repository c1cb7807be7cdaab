"""The recorded clusters and every verb: the same answers as ever, honest when something is taken away or refused."""

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report, Scope, as_json
from bot.slack.render.report import render_report
from bot.texts import LANGUAGES, Texts, in_english
from playbooks.own.discovery import find
from playbooks.playbook import Sources, load
from sandbox.apiserver import ApiServer, Fault
from sandbox.slack.validate import validate_blocks
from tests.cases_support import (
    CASES,
    VERSIONS,
    Edit,
    Question,
    Scenario,
    ask_cluster,
    change,
    edited,
    files_of,
    gist,
    in_full,
    keeps_its_limits,
    questions,
    scenarios,
    text_of,
    without,
    without_conditions,
    without_logs,
    write_recording,
)
from tests.dense_json import dense_json

SCENARIOS = scenarios()
QUESTIONS = questions()
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.version} {scenario.pod}")
by_question = pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda question: f"{question.version} {question.verb} {question.name}"
)
KINDS = sorted({name.split("/")[1].split(".")[0] for name in files_of(VERSIONS[0]) if name.startswith("objects/")})
HONEST = ("not-enough-evidence", "node-unfit-pod", "node-unregistered", "binding-failed")
FINDINGS = (Path(__file__).parent.parent / "docs" / "findings.md").read_text(encoding="utf-8")
FORBIDDEN = {
    "pods": r"/pods(\?|$)",
    "nodes": r"/nodes",
    "events": r"/events",
    "resourcequotas": r"/resourcequotas",
    "deployments": r"/deployments",
    "daemonsets": r"/daemonsets",
    "services": r"/services",
    "configmaps": r"/configmaps",
    "leases": r"/leases",
    "endpointslices": r"/endpointslices",
    "webhooks": r"/mutatingwebhookconfigurations",
    "resourceslices": r"/resourceslices",
    "logs": r"/log(\?|$)",
}

MOST_READ = ("ml/s03-card-insufficient-memory", "ml/s25-huge-everywhere", "quota-ns/s08-quota-filter")
"""Pods of which the answer needs the most."""
NO_MATTER = (("gpus", "resourcequotas"),)
"""What is read with the rest and decides nothing of the answer."""


@pytest.fixture(scope="session")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Opened recordings with some edits, each made once."""
    folder = tmp_path_factory.mktemp("variants")

    @cache
    def make(version: str, name: str, *edits: Edit) -> RecordedCluster:
        return RecordedCluster.open(edited(version, folder / f"{version}-{name}.tar.gz", *edits))

    return make


def of_version(version: str) -> list[Scenario]:
    return [scenario for scenario in SCENARIOS if scenario.version == version]


def is_right(scenario: Scenario, report: Report) -> bool:
    first = report.findings[0]
    return first.code in scenario.first and scenario.nodes in (None, first.scope.nodes)


@by_name
def test_the_answer_is_the_expected_one_and_keeps_its_promises(scenario: Scenario) -> None:
    """The cause comes first, quotes stand verbatim in the recording, a healthy pod has nothing above info."""
    report = scenario.question.ask()
    assert gist(report) == scenario.question.expected
    assert is_right(scenario, report)
    keeps_its_limits(report)
    assert (report.severity == "info") is (report.findings[0].code in ("running", "succeeded"))
    for finding in report.findings:
        assert finding.evidence, finding.code
        for evidence in finding.evidence:
            assert evidence.quote
            assert evidence.quote in text_of(scenario.version), evidence


_PINNED = "The pod may use only GPUs that its annotations allow (nvidia.com/use-gpuuuid: GPU-"
_ALL_SLOTS = "is taken: HAMi lets no more containers share them."
_TOLD = (
    ("s03-card-insufficient-memory", "gpu-node-11, gpu-node-12: all 8 GPUs cordoned (hami.io/device-cordon); without"),
    ("s03-card-insufficient-memory", "gpu-node-10: 1 of 4 GPUs without a free slot; the others do not fit either."),
    ("s16-cores60-b", f"No usable GPU of gpu-node-09 has 60% of its cores free; at most 40% are. {_PINNED}0acbfc59-"),
    ("s17-slice-exhausted", f"Every slot of the usable GPUs of gpu-node-10 {_ALL_SLOTS} {_PINNED}33be18b3-"),
)


@pytest.mark.parametrize(("pod", "told"), _TOLD)
def test_a_claim_says_of_which_gpus_it_is_true(pod: str, told: str) -> None:
    claims = [finding.claim for finding in Question("hami-2.10", "why", pod, {"pod": f"ml/{pod}"}).ask().findings]
    assert any(claim.startswith(told) for claim in claims)
    assert not any("could serve the pod" in claim for claim in claims)
    assert not any("control-plane" in claim for claim in claims)


@pytest.mark.parametrize(
    ("pod", "begins"),
    [
        ("s06-wrong-gputype", ["Either: Remove", "Or: Set"]),
        ("s23-card-cordoned", ["Find out", "Either: Uncordon", "Or: Remove"]),
        ("s14-wrong-scheduler", ["Set spec.schedulerName:"]),
    ],
)
def test_ways_that_are_each_enough_say_so(pod: str, begins: list[str]) -> None:
    steps = Question("hami-2.10", "why", pod, {"pod": f"ml/{pod}"}).ask().findings[0].next_actions
    assert [" ".join(step.label.split()[:2]) for step in steps] == begins


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["no-events", "no-logs", "fit-alone"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_cause_is_found_without_events_without_logs_and_by_the_fit_alone(
    version: str, name: str, variant: Any
) -> None:
    """The fit alone only suspects it."""
    edits = [without("events"), without_logs, without_conditions]
    cluster = variant(version, name, *{"no-events": edits[:1], "no-logs": edits[1:2]}.get(name, edits))
    for scenario in of_version(version):
        report = ask_cluster(cluster, scenario.pod)
        assert is_right(scenario, report), scenario
        first, from_the_pod_alone = report.findings[0], ("running", "wrong-scheduler")
        assert name != "fit-alone" or first.confidence == "suspected" or first.code in from_the_pod_alone, scenario


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_without_one_kind_of_object_weakens_but_is_not_wrong(version: str, kind: str, variant: Any) -> None:
    """Of `why` the cause is the same or suspected, of the other verbs nothing new is confirmed."""
    cluster = variant(version, f"no-{kind}", without(kind))
    for question in (question for question in QUESTIONS if question.version == version):
        try:
            report = question.ask(cluster)
        except SourceError:  # nothing can be said without it, which is an answer too
            continue
        whole = question.ask().findings
        known = {(finding.code, finding.scope) for finding in whole}
        warnings = [finding for finding in report.findings if finding.severity != "info"]
        new = [finding for finding in warnings if (finding.code, finding.scope) not in known]
        assert all(finding.confidence == "suspected" for finding in new), (question, new)
        assert report.findings == whole or report.gaps, question
    for scenario in of_version(version):
        report = ask_cluster(cluster, scenario.pod)
        if is_right(scenario, report):
            continue
        first = report.findings[0]
        assert report.gaps, scenario
        assert first.confidence == "suspected", scenario
        assert first.code in HONEST or first.code in {finding.code for finding in scenario.question.ask().findings}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_blind_cluster_gives_gaps_and_no_claim(version: str, tmp_path: Path) -> None:
    meta = {"meta.json": files_of(version)["meta.json"]}
    blind = RecordedCluster.open(write_recording(meta, tmp_path / "blind.tar.gz"))
    for scenario in of_version(version):
        report = ask_cluster(blind, scenario.pod)
        assert [finding.code for finding in report.findings] == ["not-enough-evidence"]
        assert report.gaps


@pytest.mark.sampled(1)
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
    for scenario in of_version(version):
        report = ask_cluster(cluster, scenario.pod)
        if not is_right(scenario, report):
            assert report.findings[0].confidence == "suspected", scenario
            assert any(gap.source == "HAMi version" for gap in report.gaps), scenario


@by_question
def test_the_answer_is_the_expected_one_keeps_its_promises_and_fits_slack(question: Question) -> None:
    """Quotes stand verbatim in the recording, or in what came back where something could not be read."""
    report = question.ask()
    assert gist(report) == question.expected
    keeps_its_limits(report)
    seen = "\x00".join([text_of(question.version), *(gap.why for gap in report.gaps)])
    for finding in report.findings:
        assert f"`{finding.code}`" in FINDINGS
        assert finding.evidence or finding.severity == "info", finding.code
        for evidence in finding.evidence:
            assert evidence.quote
            assert evidence.quote in seen, evidence
            assert evidence.command
    for language in LANGUAGES:
        message = render_report(report, Texts(language), channel_buttons=True, words=question.verb)
        assert validate_blocks(list(message.blocks)) == []


@pytest.mark.parametrize("verb", in_full())
def test_one_whole_report_of_each_verb_is_the_expected_one(verb: str) -> None:
    expected = (CASES / "reports" / f"{verb}.json").read_text(encoding="utf-8")
    assert dense_json(json.loads(as_json(in_full()[verb].ask()))) == expected


def told(report: Report) -> list[tuple[str, Scope]]:
    return [(finding.code, finding.scope) for finding in report.findings]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("resource", ["", *FORBIDDEN])
def test_a_live_cluster_gives_the_same_findings_and_a_refusal_a_gap(resource: str, tmp_path: Path) -> None:
    asked = [question for question in QUESTIONS if question.version == "hami-2.10"]
    asked += [each.question for each in of_version("hami-2.10") if not resource or each.pod in MOST_READ]
    faults = [Fault(FORBIDDEN[resource], "status", status=403)] if resource else []
    expected = {(question.verb, question.name): told(question.ask()) for question in asked}

    async def run() -> None:
        recording = CASES / "hami-2.10" / "recording.tar.gz"
        async with ApiServer.from_recording(recording, faults=faults) as server:
            config = tmp_path / "kubeconfig"
            config.write_text(server.kubeconfig())
            async with await open_cluster(kubeconfig=config) as cluster:
                for question in asked:
                    server.requests.clear()
                    await check(server, question, Sources(cluster))

    async def check(server: ApiServer, question: Question, sources: Sources) -> None:
        playbook = find(question.verb)
        try:
            report = playbook.report(await playbook.gather(playbook.request(**question.values), sources), Texts("en"))
        except SourceError as error:
            if not (resource and "403" in in_english(error.message)):
                raise
            return
        same = told(report) == expected[question.verb, question.name]
        refused = resource and any(re.search(FORBIDDEN[resource], request.path) for request in server.requests)
        assert same or refused, question
        if refused and (question.verb, resource) not in NO_MATTER:
            assert any("403" in gap.why for gap in report.gaps), (question, report.gaps)

    asyncio.run(run())


def test_every_verb_that_reads_a_whole_cluster_has_a_question_for_every_version() -> None:
    asked = {(question.verb, question.version) for question in QUESTIONS}
    versions = {question.version for question in QUESTIONS}
    assert {
        (verb, version) for verb in load() if verb not in ("why", "fit", "profile") for version in versions
    } <= asked


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", sorted({question.version for question in QUESTIONS}))
def test_a_digest_counts_what_waits_as_pending_does(version: str) -> None:
    said = {
        question.verb: question.ask().verdict
        for question in QUESTIONS
        if (question.version, question.name) == (version, "all")
    }
    counted = re.match(r"(\d+) pods are pending: ", said["pending"])
    assert counted
    assert said["digest"].startswith(f"{counted[1]} pods are pending for ")
