"""The answer as Slack shows it: valid, inert, and one of them whole, as `expected.slack.json` has it."""

import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from bot.report import Report
from bot.slack.message import Message
from bot.slack.render.report import render_report, slack_json
from bot.texts import LANGUAGES, Language, Texts
from handlers.inbox import with_files
from tests.dense_json import dense_json
from tests.slack.render import assert_fits, assert_inert, texts
from tests.tune.support import Case, cases

GOLDEN = Path(__file__).parent / "expected.slack.json"
CASES = {case.name: case for case in cases()}


@cache
def answer(case: Case, language: Language, template: str = "") -> Report:
    return case.ask(everything=False, template=template, language=language)


def shown(name: str, language: Language = "en", template: str = "") -> Message:
    return render_report(answer(CASES[name], language, template), Texts(language), channel_buttons=False, words="tune")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CASES)
def test_every_answer_is_one_that_slack_takes(name: str, language: Language) -> None:
    message = shown(name, language)
    assert_fits(message)
    assert_inert(message)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_template_is_shown_and_its_yaml_is_a_file(language: Language) -> None:
    message = shown("healthy", language, "production")
    assert_fits(message)
    assert_inert(message)
    assert "scheduler.extender.extraArgs --kube-qps" in texts(message)
    report = answer(CASES["healthy"], language, "production")
    (file,) = (
        file
        for file in with_files(lambda: message, report, Texts("en"), everything=False).files
        if file.name == "values.yaml"
    )
    values = yaml.safe_load(file.content)
    assert values["scheduler"]["extender"]["extraArgs"] == ["--debug", "-v=4", "--kube-qps=50", "--kube-burst=100"]
    assert not [other.name for other in message.files if "values" in other.name]


def test_the_message_of_a_throttled_scheduler_is_as_it_was() -> None:
    """`python -m tests.tune.test_slack` writes it anew: read the diff."""
    assert golden() == GOLDEN.read_text(encoding="utf-8")


def golden() -> str:
    """The whole message about the recording `throttled-client`."""
    return dense_json(json.loads(slack_json(answer(CASES["throttled-client"], "en"), Texts("en"))))


if __name__ == "__main__":
    GOLDEN.write_text(golden(), encoding="utf-8")
