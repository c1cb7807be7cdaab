import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.slack.render.text import cut, escape, inert, length, lines
from tests.render import any_text
from tests.slack.render import NOTHING, read

ACTING = st.lists(
    st.sampled_from(
        ["*", "_", "~", "`", "```", ">", "<", "&", ":", "@", "!", "|", "://", "www.", " ", "a", "1", "字", "\n"]
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<!channel> & co", "&lt;!channel&gt; &amp; co"),
        ("&lt;!here&gt;", "&amp;lt;!here&amp;gt;"),
        ("a *b* c _d_ ~e~ `f`", "a ∗b∗ c ˍdˍ ∼e∼ ˋfˋ"),
        ("pod_name_0 a*b", "pod_name_0 a*b"),
        ("Deleted_ and 2 * 3", "Deleted_ and 2 * 3"),
        ("> quoted", "› quoted"),
        ("at 05:00:00, :smile:", "at 05:00:00, :\u200bsmile:"),
        ("http://evil", "http:\u200b//evil"),
        ("one\ntwo", r"one\ntwo"),
        ("\u202eevil", r"\u202eevil"),
        ("a\u200bb\x00", r"a\u200bb\x00"),
    ],
)
def test_escaped_text_is_words_alone(raw, shown):
    assert escape(raw) == shown


@given(any_text() | ACTING)
@example(":a::b:")
@example("<" * 3000)
def test_nothing_acts_in_escaped_text(raw):
    assert read(escape(raw)) == NOTHING


@given(any_text() | ACTING, st.integers(1, 40))
def test_escaped_text_is_cut_between_characters_and_never_in_an_entity(raw, most):
    shown = escape(raw, most)
    assert length(shown) <= most
    assert read(shown).broken == []


def test_an_entity_that_has_no_room_is_left_out_whole():
    assert escape("ab<c", 5) == "ab…"


@given(st.text(), st.integers(1, 30))
@example("😀" * 20, 7)
def test_a_text_is_cut_to_a_length_that_slack_counts(text, most):
    shown = cut(text, most)
    assert length(shown) <= most
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_text_of_any_size_becomes_inert_at_once():
    assert inert("\u202e" * 200_000, 20) == r"\u202e\u202e\u202e\…"


def test_parts_stand_below_each_other_as_they_are():
    assert lines([escape("<a>"), escape("b")]) == "&lt;a&gt;\nb"
