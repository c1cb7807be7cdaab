"""`status`: temporary changes that are open, and what they excuse."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.changes.record import KEY, Record, write_record
from tests.playbooks.status_support import ask, changed, healthy, only
from tests.playbooks.world import EXTENDER, Object, ago, codes, commands

RECORD = Record(
    v=1,
    id="c-1",
    target="hami-system/hami-scheduler",
    flag="profiling",
    container=EXTENDER,
    field="command",
    words_before=("scheduler",),
    words_after=("scheduler", "--profiling"),
    old="",
    new="true",
    means="patch",
    raised_at=ago(300),
    at=ago(-300),
    by="ada",
    because="filter runs are slow",
)


def marked(text: str, **fields: Any) -> list[Object]:
    """A healthy installation with that text under our key on the scheduler's Deployment."""
    return changed(healthy(**fields), "Deployment", lambda object_: object_["metadata"].update(annotations={KEY: text}))


def opened(objects_flags: tuple[str, ...] = (), **fields: Any) -> list[Object]:
    return marked(write_record(msgspec.structs.replace(RECORD, **fields)), flags=objects_flags)


def test_an_open_change_is_told_with_who_made_it_until_when_and_how_to_undo_it(tmp_path: Path) -> None:
    report = ask(tmp_path, opened())
    assert codes(report) == ["change-open", "healthy"]
    claim = only(report, "change-open").claim
    assert all(part in claim for part in ("--profiling", "ada", "filter runs are slow", "2026-11-21T05:05:00Z"))
    assert "profiling off" in commands(report)
    labels = [action.label for action in only(report, "change-open").next_actions]
    assert labels[0] == "Revert --profiling=true on vgpu-scheduler-extender now"


def test_a_change_that_nobody_undid_in_time_is_a_warning(tmp_path: Path) -> None:
    found = only(ask(tmp_path, opened(at=ago(120))), "change-open")
    assert found.severity == "warning"


def test_a_record_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    assert only(ask(tmp_path, marked("{")), "change-unreadable").severity == "warning"


@pytest.mark.parametrize(
    ("fields", "severity"),
    [({}, "info"), ({"at": ago(120)}, "warning"), ({"flag": "v", "new": "5"}, "warning")],
    ids=["open", "overdue", "of another flag"],
)
def test_profiles_are_needed_as_long_as_a_change_that_opened_them_is_open(
    tmp_path: Path, fields: dict[str, str], severity: str
) -> None:
    found = only(ask(tmp_path, opened(("--profiling",), **fields)), "pprof-exposed")
    assert found.severity == severity


def test_profiles_that_nobody_needs_are_told_with_what_closes_them(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(flags=["--profiling"]))
    assert "no open change needs it" in only(report, "pprof-exposed").claim
    assert commands(report) == ["kubectl -n hami-system edit deployment hami-scheduler"]


@pytest.mark.parametrize("bind", ["", "--profiling-bind-address=127.0.0.1:7070"])
def test_profiles_on_the_pods_loopback_are_open_to_nobody(tmp_path: Path, bind: str) -> None:
    image = "docker.io/projecthami/hami:v2.11.0"
    report = ask(tmp_path, healthy(flags=["--profiling", *filter(None, [bind])], image=image))
    assert "pprof-exposed" not in codes(report)
