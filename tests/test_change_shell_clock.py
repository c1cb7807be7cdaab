"""A shell on a machine whose clock is wrong: it raises nothing, and says so before it reads or captures anything."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.change_shell import cluster, report_of


def off_by(hours: int) -> Callable[[], datetime]:
    """The server's clock, so far ahead of this machine's."""
    return lambda: datetime.now(UTC) + timedelta(hours=hours)  # noqa: TID251  # a server's clock


@pytest.mark.parametrize(("hours", "told"), [(3, "3h behind the API server's"), (-3, "3h ahead of the API server's")])
def test_with_a_wrong_clock_a_raise_is_refused_before_anything_is_read(hours: int, told: str, tmp_path: Path) -> None:
    with cluster(tmp_path, "hami-2.10", clock=off_by(hours)) as here:
        done = here.hami_bot("verbosity", "5", "for", "1m", "because", "x", "--yes")
        assert done.returncode == 5
        assert told in done.stderr
        assert "NTP" in done.stderr
        assert {request.path for request in here.server.requests} == {"/version"}
        assert not list(tmp_path.glob("*.tar.gz"))


def test_a_wrong_clock_is_told_in_the_language_that_was_asked_for(tmp_path: Path) -> None:
    with cluster(tmp_path, "hami-2.10", clock=off_by(3)) as here:
        done = here.hami_bot("verbosity", "5", "for", "1m", "because", "x", "--yes", "--lang", "zh")
        assert "API server" in done.stderr
        assert "时钟" in done.stderr


def test_what_would_be_done_is_refused_by_the_clock_too(tmp_path: Path) -> None:
    with cluster(tmp_path, "hami-2.10", clock=off_by(3)) as here:
        shown = report_of(here.hami_bot("verbosity", "5", "for", "1m", "because", "x", "--dry-run", "-o", "json"))
        assert "behind the API server's" in shown["verdict"]
