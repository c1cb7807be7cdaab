"""Questions as people typed them, in `questions.json`: what each asks of the recorded cluster."""

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from handlers.parsing.question import normalise, split_words
from handlers.parsing.sentences import Meant, meant
from handlers.parsing.slack_grammar import as_command, in_thread, understand
from playbooks.gather.subject import NOBODY_KNOWN, KnownNames, as_called, gather_names

RECORDING = Path(__file__).parents[1] / "cases" / "hami-2.10" / "recording.tar.gz"
TYPED: dict[str, list[list[str]]] = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))


@cache
def recorded() -> KnownNames:
    return asyncio.run(gather_names(RecordedCluster.open(RECORDING)))


def asked(text: str, about: str = "", names: KnownNames = NOBODY_KNOWN) -> Meant:
    typed = normalise(text)
    command = as_command(split_words(typed)) if typed.count("'") % 2 == 0 else None
    last, _, pod = about.partition("\n")
    if command is None:
        return meant(typed, names, last.split(), pod)
    return Meant(in_thread(command, last.split(), pod))


def same(words: list[str], right: str) -> bool:
    """Whether they ask the same: people name a pod with its namespace or without."""
    ours: Any = understand(words)
    theirs: Any = understand(right.split())
    if words[0] == "help":
        return ours == theirs
    if words[0] in ("why", "logs"):
        ours, theirs = (getattr(one.request, "subject", one.request).name for one in (ours, theirs))
    else:
        ours, theirs = ours.request, theirs.request
    return words[0] == right.split(maxsplit=1)[0] and ours == theirs


@pytest.mark.parametrize(("text", "right"), TYPED["commands"])
def test_a_question_in_peoples_own_words_is_the_command_that_they_mean(text: str, right: str) -> None:
    assert same(asked(text, names=recorded()).words, right)


@pytest.mark.parametrize(("about", "text", "right"), TYPED["in threads"])
def test_a_reply_in_a_thread_keeps_whom_it_is_about(about: str, text: str, right: str) -> None:
    assert same(asked(text, about, recorded()).words, right)


@pytest.mark.parametrize("text", TYPED["unsure"])
def test_what_is_not_understood_gets_three_commands_that_read(text: str) -> None:
    meaning = asked(text, names=recorded())
    assert (meaning.says, meaning.words, len(meaning.offers)) == ("unsure", [], 3)
    assert all(understand(one.split()) for one in meaning.offers)


@pytest.mark.parametrize("text", TYPED["unsure in threads"])
def test_a_change_that_a_reply_asks_for_is_no_question_about_the_pod(text: str) -> None:
    assert asked(text, "why ml/s10-node-stale", recorded()).says == "unsure"


@pytest.mark.parametrize("text", TYPED["pasted"])
def test_a_pasted_event_gives_the_words_to_explain(text: str) -> None:
    meaning = asked(text, names=recorded())
    assert meaning.says == "pasted"
    assert meaning.codes


@pytest.mark.parametrize(("says", "text"), [(says, text) for says in ("thanks", "mine") for text in TYPED[says]])
def test_thanks_ask_nothing_and_my_pod_is_no_name(says: str, text: str) -> None:
    assert asked(text, names=recorded()).says == says


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("why is my pod trainer-0 pending?", "why trainer-0"),
        ("Why is ml/trainer-0 not running", "why ml/trainer-0"),
        ("why isn’t trainer-0 getting a GPU?", "why trainer-0"),
        ("why `trainer-0`", "why trainer-0"),
        ("`why ml/trainer-0`", "why ml/trainer-0"),
        ("why is *trainer-0* pending -n ml", "why ml/trainer-0"),
        ("why is trainer stuck in namespace ml?", "why ml/trainer"),
        ("hello, can you tell me why trainer-0 is pending?", "why trainer-0"),
        ("Logs `trainer-0` --since 1h", "logs trainer-0 --since 1h"),
        ("Gpus --node `gpu-1`", "gpus --node gpu-1"),
        ("verbosity 5 for 10m because `trainer-0` is refused", "verbosity 5 for 10m because `trainer-0` is refused"),
    ],
)
def test_where_no_names_can_be_read_what_looks_like_a_pod_is_one(sentence: str, question: str) -> None:
    assert asked(sentence).words == question.split()


def test_where_several_pods_are_named_they_are_to_choose_from() -> None:
    hami = asked("s19-numa-not-fit and hami-scheduler-995f44d84-7gvtd both crash", names=recorded())
    assert hami.offers == ("why ml/s19-numa-not-fit", "why hami-system/hami-scheduler-995f44d84-7gvtd")
    meaning = asked("why are trainer-0 and trainer-1 pending?")
    assert (meaning.says, meaning.offers) == ("several", ("why trainer-0", "why trainer-1"))


def test_a_model_of_gpus_is_a_pod_only_where_a_pod_is_called_so() -> None:
    names = NOBODY_KNOWN._replace(pods={"h100": ("ml",), "a100-train-0": ("ml",)})
    assert asked("can i run 2 H100?", names=names).words == ["why", "ml/h100"]
    assert asked("any free A100?", names=names).words == ["gpus", "--type", "A100"]


def test_a_node_is_found_by_its_host_name_and_its_number_unless_two_are_called_so() -> None:
    called = as_called(["ip-10-0-2-77.eu.internal", "dgx-07.a", "dgx-07.b", "gpu-010"])
    names = NOBODY_KNOWN._replace(nodes=called)
    for said in ("what's up with ip-10-0-2-77", "is node 77 ok?"):
        assert asked(said, names=names).words == ["nodes", "ip-10-0-2-77.eu.internal"]
    assert asked("is gpu-10 ok?", names=names).words == ["nodes", "gpu-010"]
    assert "dgx-07" not in called
    assert called["dgx-07.a"] == "dgx-07.a"
