"""What is typed in a shell and is no verb there."""

from pathlib import Path

import pytest

from bot.errors import UsageError
from handlers.parsing.grammar import read
from handlers.shell_grammar import build_grammar, chosen_cluster


def hint_for(*words: str) -> str:
    with pytest.raises(UsageError) as refused:
        read(build_grammar(), words)
    return refused.value.hint


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("card-falt", "help card-fault"),
        ("terminating", "help terminating"),
        ("profiling-on", "profiling"),
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
