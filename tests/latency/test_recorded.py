"""The recorded bursts of 60 pods: every figure as an independent script counted it, and why."""

import asyncio
import json
from typing import Any

import pytest

from bot.render.terminal import terminal
from bot.report import Report, in_words
from bot.texts import Texts
from playbooks.latency.playbook import StageRow, diagnose, gather, request
from playbooks.playbook import Sources
from tests.tune.support import CASES, open_case


def ask(name: str, *, everything: bool = False) -> Report:
    return in_words(diagnose(asyncio.run(gather(request(all=everything), Sources(open_case(name))))), Texts("en"))


@pytest.mark.parametrize("name", ["throttled-client", "throttled-client-after"])
def test_the_figures_are_those_that_were_counted_by_hand(name: str) -> None:
    expected = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))["latency"]
    rows = {row.stage: row for row in ask(name).typed(StageRow)}
    found: dict[str, Any] = {
        stage: {"n": rows[stage].n, "median_s": rows[stage].median_s, "p95_s": rows[stage].p95_s} for stage in expected
    }
    assert {stage: found[stage] | {"max_s": rows[stage].max_s} for stage in expected} == expected


def test_a_throttled_client_is_why_pods_queue_and_tune_is_next() -> None:
    first = ask("throttled-client").findings[0]
    assert first.severity == "warning"
    assert "Most of it: created -> first attempt, " in first.claim
    assert "held back 538 requests to the API server, 685 s in all, the longest for 1.78 s" in first.claim
    assert sum("client-side throttling" in proof.quote for proof in first.evidence) == 3
    assert [action.command for action in first.next_actions] == ["tune"]


def test_nothing_was_held_back_after_the_change_and_node_locks_made_some_pods_wait() -> None:
    first, second = ask("throttled-client-after").findings
    assert (first.severity, "held back" in first.claim) == ("info", False)
    assert second.claim == "6 of 60 pods were refused by a node lock and tried again."
    assert all("Failed to lock node" in proof.quote for proof in second.evidence)


@pytest.mark.parametrize("name", ["healthy", "idle-holders", "no-metrics"])
def test_without_new_pods_there_is_nothing_to_measure(name: str) -> None:
    report = ask(name)
    assert report.verdict == "No GPU pod was created in the last 1h: there is nothing to measure."
    assert report.severity == "info"


def test_the_overview_fits_on_a_screen() -> None:
    assert len(terminal(ask("throttled-client"), Texts("en"), width=110, colour=False).splitlines()) <= 45


def test_all_has_every_pod_and_the_lines() -> None:
    text = terminal(ask("throttled-client", everything=True), Texts("en"), width=160, colour=False)
    assert text.count("burst/job-") >= 60
    assert "Waited before sending request" in text
    assert '"Attempting to schedule pod" pod="burst/job-59"' in text
