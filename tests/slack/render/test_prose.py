import pytest
from hypothesis import given

from bot.errors import BotError, UsageError
from bot.slack.message import Message
from bot.slack.render.prose import progress, render_error, render_help
from tests.render import SAY, any_text
from tests.slack.render import assert_fits, assert_inert, texts

HUGE = "\u202e<!here> " * 50_000


def test_an_error_says_what_was_wrong_what_to_do_and_how():
    message = render_error(UsageError("No verb 'wy'", hint="Did you mean why?"), "/hami why ml/trainer-0").in_words(SAY)
    assert texts(message) == ["No verb 'wy'.", "\nDid you mean why?", "\nFor example:", "/hami why ml/trainer-0"]
    assert message.text == "No verb 'wy'.\nDid you mean why?\nFor example: /hami why ml/trainer-0"


def test_an_error_without_a_hint_is_one_line():
    assert texts(render_error(BotError("It broke.")).in_words(SAY)) == ["It broke."]


@pytest.mark.parametrize("text", [HUGE, "", " ", "\x00", "<@U1> *b*"], ids=lambda text: ascii(text[:10]))
def test_an_error_of_any_text_fits_and_is_inert(text):
    message = render_error(BotError(text, hint=text), text).in_words(SAY)
    assert_fits(message)
    assert_inert(message)


@given(any_text())
def test_help_of_any_text_fits_and_is_inert(text):
    message = render_help(text)
    assert_fits(message)
    assert_inert(message)


def test_help_keeps_its_lines_and_their_columns():
    (block,) = render_help("Usage: why POD\n\n  --all   more\n").blocks
    assert texts(render_help("Usage: why POD\n\n  --all   more\n")) == ["Usage: why POD\n\n  --all   more"]
    assert block["elements"][0]["type"] == "rich_text_preformatted"


def test_long_help_is_cut():
    assert_fits(render_help("a line of help\n" * 10_000))


def test_progress_is_a_line_of_plain_words():
    assert progress("Looking at <b> …") == Message("Looking at &lt;b&gt; …")


def test_a_chinese_error_ends_with_a_full_stop_of_its_own():
    assert texts(render_error(BotError("没有这个动词")).in_words(SAY)) == ["没有这个动词。"]


def test_questions_with_what_they_are_for_are_a_list_that_a_phone_reads():
    (block,) = render_help("Ask:\n/hami why POD — why it waits\n/hami gpus — what is free").blocks
    assert [part["type"] for part in block["elements"]] == ["rich_text_section", "rich_text_list"]
