"""Every recorded case gives the text of `go tool pprof -top`, byte for byte."""

import time
from collections.abc import Iterator

import pytest

from bot.errors import SourceError
from handlers.profiles.shell import answer
from tests.pprof.cases import Case, cases

PROTO = [case for case in cases() if not case.legacy]
LEGACY = [case for case in cases() if case.legacy]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("case", PROTO, ids=lambda case: case.name)
def test_the_text_is_that_of_the_real_tool(case: Case) -> None:
    assert answer(["top", *case.words]) == case.expected


@pytest.mark.parametrize("case", LEGACY, ids=lambda case: case.name)
def test_a_profile_in_a_format_of_old_is_refused_with_what_to_do(case: Case) -> None:
    with pytest.raises(SourceError, match=r"not (a profile|profile\.proto)") as refused:
        answer(["top", *case.words])
    assert refused.value.hint


def test_the_cases_out_of_reach_are_these() -> None:
    """Counted, so that none is lost: 49 of 54 are printed, 5 are refused."""
    assert len(PROTO) == 49
    assert [case.name for case in LEGACY] == [
        *("up-cppbench-cpu", "up-gobench-cpu", "up-gobench-heap", "up-java-cpu", "up-cppbench-contention"),
    ]
