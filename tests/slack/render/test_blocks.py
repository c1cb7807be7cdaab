import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.slack.render import blocks
from bot.slack.render.text import escape, inert, line, lines, link, rich_text, span, told, told_mrkdwn
from bot.texts import literal
from sandbox.slack.validate import validate_blocks, validate_view
from tests.render import SAY, any_text
from tests.sampling import examples

ANY = any_text() | st.just("x" * 5000) | st.just("😀" * 1600)


def every_element(text):
    sure = blocks.confirm(text, text, text)
    buttons = [blocks.button(text, "a1", style="danger", confirm=sure), blocks.button(text, "a2", "v")]
    return blocks.in_words(buttons, SAY)


@given(ANY)
@settings(max_examples=examples(50))
def test_a_block_of_any_text_is_one_that_slack_takes(text):
    assert validate_blocks([blocks.header(text), blocks.plain_section(text)]) == []
    assert validate_blocks([blocks.context(text), blocks.actions(*every_element(text))]) == []
    assert validate_blocks([blocks.table([[blocks.cell(text[:100])] * 30] * 3, [True] * 30)]) == []
    assert validate_blocks([blocks.data_table(text, [[blocks.cell(text[:50])] * 30] * 3, 2)]) == []
    assert validate_blocks([blocks.task_card("1", text)]) == []
    assert validate_blocks([blocks.plain_section(text, accessory=blocks.button(text, "a"))]) == []


@given(ANY)
@settings(max_examples=examples(50))
def test_a_view_of_any_text_is_one_that_slack_takes(text):
    field = blocks.text_input("a", initial=text, placeholder=text, multiline=True)
    asking = [blocks.asking(text, field, "b1", hint=text), blocks.actions(*every_element(text))]
    view = blocks.modal(text, asking, submit=text or "Go", callback_id="c")
    assert validate_view(blocks.in_words(view, SAY)) == []
    assert validate_view(blocks.home([blocks.plain_section(text)] * 200)) == []


@given(ANY.filter(bool))
@settings(max_examples=examples(50))
def test_a_text_that_becomes_words_shows_and_does_as_little_as_words(text):
    def shown(prose):
        field = blocks.text_input("a", placeholder="p")
        said = [span(inert(prose, 40), "bold"), *told(inert(prose, 900)), link("https://x", inert(prose, 9))]
        view = blocks.modal(prose, [blocks.asking(prose, field, "b", hint=prose)], submit=prose)
        aloud = told_mrkdwn(lines([escape(prose, 50), escape(prose)]))
        return [blocks.header(prose), blocks.context(prose), *every_element(prose), rich_text(line(*said)), view, aloud]

    assert blocks.in_words(shown(literal(text)), SAY) == blocks.in_words(shown(text), SAY)


def test_what_is_too_many_is_left_out():
    assert len(blocks.context(*"x" * 11)["elements"]) == 10
    assert len(blocks.actions(*({"n": number} for number in range(26)))["elements"]) == 25


@pytest.mark.parametrize("made", [blocks.header("a :b: *c*"), blocks.plain_section("a :b: *c*")])
def test_foreign_text_shows_no_pictures(made):
    assert made["text"] == {"type": "plain_text", "text": "a :b: *c*", "emoji": False}


def test_a_column_of_numbers_sorts_as_numbers_and_any_other_as_text():
    cells = [[blocks.cell(cell) for cell in row] for row in (("node", "free"), ("gpu-1", "16,384"), ("gpu-2", "-1.5"))]
    [header, first, second] = blocks.data_table("Cards", cells, 5)["rows"]
    assert [heading["type"] for heading in header] == ["raw_text", "raw_text"]
    assert first[1] == {"type": "raw_number", "value": 16384, "text": "16,384"}
    assert second[1] == {"type": "raw_number", "value": -1.5, "text": "-1.5"}
    cells[2][1] = blocks.cell("?")
    assert blocks.data_table("Cards", cells, 5)["rows"][1][1] == {"type": "raw_text", "text": "16,384"}
