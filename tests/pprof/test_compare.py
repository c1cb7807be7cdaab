"""What a person wants of two or more profiles: what changed beyond chance, where, and what grows."""

import pytest

from bot.errors import UsageError
from bot.pprof.compare import compare
from bot.pprof.decode import read
from bot.pprof.hints import crowded, groups, grown, hints, is_own
from bot.pprof.listing import function_lines
from bot.pprof.profile import Profile
from bot.pprof.top import prepared
from bot.texts import Text, in_english
from handlers.profiles.shell import answer
from tests.pprof.build import Writer
from tests.pprof.cases import PROFILES


def profile(name: str) -> Profile:
    return prepared(read((PROFILES / f"{name}.pb.gz").read_bytes()))


def path(name: str) -> str:
    return str(PROFILES / f"{name}.pb.gz")


def test_three_versions_stand_side_by_side_per_second() -> None:
    found = compare([profile(f"meter.v{number}.allocs") for number in (1, 2, 3)], "alloc_objects")
    rows = {function.name: function for function in found.functions}
    assert found.per_second
    assert [round(value * 4, -2) for value in rows["main.getCPUCoreFrequency"].values] == [43800, 46000, 0]
    assert [line.name for line in found.own if line.gone][-2:] == ["main.ListPods", "main.getCPUCoreFrequency"]


def test_what_vanished_from_the_cpu_is_named() -> None:
    found = compare([profile(f"meter.v{number}.cpu") for number in (1, 2, 3)])
    assert round(found.total.difference / found.total.values[0], 2) == -0.85
    assert "main.ListPods" in [line.name for line in found.significant if line.gone]


def test_equal_runs_show_no_change_beyond_noise() -> None:
    assert compare([profile("before.cpu"), profile("before.cpu")]).significant == []
    assert "no change beyond noise" in answer(["compare", path("before.cpu"), path("before.cpu")])


def test_a_few_samples_more_are_noise() -> None:
    def run(samples: int) -> Profile:
        writer = Writer("samples", "cpu/nanoseconds").function(1, "main.f").location(1, 1)
        return prepared(read(writer.sample([1], samples, samples * 10_000_000).bytes()))

    assert compare([run(100), run(125)]).functions[0].noise
    assert not compare([run(100), run(135)]).functions[0].noise


def test_profiles_of_different_kinds_are_not_compared() -> None:
    with pytest.raises(UsageError, match="different things"):
        compare([profile("before.cpu"), profile("before.heap")])


def test_goroutines_that_grow_between_two_profiles_are_a_suspected_leak() -> None:
    before, after = profile("after.goroutine"), profile("before.goroutine")
    found = grown(before, after)
    assert [
        (change.group.waits_in, change.group.wait, change.before, change.group.goroutines) for change in found[:3]
    ] == [
        ("main.leakOnChan", Text("profile-wait.channel-receive"), 200, 1000),
        ("main.leakOnSelect", Text("profile-wait.select"), 100, 500),
        ("main.leakOnLock", Text("profile-wait.lock"), 40, 200),
    ]
    assert grown(after, after) == []
    assert crowded(groups(after))[0].spawned_by == "main.leakOnChan"


def test_json_decoding_is_a_hint_with_its_caller() -> None:
    found = hints(profile("before.cpu"), 1)
    json = found.hints[0]
    assert (json.code, json.level, round(json.share, 3)) == ("json", "warning", 0.808)
    assert json.callers[0][0] == "main.(*Client).ListPods"
    assert not found.few
    assert found.idle is None


def test_what_json_does_by_reflection_is_no_hint_of_its_own() -> None:
    assert "reflection" not in [hint.code for hint in hints(profile("before.cpu"), 1).hints]


def test_garbage_collection_above_a_tenth_is_a_hint() -> None:
    shares = {hint.code: round(hint.share, 3) for hint in hints(profile("after.cpu"), 1).hints}
    assert shares["gc-background"] == 0.122


def test_an_idle_process_with_few_samples_is_said_to_be_so() -> None:
    found = hints(profile("meter.v3.cpu"), 1)
    assert found.few
    assert found.idle is not None
    assert round(found.idle, 3) == 0.026


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
