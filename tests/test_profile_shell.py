"""`hami-bot profile` as a person types it."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.errors import SourceError, UsageError
from handlers.profiles.shell import answer, read_words
from tests.pprof.cases import PROFILES

ROOT = Path(__file__).parents[1]
CPU = str(PROFILES / "before.cpu.pb.gz")
AFTER = str(PROFILES / "after.cpu.pb.gz")


def hami_bot(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bot", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)


def test_a_table_is_printed_and_nothing_else() -> None:
    done = hami_bot("profile", "top", "-nodecount=3", CPU)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Showing top 3 nodes out of 190" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["top", "nowhere.pb.gz"], 3, "cannot read nowhere.pb.gz"),
        (["top", str(ROOT / "pyproject.toml")], 3, "pyproject.toml: this is not a profile"),
        (["top", "--focsu=x", CPU], 2, "Did you mean -focus?"),
        (["tpo", CPU], 2, "no profile 'tpo'; did you mean 'top'?"),
    ],
)
def test_an_error_says_what_was_tried_and_what_to_do(words: list[str], code: int, said: str) -> None:
    done = hami_bot("profile", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("hami-bot: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_one_dash_or_two_with_or_without_an_equals_sign_are_the_same() -> None:
    ways = (["-nodecount=5", "-cum", "f"], ["f", "--nodecount", "5", "--cum"], ["--cum=true", "f", "-nodecount", "5"])
    assert len({str(sorted(read_words(words).options.items())) for words in ways}) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-base", "a", "-diff_base", "b", CPU], "cannot both"),
        (["-normalize", CPU], "must have base"),
        (["-cum", "-flat", CPU], "conflicting"),
        (["-nodecount=many", CPU], "not a whole number"),
        (["-nodefraction=nan", CPU], "between 0 and 1"),
        (["-cum=perhaps", CPU], "neither true nor false"),
        (["-focus"], "needs a value"),
        (["-sample_index=wall", CPU], r"must be one of: \[samples cpu\]"),
        ([CPU, CPU], "name one profile"),
        ([], "name one profile"),
    ],
)
def test_options_that_make_no_sense_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        answer(["top", *words])


def test_a_base_that_cannot_be_read_is_named() -> None:
    with pytest.raises(SourceError, match=r"gone\.pb"):
        answer(["top", "-diff_base=gone.pb", CPU])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hints", CPU], "80.8% of the CPU time in this capture goes into JSON"),
        (["compare", CPU, CPU], "no change beyond noise"),
        (["compare", CPU, AFTER], "go tool pprof -top -cum -nodecount=10 -diff_base:"),
        (["list", "^main.burn$", CPU], "ROUTINE ======================== main.burn in /build/svc/main.go"),
    ],
)
def test_what_is_said_about_profiles_in_files(words: list[str], said: str) -> None:
    done = hami_bot("profile", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", CPU], "at least two profiles"),
        (["compare", CPU, str(PROFILES / "before.heap.pb.gz")], "different things"),
        (["hints"], "name one profile"),
        (["list", CPU], "a function and one profile"),
        (["list", "burn", "-versions=v2.9.0", CPU], "no module with its version"),
    ],
)
def test_questions_about_files_that_make_no_sense_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        answer(words)


def test_help_names_every_option() -> None:
    for word in ("profile", "help"):
        done = hami_bot(*(["profile", "--help"] if word == "profile" else ["help", "profile"]))
        assert "-relative_percentages" in done.stdout, done.stderr
