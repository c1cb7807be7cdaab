"""`hami-bot profile` as a person types it."""

import gc
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bot.errors import SourceError, UsageError
from handlers.parsing.grammar import read
from handlers.profiles.answers_in_files import read_words
from handlers.profiles.shell import answer, main
from handlers.profiles.words import ProfileAsked, Study
from handlers.shell_grammar import build_grammar
from tests.pprof.cases import PROFILES
from tests.shell import ROOT, hami_bot, process
from tests.slack.bot import RECORDING

pytestmark = pytest.mark.process

CPU = str(PROFILES / "before.cpu.pb.gz")
AFTER = str(PROFILES / "after.cpu.pb.gz")


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


@pytest.mark.parametrize("option", ["-nodefraction=0.03", "-focus=v2.9.0", "-ignore=14:05", "-hide=cpu-1a2b3c4d"])
def test_the_value_of_an_option_is_no_profile_that_the_bot_keeps(option: str, tmp_path: Path) -> None:
    nowhere = {"HAMI_BOT_STORE__URL": f"sqlite:///{tmp_path}/none.db"}
    for study in (["top", option, CPU], ["top", *option.split("=", 1), CPU]):
        done = hami_bot("profile", *study, env=nowhere)
        assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_the_collector_is_left_to_the_process_that_asked() -> None:
    before = gc.isenabled(), gc.get_freeze_count()
    assert main(["--help"]) == 0
    assert (gc.isenabled(), gc.get_freeze_count()) == before


def test_a_table_imports_nothing_that_takes_longer_than_the_table() -> None:
    heavy = ("httpx", "kubernetes", "msgspec", "numpy", "pydantic", "yaml")
    program = f"""
import contextlib, sys
from bot.__main__ import main
sys.argv = ["hami-bot", "profile", "top", {CPU!r}]
with contextlib.suppress(SystemExit):
    main()
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path}\n{program}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stderr == "[]\n"


def test_one_dash_or_two_with_or_without_an_equals_sign_are_the_same() -> None:
    ways = (["-nodecount=5", "-cum", "f"], ["f", "--nodecount", "5", "--cum"], ["--cum", "f", "-nodecount", "5"])
    assert len({str(sorted(read_words(words).options.items())) for words in ways}) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-base", "a", "-diff_base", "b", CPU], "cannot both"),
        (["-normalize", CPU], "must have base"),
        (["-nodecount=many", CPU], "not a whole number"),
        (["-nodefraction=nan", CPU], "between 0 and 1"),
        (["-focus"], "requires an argument"),
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
        (["hints", CPU], "80.8% of the CPU time in this capture is for JSON"),
        (["compare", CPU, CPU], "no change beyond noise"),
        (["compare", CPU, AFTER], "go tool pprof -top -cum -nodecount=10 -diff_base:"),
        (
            ["compare", str(PROFILES / "meter.v1.allocs.pb.gz"), str(PROFILES / "meter.v2.allocs.pb.gz")],
            "go tool pprof -top -cum -nodecount=10 -sample_index=alloc_objects -diff_base:",
        ),
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
        (["profile", "hints", "-lang=zh", CPU], "80.8% 用于 JSON"),
        (["profile", "compare", CPU, AFTER, "--lang", "zh"], "并列比较"),
        (["--lang", "zh", "profile", "compare", CPU, AFTER], "并列比较"),
    ],
)
def test_what_is_said_can_be_had_in_chinese(words: list[str], said: str) -> None:
    done = hami_bot(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", CPU], r"at least two profiles[^\n]*\nFor example: hami-bot profile compare before"),
        (["hints", "-lang=fr", CPU], "not one of 'en', 'zh'"),
        (["compare", CPU, str(PROFILES / "before.heap.pb.gz")], "different things"),
        (["hints"], r"name one profile\nFor example: hami-bot profile hints "),
        (["list", CPU], r"a function and one profile\nFor example: hami-bot profile list Filter "),
        (["list", "burn", "-versions=v2.9.0", CPU], "is not a module with a version"),
    ],
)
def test_questions_about_files_that_make_no_sense_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        answer(words)


@pytest.mark.parametrize("out", ["", "my folder"])
def test_every_command_that_a_taken_profile_comes_with_can_be_run_as_it_stands(tmp_path: Path, out: str) -> None:
    options = ["--recording", str(RECORDING), *(["--out", str(tmp_path / out)] if out else [])]
    done = process("profile", "cpu", *options, env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    commands = {tuple(shlex.split(line)) for line in re.findall(r"^ +(hami-bot .*)", done.stdout, re.MULTILINE)}
    assert {words[2] for words in commands} == {"top", "list", "allocs"}
    for _, verb, *words in commands:
        asked = read(build_grammar(), [verb, *words])
        assert isinstance(asked, ProfileAsked)
        if isinstance(asked.request, Study):
            assert answer(asked.request.words)
        else:
            assert asked.options["recording"] == RECORDING


def test_help_names_every_option() -> None:
    for word in ("profile", "help"):
        done = hami_bot(*(["profile", "--help"] if word == "profile" else ["help", "profile"]))
        assert "-relative_percentages" in done.stdout, done.stderr
