"""The words that change something: what they ask for, and what a typo is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes.plan import Raise
from bot.errors import UsageError
from bot.kube.times import format_duration, read_duration
from handlers.changes.draft import as_typed, split_change
from handlers.changes.words import Extend, Request, Show, read_change, words_of
from handlers.parsing.question import as_delivered, split_words, without_invisible
from tests.changes.deployments import EXTENDER, KUBE_SCHEDULER, but
from tests.changes.records import asked

LEVEL = Raise((("v", "5"),), EXTENDER, 600)


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("revert", Show()),
        ("undo the last change", Show()),
        ("verbosity 5", LEVEL),
        ("verbosity 05", LEVEL),
        ("verbosity 5 for 90s", but(LEVEL, seconds=90)),
        ("verbosity 5 for 1h30m", but(LEVEL, seconds=5400)),
        ("verbosity 5 for 10min", LEVEL),
        ("verbosity 5 for 10 minutes", LEVEL),
        ("verbosity 5 for 1 Hour because 5 minutes", but(LEVEL, seconds=3600, because="5 minutes")),
        ("profiling extend 1 hour", Extend("profiling", 3600)),
        ("verbosity 5 because a pod  hangs", but(LEVEL, because="a pod hangs")),
        ("verbosity 5 for 2h because wait for it", but(LEVEL, seconds=7200, because="wait for it")),
        ("verbosity 5 because “a --b” hangs", but(LEVEL, because="a --b hangs")),
        ("verbosity 5 --container kube-scheduler", but(LEVEL, container=KUBE_SCHEDULER)),
        ("verbosity 5 --until-captured ml/a", but(LEVEL, until_captured="ml/a")),
        ("verbosity 5 until-captured ml/a for 5m", but(LEVEL, until_captured="ml/a", seconds=300)),
        ("verbosity --dry-run 5", but(LEVEL, dry_run=True)),
        ("verbosity 5 for 5m --dry-run", but(LEVEL, dry_run=True, seconds=300)),
        ("profiling on", Raise((("profiling", "true"),), EXTENDER, 600)),
        ("profiling on for 15m", Raise((("profiling", "true"),), EXTENDER, 900)),
    ],
)
def test_the_words_are_understood(text: str, request_: Request) -> None:
    assert asked(text) == request_


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("verbosity five", "verbosity takes LEVEL [for 10m], revert or extend 10m"),
        ("verbosity -5", "no option"),
        ("verbosity 5 10m", "'for 10m'"),
        ("verbosity 5 fro 10m", "'for'"),
        ("verbosity 5 for", "nothing follows"),
        ("verbosity 5 for 10", "write 90s"),
        ("verbosity 5 for m", "write 90s"),
        ("verbosity 5 for 10m for 5m", "twice"),
        ("verbosity 5 because", "nothing follows"),
        ("verbosity rever", "verbosity takes LEVEL [for 10m], revert or extend 10m"),
        ("verbosity revert now", "revert"),
        ("verbosity extend", "/hami verbosity extend 10m"),
        ("verbosity extend 10m 5m", "/hami verbosity extend 10m"),
        ("verbosity 5 until-captured trainer-0", "NAMESPACE/POD"),
        ("verbosity revert --dry-run", "raising"),
        ("verbosity --container extender", "raising"),
        ("verbosity 5 --container x", "kube-scheduler"),
        ("profiling 5", "profiling takes on [for 10m], off or extend 10m"),
        ("profiling onn", "profiling takes on [for 10m], off or extend 10m"),
        ("profiling on --container extender", "no option"),
        ("profiling on until-captured ml/a", "not understood"),
    ],
)
def test_a_typo_is_told_with_what_was_meant(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked(text)
    assert told in str(caught.value)


@given(st.integers(1, 10**7))
def test_a_length_of_time_is_written_as_it_is_read(seconds: int) -> None:
    assert read_duration(format_duration(seconds)) == seconds


# Without what a phone puts into typed words: that is read as what was meant.
_TYPED = st.characters(exclude_categories=("C", "Z", "Pi", "Pf"), exclude_characters="–—„")
REASONS = st.text(_TYPED | st.just(" ")).map(lambda text: " ".join(without_invisible(text).split()))


@given(
    st.sampled_from([EXTENDER, KUBE_SCHEDULER]), st.integers(60, 14400), REASONS, st.sampled_from(["", "ml/trainer-0"])
)
def test_the_words_of_a_request_ask_for_it_again(container: str, seconds: int, because: str, pod: str) -> None:
    request = Raise((("v", "5"),), container, seconds, because, pod)
    verb, *words = split_words(as_delivered(words_of(request)))
    named = ""
    if "--container" in words and words.index("--container") < len(words):
        at = words.index("--container")
        named = words[at + 1]
        del words[at : at + 2]
    assert verb == "verbosity"
    assert read_change("/hami", "verbosity", words, container=named) == request


@given(REASONS)
def test_any_reason_is_the_same_typed_again_in_slack(because: str) -> None:
    request = Raise((("profiling", "true"),), EXTENDER, 900, because)
    verb, *words = split_change(as_delivered(as_typed(words_of(request))))
    assert verb == "profiling"
    assert read_change("/hami", "profiling", words) == request


@pytest.mark.parametrize("words", ["5 For 10m Because It hangs", "Revert", "Extend 10m"])
def test_words_of_the_grammar_have_any_case_and_a_reason_keeps_its_own(words: str) -> None:
    small = words.replace("For", "for").replace("Because", "because").replace("Revert", "revert")
    assert read_change("", "verbosity", words.split()) == read_change(
        "", "verbosity", small.replace("Extend", "extend").split()
    )
