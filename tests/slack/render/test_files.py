import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from bot.render.markdown import markdown
from bot.render.words import visible
from bot.report import Table
from bot.slack.render.tables import table_files, whole_answer
from tests.render import SAY, any_text, typical


def rows(file):
    return list(csv.reader(io.StringIO(file.content.decode("utf-8-sig"), newline="")))


def test_the_whole_answer_is_the_markdown_of_the_report():
    file = whole_answer(typical(), SAY)
    assert file.content.decode() == markdown(typical(), SAY)
    assert (file.name, file.title) == ("answer.md", "The whole answer")


def table_file(table):
    (file,) = table_files([table], SAY)
    return file


def test_a_table_keeps_its_columns_rows_and_name():
    file = table_file(Table("candidate nodes", ("node", "why"), (("gpu-1", 'a "b", c'), ("gpu-2", "-5"))))
    assert rows(file) == [["node", "why"], ["gpu-1", 'a "b", c'], ["gpu-2", "-5"]]
    assert (file.name, file.title) == ("candidate-nodes.csv", "Candidate nodes")


def test_no_cell_is_a_formula():
    cells = ("=1+1", "+1", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1", "－1", "＠x")
    shown = rows(table_file(Table("t", tuple("abcdefghijk"), (cells,))))[1]
    assert shown == [
        *("'=1+1", "'+1", "'-x", "'@SUM(A1)", r"\t=1", r"\r=1", r"\n=1"),
        *("'＝1+1", "'＋1", "'－1", "'＠x"),
    ]


def test_a_negative_number_stays_a_number():
    assert rows(table_file(Table("t", ("a", "b"), (("-1,024", "-5%"),))))[1] == ["-1,024", "-5%"]


def test_lines_end_as_rfc_4180_has_it():
    content = table_file(Table("t", ("a", "b"), (("1", "x,y"),))).content
    assert content.decode("utf-8-sig") == 'a,b\r\n1,"x,y"\r\n'


@given(any_text(), st.lists(any_text(), min_size=1, max_size=3))
def test_a_file_of_any_text_has_a_name_a_title_and_cells_on_one_line(title, cells):
    file = table_file(Table(title, tuple(cells), (tuple(cells),)))
    assert file.name.endswith(".csv")
    assert file.title
    assert not set(file.name) - set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert [row.removeprefix("'") for row in rows(file)[1]] == [visible(cell).removeprefix("'") for cell in cells]
