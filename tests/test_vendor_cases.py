"""Every other vendor's recorded worlds: the same answers as ever, in that vendor's own words, resources and units."""

from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from bot.texts import LANGUAGES
from tests.cases_support import files_in, gist, text_in
from tests.playbooks.world import check
from tests.vendor_worlds import FOLDER, Asked, asked, recording

ASKED = asked()
NOT_GPUS = ("ascend", "aws", "cambricon", "enflame", "hygon", "kunlun")
"""Worlds of vendors whose users have another word for their devices."""
VERSION = "2.10.0"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("vendors")


def texts_of(report: Report) -> list[str]:
    """The verdict, and of every finding its claim, what to do, and what shows it."""
    steps = [step for finding in report.findings for step in finding.next_actions]
    proofs = [proof for finding in report.findings for proof in finding.evidence]
    return [
        report.verdict,
        *(finding.claim for finding in report.findings),
        *(f"{step.label} {step.command}" for step in steps),
        *(proof.command for proof in proofs),
    ]


@pytest.mark.parametrize("one", ASKED, ids=lambda case: case.name)
def test_the_answer_is_the_expected_one_stands_on_what_was_recorded_and_uses_the_vendor_s_words(
    one: Asked, folder: Path
) -> None:
    path, _ = recording(one.world, one.probe, folder)
    seen = text_in(files_in(path))
    reports = [one.ask(folder, language) for language in LANGUAGES]
    assert gist(reports[0]) == one.expected
    if not one.world.startswith("mixed"):
        assert [text for text in texts_of(reports[0]) if "nvidia" in text.casefold()] == []
    for report in reports:
        check(report, seen)
        told = [report.verdict, *(finding.claim for finding in report.findings)]
        of_gpus = [text for text in told if "GPU" in text.replace("gpu", "") or "显卡" in text]
        assert not one.world.startswith(NOT_GPUS) or of_gpus == []


@pytest.mark.parametrize("one", [question for question in ASKED if question.verb == "why"], ids=lambda case: case.name)
def test_every_reason_of_a_node_is_the_real_extender_s(one: Asked, folder: Path) -> None:
    """Where chance decides, the verdicts were left out, and the table has all that HAMi may say."""
    report = one.ask(folder)
    message = " ".join(proof.quote for proof in report.findings[0].evidence)
    (table,) = [table for table in report.tables if table.title == "candidate nodes"]
    assert table.rows
    by_chance = any(" / " in reason for _, reason, _, _ in table.rows)
    for _, reason, count, _ in table.rows:
        assert f"{count} {reason}" in message or by_chance


def test_every_recorded_vendor_is_asked_about() -> None:
    recorded = {path.name.rpartition("-s")[0] for path in FOLDER.glob("*.tar.gz")}
    assert recorded <= {question.world.rpartition("-s")[0] for question in ASKED}
