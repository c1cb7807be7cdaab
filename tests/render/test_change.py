"""A change in a report: from what to what, and what that brings with it, in every way of showing it."""

import json
from collections.abc import Callable

import msgspec
import pytest

from bot.render.markdown import markdown
from bot.render.terminal import terminal
from bot.report import Change, ChangeTarget, Impact, Report, Subject, as_json
from bot.slack.render.report import slack_json
from bot.texts import Texts

SAY = Texts("en")
IMPACTS = (Impact("rollout-deadlock", "critical", "It would hang."), Impact("memory-lost", "info", "Its log ends."))
TARGET = ChangeTarget("Deployment", "hami-system", "hami-scheduler", "vgpu-scheduler-extender", "v", "4", "5")
PATCH = ({"op": "test", "path": "/metadata/uid", "value": "u-1"},)
REPORT = Report(
    schema="hami-bot.report/v1",
    playbook="verbosity",
    cluster="lab",
    taken_at="2026-11-21T05:00:00Z",
    subject=Subject("Deployment", "hami-system", "hami-scheduler"),
    verdict="Would set it.",
    severity="info",
    findings=(),
    change=Change(TARGET, PATCH, PATCH, IMPACTS),
)

SHOWN: list[Callable[[Report], str]] = [
    lambda report: terminal(report, SAY, colour=False),
    lambda report: markdown(report, SAY).replace("`->`", "->"),
    lambda report: slack_json(report, SAY),
]


@pytest.mark.parametrize("show", SHOWN)
def test_what_changes_and_what_it_brings_is_shown(show: Callable[[Report], str]) -> None:
    text = show(REPORT)
    assert "-v of container vgpu-scheduler-extender: 4 -> 5" in text
    assert all(impact.text in text for impact in IMPACTS)


@pytest.mark.parametrize("show", SHOWN)
def test_a_flag_that_was_not_set_is_told_as_that(show: Callable[[Report], str]) -> None:
    target = msgspec.structs.replace(TARGET, flag="profiling", old="", new="true")
    text = show(msgspec.structs.replace(REPORT, change=Change(target, (), (), ())))
    assert "--profiling of container vgpu-scheduler-extender: not set -> true" in text


def test_json_has_the_patches_and_only_where_there_is_a_change() -> None:
    shown = json.loads(as_json(REPORT))["change"]
    assert list(shown) == ["target", "patch", "revert_patch", "blast_radius"]
    assert shown["patch"] == [PATCH[0]]
    assert "change" not in json.loads(as_json(msgspec.structs.replace(REPORT, change=msgspec.UNSET)))
