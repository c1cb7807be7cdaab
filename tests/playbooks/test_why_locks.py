"""Pods that the filter let through: locked nodes, refused binds, pods held elsewhere, and pods waiting for a retry."""

from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import (
    LOCK,
    Object,
    ago,
    answer,
    ask,
    bind_error,
    cause,
    cluster,
    codes,
    commands,
    event,
    given,
    gpu_node,
    none_of,
    pod,
    quotes,
    record,
    refused,
    running,
    scheduler,
)

CONTENTION = bind_error("node gpu-1 has been locked within 5m0s", 20)
RESERVED = given("gpu-1", ("GPU-gpu-1", 1000, 0))


def locked(value: str, version: str, name: str = "gpu-1") -> Object:
    return gpu_node(name, text=version < "2.8" and version != "2.10.0", annotations={LOCK: value})


def bound(**status: object) -> Object:
    """The lock's owner."""
    return pod("other", nodeName="gpu-1", status=status)


def refused_by(tmp_path: Path, value: str, version: str, *owners: Object) -> Report:
    """A pod whose Bind was refused because of a lock that the node still has."""
    waiting = pod(annotations=RESERVED, said=CONTENTION)
    return ask(tmp_path, cluster(locked(value, version), *owners, waiting, version=version))


def served(phase: str = "success", *, started: bool = True) -> Object:
    """The lock's owner, once its GPUs were allocated."""
    states = [{"name": "main", "state": {"running": {"startedAt": ago(50)}}}] if started else []
    status = {"phase": "Running" if started else "Pending", "containerStatuses": states}
    return pod("other", nodeName="gpu-1", annotations={"hami.io/bind-phase": phase}, status=status)


# -------------------------------------------------------------------------------------------- held, dangling


@pytest.mark.parametrize("version", ["2.6.1", "2.10.0"])
def test_a_lock_whose_owner_runs_with_its_gpus_was_left_behind(tmp_path: Path, version: str) -> None:
    report = refused_by(tmp_path, f"{ago(60)},ml,other", version, served())
    found = cause(report)
    assert (found.code, found.confidence, found.scope.nodes) == ("node-lock-dangling", "confirmed", ("gpu-1",))
    assert "gpu-1 is still locked for ml/other, which already has its GPUs" in report.verdict
    assert {"Running", "success"} <= set(quotes(report))
    wait, release = found.next_actions  # no upgrade: its allocation did not fail
    assert (wait.label.startswith("Wait until "), release.changes_cluster) == (True, True)


@pytest.mark.parametrize(("phase", "started"), [("success", False), ("allocating", True)])
def test_one_sign_that_the_owner_has_its_gpus_counts_once_the_lock_is_older_than_an_allocation_takes(
    tmp_path: Path, phase: str, started: bool
) -> None:
    lock = {
        age: refused_by(tmp_path, f"{ago(age)},ml,other", "2.10.0", served(phase, started=started)) for age in (2, 60)
    }
    assert {age: codes(report)[0] for age, report in lock.items()} == {2: "node-lock-held", 60: "node-lock-dangling"}


@pytest.mark.parametrize("version", ["2.6.1", "2.7.1", "2.10.0"])
def test_a_lock_with_a_live_owner_is_held(tmp_path: Path, version: str) -> None:
    report = refused_by(tmp_path, f"{ago(40)},ml,other", version, bound())
    found = cause(report)
    assert (found.code, found.confidence, found.scope.nodes) == ("node-lock-held", "confirmed", ("gpu-1",))
    assert "ml/other is being placed on gpu-1 and locked the node 40 s ago" in report.verdict
    assert not any(action.changes_cluster for action in found.next_actions)


@pytest.mark.parametrize(
    ("version", "claim"), [("2.6.1", "keeps the lock until"), ("2.7.1", "the next bind releases the lock")]
)
def test_a_lock_whose_owner_is_gone_dangles(tmp_path: Path, version: str, claim: str) -> None:
    report = refused_by(tmp_path, f"{ago(40)},ml,other", version)
    assert codes(report) == ["node-lock-dangling"]
    assert claim in report.verdict
    assert "kubectl annotate node gpu-1 hami.io/mutex.lock-" in commands(report)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("version", ["2.6.1", "2.10.0"])
def test_a_lock_whose_owner_has_finished_is_kept_until_it_expires(tmp_path: Path, version: str, phase: str) -> None:
    report = refused_by(tmp_path, f"{ago(40)},ml,other", version, bound(phase=phase))
    assert codes(report) == ["node-lock-dangling"]
    assert "keeps the lock until 2026-11-21T05:04:20Z" in report.verdict


def test_a_lock_past_its_expiry_dangles_even_with_a_live_owner(tmp_path: Path) -> None:
    report = refused_by(tmp_path, f"{ago(400)},ml,other", "2.10.0", bound())
    assert codes(report) == ["node-lock-dangling"]
    assert "expired at 2026-11-21T04:58:20Z" in report.verdict


@pytest.mark.parametrize(("timeout", "code"), [("10m", "node-lock-held"), ("1m30s", "node-lock-dangling")])
def test_the_scheduler_s_own_lock_timeout_counts(tmp_path: Path, timeout: str, code: str) -> None:
    install = scheduler(flags=[f"--node-lock-timeout={timeout}"])
    node = locked(f"{ago(400)},ml,other", "2.10.0")
    report = ask(tmp_path, [*install, node, bound(), pod(annotations=RESERVED, said=CONTENTION)])
    assert codes(report) == [code]


def test_an_owner_that_cannot_be_read_is_not_called_gone(tmp_path: Path) -> None:
    owner = bound()
    owner["metadata"]["annotations"] = {"a": 5}
    report = refused_by(tmp_path, f"{ago(40)},ml,other", "2.10.0", owner)
    assert (codes(report), cause(report).confidence) == (["node-lock-held"], "suspected")
    assert "but was not found" in report.verdict
    assert "lock owner" in [gap.source for gap in report.gaps]
    assert "kubectl -n ml get pod other" in commands(report)


def test_of_many_locks_each_owner_is_read(tmp_path: Path) -> None:
    nodes = [locked(f"{ago(120)},ml,gone-{i}", "2.10.0", f"gpu-{i:03}") for i in range(25)]
    waiting = pod(said=bind_error("node gpu-024 has been locked within 5m0s: node lock contention"))
    recorded = record(tmp_path, cluster(*nodes, waiting))
    for verb, words in (("why", {"pod": "ml/wl"}), ("pending", {})):
        report = answer(verb, recorded, {}, **words)
        assert (codes(report), cause(report).scope.nodes) == (["node-lock-dangling"], ("gpu-024",))
        assert cause(report).confidence == "confirmed"


def test_a_lock_on_a_node_that_kubernetes_drops_now_is_judged_by_its_owner_too(tmp_path: Path) -> None:
    node = locked(f"{ago(40)},ml,other", "2.10.0")
    node["spec"]["unschedulable"] = True
    report = ask(tmp_path, cluster(node, bound(), pod(annotations=RESERVED, said=CONTENTION)))
    assert codes(report) == ["node-lock-held"]


def test_a_refusal_by_a_lock_that_is_gone_now_will_pass(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=CONTENTION)))
    assert (codes(report), report.severity) == (["node-lock-held"], "info")
    assert "gone now" in report.verdict


def test_a_refusal_by_a_lock_on_a_node_that_could_not_be_seen_is_suspected(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=CONTENTION)), missing=["nodes"])
    assert (codes(report), cause(report).confidence) == (["binding-failed"], "suspected")


TIMEOUT = bind_error(
    'Post "https://127.0.0.1:443/bind": context deadline exceeded (Client.Timeout exceeded while awaiting headers)', 20
)


def test_a_bind_that_ran_out_of_time_is_told_so(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=TIMEOUT)))
    assert codes(report) == ["binding-failed"]
    assert "did not bind the pod in the time that kube-scheduler waits" in report.verdict


def test_a_bind_that_ran_out_of_time_at_a_lock_that_was_left_behind_is_told_with_the_lock(tmp_path: Path) -> None:
    objects = cluster(locked(f"{ago(60)},ml,other", "2.10.0"), served(), pod(annotations=RESERVED, said=TIMEOUT))
    found = cause(ask(tmp_path, objects))
    assert (found.code, found.confidence, found.scope.nodes) == ("node-lock-dangling", "suspected", ("gpu-1",))


def test_an_event_about_contention_counts_like_the_condition(tmp_path: Path) -> None:
    waiting = pod(annotations=RESERVED)
    told = event(waiting, "BindingFailed", "node gpu-1 has been locked within 5m0s: node lock contention", 20)
    report = ask(tmp_path, cluster(locked(f"{ago(40)},ml,other", "2.10.0"), bound(), waiting, told))
    assert (codes(report), cause(report).confidence) == (["node-lock-held"], "confirmed")


def test_a_member_of_a_pod_group_that_timed_out_waiting_is_held_too(tmp_path: Path) -> None:
    said = bind_error("timed out after 28s waiting for node gpu-1 to be unlocked: node lock contention")
    report = ask(tmp_path, cluster(locked(f"{ago(40)},ml,other", "2.10.0"), bound(), pod(said=said)))
    assert codes(report) == ["node-lock-held"]


# ------------------------------------------------------------------------------------------------ malformed


def test_a_lock_of_two_parts_is_malformed_in_every_version(tmp_path: Path) -> None:
    said = {"2.7.1": 'parsing time "2026"', "2.8.1": "malformed lock annotation: expected 3 parts, got 2 from x"}
    for version, message in said.items():
        waiting = pod(annotations=RESERVED, said=bind_error(message))
        report = ask(tmp_path / version, cluster(locked(f"{ago(40)},ml", version), waiting, version=version))
        assert codes(report) == ["node-lock-malformed"]
        assert f"{ago(40)},ml" in report.verdict
        assert any(action.changes_cluster for action in cause(report).next_actions)


def test_an_expired_bare_time_is_noise(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(locked(ago(400), "2.6.1"), pod(), version="2.6.1"))
    assert codes(report) == ["waiting-for-retry", "node-lock-dangling"]


# --------------------------------------------------------------------------------- locks without a refused bind


def test_of_a_lock_that_names_no_pod_the_lock_itself_is_looked_at(tmp_path: Path) -> None:
    steps = cause(refused_by(tmp_path, ago(100), "2.5.0")).next_actions
    assert "{.metadata.annotations.hami\\.io/mutex\\.lock}" in steps[1].command
    assert not any("get pod" in one.command for one in steps)


def test_live_locks_on_every_node_with_room_are_suspected(tmp_path: Path) -> None:
    nodes = [locked(f"{ago(40)},ml,other", "2.10.0", name) for name in ("gpu-1", "gpu-2")]
    report = ask(tmp_path, cluster(*nodes, bound(), pod()))
    assert (codes(report), cause(report).confidence) == (["node-lock-held"], "suspected")
    assert cause(report).scope.nodes == ("gpu-1", "gpu-2")


def test_one_node_with_room_and_no_lock_is_enough(tmp_path: Path) -> None:
    nodes = locked(f"{ago(40)},ml,other", "2.10.0"), gpu_node("gpu-2")
    assert codes(ask(tmp_path, cluster(*nodes, bound(), pod()))) == ["waiting-for-retry"]


@pytest.mark.parametrize(("value", "owners"), [(f"{ago(40)},ml,other", []), (f"{ago(400)},ml,other", [bound()])])
def test_a_leftover_lock_that_the_next_bind_frees_keeps_nobody_out(
    tmp_path: Path, value: str, owners: list[Object]
) -> None:
    report = ask(tmp_path, cluster(locked(value, "2.10.0"), *owners, pod()))
    assert codes(report) == ["waiting-for-retry", "node-lock-dangling"]
    assert report.severity == "info"


def test_a_leftover_lock_that_2_6_keeps_is_suspected(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(locked(f"{ago(40)},ml,other", "2.6.1"), pod(), version="2.6.1"))
    assert (codes(report), cause(report).confidence) == (["node-lock-dangling"], "suspected")


# -------------------------------------------------------------------------------------- bind, and held elsewhere


@pytest.mark.parametrize(
    "message",
    [
        'Operation cannot be fulfilled on pods "wl": the object has been modified',
        "failed to get node gpu-z",
        'binding rejected: pods "wl" is forbidden: User "x" cannot patch resource "pods"',
    ],
)
def test_a_bind_that_failed_otherwise_is_no_lock(tmp_path: Path, message: str) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(annotations=RESERVED, said=bind_error(message))))
    assert (codes(report), cause(report).confidence) == (["binding-failed"], "confirmed")
    assert message in report.verdict
    assert "logs hami-scheduler-0 -c vgpu-scheduler-extender" in commands(report)[0]


@pytest.mark.parametrize(
    "message",
    [
        "find fit node(gpu-1), 0 nodes not fit, 1 nodes fit(gpu-1:0.00)",
        "Successfully filtered to following nodes: [gpu-1] for ml/wl ",
    ],
)
@pytest.mark.parametrize("annotations", [RESERVED, {}], ids=["reserved", "bare"])
def test_a_pod_that_was_filtered_and_not_bound_is_held_elsewhere(
    tmp_path: Path, message: str, annotations: Object
) -> None:
    waiting = pod(annotations=annotations)
    report = ask(tmp_path, cluster(gpu_node(), waiting, event(waiting, "FilteringSucceed", message)))
    assert codes(report) == ["blocked-after-filter"]
    assert "HAMi chose gpu-1" in report.verdict


def test_a_filter_run_newer_than_the_condition_counts(tmp_path: Path) -> None:
    waiting = pod(annotations=RESERVED, said=refused(none_of(1, "1 1/1 CardInsufficientMemory"), 600))
    passed = event(waiting, "FilteringSucceed", "find fit node(gpu-1), 0 nodes not fit, 1 nodes fit(gpu-1:0.00)", 20)
    assert codes(ask(tmp_path, cluster(gpu_node(), waiting, passed))) == ["blocked-after-filter"]


# ------------------------------------------------------------------------------------------------- retry


def test_a_pod_that_fits_now_is_told_when_it_is_tried_next(tmp_path: Path) -> None:
    waiting = pod(said=refused(none_of(1, "1 1/1 CardInsufficientMemory"), 60))
    report = ask(tmp_path, cluster(gpu_node(), waiting))
    assert (codes(report), report.severity) == (["waiting-for-retry"], "info")
    tried, due = "2026-11-21T04:59:00Z", "2026-11-21T05:04:00Z"
    assert f"what kept it out at {tried} is no longer seen. The next attempt is due by {due}" in report.verdict


def test_a_retry_that_is_overdue_is_a_warning_and_points_at_the_log(tmp_path: Path) -> None:
    waiting = pod(age=4000, said=refused(none_of(1, "1 1/1 CardInsufficientMemory"), 900))
    report = ask(tmp_path, cluster(gpu_node(), waiting))
    assert (codes(report), report.severity) == (["waiting-for-retry"], "warning")
    assert "no attempt was seen since 2026-11-21T04:45:00Z" in report.verdict
    assert len(commands(report)) == 1


def test_a_repeated_event_tells_the_last_try_better_than_the_condition(tmp_path: Path) -> None:
    message = none_of(1, "1 1/1 CardInsufficientMemory")
    waiting = pod(age=4000, said=refused(message, 3600))
    series = {"series": {"count": 12, "lastObservedTime": ago(30)}}
    report = ask(tmp_path, cluster(gpu_node(), waiting, event(waiting, "FailedScheduling", message, 3600, **series)))
    assert "last at 2026-11-21T04:59:30Z" in report.verdict


def test_a_young_pod_that_nobody_tried_yet_just_waits(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(age=20)))
    assert (codes(report), report.severity) == (["waiting-for-retry"], "info")
    assert "no scheduling attempt was seen yet" in report.verdict


def test_an_old_pod_that_nobody_ever_tried_is_a_warning(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(age=1800)))
    assert (codes(report), report.severity) == (["waiting-for-retry"], "warning")
    assert "no scheduler has tried it since its creation at 2026-11-21T04:30:00Z" in report.verdict
    assert ago(1800) in quotes(report)


def test_another_pod_s_reservation_stands_in_the_way_until_it_is_given_up(tmp_path: Path) -> None:
    other = pod("other", annotations=given("gpu-1", ("GPU-gpu-1", 16000, 0)), labels={"hami.io/vgpu-node": "gpu-1"})
    assert codes(ask(tmp_path, cluster(gpu_node(), other, pod()))) == ["card-insufficient-memory"]


def test_a_pod_that_is_going_away_still_holds_its_cards(tmp_path: Path) -> None:
    leaving = running("leaving", "gpu-1", ("GPU-gpu-1", 16000, 0), deleted=ago(5))
    report = ask(tmp_path, cluster(gpu_node(), leaving, pod()))
    assert codes(report) == ["card-insufficient-memory"]
    assert any("Wait for ml/leaving to finish" in action.label for action in cause(report).next_actions)


LATE = 'Post "https://127.0.0.1:443/bind": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'


@pytest.mark.parametrize("verb", ["latency", "tune"])
@pytest.mark.parametrize(("version", "of_lock"), [("2.5.1", True), ("2.10.0", False)])
def test_many_binds_that_time_out_are_counted_together_with_the_version_s_lock(
    tmp_path: Path, verb: str, version: str, *, of_lock: bool
) -> None:
    late = [pod(f"wl-{number}", said=bind_error(LATE)) for number in range(4)]
    other = pod("other", said=bind_error("node gpu-1 has been locked within 5m0s"))
    report = answer(verb, record(tmp_path, [*scheduler(version), gpu_node(), *late, other]), {})
    first = report.findings[0]
    assert first.code == "binding-failed"
    assert first.claim.startswith("4 pods wait")
    assert ("one lock in the scheduler" in first.claim) is of_lock
    assert any("Upgrade HAMi" in action.label for action in first.next_actions) is of_lock
    assert first.next_actions


def test_one_bind_that_timed_out_is_no_news_of_the_cluster(tmp_path: Path) -> None:
    report = answer("latency", record(tmp_path, [*scheduler("2.5.1"), gpu_node(), pod(said=bind_error(LATE))]), {})
    assert "binding-failed" not in codes(report)
