"""What a foreign or a broken process sends gets a clear error or a correct answer, in bounded time and memory."""

import contextlib
import gzip
import tracemalloc
import zlib

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.errors import SourceError, UsageError
from bot.pprof.compare import explain_change
from bot.pprof.decode import LONGEST_TEXT, read
from bot.pprof.findings import SourcedProfile, explain
from bot.pprof.graph import Trim
from bot.pprof.listing import HAMI, SourceLinks, function_lines, listing
from bot.pprof.top import Options, top
from bot.report.tables import table_in_words
from bot.texts import Texts, in_english
from tests.pprof.build import SMALLEST, Writer, chain, data, number
from tests.pprof.cases import DATA, PROFILES
from tests.sampling import examples

CPU = (PROFILES / "before.cpu.pb.gz").read_bytes()
SMALL = [
    gzip.decompress((PROFILES / f"syn.{name}.pb.gz").read_bytes()) for name in ("inline", "recursion", "dropframes")
]


PLAIN = Options()


def rows(profile: bytes, options: Options = PLAIN) -> list[str]:
    """The lines below the table's heading."""
    text = top(read(profile), options=options)
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.split()[:2] == ["flat", "flat%"]) + 1 :]


def refusal(profile: bytes) -> SourceError:
    with pytest.raises(SourceError) as refused:
        top(read(profile))
    return refused.value


def message_of(profile: bytes) -> str:
    return in_english(refusal(profile).message)


def one(stack: list[int] = [1], *values: int, identity: int = 1, line: int = 1) -> Writer:  # noqa: B006  # only read
    return Writer().function(1, "f").location(identity, line).sample(stack, *values or (1,))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        *((CPU[:kept], "cut short") for kept in (2, 10, 1000, len(CPU) - 9, len(CPU) - 1)),
        (CPU[:2000] + b"\0" * 50 + CPU[2050:], "uncompressed"),
        (gzip.decompress(CPU)[:5000], "not a profile"),
        (b"", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),
        (gzip.compress(b"", mtime=0) * 2000, "empty"),
        (b"<!DOCTYPE html><html>Sign in</html>", "web page"),
        (b"goroutine profile: total 3\n1 @ 0x43a 0x44b\n", "text format"),
        (b"goroutine 1 [running]:\nmain.main()\n\t/app/main.go:7 +0x1d\n", "goroutines as text"),
        (one([9]).bytes(), "not in the profile"),
        (one([0]).bytes(), "not in the profile"),
        (one([5], identity=(1 << 64) - 1).bytes(), "not in the profile"),
        (one(line=4).bytes(), "function 4"),
        (Writer().function(1, "f").function(1, "g").bytes(), "several functions"),
        (Writer().function(1, "f").location(1, 1).location(1, 1).bytes(), "several locations"),
        (Writer().function(0, "f").bytes(), "reserved id 0"),
        (Writer().raw(data(5, number(1, 1) + number(2, 99))).bytes(), "string table"),
        (Writer().raw(number(14, -1)).bytes(), "string table"),
        (number(9, 5), "string table"),
        (data(6, b""), "missing sample type information"),
        (one([1], 1, 2).bytes(), "2 values for 1"),
        (Writer("a", "b").function(1, "f").location(1, 1).sample([1]).bytes(), "0 values for 2"),
    ],
)
def test_what_is_damaged_or_something_else_is_refused_by_name(sent: bytes, said: str) -> None:
    assert said in message_of(sent)


def test_a_gzip_bomb_is_stopped_at_the_limit() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match="more than 8 MiB"):
            read(bomb, limit=8 << 20)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def test_a_profile_in_several_gzip_members_is_read() -> None:
    plain = gzip.decompress(CPU)
    assert top(read(gzip.compress(plain[:4000]) + gzip.compress(plain[4000:]))) == top(read(CPU))


@pytest.mark.parametrize("name", ["gobench.heap", "cppbench.contention"])
def test_a_text_format_is_named(name: str) -> None:
    assert "text format" in message_of((DATA / "upstream" / name).read_bytes())


def test_without_a_cutoff_not_even_the_smallest_int64_is_left_out() -> None:
    writer = Writer().function(1, "f").function(2, "g").location(1, 1).location(2, 2)
    text = top(read(writer.sample([1], -(1 << 63)).sample([2], (1 << 63) - 1).bytes()))
    assert "Dropped" not in text
    assert [line.rpartition(" ")[2] for line in text.splitlines()[-2:]] == ["g", "f"]


@pytest.mark.parametrize("name", ["gobench.cpu", "cppbench.cpu", "java.cpu"])
def test_the_binary_format_of_old_is_named_with_what_to_do(name: str) -> None:
    told = refusal((DATA / "upstream" / name).read_bytes())
    assert "binary format" in in_english(told.message)
    assert "go tool pprof" in in_english(told.hint)


def test_ids_may_be_anywhere_below_2_to_the_64() -> None:
    largest = (1 << 64) - 1
    found = rows(Writer().function(largest, "f").location(largest, largest).sample([largest], 5).bytes())
    assert found == ["         5   100%   100%          5   100%  f"]


def test_values_at_the_ends_of_int64_wrap_as_in_go() -> None:
    one = Writer().function(1, "f").location(1, 1).sample([1], SMALLEST)
    assert "accounting for 0, 0% of -9223372036854775808 total" in top(read(one.bytes()))
    largest = (1 << 63) - 1
    two = Writer().function(1, "f").location(1, 1).sample([1], largest).sample([1], largest)
    assert rows(two.bytes())[0].split()[0] == "-2"


def test_a_profile_without_samples_has_no_rows() -> None:
    text = top(read(Writer().bytes()))
    assert "Showing nodes accounting for 0, 0% of 0 total" in text
    assert rows(Writer().bytes()) == []


def test_a_sample_without_a_stack_counts_for_the_total_alone() -> None:
    profile = Writer().function(1, "f").location(1, 1).sample([], 3).sample([1], 1).bytes()
    assert "1, 25.00% of 4 total" in top(read(profile))


def test_without_symbols_there_are_binaries() -> None:
    assert rows(Writer().location(1).location(2).sample([1, 2], 4).bytes()) == [
        "         4   100%   100%          4   100%  <unknown>"
    ]


def test_a_name_as_long_as_any_is_printed_whole_and_a_longer_one_cut() -> None:
    for extra, end in (("", "xx"), ("y", "x…")):
        name = f"main.{'x' * (LONGEST_TEXT - 5)}{extra}"
        row = rows(Writer().function(1, name).location(1, 1).sample([1], 1).bytes())[0]
        assert row.endswith(end)
        assert len(row.split()[-1]) == LONGEST_TEXT


def test_a_long_expression_of_frames_to_drop_is_not_cut() -> None:
    writer = Writer().function(1, "main.f").function(2, "drop.me").location(1, 1).location(2, 2).sample([2, 1], 1)
    writer.raw(number(7, writer.text("|".join(["nobody"] * 1000 + ["drop.me"]))))
    assert [row.split()[-1] for row in rows(writer.bytes())] == ["main.f"]


def test_a_name_that_is_no_utf_8_keeps_its_bytes() -> None:
    profile = Writer().function(1, b"caf\xe9").location(1, 1).sample([1], 1).bytes()
    assert rows(profile)[0].encode("utf-8", "surrogateescape").endswith(b"caf\xe9")


def test_a_stack_of_10_000_functions_is_counted() -> None:
    found = rows(chain(10_000).bytes(), Options(trim=Trim(cum=True)))
    assert len(found) == 10_000


def test_a_location_of_10_000_inlined_lines_is_read() -> None:
    writer = Writer()
    for function_id in range(1, 10_001):
        writer.function(function_id, f"f{function_id}")
    assert len(rows(writer.location(1, *range(1, 10_001)).sample([1], 1).bytes())) == 10_000


def test_patterns_of_the_profile_itself_take_linear_time() -> None:
    writer = Writer().function(1, "a" * 50_000 + "b").location(1, 1).sample([1], 1)
    assert len(rows(writer.raw(number(7, writer.text("(a+)+$"))).bytes())) == 1


def test_a_pattern_of_the_profile_that_cannot_be_read_is_refused() -> None:
    writer = Writer().function(1, "f").location(1, 1).sample([1], 1)
    assert "drop_frames" in message_of(writer.raw(number(7, writer.text("("))).bytes())


@pytest.mark.parametrize("pattern", ["(", "(?<x", "a{2000}", "(((a{100}){100}){100})"])
def test_a_pattern_that_cannot_be_read_is_a_usage_error(pattern: str) -> None:
    with pytest.raises(UsageError, match="parsing focus regexp"):
        top(read(CPU), options=Options(filters={"focus": pattern}))


def test_a_number_of_a_tag_may_be_too_large() -> None:
    top(read(CPU), options=Options(filters={"tagfocus": "9" * 5000}))


def test_more_sample_types_than_any_program_has_are_refused() -> None:
    assert "sample_type" in message_of(data(6, b"") + b"\x0a\x00" * 2000)


def everything_said(profile: bytes) -> None:
    """All that a person can ask about a profile."""
    one = SourcedProfile(read(profile), "a", "a")
    say = Texts("en")
    msgspec.json.encode(explain(one))
    findings, table = explain_change([one, one, one])
    msgspec.json.encode([findings, table_in_words(table, say)])
    ready = one.ready().profile
    listing(function_lines(ready, 0, "."), 1, "ns", source=None, link=SourceLinks(ready, {HAMI: "v2.9.0"}).link)


@pytest.mark.parametrize(
    "profile",
    [
        chain(3000).bytes(),
        Writer().function(1, b"caf\xe9").location(1, 1).sample([1], SMALLEST).bytes(),
        Writer("samples", "cpu").function(1, "f").location(1, 1).sample([1], SMALLEST, SMALLEST).bytes()
        + number(9, SMALLEST) + number(10, -1),
        Writer("alloc_objects", "alloc_space").function(1, "f").location(1, 1).sample([1], -5, 3).bytes()
        + number(10, 1),
        Writer("goroutine").function(1, "x" * 1_000_000).location(1, 1).sample([1], (1 << 63) - 1).bytes(),
        Writer("\udce9").function(1, "f").location(1, 1).sample([1], 0).bytes(),
        Writer("goroutine").location(1).sample([1], 500).sample([], 500).bytes(),
    ],
    ids=range(7),
)  # fmt: skip
def test_everything_can_be_asked_about_an_odd_profile(profile: bytes) -> None:
    with contextlib.suppress(UsageError):
        everything_said(profile)


EVERYTHING = Options(
    trim=Trim(cum=True, nodecount=5, lines=True, drop_negative=True),
    filters={"ignore": "zzz", "hide": "runtime", "show": "main|f", "tagfocus": "kind"},
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    profile=st.sampled_from(SMALL),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 60),
    options=st.sampled_from([Options(), EVERYTHING, Options(sample_index="0", unit="s")]),
)
@example(profile=SMALL[0], changes=[(0, 0)], cut=0, options=Options())
def test_changed_bytes_give_a_table_or_a_clear_error(
    profile: bytes, changes: list[tuple[int, int]], cut: int, options: Options
) -> None:
    damaged = bytearray(profile[: len(profile) - cut])
    for position, value in changes:
        damaged[position % len(damaged)] = value
    try:
        text = top(read(bytes(damaged)), options=options)
    except (SourceError, UsageError) as error:
        assert in_english(error.message)  # noqa: PT017  # either is right
        return
    assert "Showing nodes accounting for" in text
    with contextlib.suppress(SourceError, UsageError):
        everything_said(bytes(damaged))


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_table_or_a_clear_error(profile: bytes) -> None:
    for given_bytes in (profile, gzip.compress(profile)):
        try:
            top(read(given_bytes))
        except (SourceError, UsageError) as error:
            assert in_english(error.message)  # noqa: PT017  # either is right


def one_name_everywhere(locations: int) -> bytes:
    """A name of a megabyte that every location refers to, in a file of some kilobytes."""
    writer = Writer().function(1, b"f" * 1_000_000)
    for one in range(1, locations + 1):
        line = data(4, number(1, 1) + number(2, one))
        writer.raw(data(4, number(1, one) + number(3, one) + line)).sample([one], 1)
    return writer.bytes()


@pytest.mark.parametrize(
    "trim",
    [Trim(), Trim(lines=True, nodefraction=0.0), Trim(lines=True, nodecount=10, nodefraction=0.0)],
    ids=["all", "lines", "few"],
)
def test_a_name_of_a_megabyte_is_cut_and_never_copied_for_each_place(trim: Trim) -> None:
    profile = one_name_everywhere(1000)
    tracemalloc.start()
    try:
        text = top(read(profile), options=Options(trim=trim))
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
    assert max(map(len, text.splitlines())) < LONGEST_TEXT + 100
    assert "ff…" in text


def test_a_table_of_too_much_text_is_refused_and_its_first_rows_are_not() -> None:
    profile = one_name_everywhere(5000)
    with pytest.raises(SourceError, match="MiB of names") as refused:
        top(read(profile), options=Options(trim=Trim(lines=True, nodefraction=0.0)))
    assert "-nodecount=1000" in in_english(refused.value.hint)
    assert len(rows(profile, Options(trim=Trim(lines=True, nodecount=3, nodefraction=0.0)))) == 3


def test_the_lines_of_a_function_whose_name_is_long_are_refused_where_there_are_too_many() -> None:
    profile = one_name_everywhere(5000)
    ready = SourcedProfile(read(profile), "a", "a").ready().profile
    for function in ready.functions:
        function.filename = "/long/" + "d" * 4000
    with pytest.raises(SourceError, match="MiB of names"):
        listing(function_lines(ready, 0, "."), 1, "ns", source=None, link=SourceLinks(ready, {}).link)


def test_a_comment_that_is_repeated_is_refused() -> None:
    writer = Writer()
    comment = number(13, writer.text("c" * 100_000))
    assert "comments" in message_of(writer.raw(comment * 1000).function(1, "f").location(1, 1).sample([1], 1).bytes())
