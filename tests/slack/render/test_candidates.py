import pytest

from bot.slack.render.blocks import AskButton, read_value, render_choice
from tests.slack.render import assert_fits, assert_inert, texts

QUESTION = "Which of these pods?"


def buttons(message):
    return [element for block in message.blocks if block["type"] == "actions" for element in block["elements"]]


def test_every_choice_is_a_button_that_asks_for_it_on_the_same_cluster():
    asks = ["why ml/trainer-0", "why ml/trainer-1"]
    shown = buttons(render_choice(QUESTION, asks, "lab"))
    assert [element["text"]["text"] for element in shown] == asks
    assert [read_value(element["value"], AskButton) for element in shown] == [AskButton(ask, "lab") for ask in asks]
    assert [element["action_id"] for element in shown] == ["ask:0", "ask:1"]


def test_the_question_and_the_choices_are_read_aloud():
    message = render_choice(QUESTION, ["why ml/a", "why ml/b"], "lab")
    assert message.text == "Which of these pods? why ml/a, why ml/b"
    assert texts(message)[0] == QUESTION


def test_at_most_25_are_offered():
    message = render_choice(QUESTION, [f"why ml/trainer-{number}" for number in range(100)], "lab")
    assert_fits(message)
    assert len(buttons(message)) == 25


def test_a_choice_too_long_for_a_button_is_not_offered():
    message = render_choice(QUESTION, ["why " + "x" * 3000, "why ml/a"], "lab")
    assert [button["text"]["text"] for button in buttons(message)] == ["why ml/a"]
    assert "xxx" not in message.text


def test_nothing_to_offer_is_the_question_alone():
    message = render_choice(QUESTION, [], "lab")
    assert_fits(message)
    assert [block["type"] for block in message.blocks] == ["section"]


@pytest.mark.parametrize("text", ["<!channel>", "*b* `c`", ":rotating_light:", "\u202ex", "x" * 1900, "字" * 300])
def test_hostile_names_are_inert(text):
    message = render_choice(text, [f"why {text}", text], text)
    assert_fits(message)
    assert_inert(message)
