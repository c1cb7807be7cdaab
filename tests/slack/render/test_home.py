from msgspec.structs import replace

from bot.slack.render import blocks
from bot.slack.render.blocks import AskButton, read_value
from bot.slack.render.home import HomeContent, render_home
from bot.slack.render.text import BLOCKS_OF_VIEW
from bot.slack.render.triage_head import Head
from bot.triage.cause import Cause
from bot.triage.state import Incident
from bot.triage.summary import Counts
from sandbox.slack.content import elements_of, strings_of
from sandbox.slack.validate import validate_view
from tests.render import SAY

SEEN = HomeContent(opened=(), unread="", running=0, waiting=0, clusters=(), role="viewer", two_person=False)
EXAMPLE = "/hami why ml/trainer-0"


def texts(seen: HomeContent) -> str:
    return "\n".join(strings_of(blocks.in_words(render_home(seen, EXAMPLE), SAY)))


def test_it_says_what_is_open_and_who_may_change_something():
    shown = texts(replace(SEEN, opened=["-v of kube-scheduler"], role="approver", two_person=True))
    assert "-v of kube-scheduler" in shown
    assert "approve such changes of others" in shown
    assert "second person" in shown
    assert EXAMPLE in shown


def test_where_nothing_is_open_it_says_so_and_where_that_is_not_known_it_does_not():
    assert "no incident is open" in texts(SEEN)
    unread = texts(replace(SEEN, unread="the file is locked"))
    assert "the file is locked" in unread
    assert "no incident is open" not in unread


def test_three_questions_are_one_click():
    view = blocks.in_words(render_home(SEEN, EXAMPLE), SAY)
    values = [element.get("value", "") for block in view["blocks"] for element in elements_of(block)]
    asked = [value.words for value in (read_value(value, AskButton) for value in values) if value]
    assert asked == ["help", "pending", "gpus", "status"]


def test_a_thousand_open_incidents_and_changes_fit():
    words = "<!here> *x* " * 1000
    incident = Head("0123abcd", words, Cause("s", "", words, "info"), Incident("open", 1.0), Counts(1, 1, 1, 1), 1.0)
    seen = replace(SEEN, opened=[words] * 1000, incidents=[incident] * 500)
    view = blocks.in_words(render_home(seen, EXAMPLE), SAY)
    validate_view(view)
    assert len(view["blocks"]) <= BLOCKS_OF_VIEW
    assert "and 1480 more" in texts(seen)
    assert all(block.get("text", {}).get("type", "plain_text") == "plain_text" for block in view["blocks"])
