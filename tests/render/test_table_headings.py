"""The titles of tables: for people in their own language, in JSON the same for all."""

import re

import msgspec
import pytest

from bot.render.markdown import markdown
from bot.render.terminal import terminal
from bot.render.words import table_heading
from bot.report import Report, Table
from bot.texts import LANGUAGES, Texts
from tests.cases_support import questions, scenarios
from tests.render import typical


def with_table(title: str) -> Report:
    return msgspec.structs.replace(typical(), tables=(Table(title, ("node",), (("gpu-1",),)),))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_table_of_the_recorded_answers_has_a_title_in_every_language(language):
    asked = [*questions(), *(scenario.question for scenario in scenarios())]
    titles = {title for question in asked for title in re.findall(r"(?:^|, )(.*?): \d+", question.expected["tables"])}
    assert "candidate nodes" in titles
    say = Texts(language)
    told = {title: say.words(table_heading(Table(title, (), ()))) for title in titles}
    assert all(told.values())
    assert language == "en" or {title for title, words in told.items() if words.isascii()} == set()


def test_a_title_is_told_in_the_reader_s_language():
    report, say = with_table("nodes"), Texts("zh")
    assert "\n节点\n" in terminal(report, say, colour=False)
    assert "节点" in markdown(report, say)


def test_a_title_that_is_told_already_stays_as_it_is():
    assert "\nFirst 25 rows of heap\n" in terminal(with_table("first 25 rows of heap"), Texts("zh"), colour=False)
