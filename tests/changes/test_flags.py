"""A flag is found and replaced in every spelling that pflag reads."""

import pytest

from bot.changes.flags import Flag, Unsuitable, find_spot, last_set, with_value
from bot.changes.kinds import KINDS, PROFILING, ChangeKind
from tests.changes.deployments import EXTENDER, deployment

LEVEL, SWITCH = Flag("v"), Flag("profiling", is_bool=True)
SPELLINGS = [
    (["scheduler", "-v=4", "--debug"], ["scheduler", "-v=5", "--debug"]),
    (["scheduler", "--v=4"], ["scheduler", "--v=5"]),
    (["scheduler", "-v", "4", "--debug"], ["scheduler", "-v", "5", "--debug"]),
    (["scheduler", "--v", "4"], ["scheduler", "--v", "5"]),
    (["scheduler", "-v4"], ["scheduler", "-v5"]),
    (["scheduler", "-v=2", "--debug", "-v=4"], ["scheduler", "-v=2", "--debug", "-v=5"]),
    (["scheduler", "-v=$(LEVEL)"], ["scheduler", "-v=5"]),
    (["scheduler", "--debug"], ["scheduler", "--debug", "-v=5"]),
    (["scheduler", "--vmodule=score=5"], ["scheduler", "--vmodule=score=5", "-v=5"]),
]


def spot(**lists):
    found = find_spot(deployment(**lists), EXTENDER)
    assert found
    return found


@pytest.mark.parametrize(("before", "after"), SPELLINGS, ids=" ".join)
@pytest.mark.parametrize("field", ["command", "args"])
def test_a_level_is_replaced_in_its_own_spelling_or_appended(field, before, after) -> None:
    assert with_value(spot(**{field: before}), LEVEL, "5") == (field, tuple(after))


def test_of_two_lists_the_later_one_counts() -> None:
    both = spot(command=["scheduler", "-v=2"], args=["--debug", "-v=4"])
    found = last_set(both, LEVEL)
    assert found
    assert (found.field, found.value) == ("args", "4")
    assert with_value(both, LEVEL, "5") == ("args", ("--debug", "-v=5"))


def test_with_both_lists_a_missing_flag_goes_to_the_end_of_the_later_one() -> None:
    assert with_value(spot(command=["scheduler"], args=["--debug"]), LEVEL, "5") == ("args", ("--debug", "-v=5"))


def test_the_word_of_one_level_is_not_read_as_the_next_flag() -> None:
    found = last_set(spot(args=["-v", "-v=9"]), LEVEL)
    assert found
    assert found.value == "-v=9"


@pytest.mark.parametrize(
    ("words", "value", "after"),
    [
        (["--profiling"], "true", ["--profiling=true"]),
        (["--profiling=false"], "false", ["--profiling=true"]),
        (["--profiling=false", "--profiling"], "true", ["--profiling=false", "--profiling=true"]),
        (["--profiling", "false"], "true", ["--profiling=true", "false"]),
    ],
)
def test_a_switch_takes_no_word_of_its_own(words, value, after) -> None:
    found = last_set(spot(args=words), SWITCH)
    assert found
    assert found.value == value
    assert with_value(spot(args=words), SWITCH, "true") == ("args", tuple(after))


def test_a_switch_that_is_missing_is_appended() -> None:
    assert with_value(spot(command=["scheduler", "-v=4"]), SWITCH, "true")[1] == (
        "scheduler",
        "-v=4",
        "--profiling=true",
    )


@pytest.mark.parametrize(("value", "on"), [("true", True), ("1", True), ("T", True), ("false", False), ("yes", False)])
def test_a_switch_is_on_as_go_reads_it(value: str, on: bool) -> None:
    assert PROFILING.values.covers(value, "true") is on


def test_nothing_is_a_flag_after_two_hyphens() -> None:
    assert last_set(spot(args=["--", "-v=4"]), LEVEL) is None


@pytest.mark.parametrize(
    ("lists", "word"),
    [
        ({"command": ["sh", "-c", "exec scheduler -v=4 --debug"]}, "shell"),
        ({}, "image"),
        ({"args": ["scheduler", "--", "x"]}, "--"),
    ],
)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_words_cannot_say_is_refused(lists, word: str, kind: ChangeKind) -> None:
    with pytest.raises(Unsuitable, match=word):
        with_value(spot(**lists), kind.flag, "5")


def test_a_container_is_found_by_its_name_and_never_guessed() -> None:
    assert find_spot(deployment(args=["-v=4"]), "scheduler") is None
    twice = deployment(args=["-v=4"])
    twice["spec"]["template"]["spec"]["containers"][0]["name"] = EXTENDER
    assert find_spot(twice, EXTENDER) is None
