"""Every verb on the recorded clusters: the same answers as ever, honest when something is taken away or refused."""

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.render.overview import steps_shown
from bot.report import VERDICT_LIMIT, Report, as_json
from bot.slack.render.report import render_report
from bot.texts import LANGUAGES, Texts, in_english
from playbooks.own.discovery import find
from playbooks.playbook import Sources, load
from sandbox.apiserver import ApiServer, Fault
from sandbox.slack.validate import validate_blocks
from tests.cases_support import CASES, Question, edited, files_of, gist, in_full, questions, text_of, without
from tests.dense_json import dense_json

QUESTIONS = questions()
by_question = pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda question: f"{question.version} {question.verb} {question.name}"
)
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

NO_MATTER = (("gpus", "resourcequotas"),)
"""What is read with the rest and decides nothing of the answer."""


@cache
def answer(question_at: int) -> Report:
    return QUESTIONS[question_at].ask()


def report_of(question: Question) -> Report:
    return answer(QUESTIONS.index(question))


@by_question
def test_the_answer_is_the_expected_one(question: Question) -> None:
    assert gist(report_of(question)) == question.expected


@pytest.mark.parametrize("verb", in_full())
def test_one_whole_report_of_each_verb_is_the_expected_one(verb: str) -> None:
    expected = (CASES / "reports" / f"{verb}.json").read_text(encoding="utf-8")
    assert dense_json(json.loads(as_json(in_full()[verb].ask()))) == expected


@by_question
def test_every_claim_has_evidence_that_stands_verbatim_in_the_recording(question: Question) -> None:
    """Or in what came back where something could not be read."""
    report = report_of(question)
    seen = "\x00".join([text_of(question.version), *(gap.why for gap in report.gaps)])
    for finding in report.findings:
        assert finding.evidence or finding.severity == "info", finding.code
        for evidence in finding.evidence:
            assert evidence.quote
            assert evidence.quote in seen, evidence
            assert evidence.command


@by_question
def test_the_report_survives_json_and_keeps_its_limits(question: Question) -> None:
    report = report_of(question)
    assert msgspec.json.decode(as_json(report), type=Report) == report
    assert report.findings
    assert 0 < len(report.verdict) <= VERDICT_LIMIT
    assert "\n" not in report.verdict
    assert len(steps_shown(report)) <= 3
    assert all(len(row) == len(table.columns) for table in report.tables for row in table.rows)


@pytest.mark.parametrize("language", LANGUAGES)
@by_question
def test_the_report_fits_slack(question: Question, language: Any) -> None:
    message = render_report(report_of(question), Texts(language), channel_buttons=True, words=question.verb)
    assert validate_blocks(list(message.blocks)) == []


@pytest.mark.sampled(30)
@pytest.mark.parametrize(
    "kind", sorted({name.split("/")[1].split(".")[0] for name in files_of("hami-2.10") if name.startswith("objects/")})
)
@by_question
def test_without_one_kind_of_object_nothing_new_is_confirmed(question: Question, kind: str, blinded: Any) -> None:
    try:
        report = question.ask(blinded(question.version, kind))
    except SourceError:  # nothing can be said without it, which is an answer too
        return
    known = {(finding.code, finding.scope) for finding in report_of(question).findings}
    new = [
        finding
        for finding in report.findings
        if (finding.code, finding.scope) not in known and finding.severity != "info"
    ]
    assert all(finding.confidence == "suspected" for finding in new), new
    if report.findings != report_of(question).findings:
        assert report.gaps


@pytest.fixture(scope="session")
def blinded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Opened recordings without one kind of object, each made once."""
    folder = tmp_path_factory.mktemp("blinded")

    @cache
    def make(version: str, kind: str) -> RecordedCluster:
        return RecordedCluster.open(edited(version, folder / f"{version}-{kind}.tar.gz", without(kind)))

    return make


@pytest.mark.sampled(24)
@pytest.mark.parametrize("resource", ["", *FORBIDDEN])
@pytest.mark.parametrize("verb", sorted({question.verb for question in QUESTIONS}))
def test_a_live_cluster_gives_the_same_findings_and_a_refusal_a_gap(verb: str, resource: str, tmp_path: Path) -> None:
    asked = [question for question in QUESTIONS if question.verb == verb and question.version == "hami-2.10"]
    faults = [Fault(FORBIDDEN[resource], "status", status=403)] if resource else []
    expected = {
        question.name: [(found.code, found.scope) for found in report_of(question).findings] for question in asked
    }

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
        same = [(finding.code, finding.scope) for finding in report.findings] == expected[question.name]
        refused = resource and any(re.search(FORBIDDEN[resource], request.path) for request in server.requests)
        assert same or refused
        if refused and (verb, resource) not in NO_MATTER:
            assert any("403" in gap.why for gap in report.gaps), report.gaps

    asyncio.run(run())


@by_question
def test_its_codes_are_documented(question: Question) -> None:
    page = (Path(__file__).parent.parent / "docs" / "findings.md").read_text(encoding="utf-8")
    assert all(f"`{finding.code}`" in page for finding in report_of(question).findings)


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
        question.verb: report_of(question).verdict
        for question in QUESTIONS
        if (question.version, question.name) == (version, "all")
    }
    counted = re.match(r"(\d+) pods are pending: ", said["pending"])
    assert counted
    assert said["digest"].startswith(f"{counted[1]} pods are pending for ")
