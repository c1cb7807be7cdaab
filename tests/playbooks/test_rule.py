"""How rules come to speak, whatever they tell."""

import importlib
import pkgutil

import pytest

from bot.finding_codes import Code
from bot.report import Finding
from playbooks import judgement, rules
from playbooks.rule import Rule, Stage, rule, run
from playbooks.rules.common.findings import finding


class EverythingRead:
    def was_read(self, source: str) -> bool:
        return True


def told(code: Code) -> list[Finding]:
    return [finding(code, "It is so.", "confirmed", (), (), severity="info")]


def spoken(*stages: Stage[EverythingRead]) -> list[str]:
    return [found.code for found in run(stages, EverythingRead()).findings]


@pytest.fixture
def stands_in_a_table() -> Rule[EverythingRead]:
    @rule("running")
    def runs(_: EverythingRead) -> list[Finding]:
        return told("running")

    @rule("succeeded", after=runs)
    def _ended(_: EverythingRead) -> list[Finding]:
        return told("succeeded")

    @rule("node-not-ready", ahead_of=runs)
    def _unready(_: EverythingRead) -> list[Finding]:
        return told("node-not-ready")

    return runs


def test_a_rule_speaks_in_every_stage_of_the_one_that_it_is_declared_next_to(
    stands_in_a_table: Rule[EverythingRead],
) -> None:
    stage = Stage("all", stands_in_a_table)
    assert spoken(stage) == ["node-not-ready", "running", "succeeded"]
    assert spoken(Stage("first", stands_in_a_table, either=True)) == ["node-not-ready"]


def test_a_rule_of_another_module_cannot_be_declared_next_to_one(stands_in_a_table: Rule[EverythingRead]) -> None:
    def elsewhere(_: EverythingRead) -> list[Finding]:
        return []

    elsewhere.__module__ = "another"
    with pytest.raises(TypeError, match="elsewhere"):
        rule("running", after=stands_in_a_table)(elsewhere)


def test_every_rule_speaks_in_some_table() -> None:
    named = [
        each
        for room in (rules, judgement)
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
        for each in vars(importlib.import_module(found.name)).values()
    ]
    stages = [stage for table in named if isinstance(table, tuple) for stage in table if isinstance(stage, Stage)]
    speaking = {each for stage in stages for each in stage.rules}
    assert [vars(each)["__name__"] for each in named if isinstance(each, Rule) and each not in speaking] == []
