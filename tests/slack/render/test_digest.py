"""What a digest says when nothing changed: that is a claim about what was compared, and about no more."""

import pytest

from bot.digest.figures import Figures
from bot.report import SCHEMA, Report, Subject
from bot.slack.render.digest import DigestPost, render_digest
from tests.render import SAY
from tests.slack.render import texts

BEFORE = {"pending/x": "3", "node-faults/y": "1"}
REPORT = Report(SCHEMA, "digest", "c", "2026-11-21T05:00:00Z", Subject("Cluster", "", "c"), "all is well", "info", ())


def told(after: Figures) -> str:
    message = render_digest(DigestPost(REPORT, BEFORE, after, 0, "", {}, {})).in_words(SAY)
    return "\n".join([message.text, *texts(message)])


def test_where_all_was_compared_nothing_has_changed() -> None:
    assert "Nothing has changed since the last digest" in told(BEFORE)


def test_where_a_part_was_not_seen_nothing_has_changed_in_the_rest() -> None:
    said = told({"pending/x": "3", "unseen/node-faults": "403"})
    assert "Nothing has changed in what could be compared" in said
    assert "Not compared" in said


@pytest.mark.parametrize("before_too", [False, True])
def test_where_nothing_was_compared_it_does_not_say_that_nothing_changed(before_too: bool) -> None:
    unseen = {"unseen/pending": "403", "unseen/node-faults": "403"}
    said = told({**BEFORE, **unseen} if before_too else unseen)
    assert "Nothing has changed" not in said
    assert "Not compared" in said
