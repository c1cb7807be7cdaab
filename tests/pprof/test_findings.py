"""What is said about profiles: claims in words, each with lines that the command beside it prints."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from bot.pprof.compare import explain_change
from bot.pprof.decode import read
from bot.pprof.findings import SourcedProfile, explain, short_name
from bot.pprof.hints import hint_rules
from bot.report import Finding, Table, finding_in_words
from bot.report.tables import table_in_words
from bot.texts import LANGUAGES, Texts
from handlers.profiles.shell import answer
from tests.pprof import build
from tests.pprof.build import Writer
from tests.pprof.cases import PROFILES

SAY = Texts("en")
ONE = ("before.cpu", "after.cpu", "meter.v3.cpu", "before.goroutine", "before.allocs", "before.heap", "before.mutex")
SEVERAL = (
    ("before.cpu", "after.cpu"),
    ("after.goroutine", "before.goroutine"),
    ("meter.v1.cpu", "meter.v2.cpu", "meter.v3.cpu"),
    ("meter.v1.allocs", "meter.v2.allocs", "meter.v3.allocs"),
)


def said(found: tuple[Finding, ...], say: Texts = SAY) -> tuple[Finding, ...]:
    """The findings in words."""
    return tuple(finding_in_words(finding, say) for finding in found)


def changes(versions: list[SourcedProfile]) -> tuple[Finding, ...]:
    return explain_change(versions)[0]


def side_by_side(versions: list[SourcedProfile]) -> Table:
    return table_in_words(explain_change(versions)[1], SAY)


def taken(name: str) -> SourcedProfile:
    path = PROFILES / f"{name}.pb.gz"
    return SourcedProfile(read(path.read_bytes()), str(path), path.name)


def made(profile: bytes) -> SourcedProfile:
    return SourcedProfile(read(profile), "made.pb.gz", "made.pb.gz")


def by_code(findings: Iterable[Finding]) -> dict[str, Finding]:
    found = list(findings)
    assert len({finding.code for finding in found}) == len(found)
    return {finding.code: finding for finding in found}


def check_quotes(findings: Iterable[Finding]) -> None:
    for finding in findings:
        assert finding.evidence, finding.code
        for proof in finding.evidence:
            assert proof.quote in answer(shlex.split(proof.command)[2:]).split("\n")


@pytest.mark.parametrize("name", ONE)
def test_every_claim_about_a_profile_is_quoted_from_what_its_command_prints(name: str) -> None:
    findings = said(explain(taken(name)))
    check_quotes(findings)
    for finding in findings:
        claimed = re.match(r"([0-9.]+)% of", finding.claim)
        shown = re.search(r"accounting for \S+, ([0-9.]+)% of", finding.evidence[0].quote)
        if claimed and shown:
            assert abs(float(claimed[1]) - float(shown[1])) <= 0.051, finding.code


@pytest.mark.parametrize("names", SEVERAL, ids=lambda names: names[0])
def test_every_claim_about_versions_is_quoted_from_what_its_command_prints(names: tuple[str, ...]) -> None:
    check_quotes(said(changes([taken(name) for name in names])))


def test_the_profile_may_be_used_again() -> None:
    one = taken("before.cpu")
    assert explain(one) == explain(one)


def test_json_is_named_with_who_calls_it_and_where_to_look() -> None:
    json = by_code(said(explain(taken("before.cpu"))))["profile-json"]
    assert json.claim.startswith("80.8% of the CPU time in this capture is for JSON. Called most by main.(*Client)")
    assert (json.severity, json.confidence) == ("warning", "confirmed")
    assert json.evidence[0].at == "2026-11-21T05:37:49Z"
    assert json.evidence[0].quote == "Showing nodes accounting for 10.70s, 80.82% of 13.24s total"
    assert json.next_actions[0].command.startswith("profile list -sample_index=cpu '^main")


@pytest.mark.parametrize(
    ("name", "count"),
    [("hami.allocs-delta-5s", "64"), ("hami.heap-load", "9"), ("before.heap", ""), ("meter.v1.allocs", "")],
)
def test_few_samples_are_those_of_the_type_that_is_spoken_of(name: str, count: str) -> None:
    (few,) = [finding for finding in said(explain(taken(name))) if finding.code == "profile-few-samples"] or [None]
    assert bool(few) is bool(count)
    if few:
        assert few.claim.startswith(f"Only about {count} samples")


@pytest.mark.parametrize(("kind", "count"), [("requests", ""), ("errors", "3")])
def test_of_two_types_that_are_counts_each_counts_itself(kind: str, count: str) -> None:
    profile = made(Writer("requests", "errors").function(1, "main.f").location(1, 1).sample([1], 1000, 3).bytes())
    claims = [finding.claim for finding in said(explain(profile, sample_index_name=kind))]
    assert claims == ([f"Only about {count} samples: shares may be chance."] if count else [])


def test_an_idle_process_is_told_to_take_goroutine_instead() -> None:
    first, *others = said(explain(taken("meter.v3.cpu")))
    assert first.code == "profile-idle"
    assert [action.command for action in first.next_actions] == ["profile goroutine"]
    assert first.evidence[0].quote.startswith("Duration: 8s, Total samples = 210ms")
    assert {other.confidence for other in others} == {"suspected"}


def test_many_goroutines_in_one_place_are_no_leak_yet() -> None:
    (crowd,) = said(explain(taken("before.goroutine")))
    assert "1,000 of 1,853 goroutines wait at main.leakOnChan (channel receive)" in crowd.claim
    assert "One profile does not prove a leak" in crowd.claim


def test_what_the_garbage_collector_calls_leaked_is_a_leak_by_one_profile() -> None:
    stack = ("runtime.gopark", "runtime.chanrecv", "main.forgotten", "main.serve")
    leaks = Writer("goroutineleak")
    for number, name in enumerate(stack, 1):
        leaks.function(number, name).location(number, number)
    (leak,) = said(explain(made(leaks.sample([1, 2, 3, 4], 12).bytes())))
    assert (leak.code, leak.confidence, leak.severity) == ("profile-goroutine-leak", "confirmed", "warning")
    assert "12 goroutines are leaked" in leak.claim
    assert "at main.forgotten (channel receive)" in leak.claim
    assert any("main.forgotten" in proof.quote for proof in leak.evidence)


def test_goroutines_that_grow_are_a_suspected_leak() -> None:
    leak = by_code(said(changes([taken("after.goroutine"), taken("before.goroutine")])))["profile-goroutine-leak"]
    assert "main.leakOnChan (channel receive) grew from 200 to 1,000: suspected leak" in leak.claim
    assert "Also growing: main.leakOnSelect, main.leakOnLock." in leak.claim
    assert (leak.severity, leak.confidence) == ("warning", "suspected")


@pytest.mark.parametrize("name", ["before.cpu", "before.goroutine", "meter.v1.allocs", "before.heap", "before.mutex"])
def test_two_equal_runs_show_no_change_beyond_noise(name: str) -> None:
    found = by_code(said(changes([taken(name), taken(name)])))
    assert set(found) - {"profile-unlike-since-start"} == {"profile-no-change"}
    assert "no change beyond noise" in found["profile-no-change"].claim


def test_three_versions_stand_side_by_side() -> None:
    table = side_by_side([taken(f"meter.v{number}.allocs") for number in (1, 2, 3)])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["main.ListPods"] == ("150,492/s", "0/s", "0/s", "-100%")
    assert rows["main.getCPUCoreFrequency"] == ("10,955/s", "11,504/s", "0/s", "-100%")
    assert rows["total"][-1] == "-100%"
    table = side_by_side([taken(f"meter.v{number}.cpu") for number in (1, 2, 3)])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["total"] == ("17.0%", "14.2%", "2.6%", "-85%")
    assert rows["runtime.cgocall"] == ("11.2%", "12.0%", "2.5%", "-78%")
    assert rows["main.ListPods"] == ("2.5%", "0.0%", "0.0%", "-100%")


def test_what_did_not_change_beyond_chance_is_marked_as_noise() -> None:
    table = side_by_side([taken("before.cpu"), taken("before.cpu")])
    assert len(table.rows) > 5
    assert {row[-1] for row in table.rows} == {"noise"}


def test_what_vanished_between_versions_is_named() -> None:
    found = by_code(said(changes([taken(f"meter.v{number}.allocs") for number in (1, 2, 3)])))
    assert "main.ListPods, main.getCPUCoreFrequency" in found["profile-gone"].claim


def test_another_share_for_the_garbage_collector_is_told() -> None:
    found = by_code(said(changes([taken("before.cpu"), taken("after.cpu")])))
    assert found["profile-gc-changed"].claim == (
        "The garbage collector's share went from 7.6% to 12.6%. Doubling GOGC about halves its work; "
        "the price is memory: with 200 the heap grows to three times what is live, with the usual 100 to twice."
    )
    assert found["profile-unlike-program"].claim == "The programs differ: podwatch, podwatch-stripped."


def version(lists: int, name: str) -> SourcedProfile:
    """An hour in which `main.work`, which all samples go through, calls ListPods so often, and sleeps 1000 times."""
    writer = Writer("alloc_space", unit="bytes").function(1, "main.main").function(2, "main.work")
    writer.function(3, "main.ListPods").function(4, "encoding/json.Unmarshal")
    for number in range(1, 5):
        writer.location(number, number)
    mib = 1 << 20
    profile = writer.sample([4, 3, 2, 1], lists * mib).sample([2, 1], 1000 * mib).bytes()
    return SourcedProfile(read(profile), f"{name}.mem.pb.gz", name)


def test_a_change_is_told_by_the_deepest_function_that_explains_it_and_the_step_that_made_it() -> None:
    found = by_code(said(changes([version(1000, "v1"), version(1900, "v2"), version(3200, "v3")])))
    claim = found["profile-changed"].claim
    assert claim.startswith("main.ListPods 3.2x (1000MB → 3.12GB), 59% of it from v2.mem to v3.mem. alloc_space ")
    assert "main.main" not in claim
    assert "main.work" not in claim


def minute(query: int, collector: int, name: str) -> SourcedProfile:
    """A minute of CPU in `main.work` with and without `main.Query`, and in the garbage collector's worker."""
    writer = Writer("samples", "cpu/nanoseconds")
    for number, function in enumerate(("main.main", "main.work", "main.Query", "runtime.gcBgMarkWorker"), 1):
        writer.function(number, function).location(number, number)
    for stack, samples in (([3, 2, 1], query), ([2, 1], 300), ([4], collector)):
        writer.sample(stack, samples, samples * 10_000_000)
    profile = writer.raw(build.number(10, 60_000_000_000)).bytes()
    return SourcedProfile(read(profile), f"{name}.cpu.pb.gz", name)


def test_a_change_that_the_garbage_collector_makes_is_told_by_its_share() -> None:
    found = by_code(said(changes([minute(300, 80, "v1"), minute(300, 400, "v2"), minute(300, 420, "v3")])))
    claim = found["profile-changed"].claim
    assert claim.startswith("Garbage collection's share 3.5x (11.8% → 41.2%), 96% of it from v1.cpu to v2.cpu. CPU, ")


def test_functions_that_change_by_the_same_rate_are_told_by_the_deepest() -> None:
    found = by_code(said(changes([minute(100, 100, "v1"), minute(314, 100, "v2")])))
    assert found["profile-changed"].claim.startswith("main.Query 3.1x (")


def test_of_two_versions_there_is_one_step() -> None:
    found = by_code(said(changes([version(1000, "v1"), version(3200, "v2")])))
    assert found["profile-changed"].claim.startswith("main.ListPods 3.2x (1000MB → 3.12GB). alloc_space ")


def test_a_step_that_others_took_back_is_told_without_its_share() -> None:
    found = by_code(said(changes([version(1000, "v1"), version(4000, "v2"), version(2000, "v3")])))
    assert "main.ListPods 2x (1000MB → 1.95GB), mostly from v1.mem to v2.mem." in found["profile-changed"].claim


def test_a_mutex_profile_without_samples_says_why() -> None:
    (nothing,) = said(explain(made(Writer("contentions", "delay").bytes())))
    assert nothing.code == "profile-empty"
    assert "Go counts waiting only in programs that turn it on" in nothing.claim


def rate_limited() -> bytes:
    limiter = "k8s.io/client-go/util/flowcontrol.(*tokenBucketRateLimiter).Wait"
    caller = "github.com/Project-HAMi/HAMi/pkg/util/client.(*Client).PatchPod"
    writer = Writer("goroutine").function(1, "runtime.gopark").function(2, limiter).function(3, caller)
    writer.function(4, "main.idle")
    for number in range(1, 5):
        writer.location(number, number)
    return writer.sample([1, 2, 3], 40).sample([1, 4], 60).bytes()


def test_goroutines_in_the_rate_limiter_of_client_go_are_told_with_their_caller() -> None:
    found = by_code(said(explain(made(rate_limited()))))["profile-rate-limiter"]
    assert found.claim.startswith("40.0% of the goroutines is in client-go's rate limiter (--kube-qps, --kube-burst).")
    assert "client.(*Client).PatchPod" in found.claim


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("gc-background", "runtime.gcBgMarkWorker"),
        ("gc-assist", "runtime.gcAssistAlloc1"),
        ("allocation", "runtime.mallocgcSmallNoscan"),
        ("cgo", "runtime.cgocall"),
        ("locks", "internal/sync.(*Mutex).lockSlow"),
        ("json", "encoding/json/jsontext.(*Decoder).ReadValue"),
        ("json", "sigs.k8s.io/json.Unmarshal"),
        ("reflection", "reflect.Value.call"),
        ("logging", "k8s.io/klog/v2.(*loggingT).output"),
        ("list-storm", "k8s.io/client-go/tools/cache.(*Reflector).list"),
        ("regexp-compile", "regexp.MustCompile"),
        ("syscalls", "internal/runtime/syscall.Syscall6"),
        ("scheduler", "runtime.findRunnable"),
    ],
)
def test_each_hot_path_has_its_hint_with_the_nearest_own_caller(code: str, function: str) -> None:
    writer = Writer("samples", "cpu", unit="nanoseconds")
    for number, name in enumerate((function, "main.work", "main.other", "main.main"), 1):
        writer.function(number, name).location(number, number)
    ns = 10_000_000
    profile = writer.sample([1, 2, 4], 600, 600 * ns).sample([3, 4], 400, 400 * ns).bytes()
    found = by_code(said(explain(made(profile))))[f"profile-{code}"]
    assert found.claim.startswith("60.0% of")
    assert "main.work" in found.claim
    assert found.evidence[-1].quote.endswith("main.work")


def test_the_profiler_itself_is_no_hint() -> None:
    writer = Writer("contentions", "delay", unit="nanoseconds")
    for number, name in enumerate(("sync.(*Mutex).Lock", "net/http/pprof.Profile", "main.f"), 1):
        writer.function(number, name).location(number, number)
    found = said(explain(made(writer.sample([1, 2], 90, 90).sample([3], 10, 10).bytes())))
    assert "profile-lock-contention" not in {finding.code for finding in found}


def few(*types: str, seconds: int = 0) -> list[str]:
    """What is said of a profile of one sample, beside what stands out in it."""
    writer = (
        Writer(*types)
        .function(1, "main.f")
        .location(1, 1)
        .sample([1], *(3 * 512 * 1024 if kind == "inuse_space" else 3 for kind in types))
    )
    profile = writer.raw(build.number(10, seconds * 10**9)).bytes() if seconds else writer.bytes()
    return [found.claim for found in said(explain(made(profile))) if found.code == "profile-few-samples"]


def test_a_profile_of_few_samples_may_be_taken_for_longer_only_where_it_has_a_length() -> None:
    assert few("contentions", "delay", seconds=2) == [
        "Only about 3 samples: shares may be chance. Take a longer profile."
    ]
    assert few("inuse_objects", "inuse_space") == ["Only about 3 samples: shares may be chance."]


@pytest.mark.parametrize("kind", ["goroutine", "threadcreate"])
def test_what_is_counted_one_by_one_is_not_called_a_sample(kind: str) -> None:
    assert few(kind) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_can_be_said_in_every_language(language: str) -> None:
    say = Texts("zh" if language == "zh" else "en")
    for name in ONE:
        for kind in taken(name).profile.sample_types:
            said(explain(taken(name), sample_index_name=kind.type), say)
    for names in SEVERAL:
        said(changes([taken(name) for name in names]), say)


@pytest.mark.parametrize(
    ("function", "short"),
    [
        ("github.com/Project-HAMi/HAMi/pkg/scheduler.(*Scheduler).Filter", "scheduler.(*Scheduler).Filter"),
        ("main.main.func1", "main.main.func1"),
        ("slices.SortFunc[go.shape.[]github.com/x/y.T,go.shape.func bool]", "slices.SortFunc[…]"),
        ("a/b.(*L[go.shape.struct { x/y.Z }]).Get", "b.(*L[…]).Get"),
        ("x" * 5000, "x" * 59 + "…"),
        ("caf\udce9", "caf\\udce9"),
        ("", ""),
    ],
)
def test_names_are_short_enough_for_a_sentence(function: str, short: str) -> None:
    assert short_name(function) == short


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    rules = [rule for rules in hint_rules().values() for rule in rules]
    assert [rule.code for rule in rules if f"`profile-{rule.code}`" not in page] == []
