"""What is typed in a shell and is no verb there."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.texts import in_english
from handlers.mcp_server import offered_playbooks
from handlers.parsing.grammar import ParsedQuestion, known_word, read
from handlers.parsing.sentences import as_verb, meant
from handlers.parsing.slack_grammar import as_command, understand
from handlers.shell_grammar import build_grammar, chosen_cluster, reading_grammar

CHANGING = (*VERBS, "revert-overdue")
MISSPELT = [
    *(verb[:at] + verb[at + 1 :] for verb in CHANGING for at in range(len(verb))),
    *(f"{verb}-on" for verb in CHANGING),
    *("kubectl", "kubectl-hami", "reset", "rollback", "restore", "unde", "reverts"),
]
SURFACES: dict[str, Callable[[Sequence[str]], object]] = {
    "shell": lambda words: read(build_grammar(), words),
    "kubectl plugin": lambda words: read(reading_grammar("kubectl hami"), words),
    "help": lambda words: read(build_grammar(), ["help", *words]),
    "Slack help": lambda words: understand(["help", *words]),
    "MCP": lambda words: offered_playbooks(tuple(words)),
}


def hint_for(*words: str) -> str:
    with pytest.raises(UsageError) as refused:
        read(build_grammar(), words)
    return in_english(refused.value.hint)


@pytest.mark.parametrize("word", MISSPELT)
def test_no_misspelling_in_slack_is_taken_for_a_verb_that_changes_the_cluster(word: str) -> None:
    meaning = meant(word)
    offered = {one.split()[0] for one in (*meaning.offers, " ".join(meaning.words)) if one}
    assert as_command([word]) is None
    assert not offered & {*CHANGING}
    assert as_verb(word) in ("", "revert")


@pytest.mark.parametrize("surface", SURFACES)
def test_no_misspelling_is_answered_with_a_verb_that_changes_the_cluster(surface: str) -> None:
    for word in MISSPELT:
        if known_word(word):  # it is explained
            continue
        with pytest.raises(UsageError) as refused:
            SURFACES[surface]([word])
        meant, example = (
            in_english(refused.value.advice).removeprefix("Did you mean ").split("?")[0],
            refused.value.example,
        )
        for verb in CHANGING:
            assert meant != verb, word
            assert f"{verb} " not in f"{example} ", word


@pytest.mark.parametrize("deed", ["on", "off", "revert", "extend"])
@pytest.mark.parametrize("verb", VERBS)
def test_no_misspelt_deed_is_answered_with_one(verb: str, deed: str) -> None:
    for word in (*(deed[:at] + deed[at + 1 :] for at in range(len(deed))), f"{deed}{deed[-1]}", "reset"):
        with pytest.raises(UsageError, match="is not understood: ") as refused:
            read(build_grammar(), [*verb.split(), word])
        assert "did you mean" not in str(refused.value)
        assert refused.value.example == f"hami-bot {verb}"


@pytest.mark.parametrize(
    "typed",
    [
        "describe pod trainer-0 -n ml",
        "describe pods/trainer-0 --namespace=ml",
        "-n ml describe po trainer-0",
        "get pod trainer-0 -n ml -o yaml",
        "get pod/trainer-0 --namespace ml -owide",
    ],
)
def test_kubectl_about_one_pod_asks_why(typed: str) -> None:
    words = ["kubectl", *typed.split()]
    in_slack = understand(as_command(words) or [])
    for asked in (SURFACES["shell"](words), SURFACES["kubectl plugin"](words), in_slack):
        assert isinstance(asked, ParsedQuestion)
        assert asked.playbook.verb == "why"
        assert (asked.request.namespace, asked.request.name) == ("ml", "trainer-0")


@pytest.mark.parametrize("typed", ["which T4s are free?", "is hami ok?", "what is pending", "谁在用 gpu-1？"])
def test_a_sentence_is_told_that_sentences_are_for_slack(typed: str) -> None:
    assert hint_for(*typed.split()).startswith("Whole sentences are for Slack; here a verb comes first.")


@pytest.mark.parametrize("typed", ["get nodes", "describe", "delete pod trainer-0", "get pods", ""])
def test_of_other_words_for_kubectl_why_is_the_usual_question(typed: str) -> None:
    assert hint_for("kubectl", *typed.split()).startswith("Did you mean why? For example: hami-bot why ")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("card-falt", "help card-fault"),
        ("terminating", "help terminating"),
        ("profile-cpu", "profile"),
        ("latncy", "latency"),
    ],
)
def test_it_is_a_finding_code_or_the_nearest_verb(typed: str, meant: str) -> None:
    assert hint_for(typed).startswith(f"Did you mean {meant}?")


@pytest.mark.parametrize("typed", ["triage", "Triage"])
def test_a_verb_of_slack_is_said_to_be_one_however_it_is_written(typed: str) -> None:
    assert hint_for(typed) == "Type it in Slack. For example: /hami help triage"


@pytest.mark.parametrize("live", ["context", "kubeconfig"])
def test_a_recording_beside_a_live_cluster_is_refused(live: str) -> None:
    with pytest.raises(UsageError, match=f"--recording and --{live} name two clusters"):
        chosen_cluster({"recording": Path("x"), live: "y"})
