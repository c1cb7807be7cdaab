import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from bot.report import Evidence, Gap, NextAction, Scope, Subject, Table, in_words, new_finding, new_report, one_line
from bot.slack.message import Message
from bot.slack.render.degrade import degraded
from bot.slack.render.report import render_report, slack_json
from bot.texts import Text, sentences
from tests.dense_json import dense_json
from tests.render import SAY, any_text, evidence, finding, of_gpu_1, report, reports, typical
from tests.slack.render import CHOSEN, SCENARIOS, assert_fits, assert_inert, expected_file, objects, report_of, texts

HUGE = "n" * 200_000


def shown(one, *, words="why ml/trainer-0", channel_buttons=True, say=SAY, everything=False) -> Message:
    return render_report(one, say, channel_buttons=channel_buttons, words=words, everything=everything)


def kinds(message):
    return [block["type"] for block in message.blocks]


def buttons(message):
    return [object_ for object_ in objects(message.blocks) if object_.get("type") == "button"]


def names(message):
    return [file.name for file in message.files]


@pytest.mark.parametrize("one", of_gpu_1(), ids=lambda one: one.key or "words")
def test_a_node_is_named_where_the_claim_names_another_whose_name_begins_alike(one):
    assert "gpu-1" in texts(shown(report(one)))


# ------------------------------------------------------------------------------------------------ recorded pods


@pytest.mark.parametrize("scenario", CHOSEN, ids=lambda scenario: scenario.pod)
def test_the_message_is_the_expected_one(scenario):
    expected = expected_file(scenario).read_text(encoding="utf-8")
    assert dense_json(json.loads(slack_json(report_of(scenario), SAY))) == expected


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.version} {scenario.pod}")
def test_the_answer_about_a_recorded_pod_is_short_and_has_its_verdict_in_the_notification_and_all_in_the_file(scenario):
    one = report_of(scenario)
    message = shown(one)
    assert_fits(message)
    assert_inert(message)
    assert sum(object_.get("type") == "rich_text_quote" for object_ in objects(message.blocks)) <= 2
    assert sum(map(len, texts(message))) < 2500  # as much as a phone shows
    told = one.told_by.claim if one.verdict.endswith("…") and one.told_by else one.verdict
    assert message.text.split("\n")[0] == told.replace(">", "&gt;").replace("<", "&lt;")
    (file,) = shown(one, everything=True).files
    told = file.content.decode()
    assert all(proof.command in told for found in one.findings for proof in found.evidence)


# ---------------------------------------------------------------------------------------------------- the layout


def test_the_parts_stand_in_the_order_in_which_they_are_needed():
    told = "\n".join(texts(shown(typical())))
    marks = ["Warning: ", "About:", "Next", "Evidence", "Also found", "Could not be read: "]
    places = [told.index(mark) for mark in [*marks, "Read at 2026", "Look again", "Post to channel"]]
    assert places == sorted(places)


def test_another_finding_is_its_claim_alone_and_background_comes_last():
    quiet = finding(severity="info", claim="Quiet.")
    found = [finding(claim=f"Loud {number}.") for number in range(3)]
    message = shown(report(finding(claim="The cause."), quiet, *found, finding(claim="Loud too.")))
    (items,) = (object_["elements"] for object_ in objects(message.blocks) if object_.get("type") == "rich_text_list")
    assert texts(message._replace(blocks=tuple(items))) == ["Loud 0.", "Loud 1.", "Loud 2.", "and 2 more"]


def test_what_could_not_be_seen_is_one_line():
    gaps = tuple(Gap(f"source {number}", "HTTP 403", "grant it") for number in range(6))
    told = texts(shown(report(finding(), gaps=gaps)))
    assert "source 0, source 1, source 2 and 3 more" in told
    assert not any("HTTP 403" in text for text in told)


def test_the_quotes_that_tell_something_by_themselves_are_shown():
    quotes = (
        "20k",
        "4 nodes CardInsufficientMemory",
        "GPU-dc15630f-5489",
        "2026-11-21T07:47:05Z,ml,gone",
        "a third one",
    )
    message = shown(report(finding(evidence=tuple(evidence(quote=quote) for quote in quotes))))
    told = texts(message)
    assert [quote for quote in quotes if quote in told] == [quotes[1], quotes[3]]


def test_where_all_quotes_are_bare_values_the_first_is_shown():
    told = texts(shown(report(finding(evidence=(evidence(quote="hami-schedulr"), evidence(quote="1"))))))
    assert "hami-schedulr" in told
    assert "1" not in told


def test_a_command_that_several_steps_share_stands_once():
    steps = (NextAction("Ask for less", "kubectl get pod"), NextAction("Drop the annotation", "kubectl get pod"))
    told = texts(shown(report(finding(next_actions=steps))))
    assert told.count("kubectl get pod") == 1
    assert told.index("kubectl get pod") > told.index("2. Drop the annotation · look:")


def test_the_notification_reads_well_aloud():
    assert shown(typical()).text == (
        "No usable GPU of gpu-1, gpu-2 has 24,000 MiB free; the largest free slice is 16,384 MiB on gpu-2.\n"
        "Warning, Pod ml/trainer-0, cluster lab\n"
        "1. Request at most 16,384 MiB per GPU (gpu-2 would take the pod)\n"
        "2. Recreate the pod once it asks for less"
    )


def test_a_quote_a_command_and_a_name_are_shown_raw():
    proof = evidence(quote='"a" <b> & `c`', object="Pod <x>")
    step = NextAction("Look", "kubectl get pod 'a&b' > /dev/null")
    told = texts(shown(report(finding(evidence=(proof,), next_actions=(step,)))))
    assert '"a" <b> & `c`' in told
    assert "kubectl get pod 'a&b' > /dev/null" in told
    assert any("Pod <x>" in text for text in told)


def test_a_verdict_too_long_for_a_header_is_bold_text():
    message = shown(report(verdict="<" * 140))
    assert kinds(message)[0] == "rich_text"
    assert "🟢 Info: " + "<" * 140 in texts(message)


@pytest.mark.parametrize(
    ("severity", "confidence", "begins"),
    [
        ("warning", "suspected", "🟡 Warning: Suspected: No usable GPU"),
        ("warning", "confirmed", "🟡 Warning: No usable GPU"),
        ("info", "suspected", "🟢 Info: No usable GPU"),
    ],
)
def test_a_verdict_begins_with_its_doubt_unless_it_is_good_news(severity, confidence, begins):
    first, *_ = texts(shown(report(finding(severity=severity, confidence=confidence))))
    assert first.startswith(begins)


def test_a_verdict_that_was_cut_is_whole_and_sentences_left_out_are_its_detail():
    claim = f"It holds {'one more ' * 20}pod."
    message = shown(report(finding(claim=claim), verdict=one_line(claim)))
    assert f"🟡 Warning: {claim}" in texts(message)
    assert message.text.startswith(claim)
    said = sentences(Text("desk.cancel"), f"{'w' * 140}.")
    subject, running = Subject("Pod", "ml", "a"), new_finding("placed", "info", said)
    told = in_words(new_report("why", "lab", "2026-11-21T05:00:00Z", subject, [running]), SAY)
    assert f"{'w' * 140}." in texts(shown(told))


def test_a_claim_that_is_not_the_verdict_is_a_fact():
    assert "Another cause." in texts(shown(report(finding(claim="Another cause."), verdict="One of two causes.")))


def test_what_was_said_when_is_told_with_its_age():
    assert "event, Pod ml/trainer-0, 04:59:40 UTC, 20 s earlier" in texts(shown(typical()))


# ------------------------------------------------------------------------------------------------------- buttons


def test_only_a_verb_of_ours_is_a_button_and_a_shell_command_is_text_to_copy():
    message = shown(typical())
    assert [button["text"]["text"] for button in buttons(message)] == [
        "gpus --node gpu-2",
        "Look again",
        "Show everything",
        "Post to channel",
    ]
    assert "kubectl -n ml delete pod trainer-0" in texts(message)


def test_a_button_that_changes_the_cluster_is_red_and_asks_first():
    change = NextAction("Free the lock of gpu-1", "unlock gpu-1", changes_cluster=True)
    button, *_ = buttons(shown(report(finding(next_actions=(change,)))))
    assert button["style"] == "danger"
    assert button["confirm"]["text"]["text"] == "Free the lock of gpu-1"


def test_a_question_that_does_not_fit_into_a_button_is_text():
    ask = NextAction("Ask", "why " + "x" * 1700 + "字" * 300)
    message = shown(report(finding(next_actions=(ask,))), words="why " + "x" * 2000)
    assert buttons(message) == []


def test_a_button_of_the_channel_is_only_where_it_is_asked_for_and_no_file_beside_it():
    message = shown(typical(), channel_buttons=False)
    assert [button["action_id"] for button in buttons(message)] == ["ask:1", "ask:100", "show-everything"]
    assert message.files == ()
    assert [button["action_id"] for button in buttons(shown(typical(), words=""))] == ["ask:1"]


# -------------------------------------------------------------------------------------------------------- files

CARDS = Subject("GPUs", "", "")


def assert_told(message, what):
    assert any(what in text for text in texts(message)), texts(message)


def test_a_table_with_memory_says_its_unit():
    cards = Table("cards", ("card", "memory used"), (("GPU-1", "9728"), ("GPU-2", "0")))
    message = shown(report(finding(), subject=CARDS, tables=(cards,)))
    assert "Devices (memory in MiB)" in texts(message)


def test_an_answer_in_a_direct_message_has_files_only_when_asked_and_no_channel_to_be_posted_to():
    long = typical()

    def directly(*, everything: bool) -> Message:
        return render_report(long, SAY, channel_buttons=False, words="why ml/x", direct=True, everything=everything)

    message = directly(everything=False)
    assert message.files == ()
    assert [button["action_id"] for button in buttons(message)][-2:] == ["ask:100", "show-everything"]
    assert names(directly(everything=True)) == ["answer.md"]


def test_users_of_slack_are_shown_by_name_to_one_person_and_call_nobody_elsewhere():
    record = Evidence("deployment", "Deployment hami-system/x", None, '{"v":1,"by":"U0ADA00001"}', "kubectl get x")
    one = report(finding(claim="v=5 is set by U0ADA00001, because WORKER001 waits", evidence=(record,)))
    private = render_report(one, SAY, channel_buttons=True, words="status", names=True)
    assert {"type": "user", "user_id": "U0ADA00001"} in list(objects(private.blocks))
    assert "by U0ADA00001" not in "".join(texts(private))
    assert "WORKER001 waits" in "".join(texts(private))
    assert [found for found in objects(shown(one).blocks) if found.get("type") == "user"] == []


def test_who_asked_for_everything_gets_the_file_and_no_such_button():
    message = shown(typical(), everything=True)
    assert names(message) == ["answer.md"]
    assert "show-everything" not in [button["action_id"] for button in buttons(message)]


def test_an_answer_that_no_button_can_ask_for_again_has_its_file():
    assert names(shown(typical(), words="")) == ["answer.md"]


@pytest.mark.parametrize("private", [True, False])
def test_an_answer_that_is_all_shown_has_neither(private):
    message = shown(report(finding(evidence=(evidence(command=""),))), channel_buttons=private)
    assert message.files == ()
    assert "show-everything" not in [button["action_id"] for button in buttons(message)]


def test_the_tables_of_an_answer_about_a_pod_are_in_the_file():
    message = shown(typical(), everything=True)
    assert "table" not in kinds(message)
    assert b"| unfit | node unregistered |" in message.files[0].content


def test_the_table_of_an_answer_about_a_namespace_s_pods_is_in_the_message():
    causes = Table("causes", ("cause", "pods"), (("card-cordoned", "2"), ("wrong-scheduler", "1")))
    message = shown(report(finding(), subject=Subject("Pods", "ml", ""), tables=(causes,)), channel_buttons=False)
    assert "table" in kinds(message)
    assert "card-cordoned" in texts(message)


def test_a_long_table_of_an_answer_about_a_pod_is_a_spreadsheet_too():
    rows = tuple((f"gpu-{number}", "unfit") for number in range(100))
    message = shown(report(tables=(Table("nodes", ("node", "verdict"), rows),)), everything=True)
    assert names(message) == ["answer.md", "nodes.csv"]


def test_rows_that_have_no_room_are_counted_and_in_a_spreadsheet():
    rows = tuple((f"gpu-{number}", str(number % 9)) for number in range(10_000))
    free = Table("free cards", ("node", "cards"), rows)
    message = shown(report(finding(), subject=CARDS, tables=(free,)), everything=True)
    assert_fits(message)
    (table,) = (block for block in message.blocks if block["type"] == "table")
    assert len(table["rows"]) == 16
    assert_told(message, "and 9985 more rows")
    assert_told(message, "All of it: answer.md, free-cards.csv")
    assert message.files[1].content.decode("utf-8-sig").splitlines()[10_000] == "gpu-9999,0"


def test_numbers_stand_at_the_right():
    rows = (("gpu-1", "24,000"), ("gpu-2", "50%"))
    message = shown(report(subject=CARDS, tables=(Table("t", ("node", "free"), rows),)))
    (table,) = (block for block in message.blocks if block["type"] == "table")
    assert [setting["align"] for setting in table["column_settings"]] == ["left", "right"]


def test_a_second_table_is_a_spreadsheet():
    small = Table("one", ("a",), (("1",),))
    tables = (small, structs.replace(small, title="two"), structs.replace(small, title="two"))
    message = shown(report(subject=CARDS, tables=tables), everything=True)
    assert kinds(message).count("table") == 1
    assert names(message) == ["answer.md", "two.csv", "two-2.csv"]


def test_columns_beyond_what_a_phone_shows_are_in_a_spreadsheet():
    columns = tuple(f"c{number}" for number in range(25))
    message = shown(report(subject=CARDS, tables=(Table("wide", columns, (columns,)),)), everything=True)
    assert_fits(message)
    assert names(message) == ["answer.md", "wide.csv"]


def test_columns_that_are_the_same_in_every_row_are_not_shown():
    rows = (("gpu-1", "ready", "", "8"), ("gpu-2", "ready", "", "4"))
    free = Table("nodes", ("node", "kubernetes", "lock", "cards"), rows)
    message = shown(report(subject=CARDS, tables=(free,)))
    (table,) = (block for block in message.blocks if block["type"] == "table")
    assert [texts(message._replace(blocks=tuple(row))) for row in table["rows"]] == [
        ["node", "GPUs"], ["gpu-1", "8"], ["gpu-2", "4"]
    ]  # fmt: skip


def test_the_shortest_quotes_stand_first():
    short, long = evidence(quote="2 nodes CardInsufficientMemory(gpu-1)"), evidence(quote="0/22 nodes " * 40)
    told = texts(shown(report(finding(evidence=(long, short)))))
    assert told.index(short.quote) < next(at for at, one in enumerate(told) if one.startswith("0/22"))


def test_a_table_without_rows_says_so():
    assert_told(shown(report(subject=CARDS, tables=(Table("cards", ("node",), ()),))), "none")


def test_however_many_findings_the_cause_keeps_its_place():
    cause = finding(next_actions=(NextAction("Do this", "kubectl get pods"),))
    message = shown(report(cause, *[finding(claim=f"Loud {number}.") for number in range(500)]), everything=True)
    assert_fits(message)
    for kept in ("Do this", "2 nodes CardInsufficientMemory(gpu-1,gpu-2)", "and 497 more"):
        assert kept in "\n".join(texts(message))
    assert b"Loud 499." in message.files[0].content


def test_a_long_quote_is_cut_and_whole_in_the_file():
    message = shown(report(finding(evidence=(evidence(quote="word " * 2000),))), everything=True)
    assert_fits(message)
    assert_told(message, "All of it: answer.md")
    assert b"word " * 1999 in message.files[0].content


def test_a_command_is_shown_whole_or_not_at_all():
    command = "kubectl get pods " + "x" * 1000
    step = NextAction("Do", command)
    message = shown(report(finding(evidence=(), next_actions=(step,))), everything=True)
    assert not any("kubectl" in text for text in texts(message))
    assert command.encode() in message.files[0].content


def test_many_tables_are_few_blocks_and_few_files():
    tables = [Table("empty", ("a",), ())] * 50 + [Table("full", ("a",), (("1",),))] * 50
    message = shown(report(subject=CARDS, tables=tuple(tables)), everything=True)
    assert_fits(message)
    assert len(message.files) < 8


# ------------------------------------------------------------------------------------------------ hostile reports

HOSTILE = (
    "<!channel> <!here> <!subteam^S1>",
    "<@U123>",
    "<http://evil|x>",
    "```",
    "`x` ``` y",
    "*b* _i_ ~s~",
    "> quote\n> quote",
    "&lt;!here&gt;",
    ":rotating_light: :+1:",
    "http://evil www.evil.example",
    "\u202ereversed\u2066",
    "zero\u200bwidth\ufeff",
    "\x00\x1b[31m\r\n",
    "\ud800",
    "@channel #general",
    "",
    " ",
    HUGE,
    "<" * 200_000,
    "\u202e" * 20_000,
    "😀" * 5_000,
    "字" * 5_000,
)


def everywhere(text):
    """A report whose every text is this one, with several of everything."""
    few = (text,) * 3
    action = (
        NextAction(text, text),
        NextAction(text, f"kubectl {text}", changes_cluster=True),
        NextAction(text, "", True),
    )
    proof = evidence(source=text, object=text, at=text, quote=text, command=text)
    one = finding(code=text, claim=text, scope=Scope(few), evidence=(proof,) * 3, next_actions=action)
    return report(
        one,
        one,
        structs.replace(one, severity="info"),
        playbook=text,
        cluster=text,
        taken_at=text,
        subject=Subject(text, text, text),
        verdict=text,
        tables=(Table(text, few, (few, few)), Table(text, few, ()), Table(text, few, (few,))),
        gaps=(Gap(text, text, text),) * 3,
    )


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_text_everywhere_gives_a_message_that_fits_and_in_which_nothing_acts(text):
    on_a_pod = everywhere(text)
    for one in (on_a_pod, structs.replace(on_a_pod, subject=CARDS)):
        message = shown(one, words=text)
        for form in (message, *degraded(message)):
            assert_fits(form)
            assert_inert(form)


@given(reports(any_text()), any_text())
@settings(deadline=None)
@example(report(), "")
def test_whatever_a_report_says_nothing_acts_in_its_message(one, words):
    message = shown(one, words=words)
    assert_fits(message)
    assert_inert(message)


_LARGE = any_text() | st.integers(0, 500).map(lambda size: "x&" * size)


@given(reports(_LARGE), st.integers(1, 20), st.integers(1, 120))
@settings(deadline=None, max_examples=30)
def test_whatever_the_size_of_a_report_its_message_fits(one, often, rows):
    tables = tuple(structs.replace(table, rows=table.rows * rows) for table in one.tables)
    many = [structs.replace(each, evidence=each.evidence * often) for each in one.findings]
    large = structs.replace(one, findings=tuple(many), tables=tables, gaps=one.gaps * often)
    message = shown(large)
    assert_fits(message)
    for simpler in degraded(message):
        assert_fits(simpler)
