import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.report import NextAction
from bot.slack.render.blocks import AskButton, gist, read_value, value_of
from bot.slack.render.text import BUTTON_VALUE
from tests.render import any_text, finding, report


@given(any_text(), any_text())
def test_what_a_button_asks_is_read_as_it_was_written(words, cluster):
    value = value_of(AskButton(words, cluster))
    fits = bool(words.strip()) and len(value) <= BUTTON_VALUE
    assert read_value(value, AskButton) == (AskButton(words, cluster) if fits else None)


@pytest.mark.parametrize("character", ["x", "调", "é", "🔥"])
def test_a_value_has_room_for_as_many_characters_of_any_script_as_slack_counts(character):
    words = character * 1900
    assert len(value_of(AskButton(words, "生产"))) <= BUTTON_VALUE
    assert read_value(value_of(AskButton(words, "生产")), AskButton) == AskButton(words, "生产")


@given(st.text())
def test_any_value_is_read_without_an_error(text):
    assert read_value(text, AskButton) is None or isinstance(read_value(text, AskButton), AskButton)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "[]",
        "1",
        "{",
        "[" * 1900,
        '{"v":2,"ask":"why ml/x","cluster":"lab"}',
        '{"v":true,"ask":"why ml/x","cluster":"lab"}',
        '{"v":1,"ask":["why"],"cluster":"lab"}',
        '{"v":1,"ask":"why ml/x"}',
        '{"v":1,"ask":"why ml/x","cluster":null}',
        '{"v":1,"ask":"why ml/x","cluster":"lab","user":"U1"}',
        '{"v":1,"ask":" ","cluster":"lab"}',
        value_of(AskButton("why " + "x" * 2000, "lab")),
        json.dumps({"v": 1e999, "ask": "why ml/x", "cluster": "lab"}),
    ],
    ids=lambda value: value[:30],
)
def test_a_value_that_is_none_of_ours_asks_nothing(value):
    assert read_value(value, AskButton) is None


def test_a_command_of_kubectl_or_none_is_no_verb_of_ours():
    asked = [NextAction("x", command).is_ours for command in ("gpus --node gpu-1", "kubectl get pods", "", " ")]
    assert asked == [True, False, False, False]


def test_the_gist_of_a_report_is_another_one_when_it_tells_something_else_and_not_when_an_amount_differs():
    told = report(finding(), verdict="waits for 5 minutes")
    assert gist(told) == gist(replace(told, verdict="waits for 12 minutes"))
    assert gist(told) != gist(replace(told, verdict="the pod does not exist"))
    assert gist(told) != gist(replace(told, findings=(replace(told.findings[0], code="other"),)))
