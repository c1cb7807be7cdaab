"""What a person wants of two or more profiles: what changed beyond chance, where, and what grows."""

import pytest

from bot.errors import UsageError
from bot.pprof.compare import compare
from bot.pprof.decode import read
from bot.pprof.hints import hints, is_own
from bot.pprof.listing import function_lines
from bot.pprof.profile import Profile
from bot.pprof.top import prepared
from bot.texts import in_english
from tests.pprof.build import Writer
from tests.pprof.cases import PROFILES


def profile(name: str) -> Profile:
    return prepared(read((PROFILES / f"{name}.pb.gz").read_bytes()))


def path(name: str) -> str:
    return str(PROFILES / f"{name}.pb.gz")


def test_a_few_samples_more_are_noise() -> None:
    def run(samples: int) -> Profile:
        writer = Writer("samples", "cpu/nanoseconds").function(1, "main.f").location(1, 1)
        return prepared(read(writer.sample([1], samples, samples * 10_000_000).bytes()))

    assert compare([run(100), run(125)]).functions[0].noise
    assert not compare([run(100), run(135)]).functions[0].noise


def test_profiles_of_different_kinds_are_not_compared() -> None:
    with pytest.raises(UsageError, match="different things"):
        compare([profile("before.cpu"), profile("before.heap")])


def test_what_json_does_by_reflection_is_no_hint_of_its_own() -> None:
    assert "reflection" not in [hint.code for hint in hints(profile("before.cpu"), 1).hints]


@pytest.mark.parametrize(
    "name", [f"{stem}.pb.gz" for stem in ("before.heap", "before.block", "syn.empty", "syn.nosymbols")]
)
def test_hints_of_any_profile_can_be_asked_for(name: str) -> None:
    one = prepared(read((PROFILES / name).read_bytes()))
    for index in range(len(one.sample_types)):
        hints(one, index)


def test_lines_of_a_function_add_up_to_its_own_weight() -> None:
    found = function_lines(profile("before.cpu"), 1, r"^main\.burn$")
    assert [entry.name for entry in found] == ["main.burn"]
    assert sum(line.flat for line in found[0].lines) == found[0].flat


def test_a_function_that_is_not_there_gets_the_heaviest_ones() -> None:
    with pytest.raises(UsageError, match="no matches found") as refused:
        function_lines(profile("before.cpu"), 1, "nothing")
    assert "main.main.func2" in in_english(refused.value.hint)


@pytest.mark.parametrize(
    ("function", "own"),
    [
        ("main.main", True),
        ("github.com/Project-HAMi/HAMi/pkg/scheduler.(*Scheduler).Filter", True),
        ("k8s.io/client-go/rest.(*Request).Do", True),
        ("mine/pkg.F", True),
        ("encoding/json/v2.Unmarshal", False),
        ("runtime.mallocgc", False),
        ("slices.SortFunc[go.shape.[]github.com/x/y.T]", False),
        ("_.goready.func1", False),
        ("", False),
    ],
)
def test_own_code_is_what_is_not_gos(function: str, own: bool) -> None:
    assert is_own(function) is own
