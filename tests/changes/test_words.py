"""The words that change something: what they ask for, and what a typo is told."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes.plan import Raise
from bot.errors import UsageError
from bot.kube.times import format_duration, read_duration
from handlers import shell
from handlers.changes.draft import ChangeDraft, as_typed, draft_words, split_change
from handlers.changes.words import ChangeAsked, Extend, Request, Show, read_change, words_of
from handlers.parsing.grammar import read
from handlers.parsing.question import as_delivered, normalise, split_words, without_invisible
from handlers.parsing.slack_grammar import Help, understand
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


def in_slack(text: str) -> ChangeAsked:
    found = understand(split_change(normalise(as_delivered(text))))
    assert isinstance(found, ChangeAsked)
    return found


def in_a_shell(*words: str) -> ChangeAsked:
    found = read(shell.build_grammar(), words)
    assert isinstance(found, ChangeAsked)
    return found


def raised(asked: ChangeAsked) -> Raise:
    assert isinstance(asked.request, Raise)
    return asked.request


@pytest.mark.parametrize(
    "option",
    [
        *("--dry-run", "—dry-run", "–dry-run", "——dry-run", "-dry-run", "－－ｄｒｙ－ｒｕｎ", "--Dry-run"),
        *("--dry-run.", "--dry-run --dry-run", "--cluster prod --dry-run", "--cluster=prod —dry-run"),
        *("--cluster --dry-run", "--dry-run\n"),
    ],
)
def test_a_dry_run_at_the_end_of_a_reason_is_a_dry_run(option: str) -> None:
    assert raised(in_slack(f"verbosity 5 because x hangs {option}")).dry_run
    assert raised(in_slack(f"profiling on for 5m because x hangs {option}")).dry_run
    assert raised(in_a_shell(*f"verbosity 5 because x hangs {option}".split())).dry_run


def test_every_option_of_the_verb_may_stand_at_the_end() -> None:
    asked = in_slack(
        "verbosity 5 because x hangs --container kube-scheduler —cluster prod --until-captured ml/a –lang zh"
    )
    request = raised(asked)
    assert (request.because, request.container, request.until_captured) == ("x hangs", KUBE_SCHEDULER, "ml/a")
    assert asked.options == {"cluster": "prod", "lang": "zh"}


def test_a_shell_s_own_options_may_stand_at_the_end() -> None:
    asked = in_a_shell("verbosity", "5", "because", "x", "hangs", "--yes", "-o", "json")
    assert raised(asked).because == "x hangs"
    assert asked.options["yes"]
    assert asked.options["output"] == "json"


@pytest.mark.parametrize(
    "reason",
    [
        "the --dry-run of yesterday hangs",
        "--dry-run hangs",
        "- x hangs",
        "-5 is wrong",
        "-- x",
        "x --unknown",
        "it ends with --cluster",
        "“--dry-run”",
        "because --help is asked",
        "why ?",
        "what is -h",
    ],
)
def test_what_looks_like_an_option_within_a_reason_is_text(reason: str) -> None:
    assert raised(in_slack(f"verbosity 5 because {reason}")) == but(raised(in_slack("verbosity 5")), because=reason)
    assert raised(in_a_shell("verbosity", "5", "because", *reason.split())).because == reason


def test_what_a_shell_was_given_in_quotes_is_text() -> None:
    asked = raised(in_a_shell("verbosity", "5", "because", "it prints --dry-run"))
    assert (asked.because, asked.dry_run) == ("it prints --dry-run", False)


def test_a_value_that_an_option_does_not_take_is_told() -> None:
    with pytest.raises(UsageError, match="kube-scheduler"):
        in_slack("verbosity 5 because x hangs --container kube-schedular")


def test_options_alone_are_no_reason() -> None:
    with pytest.raises(UsageError, match="nothing follows 'because'"):
        in_slack("verbosity 5 because --dry-run")


def test_help_is_asked_for_before_the_reason() -> None:
    assert isinstance(understand(split_change("verbosity --help 5 because x")), Help)


_CHARACTERS = st.characters(exclude_categories=("C", "Z"))
_PIECES = st.one_of(
    st.text(st.one_of(_CHARACTERS, st.sampled_from("-—–'\"<>&;=`*")), min_size=1, max_size=8),
    st.sampled_from(["--dry-run", "—dry-run", "--cluster", "--cluster=x", "because", "for", "10m", "--", "-", "?"]),
)
_REASONS = st.lists(_PIECES, max_size=6).map(lambda pieces: " ".join(without_invisible(" ".join(pieces)).split()))
_OPTIONS = st.lists(
    st.sampled_from(["--dry-run", "—dry-run", "–dry-run", "--cluster prod", "—cluster=prod", "--lang zh"]), max_size=4
).map(" ".join)


@given(_REASONS, _OPTIONS)
def test_any_reason_survives_and_no_option_behind_it_is_lost(reason: str, options: str) -> None:
    asked = in_slack(f"verbosity 5 because {reason} is so {options}")
    assert raised(asked).because == f"{reason} is so".strip()
    assert raised(asked).dry_run == ("dry-run" in options)
    assert asked.options["cluster"] == ("prod" if "cluster" in options else "")
    assert asked.options["lang"] == ("zh" if "lang" in options else None)


@given(_REASONS, st.sampled_from(["--dry-run", "—dry-run", "–dry-run"]))
def test_no_reason_hides_a_dry_run_at_its_end(reason: str, option: str) -> None:
    with contextlib.suppress(UsageError):  # such as for options alone: nothing is changed
        assert raised(in_slack(f"verbosity 5 because {reason} {option}")).dry_run


def test_the_words_that_repeat_a_change_name_its_cluster() -> None:
    draft = ChangeDraft("0123456789ab", "prod-b", Raise((("v", "5"),), EXTENDER, 600.0, "a pod hangs"), "s", 0.0)
    words = draft_words(draft)
    assert words == "--cluster prod-b verbosity 5 for 10m because a pod hangs"
    assert split_change(words)[:2] == ["--cluster", "prod-b"]
