import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bot.render.terminal import terminal, visible
from bot.render.words import telling
from bot.report import Evidence, Gap, NextAction, Scope, Subject, Table, act, in_words, one_line
from bot.texts import Text, Texts
from playbooks.rules.common.prose import alternatives
from tests.cases_support import questions, scenarios
from tests.render import SAY, any_text, evidence, finding, of_gpu_1, report, reports, typical

TYPICAL = """\
WARNING  No usable GPU of gpu-1, gpu-2 has 24,000 MiB free; the largest free
         slice is 16,384 MiB on gpu-2.

  about    Pod ml/trainer-0, cluster lab
  finding  card-insufficient-memory, confirmed
  nodes    gpu-1, gpu-2
  read at  2026-11-21 05:00:00 UTC

Next
  1. Request at most 16,384 MiB per GPU (gpu-2 would take the pod) · look:
     hami-bot gpus --node gpu-2
  2. Recreate the pod once it asks for less [changes the cluster]
     kubectl -n ml delete pod trainer-0

Evidence
  event, Pod ml/trainer-0, 04:59:40 UTC, 20 s earlier
    | 2 nodes CardInsufficientMemory(gpu-1,gpu-2)
    kubectl -n ml get events --field-selector involvedObject.name=trainer-0

  scheduler log, Pod kube-system/hami-scheduler-7c9d container
    vgpu-scheduler-extender, 02:45:00 UTC, 2 h earlier
    | I1121 02:45:00.123456       1 score.go:275] "NodeUnfitPod"
    | pod="ml/trainer-0" node="gpu-1" reason="8/8 CardInsufficientMemory"
    kubectl -n kube-system logs hami-scheduler-7c9d -c vgpu-scheduler-extender | grep trainer-0

  Node gpu-1
    | 24k
    kubectl get node gpu-1

Also found (evidence: -o json)
  warning  gpu-3: the device plugin has registered no GPUs, so HAMi does not
           know the node. [node-unregistered, suspected]
           -> Restart the device plugin on gpu-3 [changes the cluster]
              kubectl -n kube-system delete pod hami-plugin-x7k2p

Background
  - 4 node(s) are lost to kubernetes itself, before HAMi is asked: node(s) had
    untolerated taint(s) [kubernetes-filter: cp-1, cp-2 and 2 more]

Candidate nodes
  verdict  reason                      count  nodes
  unfit    8/8 CardInsufficientMemory      2  gpu-1, gpu-2
  unfit    node unregistered               1  gpu-3

Could not be read
  - quotas: GET resourcequotas: HTTP 403
    -> grant list on resourcequotas in ml
"""

AT_A_GLANCE = """\
WARNING  No usable GPU of gpu-1, gpu-2 has 24,000 MiB free; the largest free slice is 16,384 MiB on
         gpu-2.
  Pod ml/trainer-0, cluster lab; read at 2026-11-21 05:00:00 UTC; more: --all

Next
  1. Request at most 16,384 MiB per GPU (gpu-2 would take the pod) · look:
     hami-bot gpus --node gpu-2
  2. Recreate the pod once it asks for less [changes the cluster]
     kubectl -n ml delete pod trainer-0

Evidence
  event, Pod ml/trainer-0, 04:59:40 UTC, 20 s earlier
    | 2 nodes CardInsufficientMemory(gpu-1,gpu-2)
  scheduler log, Pod kube-system/hami-scheduler-7c9d container vgpu-scheduler-extender, 02:45:00…
    | I1121 02:45:00.123456       1 score.go:275] "NodeUnfitPod" pod="ml/trainer-0" node="gpu-1"
    | reason="8/8 CardInsufficientMemory"

Also
  - gpu-3: the device plugin has registered no GPUs, so HAMi does not know the node.
  - 4 node(s) are lost to kubernetes itself, before HAMi is asked: node(s) had untolerated taint(s)

  Not read: quotas
"""

_COLOURS = re.compile(r"\x1b\[[\d;]+m")


def plain(shown, width=80):
    return terminal(shown, SAY, width=width, colour=False)


def cells(text):
    """Terminals' own arithmetic, apart from the renderer's."""
    widths = {"W": 2, "F": 2}
    marks = ("Mn", "Me")
    return sum(
        0 if unicodedata.category(letter) in marks else widths.get(unicodedata.east_asian_width(letter), 1)
        for letter in text
    )


def commands_of(shown):
    proofs = [proof.command for found in shown.findings for proof in found.evidence]
    actions = [action.command for finding in shown.findings for action in finding.next_actions]
    return {visible(proof).strip() for proof in (*proofs, *actions, *(f"hami-bot {action}" for action in actions))}


# ------------------------------------------------------------------------------------------------ what is read


def test_a_report_reads_from_the_verdict_to_the_gaps():
    assert plain(typical()) == TYPICAL


def test_at_a_glance_a_report_is_what_a_person_acts_on():
    assert terminal(typical(), SAY, width=100, colour=False, whole=False) == AT_A_GLANCE


def fact(quote: str) -> Evidence:
    return evidence(source="node", quote=quote, command="kubectl get node gpu-1 -o jsonpath='{.metadata.name}'")


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("severity", "confidence", "begins"),
    [
        ("warning", "suspected", "WARNING  Suspected: No usable GPU"),
        ("warning", "confirmed", "WARNING  No usable GPU"),
        ("info", "suspected", "INFO  No usable GPU"),
    ],
)
def test_a_verdict_begins_with_its_doubt_unless_it_is_good_news(severity, confidence, begins, whole):
    shown = terminal(report(finding(severity=severity, confidence=confidence)), SAY, colour=False, whole=whole)
    assert shown.startswith(begins)


@pytest.mark.parametrize(
    ("quotes", "order"),
    [
        ((evidence(), evidence(source="condition", quote="0/9: no"), fact("a b"), fact("c d")), (0, 2, 3, 1)),
        ((evidence(quote="no room " * 30), fact("a b"), evidence(source="scheduler log", quote="no room")), (1, 2, 0)),
        ((fact("a b " * 60), evidence(), fact("c d")), (0, 1, 2)),
        ((evidence(source="log", quote="CUDA_ERROR"), evidence(source="pod", quote="Error"), fact("a b")), (0, 2)),
        ((evidence(source="log", quote="a b"), fact("c d"), evidence(source="log", quote="a b", command="x")), (0, 1)),
    ],
    ids=["said again", "at length", "long facts", "a bare line", "twice"],
)
def test_what_is_said_once_comes_with_the_facts_in_their_order(quotes, order):
    assert telling(quotes) == [quotes[number] for number in order]


def test_at_a_glance_it_says_how_many_steps_it_leaves_out():
    steps = tuple(NextAction(f"Step {number}", "") for number in range(5))
    shown = terminal(report(finding(next_actions=steps)), SAY, width=100, colour=False, whole=False)
    assert "  3. Step 2\n  … and 2 more steps: --all shows them\n" in shown


def test_at_a_glance_the_first_way_stands_alone_where_the_other_is_left_out():
    ways = [act(Text("words.scheduler-log")), act(Text("wrong-scheduler.fix"))]
    first, second = alternatives([[way] for way in ways])
    looks = [NextAction(f"look {number}", f"gpus --node {number}") for number in range(3)]
    for steps, told in ((first, *looks, second), False), ((first, second, *looks), True):
        said = in_words(report(finding(next_actions=steps)), SAY)
        shown = terminal(said, SAY, width=100, colour=False, whole=False)
        assert "Check what HAMi's scheduler logs" in shown
        assert ("Either: " in shown) == told


def test_at_a_glance_the_claim_stands_in_the_place_of_a_verdict_that_cuts_it_off():
    shown = report(finding(claim="word " * 40), verdict=one_line("word " * 40))
    told = terminal(shown, SAY, width=100, colour=False, whole=False)
    assert " ".join(told.partition("WARNING")[2].split("Pod")[0].split()) == "word " * 39 + "word"


def test_at_a_glance_a_long_quote_is_cut_around_the_words_of_the_claim():
    quote = "word " * 60 + 'node="gpu-2" reason="8/8 CardInsufficientMemory" ' + "rest " * 60
    shown = report(finding(evidence=(evidence(quote=quote),)))
    lines = terminal(shown, SAY, width=100, colour=False, whole=False).split("\n")
    told = " ".join(line.removeprefix("    | ") for line in lines if line.startswith("    | "))
    assert 'node="gpu-2" reason="8/8 CardInsufficientMemory"' in told
    assert (told[0], told[-1]) == ("…", "…")


ON_A_PAGE = [
    *(scenario.question for scenario in scenarios()),
    *(question for question in questions() if question.verb in ("fit", "logs")),
]


@pytest.mark.parametrize("question", ON_A_PAGE, ids=lambda question: f"{question.version} {question.name}")
def test_every_recorded_diagnosis_stands_on_a_page_at_a_glance(question):
    shown = terminal(question.ask(), SAY, width=100, colour=False, whole=False)
    assert len(shown.splitlines()) <= 25


def test_colour_only_paints_what_stands_there_anyway():
    painted = terminal(typical(), SAY, colour=True)
    assert _COLOURS.sub("", painted) == TYPICAL
    assert painted != TYPICAL


def test_a_severity_is_a_word_and_has_a_colour():
    painted = [
        terminal(report(finding(severity=severity)), SAY, colour=True) for severity in ("info", "warning", "critical")
    ]
    assert [text.split("  ")[0] for text in painted] == ["\x1b[1;32mINFO", "\x1b[1;33mWARNING", "\x1b[1;31mCRITICAL"]


def test_a_healthy_answer_is_short():
    running = finding(
        code="running", claim="ml/trainer-0 is running on gpu-1.", severity="info", scope=Scope(), evidence=()
    )
    assert plain(report(running)) == (
        "INFO  ml/trainer-0 is running on gpu-1.\n\n"
        "  about    Pod ml/trainer-0, cluster lab\n"
        "  finding  running, confirmed\n"
        "  read at  2026-11-21 05:00:00 UTC\n"
    )


def test_a_report_without_findings_is_its_verdict():
    nothing = report(verdict="No pod is pending.", subject=Subject("Cluster", "", ""))
    assert plain(nothing).startswith("INFO  No pod is pending.\n\n  about    Cluster lab\n")


def test_a_claim_that_the_verdict_cuts_off_is_told_in_full():
    told = plain(report(finding(claim="word " * 40), verdict=one_line("word " * 40)))
    assert " ".join(told.partition("WARNING")[2].split("about")[0].split()) == "word " * 39 + "word"


def test_a_suspicion_is_called_one_wherever_it_stands():
    told = plain(report(finding(confidence="suspected"), finding(code="other", confidence="suspected")))
    assert "card-insufficient-memory, suspected\n" in told
    assert "[other, suspected]" in " ".join(told.split())


def test_nodes_that_the_claim_names_are_not_named_again():
    assert "[card-insufficient-memory]" in plain(report(finding(), finding()))


@pytest.mark.parametrize("one", of_gpu_1(), ids=lambda one: one.key or "words")
def test_a_node_is_named_where_the_claim_names_another_whose_name_begins_alike(one):
    assert "[card-insufficient-memory: gpu-1]" in plain(report(finding(), one))


def test_many_nodes_of_the_cause_are_abbreviated():
    told = plain(report(finding(scope=Scope(tuple(f"n{number:02}" for number in range(40))))))
    assert "  nodes    n00, n01, n02, n03, n04, n05, n06 and 33 more\n" in told


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("2026-11-21T04:58:01Z", "04:58:01 UTC, 119 s earlier"),
        ("2026-11-21T04:57:00Z", "04:57:00 UTC, 3 min earlier"),
        ("2026-11-20T20:00:00Z", "2026-11-20 20:00:00 UTC, 9 h earlier"),
        ("2026-11-01T05:00:00Z", "2026-11-01 05:00:00 UTC, 20 d earlier"),
        ("2026-11-21T05:00:03Z", "05:00:03 UTC"),
        ("yesterday", "yesterday"),
        ("2026-13-41T05:00:00Z", "2026-13-41T05:00:00Z"),
    ],
)
def test_a_time_says_how_long_before_the_report_it_was(at, told):
    assert f"  event, Pod ml/trainer-0, {told}\n" in plain(report(finding(evidence=(evidence(at=at),))))


def test_an_age_is_told_in_the_reader_s_language():
    told = terminal(report(finding(evidence=(evidence(at="2026-11-21T04:57:00Z"),))), Texts("zh"), colour=False)
    assert "  事件，Pod ml/trainer-0，04:57:00 UTC（3 分钟前）\n" in told


def test_a_command_is_one_line_however_long():
    command = "kubectl get pod " + "x" * 300 + " -o yaml"
    told = plain(report(finding(evidence=(evidence(command=command),), next_actions=(NextAction("Look", command),))))
    assert told.splitlines().count("    " + command) == 1
    assert told.splitlines().count("     " + command) == 1


def test_an_action_without_a_command_is_its_label():
    assert "Next\n  1. Ask the owner\n\n" in plain(report(finding(next_actions=(NextAction("Ask the owner", ""),))))


def test_an_empty_quote_is_seen_to_be_empty():
    assert "    | (empty)\n" in plain(report(finding(evidence=(evidence(quote=""),))))


def test_a_gap_without_a_hint_is_one_line():
    assert plain(report(finding(), gaps=(Gap("nodes", "timed out"),))).endswith(
        "Could not be read\n  - nodes: timed out\n"
    )


# -------------------------------------------------------------------------------------------------------- width


def test_a_list_without_spaces_is_broken_after_commas():
    quote = "12 nodes CardTypeMismatch(" + ",".join(f"gpu-node-{number:02}" for number in range(12)) + ")"
    lines = plain(report(finding(evidence=(evidence(quote=quote),)))).splitlines()
    quoted = [line.removeprefix("    | ") for line in lines if line.startswith("    | ")]
    assert "".join(quoted) == quote
    assert all(line.endswith((",", ")")) for line in quoted)


def test_chinese_wraps_by_columns_and_never_before_a_full_stop():
    claim = "没有可用的卡有足够的显存，" * 6 + "最大的空闲切片在节点上。"
    lines = terminal(report(finding(claim=claim)), Texts("zh"), colour=False).splitlines()
    head = lines[: lines.index("")]
    assert all(70 < cells(line) <= 80 for line in head[:-1])
    assert not any(line.lstrip().startswith(("，", "。")) for line in head)
    assert "".join(line.strip() for line in head).endswith(claim)


def test_labels_of_two_columns_a_letter_are_aligned():
    lines = terminal(typical(), Texts("zh"), colour=False).splitlines()
    facts = lines[lines.index("") + 1 :][:4]
    values = ("Pod ml/", "card-insufficient-memory", "gpu-1", "2026-")
    assert len({cells(line[: line.index(value)]) for line, value in zip(facts, values, strict=True)}) == 1


def test_cells_of_a_table_wrap_between_words():
    nodes = ", ".join(f"gpu-node-{number:02}" for number in range(12))
    told = plain(
        report(tables=(Table("t", ("reason", "count", "nodes"), (("8/8 CardInsufficientMemory", "12", nodes),)),))
    )
    assert told.split("T\n")[1] == (
        "  reason                      count  nodes\n"
        "  8/8 CardInsufficientMemory     12  gpu-node-00, gpu-node-01, gpu-node-02,\n"
        "                                     gpu-node-03, gpu-node-04, gpu-node-05,\n"
        "                                     gpu-node-06, gpu-node-07, gpu-node-08,\n"
        "                                     gpu-node-09, gpu-node-10, gpu-node-11\n"
    )


def test_in_a_table_too_wide_for_its_names_they_are_shortened_in_the_middle():
    columns, row = ("node", "uuid", "pod"), ("gpu-node-01", "GPU-0acbfc59-25eb-401f-8419-23d39872f971", "x" * 38)
    told = plain(report(tables=(Table("nodes", columns, (row, row)),)))
    line = "  gpu-node-01  GPU-0acbfc59…3d39872f971  xxxxxxxxxxxx…xxxxxxxxxxx\n"
    cut = "  Names are shortened to this width: a wider terminal, or -o json, has them\n  whole\n"
    assert told.split("Nodes\n")[1] == "  node         uuid                      pod\n" + line * 2 + cut


def test_columns_for_which_there_is_no_room_stand_below_with_what_tells_the_rows_apart():
    columns = tuple(f"column{number}" for number in range(9))
    rows = [(f"row{number}", *columns[1:]) for number in range(2)]
    told = plain(report(tables=(Table("nodes", columns, tuple(rows)),)), width=60)
    *_, first, second = told.split("\n\n")
    assert first.split("\n")[1].split() == [*columns[:6]]
    assert [line.split() for line in second.splitlines()] == [
        [head, *columns[6:]] for head in ("column0", "row0", "row1")
    ]


@pytest.mark.parametrize(
    "question", questions(), ids=lambda question: f"{question.version} {question.verb} {question.name}"
)
def test_no_table_is_told_as_a_list_of_keys_and_values(question):
    for width in (80, 100, 120):
        shown = terminal(question.ask(), SAY, width=width, colour=False)
        assert not re.search(r"^  - [\w ]+: [^;]*; [\w ]+: ", shown, re.MULTILINE), width


def test_a_table_without_rows_says_so():
    assert plain(report(tables=(Table("nodes", ("node",), ()),))).endswith("\nNodes\n  none\n")


# --------------------------------------------------------------------------------------------------- any text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("one\ntwo\tthree\r", r"one\ntwo\tthree\r"),
        ("a\u202eb\u2066c\u200fd", r"a\u202eb\u2066c\u200fd"),
        ("\x9b2J", r"\x9b2J"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\U000e0041\ud800", r"\U000e0041\ud800"),
        (r"nvidia\.com", r"nvidia\.com"),
        ("显存 é ❤", "显存 é ❤"),
    ],
)
def test_what_would_act_on_a_terminal_is_written_out(text, shown):
    assert visible(text) == shown


def test_markup_of_our_own_painter_is_only_text():
    quote = "[red]x[/red] [link=http://evil]y[/link]"
    assert quote in _COLOURS.sub("", terminal(report(finding(evidence=(evidence(quote=quote),))), SAY, colour=True))


def test_a_quote_cannot_pass_for_a_command():
    quote = "x" * 70 + " kubectl delete namespace ml\nkubectl delete node gpu-1"
    lines = plain(report(finding(evidence=(evidence(quote=quote),)))).splitlines()
    assert all(line.startswith("    | ") for line in lines if "delete" in line)


@given(reports(any_text()), st.sampled_from(["en", "zh"]), st.just(80) | st.integers(0, 200))
def test_no_text_acts_on_the_terminal_or_widens_its_prose(shown, language, width):
    told = terminal(shown, Texts(language), width=width, colour=False)
    acting = {text for text in told if unicodedata.category(text) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert acting <= {"\n"}
    commands, limit = commands_of(shown), max(width, 40)
    assert [line for line in told.splitlines() if cells(line) > limit and line.strip() not in commands] == []


@settings(max_examples=30)
@given(reports(any_text()))
def test_colour_adds_nothing_but_colour(shown):
    painted = _COLOURS.sub("", terminal(shown, SAY, colour=True))
    assert [line.rstrip(" ") for line in painted.splitlines()] == plain(shown).splitlines()


@given(any_text())
def test_a_quote_is_told_in_full(quote):
    lines = plain(report(finding(evidence=(evidence(quote=quote),)))).splitlines()
    told = "".join(line.removeprefix("    |") for line in lines if line.startswith("    |"))
    assert told.replace(" ", "") == (visible(quote).replace(" ", "") or "(empty)" * (not quote))


def test_a_table_uses_a_wide_terminal_and_prose_does_not():
    wide = Table("cards", ("card", "holders"), (("GPU-1", "x" * 60), ("GPU-2", "y" * 60 + " " + "z" * 70)))
    lines = terminal(report(finding(claim="word " * 60), tables=(wide,)), SAY, width=200, colour=False).split("\n")
    assert f"  GPU-2  {'y' * 60} {'z' * 70}" in lines
    assert max(len(line) for line in lines if "word" in line) <= 120


def test_a_long_table_ends_with_how_many_rows_are_not_shown() -> None:
    rows = tuple((f"gpu-{number}",) for number in range(100))
    shown = terminal(report(tables=(Table("cards", ("node",), rows),)), SAY, colour=False)
    assert "gpu-59" in shown
    assert "gpu-60" not in shown
    assert "40 more rows: -o json" in shown


@pytest.mark.parametrize(
    ("path", "label"),
    [
        (r"{.status.allocatable.nvidia\.com/gpu}", "allocatable nvidia.com/gpu = 40"),
        (r"{.metadata.annotations.hami\.io/node-handshake}", "hami.io/node-handshake = 40"),
        (r"{.spec.containers[*].resources.limits.nvidia\.com/gpumem}", "limits nvidia.com/gpumem = 40"),
        ('{.spec.template.spec.containers[?(@.name=="kube-scheduler")].image}', "kube-scheduler image = 40"),
    ],
)
def test_a_value_stands_behind_its_field(path, label):
    proof = Evidence("node", "Node gpu-1", None, "40", f"kubectl get node gpu-1 -o jsonpath='{path}'")
    assert f"    | {label}\n" in plain(report(finding(evidence=(proof,))))


@pytest.mark.parametrize(("age_s", "told"), [(3, ""), (90, ", in part up to 90 s old")])
def test_how_old_an_answer_is_stands_there_where_it_is_more_than_a_minute(age_s, told):
    shown = plain(structs.replace(typical(), cache_age_s=age_s))
    assert f"read at  2026-11-21 05:00:00 UTC{told}\n" in shown
