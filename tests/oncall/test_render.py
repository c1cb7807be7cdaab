"""Heads, replies, forms, timelines and digests in every state, with hostile words, within Slack's limits.

And what a person sees of a head on a phone at night: what it is, how much, whose, and the first next step.
"""

import textwrap
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.digest.figures import Figures, OwnerRow, memory_by_model
from bot.render.words import MARKS
from bot.report import SCHEMA, Evidence, Finding, NextAction, Report, Scope, Severity, Subject, act
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.blocks import read_value, value_of
from bot.slack.render.digest import DigestPost, render_digest
from bot.slack.render.triage import TriageForm, form, render_news, render_open, render_timeline
from bot.slack.render.triage_head import Head, IncidentButton, count_of, details, render_head
from bot.texts import LANGUAGES, Language, Text, Texts
from bot.triage.cause import Cause
from bot.triage.routes import Ignored
from bot.triage.state import CALLS, Deed, Incident, MuteUntil, News, State, Turn
from bot.triage.summary import Counts, IncidentEvent, summarize
from playbooks.rules.common.prose import alternatives
from sandbox.slack.content import strings_of
from sandbox.slack.validate import validate_view
from tests.oncall.heads import HOSTILE, head
from tests.slack.render import NOTHING, assert_fits, parsed, read, texts

pytestmark = pytest.mark.few(4)


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
    muted = replace(head("muted"), incident=Incident("muted", 1.0, muted_until=MuteUntil(float(ends))))
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
    shown = replace(head("open"), incident=Incident("open", 1.0, quiet_since=quiet_since))
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
    counts = replace(head("open").counts, severities=labelled)
    of_any = head("open")
    shown = replace(of_any, cause=replace(of_any.cause, severity=found), counts=counts)
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


CAUSE = Cause(
    "s",
    "card-insufficient-memory",
    "1 node has too little free GPU memory: the best GPU has 4,384 MiB, 8,000 MiB are requested.",
    "warning",
    "ml/trainer-0",
    ("gpu-1", "gpu-2"),
    labels=("instance=db-1", "job=kube-state-metrics"),
    graph="https://prometheus.example.com/graph?g0.expr=kube_pod_status_phase",
    step=NextAction("Ask for at most 4,384 MiB of GPU memory", "fit ml/trainer-0"),
)
HEAD = Head(
    "3fa29c1b",
    "prod",
    CAUSE,
    Incident("acknowledged", 1.8e9, owner="U0ADA00001"),
    Counts(
        3,
        24,
        3,
        12,
        ("GPUPodPending", "KubePodNotReady"),
        ("ml/trainer-0", "ml/trainer-3", "ml/trainer-6"),
        ("ml",),
        ("page", "warning"),
        ("https://example.com/runbooks/gpu-pod-pending",),
    ),
    1.8e9,
)


def place(rows: list[str], containing: str) -> int:
    return next(number for number, row in enumerate(rows) if containing in row)


def test_on_a_phone_eleven_lines_stand_before_the_first_next_step_at_most() -> None:
    assert place(lines_of(render_head(HEAD).in_words(Texts("en"))), "Ask for at most") <= 11


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_head_has_its_title_four_lines_of_facts_and_the_next_step(language) -> None:
    first, *_ = render_head(HEAD).in_words(Texts(language)).blocks
    assert len(first["elements"]) == 1 + 4 + 1


def test_a_command_for_a_shell_is_left_to_the_evidence() -> None:
    step = NextAction("Read the log of the device plugin", "kubectl -n hami-system logs hami-device-plugin-x")
    shown = replace(HEAD, cause=replace(CAUSE, step=step))
    told = "\n".join(lines_of(render_head(shown).in_words(Texts("en"))))
    assert "Next: Read the log" in told
    assert "kubectl" not in told


def test_the_first_of_several_ways_stands_alone_in_a_head() -> None:
    ways = [act(Text("words.scheduler-log")), act(Text("wrong-scheduler.fix"))]
    shown = replace(HEAD, cause=replace(CAUSE, step=alternatives([[way] for way in ways])[0]))
    told = " ".join(lines_of(render_head(shown).in_words(Texts("en"))))
    assert "Next: Check what HAMi's scheduler logs about the pod [changes the cluster]" in told


@pytest.mark.parametrize(
    ("state", "likely"),
    [("open", "ack"), ("acknowledged", "note"), ("muted", "unmute"), ("resolved", "note"), ("closed", None)],
)
def test_the_highlighted_button_is_what_is_likely_to_be_done_next(state: State, likely: str | None) -> None:
    shown = replace(HEAD, incident=Incident(state, 1.8e9))
    buttons = [element for block in render_head(shown).in_words(Texts("en")).blocks for element in block["elements"]]
    highlighted = [button["action_id"] for button in buttons if button.get("style") == "primary"]
    assert highlighted == ([f"triage:{likely}"] if likely else [])


@pytest.mark.parametrize(
    ("code", "over", "told"),
    [
        (CAUSE.code, {"nodes": 2, "nodes_firing": 1}, "1 of 2 nodes still affected, 24 alerts"),
        (CAUSE.code, {"nodes": 1}, "none of 1 node affected any more, 24 alerts"),
        (CAUSE.code, {"alerts": 1}, "1 alert"),
        ("", {}, "24 alerts that name no pod"),
    ],
)
def test_what_names_no_pod_counts_by_its_nodes_or_else_by_its_alerts(
    code: str, over: dict[str, Any], told: str
) -> None:
    counts = replace(HEAD.counts, **{"pods": 0, "pods_firing": 0, **over})
    shown = replace(HEAD, cause=replace(CAUSE, code=code), counts=counts)
    assert Texts("en").words(count_of(shown)) == told


def test_what_the_head_has_no_room_for_is_in_the_details() -> None:
    [block] = blocks.in_words(details(HEAD), Texts("en"))
    told = "\n".join(strings_of(block))
    assert "ml/trainer-0, ml/trainer-3, ml/trainer-6" in told
    assert "instance=db-1, job=kube-state-metrics" in told
    assert "page, warning" in told


COLUMNS = 40


def lines_of(message: Message) -> list[str]:
    """The lines from the top, buttons as `[Acknowledge] [Take]`."""
    return [row for block in message.blocks for row in _lines(block)]


def _lines(block: dict[str, Any]) -> list[str]:
    if block["type"] == "actions":
        labels = (element.get("text") or element["placeholder"] for element in block["elements"])
        return _wrapped(" ".join(f"[{label['text'].replace(' ', '_')}]" for label in labels))
    if block["type"] == "rich_text":
        return [row for part in block["elements"] for row in _of_part(part)]
    if block["type"] == "context":
        return [row for element in block["elements"] for row in _wrapped(element["text"])]
    return _wrapped(block["text"]["text"])


def _of_part(part: dict[str, Any]) -> list[str]:
    if part["type"] == "rich_text_list":
        return [row for element in part["elements"] for row in _of_part(element)]
    return _wrapped("".join(_shown(element) for element in part["elements"]))


def _shown(piece: dict[str, Any]) -> str:
    if piece["type"] == "user":
        return "@ada.lovelace"
    return "Today at 09:00:00" if piece["type"] == "date" else piece.get("text") or piece.get("url", "")


def _wrapped(text: str) -> list[str]:
    return [row for line in text.split("\n") for row in textwrap.wrap(line, COLUMNS)]
