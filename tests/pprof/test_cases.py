"""Every recorded case gives the text of `go tool pprof -top`, byte for byte."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.texts import in_english
from handlers.profiles.shell import answer
from tests.pprof.cases import DATA, PROFILES, Case, cases, combinations

PROTO = [case for case in cases() if not case.legacy]
COUNTED = "profile_tables_byte_for_byte"
LEGACY = [case for case in cases() if case.legacy]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("case", PROTO, ids=lambda case: case.name)
def test_the_text_is_that_of_the_real_tool(case: Case, record_property: Callable[[str, object], None]) -> None:
    assert answer(["top", *case.words]) == case.expected
    record_property(COUNTED, 1)


@pytest.mark.parametrize("case", combinations(), ids=lambda case: case.name)
def test_options_in_any_combination_give_the_text_of_the_real_tool(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    assert answer(["top", *case.words]) == case.expected
    record_property(COUNTED, 1)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ("list-Filter.txt", ["Filter|fitInDevices", str(PROFILES / "hami.profile-load.pb.gz")]),
        (
            "list-calcScore.txt",
            ["-sample_index=alloc_space", "calcScoreWithOptions", str(PROFILES / "hami.allocs.pb.gz")],
        ),
    ],
)
def test_a_list_with_the_source_is_that_of_the_real_tool(tmp_path: Path, expected: str, words: list[str]) -> None:
    text = (DATA / "expected" / expected).read_text(encoding="utf-8")
    for file, lines in _source_of(text).items():
        place = tmp_path / "build" / file.removeprefix("/build/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(lines.get(number, "") for number in range(1, max(lines) + 100)), encoding="utf-8")
    assert answer(["list", f"-source={tmp_path / 'build'}", *words]) == text.replace("in /build/", "in ")


def test_the_source_is_found_in_a_checkout_of_any_name(tmp_path: Path) -> None:
    """The profile was built in /build/svc; the file lies by the longest end of its path that is there."""
    (tmp_path / "mine" / "svc").mkdir(parents=True)
    (tmp_path / "mine" / "main.go").write_text("// of another program\n" * 500, encoding="utf-8")
    (tmp_path / "mine" / "svc" / "main.go").write_text("// ours\n" * 500, encoding="utf-8")
    listed = answer(["list", f"-source={tmp_path / 'mine'}", "^main.burn$", str(PROFILES / "before.cpu.pb.gz")])
    assert "// ours" in listed
    assert "of another program" not in listed


def _source_of(listed: str) -> dict[str, dict[int, str]]:
    """The files that a list shows, as far as it does."""
    found: dict[str, dict[int, str]] = {}
    file = ""
    for line in listed.splitlines():
        if line.startswith("ROUTINE"):
            file = line.rpartition(" in ")[2]
        elif shown := re.fullmatch(r" *\S+ +\S+ +(\d+):(.*)", line):
            found.setdefault(file, {})[int(shown[1])] = shown[2]
    return found


@pytest.mark.parametrize("case", LEGACY, ids=lambda case: case.name)
def test_a_profile_in_a_format_of_old_is_refused_with_what_to_do(case: Case) -> None:
    with pytest.raises(SourceError, match=r"not (a profile|profile\.proto)") as refused:
        answer(["top", *case.words])
    assert in_english(refused.value.hint)


def test_the_cases_out_of_reach_are_these() -> None:
    """Counted, so that none is lost: 49 of 54 are printed, 5 are refused."""
    assert len(PROTO) == 49
    assert [case.name for case in LEGACY] == [
        *("up-cppbench-cpu", "up-gobench-cpu", "up-gobench-heap", "up-java-cpu", "up-cppbench-contention"),
    ]
