"""A reason is free text; options at its end are options, in Slack and in a shell: who asks for a dry run gets one."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes.plan import Raise
from bot.errors import UsageError
from handlers import shell
from handlers.changes.draft import ChangeDraft, draft_words, split_change
from handlers.changes.words import ChangeAsked
from handlers.parsing.grammar import read
from handlers.parsing.question import as_delivered, normalise, without_invisible
from handlers.parsing.slack_grammar import Help, understand
from tests.changes.deployments import EXTENDER, KUBE_SCHEDULER, but


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
