"""What a person sees of a thread's head on a phone at night: what it is, how much, whose, and the first next step."""

from typing import Any

import pytest
from msgspec.structs import replace

from bot.report import NextAction, act
from bot.slack.render import blocks
from bot.slack.render.triage_head import Head, count_of, details, render_head
from bot.texts import LANGUAGES, Text, Texts
from bot.triage.cause import Cause
from bot.triage.state import Incident, State
from bot.triage.summary import Counts
from playbooks.rules.common.prose import alternatives
from sandbox.slack.content import strings_of
from tests.oncall.phone import lines_of

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
