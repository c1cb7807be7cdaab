"""The card of a change in every state, with hostile words, within Slack's limits; and its buttons' values."""

from typing import get_args

import pytest
from msgspec.structs import replace

from bot.changes.journal import EventKind
from bot.errors import BotError
from bot.report import Impact
from bot.slack.render import blocks
from bot.slack.render.blocks import read_value, value_of
from bot.slack.render.change import (
    RUNNING,
    CardButton,
    ChangeCard,
    ChangeOffer,
    Waiting,
    offer_form,
    offer_message,
    render_card,
    render_denied,
    render_late,
    told_form,
    waiting_form,
)
from bot.slack.render.prose import progress, render_error
from bot.texts import LANGUAGES, Texts
from sandbox.slack.validate import validate_view
from tests.changes import records
from tests.slack.render import NOTHING, assert_fits, assert_inert, objects, parsed, read, texts

HOSTILE = "<!channel> <@U0EVIL> *b* `c` http://evil \u202e" + "x" * 3000
RECORD = replace(records.RECORD, by="U0ADA00001", because=HOSTILE, channel="C0GPUONC01", until_captured="ml/trainer-0")
STATES = [*get_args(Waiting), *get_args(EventKind)]
SAY = Texts("en")


def card(state: str, **more) -> ChangeCard:
    return ChangeCard(state, RECORD, "lab", HOSTILE, "U0LINUS001", approval="k", digest="d", expires_at=1.0, **more)


def buttons(message) -> list[str]:
    found = [element for block in message.blocks if block["type"] == "actions" for element in block["elements"]]
    return [element["action_id"] for element in found]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", STATES)
def test_a_card_in_any_state_is_within_the_limits_and_lets_nobodys_words_act(state: str, language) -> None:
    message = render_card(card(state, approved_by="U0GRACE001")).in_words(Texts(language))
    assert_fits(message)
    assert all(read(text.replace(f"<@{RECORD.by}>", "")) == NOTHING for text in parsed(message))
    named = {object_["user_id"] for object_ in objects(message.blocks) if object_.get("type") == "user"}
    assert named <= {"U0ADA00001", "U0LINUS001", "U0GRACE001"}
    assert ("5 → 4" if state.startswith("reverted") else "4 → 5") in " ".join(texts(message))


@pytest.mark.parametrize(
    ("by", "named"), [("U0ADA00001", "<@U0ADA00001>"), ("o'neil & co (shell)", "o'neil &amp; co (shell)")]
)
def test_a_notification_names_who_asked(by: str, named: str) -> None:
    message = render_card(replace(card("effective"), record=replace(RECORD, by=by, because="x"))).in_words(SAY)
    assert f"requested by {named} because x" in message.text


@pytest.mark.parametrize("state", STATES)
def test_only_what_can_still_be_done_has_a_button(state: str) -> None:
    shown = buttons(render_card(card(state)).in_words(SAY))
    if state == "pending":
        assert shown == ["change:approve", "change:refuse"]
    elif state in ("failed", "unreadable"):  # without its record a change is reverted, and not extended
        assert shown == ["change:revert"]
    else:
        assert shown == (["change:revert", "change:extend"] if state in RUNNING else [])


def test_the_deadline_is_shown_in_the_readers_own_time() -> None:
    message = render_card(card("effective")).in_words(SAY)
    facts = message.blocks[0]["elements"][1]["elements"]
    dates = [element for fact in facts for element in fact["elements"] if element["type"] == "date"]
    assert [(date["timestamp"], date["fallback"]) for date in dates] == [(1_795_237_800, RECORD.at)]


def test_a_change_that_was_put_back_says_by_whom_and_when() -> None:
    given = replace(card("reverted", at=1_795_237_800.0), by=RECORD.by, detail="")
    parts = [
        object_
        for object_ in objects(render_card(given).in_words(SAY).blocks)
        if object_.get("type") in ("user", "date")
    ]
    assert [part.get("user_id") or part["fallback"] for part in parts] == [RECORD.by, RECORD.by, RECORD.at]


def test_help_is_called_of_those_named_only() -> None:
    message = render_late(card("failed"), 10, ["U0LINUS001", "S0ONCALL01"], "kubectl").in_words(SAY)
    assert_fits(message)
    called = [element["type"] for element in message.blocks[0]["elements"][0]["elements"]]
    assert called[:3:2] == ["user", "usergroup"]
    assert "user" not in [
        element["type"]
        for element in render_late(card("failed"), 2, [], "kubectl").in_words(SAY).blocks[0]["elements"][0]["elements"]
    ]


def test_a_refusal_names_those_who_may() -> None:
    message = render_denied("You may not", ["U0ADA00001", "S0ONCALL01"], ["C0GPUONC01"]).in_words(SAY)
    assert_fits(message)
    kinds = [element["type"] for element in message.blocks[0]["elements"][0]["elements"]]
    assert {"user", "usergroup", "channel"} <= set(kinds)


def test_a_buttons_value_comes_back_and_anything_else_is_none() -> None:
    pressed = CardButton("0123456789ab", "lab", "hami-system/hami-scheduler", "d" * 64)
    assert read_value(value_of(pressed), CardButton) == pressed
    for forged in ("", "{", "[]", "1", '{"v":1}', value_of(pressed).replace('"v":1', '"v":2'), "x" * 3000):
        assert read_value(forged, CardButton) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_shown_before_a_change_is_within_the_limits(language) -> None:
    say = Texts(language)
    impacts = tuple(Impact(f"code-{number}", "warning", HOSTILE[:900]) for number in range(6))
    offer = ChangeOffer(RECORD, impacts, "lab", two_person=True)
    error = render_error(BotError(HOSTILE, hint=HOSTILE))
    for view in (offer_form(offer, "{}"), waiting_form(), told_form(progress("x")), told_form(error)):
        assert validate_view(blocks.in_words(view, say)) == []
    draft = offer_message(offer, "{}")
    assert draft is not None
    assert_fits(draft.in_words(say))
    assert_inert(draft.in_words(say))


def test_a_draft_too_long_for_a_button_is_not_offered() -> None:
    assert offer_message(ChangeOffer(RECORD, (), "lab", two_person=False), "x" * 2001) is None
