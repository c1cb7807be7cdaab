"""What changed between profiles beyond chance, where, and what grows; the fast sums are those of the simple loop."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import UsageError
from bot.pprof.compare import compare
from bot.pprof.decode import read
from bot.pprof.hints import hints, is_own
from bot.pprof.listing import function_lines
from bot.pprof.nodes import node_table
from bot.pprof.profile import Profile, int64
from bot.pprof.sums import PlainSums
from bot.pprof.sums_numpy import VectorSums
from bot.pprof.top import prepared
from bot.texts import in_english
from tests.pprof.build import Writer
from tests.pprof.cases import PROFILES
from tests.sampling import examples


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


FUNCTIONS = 5
STACKS = st.lists(
    st.tuples(
        st.lists(st.integers(1, 9), max_size=8), st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
    ),
    max_size=40,
)
LOCATIONS = st.lists(st.lists(st.integers(1, FUNCTIONS), min_size=1, max_size=3), min_size=9, max_size=9)


@settings(max_examples=examples(80), deadline=None)
@given(STACKS, LOCATIONS, st.sets(st.integers(0, FUNCTIONS - 1)), st.sets(st.integers(0, FUNCTIONS - 1)))
def test_fast_sums_are_those_of_the_simple_loop(
    stacks: list[tuple[list[int], int]], locations: list[list[int]], kept: set[int], callees: set[int]
) -> None:
    writer = Writer()
    for number in range(1, FUNCTIONS + 1):
        writer.function(number, f"f{number}")
    for number, functions in enumerate(locations, 1):
        writer.location(number, *functions)
    for ids, value in stacks:
        writer.sample(ids, value)
    profile = read(writer.bytes())
    table = node_table(profile, lines=False, inlines=True)
    frames = {
        number: tuple((node, i < len(nodes) - 1) for i, node in enumerate(nodes) if node in kept)
        for number, nodes in table.by_location.items()
    }
    fast, plain = (kind(partial(profile.samples.stacks, 0), table) for kind in (VectorSums, PlainSums))
    assert fast.weigh() == plain.weigh()
    found, expected = fast.edges(frames, callees), plain.edges(frames, callees)
    assert found.inline == expected.inline
    assert {edge: int64(weight) for edge, weight in found.weights.items()} == {
        edge: int64(weight) for edge, weight in expected.weights.items()
    }
