"""Answers in Chinese read as Chinese: no needless blanks or half-width punctuation, counts with their measure words."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest

import playbooks
from bot.render.words import cells, for_people
from bot.report import Report, Table
from bot.report.tables import Sheet
from bot.texts import Texts
from handlers.parsing.click_words import help_of, sentences_in
from handlers.parsing.grammar import Grammar
from handlers.parsing.slack_grammar import build_grammar as slack_grammar
from handlers.shell_grammar import build_grammar as shell_grammar
from handlers.shell_output import render
from tests import cases_support
from tests.cases_support import Question, in_full
from tests.playbooks.world import card, cluster, gpu_node, record, running

_SAME_IN_BOTH = {"GPU", "MiB", "HAMi %", "guide", "n", "numa", "only"}
_WIDE = "、。《》「」（），：；！？"
_NEEDLESS_BLANK = re.compile(f"[一-鿿{_WIDE}] [一-鿿{_WIDE}]|[{_WIDE}] | [{_WIDE}]")
_HALF_WIDTH = re.compile(r"[一-鿿][;,:!?]|[;,:] ?[一-鿿]|; |node-\d+, ")


def chinese(question: Question) -> Report:
    return question.ask(language="zh")


def words(report: Report) -> list[str]:
    steps = (step.label for finding in report.findings for step in finding.next_actions)
    return [report.verdict, *(finding.claim for finding in report.findings), *steps]


@pytest.mark.parametrize("verb", sorted(in_full()))
def test_no_answer_has_a_needless_blank_or_half_width_punctuation(verb: str) -> None:
    said = words(chinese(in_full()[verb]))
    assert [text for text in said if _NEEDLESS_BLANK.search(text) or _HALF_WIDTH.search(text)] == []


def test_each_count_of_nodes_has_its_measure_word_and_reasons_of_one_node_are_listed(tmp_path: Path) -> None:
    full, small = card("GPU-full", count=1), card("GPU-small", 4000)
    nodes = gpu_node("gpu-1", full, small), gpu_node("gpu-2", card("GPU-ill", health=False))
    path = record(tmp_path, cluster(*nodes, running("holder", "gpu-1", ("GPU-full", 100, 0))))
    report = cases_support.ask(path, language="zh", verb="fit", cards="1x8Gi")
    assert report.verdict == (
        "2 个节点现在都放不下 1x8Gi（1 × 8,192 MiB）：1 个节点空闲显存不足、没有空闲槽位；1 个节点 GPU 不健康。"
    )


def test_how_far_the_log_reaches_is_told_in_chinese() -> None:
    report = chinese(in_full()["logs"])
    assert report.verdict.startswith("日志覆盖的 3 分钟内 HAMi 过滤 ml/s03-card-insufficient-memory 1 次；")


def test_every_column_of_a_table_has_its_chinese_and_json_keeps_it_in_english() -> None:
    columns = {column for sheet in sheets() for column in (*sheet.columns, *sheet.brief.values())}
    assert len(columns) > 100
    assert {column for column in columns if Texts("zh").name(column) == column} <= _SAME_IN_BOTH
    report = chinese(in_full()["gpus"])
    assert "node" in report.tables[0].columns


def test_a_tables_columns_and_states_are_told_in_chinese() -> None:
    shown = render(chinese(in_full()["gpus"]._replace(values={})), "text", Texts("zh"), whole=False)
    heading = next(line for line in shown.splitlines() if "状态" in line)
    assert heading.split()[0] == "节点"
    assert "已隔离" in shown
    one = chinese(in_full()["nodes"]._replace(values={"node": "gpu-node-18"}))
    of_one = render(one, "text", Texts("zh"), whole=True)
    assert re.search(r"对象 +节点 gpu-node-18，集群 lab", of_one)
    assert re.search(r"缩放 +算力 x1\n", of_one)
    assert "hami.io/node-handshake        Requesting_2026-11-21 05:52:17" in of_one


def sheets() -> list[Sheet[Any]]:
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(playbooks.__path__, "playbooks.")]
    return [held for module in modules for held in vars(module).values() if isinstance(held, Sheet)]


def test_the_value_of_a_flag_is_as_the_program_got_it_in_any_language() -> None:
    flags = Table("flags", ("of", "flag", "value"), (("device plugin", "--mig-strategy", "none"),))
    assert for_people(flags, Texts("zh")).rows[0][2] == "none"


def test_every_sentence_of_help_has_its_chinese() -> None:
    said = {sentence for grammar in (shell_grammar(), slack_grammar()) for sentence in sentences_of(grammar)}
    assert len(said) > 90
    assert {sentence for sentence in said if Texts("zh").name(sentence, "help") == sentence} == set()


def test_help_in_chinese_has_lines_that_a_terminal_shows_whole() -> None:
    with click.Context(grammar := shell_grammar(), info_name="hami-bot", terminal_width=80) as context:
        for verb in grammar.list_commands(context):
            command = grammar.get_command(context, verb)
            assert command
            shown = help_of(click.Context(command, info_name=verb, parent=context), Texts("zh")).partition("Usage")[0]
            assert max(map(cells, shown.splitlines())) <= 80, verb


def sentences_of(grammar: Grammar) -> Iterator[str]:
    context = click.Context(grammar)
    commands = [grammar, *(grammar.get_command(context, verb) for verb in grammar.list_commands(context))]
    helps = [
        (command.help, command.short_help, command.epilog, *map(help_text, command.params))
        for command in commands
        if command
    ]
    for text in filter(None, chain.from_iterable(helps)):
        parts = [part for part in inspect.cleandoc(text).split("\n\n") if not part.startswith("\b")]
        yield from filter(None, chain.from_iterable(map(sentences_in, parts)))


def help_text(parameter: click.Parameter) -> str | None:
    return parameter.help if isinstance(parameter, click.Option) else None
