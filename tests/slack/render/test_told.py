"""Times and people that stand in text: shown as the reader's own time and as who that is, where Slack can."""

import pytest

from bot.errors import BotError
from bot.slack.render.prose import progress, render_error
from bot.slack.render.text import escape, moment, told, told_mrkdwn, told_plain
from bot.texts import Texts, literal

ADA = "U0ADA00001"
UNTIL = "2026-11-24T18:58:53Z"
TOKEN = f"<!date^1795546733^{{date_short_pretty}} {{time_secs}}|{UNTIL}>"


def test_a_time_and_a_person_in_rich_text_are_parts_of_their_own() -> None:
    parts = told(f"open until {UNTIL}, by {ADA}", "bold", ids=[ADA])
    assert parts[1] == moment(1795546733.0)
    assert parts[3] == {"type": "user", "user_id": ADA}
    assert [part["text"] for part in parts[::2]] == ["open until ", ", by "]


@pytest.mark.parametrize("after", ["", ".", ", by", ": because"])
def test_a_time_in_escaped_text_is_the_readers_own(after: str) -> None:
    assert f"until {TOKEN}" in told_mrkdwn(escape(f"until {UNTIL}{after}"))


def test_where_nothing_is_parsed_a_time_is_short() -> None:
    assert Texts("en").words(told_plain(literal(f"extended to {UNTIL}"))) == "extended to 18:58 UTC"


@pytest.mark.parametrize(
    "text", ["2026-13-45T99:99:99Z", f"x{UNTIL}", "<!date^1^{time}|x>", f"<@{ADA}> <!channel>", ADA]
)
def test_what_looks_like_it_stays_words(text: str) -> None:
    assert told(text) == [{"type": "text", "text": text}]
    assert told_mrkdwn(escape(text)) == escape(text)


def test_an_error_names_whom_it_says_that_it_names() -> None:
    error = BotError(f"{ADA} and U0GRACE001 until {UNTIL}")
    error.people = (ADA,)
    message = render_error(error).in_words(Texts("en"))
    assert message.text == f"<@{ADA}> and U0GRACE001 until {TOKEN}."
    (section,) = message.blocks[0]["elements"]
    assert [part["type"] for part in section["elements"]] == ["user", "text", "date", "text"]


def test_one_line_has_the_readers_own_time() -> None:
    assert progress(f"10m longer: it now lasts until {UNTIL}.").text == f"10m longer: it now lasts until {TOKEN}."
