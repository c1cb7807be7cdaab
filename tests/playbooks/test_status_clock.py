"""`status`: the clock of this machine is not the API server's."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.change_shell import cluster, report_of
from tests.playbooks.status_support import ask, healthy
from tests.playbooks.world import codes


def off_by(seconds: int) -> Callable[[], datetime]:
    """The server's clock, so far ahead of this machine's."""
    return lambda: datetime.now(UTC) + timedelta(seconds=seconds)  # noqa: TID251  # a server's clock


@pytest.mark.parametrize(
    ("seconds", "told"), [(10_803, "3h behind the API server's"), (-10_800, "3h ahead of the API server's")]
)
def test_a_wrong_clock_is_told_with_both_clocks_as_proof(seconds: int, told: str, tmp_path: Path) -> None:
    with cluster(tmp_path, "hami-2.10", clock=off_by(seconds)) as here:
        report = report_of(here.hami_bot("status", "-o", "json"))
        (found,) = [finding for finding in report["findings"] if finding["code"] == "clock-skew"]
        assert told in found["claim"]
        assert found["severity"] == "warning"
        (proof,) = found["evidence"]
        assert proof["quote"].startswith("Date: ")
        assert " GMT; this machine's clock: 2" in proof["quote"]
        chinese = here.hami_bot("status", "--all", "--lang", "zh").stdout
        assert "时钟比 API server" in chinese


def test_a_clock_that_is_nearly_right_is_no_finding(tmp_path: Path) -> None:
    with cluster(tmp_path, "hami-2.10", clock=off_by(50)) as here:
        report = report_of(here.hami_bot("status", "-o", "json"))
        assert "clock-skew" not in [finding["code"] for finding in report["findings"]]


def test_a_recording_has_no_clock_that_could_be_wrong(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, healthy())) == ["healthy"]
