"""Temporary changes from the shell: the command, a recorded cluster that rolls out for real."""

import asyncio
import contextlib
import json
import os
import pty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.changes.journal import ChangeEvent
from bot.changes.record import KEY, Record, read_record
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.store import open_store
from bot.texts import Texts
from sandbox.apiserver import Fault
from sandbox.apiserver.access import Access, Rule
from tests.cases_support import CASES
from tests.change_shell import NAME, NAMESPACE, Cluster, cluster, overdue, report_of
from tests.changes.deployments import KUBE_SCHEDULER
from tests.shell import hami_bot

pytestmark = pytest.mark.process

PROXY = "/proxy/debug/flags/v"
NO_STORE = f"{Texts('en')('changing.shell-no-store')}\n"


@contextmanager
def typed(text: str) -> Iterator[int]:
    """A terminal at which somebody has typed this."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, text.encode())
        yield theirs
    finally:
        os.close(theirs)
        with contextlib.suppress(OSError):
            os.close(ours)


def codes(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


@pytest.mark.parametrize("version", ["hami-2.5.1", "hami-2.10"])
def test_a_raise_takes_effect_and_its_revert_leaves_everything_as_it_was(version: str, tmp_path: Path) -> None:
    with cluster(tmp_path, version) as here:
        before = json.dumps(here.deployment["spec"])
        done = here.process("verbosity", "5", "for", "10m", "because", "a", "pod", "hangs", "--yes", "-o", "json")
        raised = report_of(done)
        assert codes(raised) == ["change-open"]
        assert raised["change"]["target"]["new"] == "5"
        assert raised["findings"][0]["evidence"][0]["quote"].endswith('FLAG: --v="5"')
        assert "revert it with: hami-bot verbosity revert" in done.stderr
        assert here.words()[-1] == "-v=5"
        record = json.loads(here.deployment["metadata"]["annotations"][KEY])
        assert (record["because"], record["old"], record["means"]) == ("a pod hangs", "4", "patch")

        assert codes(report_of(here.hami_bot("verbosity", "-o", "json"))) == ["change-open"]
        how = report_of(here.hami_bot("undo", "-o", "json"))
        assert codes(how) == ["change-open"]
        assert how["verdict"].endswith("To revert it now: hami-bot verbosity revert")
        longer = report_of(here.hami_bot("verbosity", "extend", "1h", "-o", "json"))
        assert longer["verdict"].startswith("1h longer: -v=5 is set")
        until = json.loads(here.deployment["metadata"]["annotations"][KEY])["at"]
        assert datetime.fromisoformat(until) - datetime.fromisoformat(record["at"]) == timedelta(hours=1)
        assert codes(report_of(here.hami_bot("verbosity", "revert", "-o", "json"))) == ["change-reverted"]
        assert json.dumps(here.deployment["spec"]) == before
        assert KEY not in here.deployment["metadata"]["annotations"]
        assert codes(report_of(here.hami_bot("revert", "-o", "json"))) == ["no-change-open"]


def test_what_the_restart_destroys_is_captured_before(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        (pod,) = here.pods
        done = here.hami_bot("verbosity", "5", "--yes")
        assert done.returncode == 0, done.stderr
        (out,) = tmp_path.glob("hami-capture-*.tar.gz")
        assert out.name in done.stderr
        captured = RecordedCluster.open(out)
        assert captured.files(f"logs/hami-system/{pod}/")
        assert json.loads(captured.read("objects/leases.coordination.k8s.io.json"))["items"]
        pods = json.loads(captured.read("objects/pods.json"))["items"]
        assert {pod["metadata"]["namespace"] for pod in pods} == {"hami-system"}


def test_without_a_capture_nothing_is_changed_unless_that_is_said(tmp_path: Path) -> None:
    with cluster(tmp_path, faults=[Fault(r"/log$", "status", status=403)]) as here:
        refused = here.hami_bot("verbosity", "5", "--yes")
        assert refused.returncode == 5
        assert "could not be captured" in refused.stderr
        assert "--no-capture" in refused.stderr
        assert here.writes() == []
        assert here.hami_bot("verbosity", "5", "--yes", "--no-capture").returncode == 0
        assert here.words()[-1] == "-v=5"


def test_kube_scheduler_is_set_without_a_restart_where_it_lets_itself(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        names = here.pods
        raised = report_of(here.hami_bot("verbosity", "5", "--container", "kube-scheduler", "--yes", "-o", "json"))
        assert raised["change"]["blast_radius"][0]["code"] == "no-restart"
        assert here.words(KUBE_SCHEDULER)[-1] == "-v=4"
        shown = report_of(here.hami_bot("verbosity", "-o", "json"))
        assert ["kube-scheduler", "-v", "5", "PUT /debug/flags/v"] in shown["tables"][0]["rows"]
        assert codes(report_of(here.hami_bot("verbosity", "revert", "-o", "json"))) == ["change-reverted"]
        assert here.pods == names
        sent = [
            request.body for request in here.server.requests if request.method == "PUT" and request.path.endswith(PROXY)
        ]
        assert sent == [b"5", b"4"]


def test_kube_scheduler_is_restarted_where_it_does_not(tmp_path: Path) -> None:
    with cluster(tmp_path, faults=[Fault(PROXY, "status", status=403)]) as here:
        raised = report_of(here.hami_bot("verbosity", "5", "--container", "kube-scheduler", "--yes", "-o", "json"))
        assert "pods-restart" in [impact["code"] for impact in raised["change"]["blast_radius"]]
        assert here.words(KUBE_SCHEDULER)[-1] == "-v=5"


def test_profiling_is_switched_on_and_off(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        before = here.words()
        assert codes(report_of(here.hami_bot("profiling", "on", "--yes", "-o", "json"))) == ["change-open"]
        assert here.words() == [*before, "--profiling=true"]
        refused = report_of(here.hami_bot("verbosity", "revert", "-o", "json"), 5)
        assert codes(refused) == ["change-refused"]
        assert refused["verdict"].startswith(
            "Not reverted: the open change is --profiling=true on vgpu-scheduler-extender"
        )
        assert "run `hami-bot profiling off`" in refused["verdict"]
        assert [action["command"] for action in refused["findings"][0]["next_actions"]] == ["profiling off"]
        assert refused["findings"][0]["evidence"][0]["quote"] == "--profiling=true"
        longer = report_of(here.hami_bot("verbosity", "extend", "10m", "-o", "json"), 5)
        assert longer["verdict"].startswith("Not extended: the open change is --profiling=true")
        assert "run `hami-bot profiling extend 10m`" in longer["verdict"]
        assert codes(report_of(here.hami_bot("profiling", "off", "-o", "json"))) == ["change-reverted"]
        assert here.words() == before


def test_where_there_is_nothing_to_do_nothing_is_written(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        assert codes(report_of(here.hami_bot("verbosity", "4", "--yes", "-o", "json"))) == ["already-enough"]
        for words in (("verbosity", "revert"), ("profiling", "off")):
            report = report_of(here.hami_bot(*words, "-o", "json"))
            assert codes(report) == ["no-change-open"]
            assert report["verdict"].startswith("Nothing to revert: no temporary change is open")
        longer = report_of(here.hami_bot("verbosity", "extend", "10m", "-o", "json"), 5)
        assert longer["verdict"].startswith("Nothing to extend: no temporary change is open")
        assert here.writes() == []


def test_nobody_to_ask_and_no_yes_changes_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        done = here.hami_bot("verbosity", "5")
        assert done.returncode == 2
        assert "--yes" in done.stderr
        assert here.writes() == []


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("verbosity", "99"), 5, "this bot sets at most 7"),
        (("verbosity", "5", "for", "10h"), 5, "a change lasts from 1m to 4h"),
        (("verbosity", "4"), 0, "Nothing to do"),
    ],
)
def test_what_cannot_be_done_is_told_before_a_yes_is_asked_for(
    words: Sequence[str], code: int, why: str, tmp_path: Path
) -> None:
    with cluster(tmp_path) as here:
        done = here.hami_bot(*words)
        assert done.returncode == code, done.stderr
        assert why in " ".join(done.stdout.split())
        assert "--yes" not in done.stderr


def test_a_recording_is_refused_before_a_yes_is_asked_for(tmp_path: Path) -> None:
    recording = str(CASES / "hami-2.10" / "recording.tar.gz")
    done = hami_bot("verbosity", "5", "for", "10m", "--recording", recording, folder=tmp_path)
    assert done.returncode == 2
    assert "a recording cannot be changed" in done.stderr
    reverted = hami_bot("verbosity", "revert", "--recording", recording, folder=tmp_path)
    assert (reverted.returncode, "Leave out --recording" in reverted.stderr) == (2, True)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 5)])
def test_a_person_is_shown_what_it_brings_and_asked(answer: str, code: int, tmp_path: Path) -> None:
    with cluster(tmp_path) as here, typed(answer) as terminal:
        done = here.process("verbosity", "5", stdin=terminal)
        assert done.returncode == code, done.stderr
        assert "1 pod restarts" in done.stderr
        assert "Do it? [y/N]" in done.stderr
        assert (here.words()[-1] == "-v=5") == (code == 0)


def test_somebody_who_may_not_is_told_before_anything_is_captured_or_asked(tmp_path: Path) -> None:
    with cluster(tmp_path, refused=[Rule(["patch"], ["deployments"])]) as here:
        done = here.hami_bot("verbosity", "5", "--yes")
        assert done.returncode == 4, done.stderr
        assert "nothing was changed" in done.stderr
        assert "grant patch on deployments" in done.stderr
        assert here.words()[-1] == "-v=4"
        assert not list(tmp_path.glob("hami-capture-*"))
        assert "pods restart" not in done.stderr


def test_who_may_list_deployments_of_one_namespace_alone_is_told_to_name_it(tmp_path: Path) -> None:
    granted = [Rule(["*"], ["*"], namespace=NAMESPACE)]
    with cluster(tmp_path) as here:
        here.server.access = Access(granted, [])
        done = here.hami_bot("revert-overdue")
        assert done.returncode == 3, done.stderr
        assert "--namespace" in done.stderr
        assert here.hami_bot("revert-overdue", "--namespace", NAMESPACE).returncode == 0


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        before = json.dumps(here.deployment)
        report = report_of(here.hami_bot("verbosity", "5", "--dry-run", "-o", "json"))
        assert codes(report) == ["change-planned"]
        assert report["change"]["patch"]
        assert here.writes() == []
        assert json.dumps(here.deployment) == before


def test_a_recording_is_looked_at_and_not_changed(tmp_path: Path) -> None:
    recording = str(CASES / "hami-2.10" / "recording.tar.gz")
    planned = report_of(
        hami_bot("profiling", "on", "--dry-run", "--recording", recording, "-o", "json", folder=tmp_path)
    )
    assert planned["change"]["target"]["flag"] == "profiling"
    done = hami_bot("verbosity", "5", "--yes", "--recording", recording, folder=tmp_path)
    assert done.returncode == 2
    assert "--dry-run" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_on_a_recording_prints_no_command_that_would_change_another_cluster(tmp_path: Path) -> None:
    recording = str(CASES / "hami-2.10" / "recording.tar.gz")
    done = hami_bot("verbosity", "5", "for", "10m", "--dry-run", "--recording", recording, folder=tmp_path)
    assert "so commands that change it are left out" in " ".join(done.stdout.split())
    assert "hami-bot verbosity" not in done.stdout


def test_what_is_overdue_is_undone_by_the_dead_mans_pass(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        before = json.dumps(here.deployment["spec"])
        nothing = here.hami_bot("revert-overdue")
        assert (nothing.returncode, nothing.stdout) == (0, f"no change is open\n{NO_STORE}")
        assert here.hami_bot("verbosity", "5", "--yes", "--no-capture").returncode == 0
        waiting = here.hami_bot("revert-overdue", "-n", "hami-system")
        assert (waiting.returncode, waiting.stdout) == (0, f"changes open: 1, nothing overdue\n{NO_STORE}")
        overdue(here)
        late = here.hami_bot("verbosity", "-o", "json")
        assert report_of(late)["severity"] == "warning"
        done = here.hami_bot("revert-overdue")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("reverted hami-system/hami-scheduler: ")
        assert json.dumps(here.deployment["spec"]) == before


def in_the_store(here: Cluster) -> str:
    """The change that is open is in a bot's store, and the record on the Deployment is removed; the bot's settings."""
    url = f"sqlite:///{here.folder}/bot.db"
    live = here.deployment
    record = read_record(live["metadata"]["annotations"][KEY])
    assert isinstance(record, Record)

    async def keep() -> None:
        async with open_store(url) as store:
            await store.changes("").note(ChangeEvent("raised", record.target, record, uid=live["metadata"]["uid"]))

    asyncio.run(keep())
    unrecorded(here)
    config = here.folder / "bot.yaml"
    config.write_text(f"store: {{url: '{url}'}}")
    return str(config)


def unrecorded(here: Cluster) -> None:
    async def edit() -> None:
        live = here.server.object("deployments.apps", NAMESPACE, NAME)
        annotations = {key: text for key, text in live["metadata"]["annotations"].items() if key != KEY}
        here.server.write("deployments.apps", live | {"metadata": live["metadata"] | {"annotations": annotations}})

    here.do(edit())


def test_an_overdue_change_whose_record_is_gone_is_undone_by_the_copy_in_the_store(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        before = json.dumps(here.deployment["spec"])
        assert here.hami_bot("verbosity", "5", "--yes", "--no-capture").returncode == 0
        overdue(here)
        config = in_the_store(here)
        without = here.hami_bot("revert-overdue")
        assert (without.returncode, without.stdout) == (0, f"no change is open\n{NO_STORE}")
        done = here.hami_bot("revert-overdue", "--config", config)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"reverted {NAMESPACE}/{NAME}: ")
        assert "the store's copy was used" in done.stdout
        assert json.dumps(here.deployment["spec"]) == before
        again = here.hami_bot("revert-overdue", "--config", config)
        assert (again.returncode, again.stdout) == (0, "no change is open\n")


def test_a_change_whose_record_is_gone_is_open_until_its_deadline(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        before = json.dumps(here.deployment["spec"])
        assert here.hami_bot("verbosity", "5", "--yes", "--no-capture").returncode == 0
        config = in_the_store(here)
        waiting = here.hami_bot("revert-overdue", "--config", config)
        assert waiting.returncode == 0
        assert "is damaged or gone; by the store's copy it is reverted at" in waiting.stdout
        assert "-v=5" in here.words()
        nothing = here.hami_bot("verbosity", "revert")
        assert "Nothing to revert" in nothing.stdout
        done = here.hami_bot("verbosity", "revert", "--config", config)
        assert "is 4 again. The record on the Deployment was damaged or gone" in " ".join(done.stdout.split())
        assert json.dumps(here.deployment["spec"]) == before


def test_a_store_that_cannot_be_read_is_said_and_what_is_due_undone_all_the_same(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        before = json.dumps(here.deployment["spec"])
        assert here.hami_bot("verbosity", "5", "--yes", "--no-capture").returncode == 0
        overdue(here)
        config = tmp_path / "bot.yaml"
        config.write_text(f"store: {{url: 'sqlite:///{tmp_path}/none.db'}}")
        done = here.hami_bot("revert-overdue", "--config", str(config))
        assert done.returncode == 5
        assert "the store could not be read (there is no store" in done.stdout
        assert json.dumps(here.deployment["spec"]) == before


def test_what_could_not_be_undone_ends_with_exit_code_5(tmp_path: Path) -> None:
    with cluster(tmp_path) as here:
        assert here.hami_bot("verbosity", "5", "--yes", "--no-capture").returncode == 0
        overdue(here)
        here.server.access.refused.append(Rule(["patch"], ["deployments"]))
        failed = here.hami_bot("revert-overdue")
        assert failed.returncode == 5
        assert failed.stdout.startswith("failed hami-system/hami-scheduler: ")


def test_a_cluster_that_cannot_be_listed_ends_with_exit_code_3(tmp_path: Path) -> None:
    with cluster(tmp_path, faults=[Fault(r"/deployments$", "status", status=500)]) as here:
        assert here.hami_bot("revert-overdue").returncode == 3
