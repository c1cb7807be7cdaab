"""Heads, replies, forms, timelines and digests in every state, with hostile words, within Slack's limits."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.digest.figures import Figures, OwnerRow, memory_by_model
from bot.render.words import MARKS
from bot.report import SCHEMA, Evidence, Finding, NextAction, Report, Scope, Severity, Subject
from bot.slack.render import blocks
from bot.slack.render.blocks import read_value, value_of
from bot.slack.render.digest import DigestPost, render_digest
from bot.slack.render.triage import TriageForm, form, render_news, render_open, render_timeline
from bot.slack.render.triage_head import Head, IncidentButton, render_head
from bot.texts import LANGUAGES, Language, Texts
from bot.triage.routes import Ignored
from bot.triage.state import CALLS, Deed, Incident, MuteUntil, News, State, Turn
from bot.triage.summary import IncidentEvent, summarize
from sandbox.slack.content import strings_of
from sandbox.slack.validate import validate_view
from tests.oncall.heads import CAUSE, HOSTILE, head
from tests.slack.render import NOTHING, assert_fits, parsed, read, texts


def buttons_of(shown: Head) -> dict[str, dict[str, Any]]:
    rows = [block for block in render_head(shown).in_words(Texts("en")).blocks if block["type"] == "actions"]
    return {element["action_id"]: element for row in rows for element in row["elements"]}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", get_args(State))
def test_a_head_lets_nobodys_words_act_and_fits(state: State, language: Language) -> None:
    message = render_head(head(state)).in_words(Texts(language))
    assert_fits(message)
    assert all(read(text) == NOTHING for text in parsed(message))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("turn", get_args(Turn))
def test_a_reply_lets_nobodys_words_act_and_fits(turn: Turn, language: Language) -> None:
    detail = "1800000000" if turn == "muted" else HOSTILE
    message = render_news(News(turn, HOSTILE, detail)).in_words(Texts(language))
    assert_fits(message)
    assert all(read(text) == NOTHING for text in parsed(message))
    assert message.broadcast is (turn in CALLS)


@pytest.mark.parametrize(("ends", "shown"), [("1800000000.5", "08:00:00Z"), ("1799999999.6", "08:00:00Z")])
def test_a_mute_ends_at_a_time_that_can_be_read_and_is_the_same_everywhere(ends: str, shown: str) -> None:
    say = Texts("en")
    news = render_news(News("muted", "U0ADA00001", f"{float(ends):.0f}")).in_words(say)
    muted = head("muted")._replace(incident=Incident("muted", 1.0, muted_until=MuteUntil(float(ends))))
    happened = [IncidentEvent(1.0, News("muted", "U0ADA00001", f"{float(ends):.0f}"))]
    assert news.text.startswith("Muted until <!date^1800000000^")
    assert news.text.endswith("|2027-01-15T08:00:00Z>")
    assert shown in "".join(strings_of(list(news.blocks)))
    assert shown in "".join(strings_of(list(render_head(muted).in_words(say).blocks)))
    assert shown in render_timeline(muted, happened, summarize(happened), say).content.decode()


def test_a_head_that_is_closed_invites_nobody_to_act() -> None:
    assert "mention me" in "".join(strings_of(list(render_head(head("open")).in_words(Texts("en")).blocks)))
    assert "mention me" not in "".join(strings_of(list(render_head(head("closed")).in_words(Texts("en")).blocks)))


@pytest.mark.parametrize(("quiet_since", "said"), [(0.0, "still there: 3 of 500 pods"), (5.0, "No alert of it fires")])
def test_who_closes_is_asked_first_and_told_whether_the_cause_is_still_there(quiet_since: float, said: str) -> None:
    shown = head("open")._replace(incident=Incident("open", 1.0, quiet_since=quiet_since))
    assert said in buttons_of(shown)["triage:close"]["confirm"]["text"]["text"]


def test_while_it_is_muted_a_button_lifts_that() -> None:
    assert "triage:unmute" not in buttons_of(head("open"))
    assert {"triage:unmute", "triage:close"} < buttons_of(head("muted")).keys()
    assert "triage:ack" not in buttons_of(head("muted"))


@pytest.mark.parametrize(
    ("found", "labelled", "said"),
    [
        ("warning", ("info", "page"), "critical"),
        ("info", ("Warning",), "warning"),
        ("critical", ("info",), "critical"),
        ("warning", ("P1", ""), "warning"),
    ],
)
def test_a_head_is_as_severe_as_the_severest_of_its_alerts(
    found: Severity, labelled: tuple[str, ...], said: str
) -> None:
    counts = msgspec.structs.replace(head("open").counts, severities=labelled)
    shown = head("open")._replace(cause=msgspec.structs.replace(CAUSE, severity=found), counts=counts)
    assert render_head(shown).in_words(Texts("en")).text.startswith(f"{MARKS[said]} Open, {said}: ")


@pytest.mark.parametrize("deed", ["note", "handover", "mute"])
def test_a_form_is_one_that_slack_takes_and_says_what_it_is_about(deed: Deed) -> None:
    view = blocks.in_words(form(deed, "0123abcd", "C0GPUONC01"), Texts("en"))
    assert validate_view(view) == []
    assert read_value(view["private_metadata"], TriageForm) == TriageForm("0123abcd", deed, "C0GPUONC01")


def test_a_mute_may_wait_for_each_node_that_was_lost() -> None:
    view = blocks.in_words(form("mute", "0123abcd", "C0GPUONC01", ["gpu-7", "x" * 200]), Texts("en"))
    offered = {option["value"]: option["text"]["text"] for option in view["blocks"][0]["element"]["options"]}
    assert offered["until node gpu-7 registers"] == "until node gpu-7 is registered again"
    assert list(offered) == ["1h", "4h", "24h", "until node gpu-7 registers", "until gone"]


@pytest.mark.parametrize("turn", ["called", "handed-over"])
def test_a_notification_says_who_is_meant(turn: Turn) -> None:
    assert render_news(News(turn, "U0ADA00001", "U0GRACE001")).in_words(Texts("en")).text.endswith(" <@U0GRACE001>")
    assert (
        render_news(News(turn, "U0ADA00001", "S0ONCALL01"))
        .in_words(Texts("en"))
        .text.endswith(" <!subteam^S0ONCALL01>")
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_list_of_what_is_open_lets_nobodys_words_act_and_fits(language: Language) -> None:
    message = render_open([head("open")] * 40, (HOSTILE,), Ignored(9, 12, (HOSTILE,) * 9)).in_words(Texts(language))
    assert_fits(message)
    assert all(read(text) == NOTHING for text in parsed(message))


@given(
    st.text(max_size=300)
    | st.just(value_of(IncidentButton("x"))[:-1])
    | st.just('{"v":1,"incident":7}')
    | st.just("[" * 9999)
)
def test_what_is_no_value_of_ours_is_none(value: str) -> None:
    assert read_value(value, IncidentButton) is None
    assert read_value(value, TriageForm) is None


def test_a_timeline_is_a_table_that_nobody_breaks() -> None:
    happened = [IncidentEvent(1.8e9 + n, News(turn, HOSTILE, "1.8e9" if turn == "muted" else HOSTILE)) for n, turn in
                enumerate(get_args(Turn))]  # fmt: skip
    text = render_timeline(head("closed"), happened, summarize(happened), Texts("en")).content.decode()
    rows = [row for row in text.splitlines() if row.startswith("| 20")]
    assert len(rows) == len(get_args(Turn))
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)
    assert "<!channel>" not in text
    assert "2027-01-15T08:00:00Z" in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "before", [None, {}, {f"pending/{HOSTILE}{n}": "1" for n in range(40)}], ids=["first", "empty", "hostile"]
)
def test_a_digest_lets_nobodys_words_act_and_fits(before: Figures | None, language: Language) -> None:
    evidence = Evidence("pod", "Pod ml/x", None, HOSTILE, HOSTILE)
    action = NextAction(HOSTILE, "why ml/x")
    finding = Finding("a-b", HOSTILE, "warning", "confirmed", Scope((HOSTILE,)), (evidence,), (action,))
    report = Report(
        SCHEMA, "digest", HOSTILE, "2026-11-21T05:00:00Z", Subject("Cluster", "", ""), "v", "warning", (finding,) * 9
    )
    kinds = {f"memory-MiB/{HOSTILE}{n}": HOSTILE for n in range(9)}
    after = {f"{HOSTILE}/{HOSTILE}": HOSTILE, "gaps/hami": HOSTILE, **kinds}
    owners = [OwnerRow(number, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 3) for number in range(1, 4) for _ in range(9)]
    told = DigestPost(report, before, after, 3, "2026-11-20 09:00", owners, memory_by_model(after, 0.0))
    message = render_digest(told).in_words(Texts(language))
    assert_fits(message)
    assert all(read(text) == NOTHING for text in parsed(message))
    assert texts(message)
