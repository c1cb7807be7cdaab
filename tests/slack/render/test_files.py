import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from bot.render.markdown import markdown
from bot.render.words import visible
from bot.report import Table
from bot.slack.render.files import table_file, whole_answer
from tests.render import SAY, any_text, typical


def rows(file):
    return list(csv.reader(io.StringIO(file.content.decode("utf-8-sig"), newline="")))


def test_the_whole_answer_is_the_markdown_of_the_report():
    file = whole_answer(typical(), SAY)
    assert file.content.decode() == markdown(typical(), SAY)
    assert (file.name, file.title) == ("answer.md", "The whole answer")


def test_a_table_keeps_its_columns_rows_and_name():
    file = table_file(Table("candidate nodes", ("node", "why"), (("gpu-1", 'a "b", c'), ("gpu-2", "-5"))), 1)
    assert rows(file) == [["node", "why"], ["gpu-1", 'a "b", c'], ["gpu-2", "-5"]]
    assert (file.name, file.title) == ("candidate-nodes-1.csv", "Candidate nodes")


def test_no_cell_is_a_formula():
    file = table_file(Table("t", ("a", "b", "c", "d"), (("=1+1", "+1", "-x", "@SUM(A1)"),)), 1)
    assert rows(file)[1] == ["'=1+1", "'+1", "'-x", "'@SUM(A1)"]


@given(any_text(), st.lists(any_text(), min_size=1, max_size=3))
def test_a_file_of_any_text_has_a_name_a_title_and_cells_on_one_line(title, cells):
    file = table_file(Table(title, tuple(cells), (tuple(cells),)), 1)
    assert file.name.endswith("-1.csv")
    assert file.title
    assert not set(file.name) - set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert [one.removeprefix("'") for one in rows(file)[1]] == [visible(one).removeprefix("'") for one in cells]
