"""Overviews begin with their answer: the verdict, then a table that a person reads, then what to do."""

import re
from typing import Any, NamedTuple

import msgspec
import pytest

from bot.render.terminal import terminal
from bot.report import Report, Sheet
from bot.slack.render.report import render_report
from bot.texts import LANGUAGES, Texts
from sandbox.slack.validate import validate_blocks
from tests.cases_support import CASES, VERSIONS, ask

RECORDING = CASES / "hami-2.10" / "recording.tar.gz"
MOST_LINES = {"pending": 45, "nodes": 35, "gpus": 60, "status": 45, "digest": 45, "quota": 35}
EVERY = [
    pytest.param(version, verb, language, id=f"{version}-{verb}-{language}")
    for version in VERSIONS
    for verb in MOST_LINES
    for language in LANGUAGES
]
TEMPLATE = {"verb": "tune", "template": "production"}
TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T")
UUID = re.compile(r"GPU-[0-9a-f]{8}-")


def shown(report: Report, width: int = 110, language: Any = "en") -> str:
    return terminal(report, Texts(language), width=width, colour=False)


@pytest.mark.parametrize(("version", "verb", "language"), EVERY)
def test_every_recorded_overview_fits_a_screen(version: str, verb: str, language: str) -> None:
    text = shown(ask(CASES / version / "recording.tar.gz", verb=verb, language=language), 110, language)
    assert len(text.splitlines()) <= MOST_LINES[verb]


def test_a_verdict_that_is_good_news_is_no_warning_and_the_warnings_follow_it() -> None:
    loud = re.findall("(?m)^[A-Z]{4,}", shown(ask(RECORDING, verb="gpus")))
    assert loud == ["INFO", "WARNING", "WARNING"]


@pytest.mark.parametrize("verb", MOST_LINES)
def test_all_shows_more_than_an_overview(verb: str) -> None:
    text = shown(ask(RECORDING, verb=verb))
    assert len(shown(ask(RECORDING, verb=verb, all=True)).splitlines()) > len(text.splitlines())


@pytest.mark.parametrize(("version", "verb", "language"), EVERY)
def test_in_100_columns_no_table_of_an_overview_becomes_prose(version: str, verb: str, language: str) -> None:
    text = shown(ask(CASES / version / "recording.tar.gz", verb=verb, language=language), 100, language)
    assert not [line for line in text.splitlines() if line.startswith("  - ") and line.count(": ") > 3]
    assert max(map(len, (line for line in text.splitlines() if "kubectl" not in line))) <= 100


def test_pending_tells_each_cause_once_and_the_platform_s_first() -> None:
    report = ask(RECORDING, verb="pending")
    text = shown(report)
    acts = re.findall("(?m)^  (platform|its owner|room|retry)  ", text)
    assert acts == sorted(acts, key=["platform", "its owner", "room", "retry"].index)
    assert text.count("HAMi has no usable registration of the node.") == 1
    assert len(acts) == len({row[0] for row in report.tables[0].rows})


@pytest.mark.parametrize("verb", MOST_LINES)
def test_the_table_comes_before_the_steps_and_each_step_once(verb: str) -> None:
    text = shown(ask(RECORDING, verb=verb))
    steps = re.findall(r"(?m)^  \d\. (.*)$", text)
    assert len(steps) == len(set(steps))
    first = text.split("\n\n")[1]
    assert not first.startswith(("Next", "Problems", "Evidence"))


@pytest.mark.parametrize("verb", ["pending", "nodes", "gpus", "quota", "status"])
def test_times_are_ages_and_uuids_are_short(verb: str) -> None:
    text = shown(ask(RECORDING, verb=verb))
    assert not TIMESTAMP.search(text)
    assert not UUID.search(text)


@pytest.mark.parametrize("asked", [{"verb": verb} for verb in (*MOST_LINES, "tune", "latency")] + [TEMPLATE], ids=str)
def test_all_is_offered_only_where_it_shows_more(asked: dict[str, Any]) -> None:
    text = shown(ask(RECORDING, **asked, all=True), 60)
    assert not re.search(r"--all shows|rows: --all|rows:\s+--all", text)


def test_json_has_the_same_with_all() -> None:
    for verb in MOST_LINES.keys() - {"nodes"}:  # which has the healthy nodes too, then
        assert ask(RECORDING, verb=verb) == ask(RECORDING, verb=verb, all=True)


LISTS = {"pending", "nodes"}
TABLES = [verb for verb in MOST_LINES if verb not in LISTS]


@pytest.mark.parametrize("verb", sorted(LISTS))
def test_in_slack_what_a_phone_would_cut_off_is_a_list_with_each_row_in_words(verb: str) -> None:
    message = render_report(ask(RECORDING, verb=verb), Texts("en"), channel_buttons=True, words=verb)
    assert message.newer == ()
    lists = [part for block in message.blocks for part in block.get("elements", []) if part["type"] == "rich_text_list"]
    rows = ["".join(piece["text"] for piece in item["elements"]) for item in lists[0]["elements"]]
    said = {
        "pending": "platform · HAMi has no usable registration of the node · pods 2 · oldest pod ml/s09-",
        "nodes": "gpu-node-16 · node-unregistered · handshake requesting 21 min",
    }
    assert rows[0].startswith(said[verb])
    assert len(rows) <= 10


@pytest.mark.parametrize("verb", TABLES)
def test_in_a_newer_slack_an_overview_is_a_table_that_sorts_with_all_rows_that_have_room(verb: str) -> None:
    message = render_report(ask(RECORDING, verb=verb), Texts("en"), channel_buttons=True, words=verb)
    assert validate_blocks(list(message.newer)) == []
    [table] = [block for block in message.newer if block["type"] == "data_table"]
    [usual] = [block for block in message.blocks if block["type"] == "table"]
    assert len(table["rows"]) >= len(usual["rows"])
    assert table["caption"]
    assert [block["type"] for block in message.newer if block["type"] != "rich_text"] == [
        {"table": "data_table"}.get(block["type"], block["type"])
        for block in message.blocks
        if block["type"] != "rich_text"
    ]


def test_an_answer_about_a_pod_has_no_newer_form() -> None:
    report = ask(RECORDING, "ml/s06-wrong-gputype")
    assert render_report(report, Texts("en"), channel_buttons=True, words="why x").newer == ()


class _Setting(NamedTuple):
    setting: str
    before: str
    after: str
    note: str


_SETTINGS = Sheet("settings", _Setting, brief="setting=name before=old after=new note", together=3)
_CHANGED = [_Setting("--kube-qps", "unset", "fifty-for-every-replica", "so.that-requests-wait-no-longer")]
_CHANGED += [_Setting("--kube-burst", "unset", "hundred-at-once", "so.that-many-can-be-sent-at-once")]


def overview_of(rows: list[_Setting]) -> Report:
    report = ask(RECORDING, verb="pending")
    return msgspec.structs.replace(report, findings=(), gaps=(), tables=(_SETTINGS.table(rows, brief=rows),))


def test_a_narrow_terminal_names_the_columns_that_it_leaves_out() -> None:
    assert "so.that" in shown(overview_of(_CHANGED), 80)
    text = shown(overview_of(_CHANGED), 60)
    assert "fifty-for-every-replica" in text
    assert "so.that" not in text
    assert "Not shown at this width: note. --all shows all columns" in text


def test_columns_that_say_nothing_without_each_other_stay_together_on_a_narrow_terminal() -> None:
    [heading] = [line.split() for line in shown(overview_of(_CHANGED), 40).splitlines() if line.startswith("  name ")]
    assert heading[:3] == ["name", "old", "new"]


def test_a_value_from_before_is_shown_even_if_all_rows_have_it() -> None:
    [heading] = [line.split() for line in shown(overview_of(_CHANGED), 80).splitlines() if "note" in line]
    assert heading == ["name", "old", "new", "note"]
