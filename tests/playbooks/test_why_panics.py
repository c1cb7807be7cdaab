"""HAMi's extender panics when it is asked about a pod: by its log, or by how kube-scheduler's call ended."""

from pathlib import Path

import pytest

from tests.playbooks.world import (
    EXTENDER,
    HAMI,
    READY,
    Object,
    ago,
    answer,
    ask,
    bind_error,
    cause,
    cluster,
    codes,
    gpu_node,
    pod,
    quotes,
    record,
    scheduler,
)

RESET = 'Post "https://127.0.0.1:443/filter": stream error: stream ID 17; INTERNAL_ERROR; received from peer'
EOF = 'Post "https://127.0.0.1:443/filter": EOF'
BAD_STATUS = "failed filter with extender at URL https://127.0.0.1:443/filter, code 500"
BIND = 'Post "https://127.0.0.1:443/bind": EOF'
PANIC = "2026/11/21 04:59:40 http2: panic serving 127.0.0.1:49194: runtime error: index out of range [1] with length 1"
FATAL = "fatal error: concurrent map read and map write"
BEFORE = {f"{HAMI}/hami-scheduler-0/{EXTENDER}.previous": f"{FATAL}\n\ngoroutine 88 [running]:\n"}
REFUSED = 'Post "https://127.0.0.1:443/filter": dial tcp 127.0.0.1:443: connect: connection refused'
STACK = f"{PANIC}\ngoroutine 5398 [running]:\npanic({{0x1902880?, 0xc000ec17b8?}})\n\truntime/panic.go:914 +0x21f\n"


def ended(seconds: float, *, ready: bool) -> Object:
    """The status of a scheduler pod whose extender a panic ended."""
    last = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": ago(seconds)}}
    state = {"running": {"startedAt": ago(seconds - 1)}} if ready else {"waiting": {"reason": "CrashLoopBackOff"}}
    container = {"name": EXTENDER, "ready": ready, "restartCount": 3, "state": state, "lastState": last}
    return (READY if ready else {"phase": "Running"}) | {"containerStatuses": [container]}


@pytest.mark.parametrize("message", [RESET, EOF, BAD_STATUS, BIND], ids=["reset", "eof", "500", "bind"])
def test_a_call_that_broke_is_told_with_the_panic_in_the_log(tmp_path: Path, message: str) -> None:
    found = cause(report := ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message, 18))), logs=STACK))
    assert (found.code, found.severity, found.confidence) == ("scheduler-panic", "critical", "confirmed")
    assert "index out of range [1] with length 1" in report.verdict
    assert quotes(report) == [message, PANIC]


@pytest.mark.parametrize("message", [RESET, EOF], ids=["reset", "eof"])
def test_an_answer_that_broke_off_is_a_suspected_panic_without_the_log(tmp_path: Path, message: str) -> None:
    found = cause(ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message))), missing=["logs"]))
    assert (found.code, found.confidence) == ("scheduler-panic", "suspected")


@pytest.mark.parametrize("seconds", [300, 5], ids=["before it", "35 s after it"])
def test_a_panic_of_another_moment_is_only_suspected_of_an_answer_that_broke_off(
    tmp_path: Path, seconds: float
) -> None:
    found = cause(report := ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(EOF, seconds))), logs=STACK))
    assert (found.code, found.confidence) == ("scheduler-panic", "suspected")
    assert "index out of range" not in report.verdict
    assert PANIC in quotes(report)


@pytest.mark.parametrize("message", [BAD_STATUS, REFUSED], ids=["500", "refused"])
def test_a_panic_of_another_moment_stays_behind_a_call_that_got_no_answer(tmp_path: Path, message: str) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message, 300))), logs=STACK)
    assert [(finding.code, finding.severity) for finding in report.findings] == [
        ("scheduler-degraded", "critical"),
        ("scheduler-panic", "info"),
    ]


def test_a_panic_that_the_process_survived_is_not_why_nobody_listened(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(REFUSED, 19))), logs=STACK)
    assert codes(report)[0] == "scheduler-degraded"


@pytest.mark.parametrize(("seconds", "code"), [(90, "scheduler-panic"), (172_800, "scheduler-degraded")])
def test_nobody_listens_because_of_a_panic_only_until_the_process_is_started_again(
    tmp_path: Path, seconds: float, code: str
) -> None:
    objects = [*scheduler(statuses=[ended(seconds, ready=True)]), gpu_node(), pod(said=bind_error(REFUSED, 60))]
    assert codes(ask(tmp_path, objects, others=BEFORE))[0] == code


def test_a_call_that_nobody_answered_in_time_is_no_panic(tmp_path: Path) -> None:
    message = 'Post "https://127.0.0.1:443/filter": context deadline exceeded (Client.Timeout exceeded)'
    report = ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message))), logs=STACK)
    assert codes(report) == ["scheduler-degraded"]


def test_a_panic_about_another_pod_is_not_told_of_one_that_was_answered(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, cluster(gpu_node(), pod()), logs=STACK)) == ["waiting-for-retry"]


# ------------------------------------------------------------------------------------- a process that it ended


def test_a_panic_that_ended_the_extender_comes_before_the_scheduler_that_is_down(tmp_path: Path) -> None:
    objects = [*scheduler(statuses=[ended(30, ready=False)]), gpu_node(), pod(said=bind_error(REFUSED))]
    report = ask(tmp_path, objects, others=BEFORE)
    assert codes(report)[0] == "scheduler-panic"
    assert FATAL in quotes(report)
    told = answer("status", record(tmp_path, objects, others=BEFORE), {})
    assert codes(told)[:2] == ["scheduler-panic", "scheduler-down"]


def test_a_pod_that_fits_and_was_not_asked_about_since_the_panic_hears_of_it(tmp_path: Path) -> None:
    objects = [*scheduler(statuses=[ended(60, ready=True)]), gpu_node(), pod()]
    assert codes(ask(tmp_path, objects, others=BEFORE))[:1] == ["scheduler-panic"]


def test_a_panic_of_yesterday_is_no_cause(tmp_path: Path) -> None:
    objects = [*scheduler(statuses=[ended(80_000, ready=True)]), gpu_node(), pod()]
    assert codes(ask(tmp_path, objects, others=BEFORE)) == ["waiting-for-retry"]


def test_status_tells_a_panic_of_yesterday_as_long_as_the_log_of_that_run_is_kept(tmp_path: Path) -> None:
    objects = [*scheduler(statuses=[ended(80_000, ready=True)]), gpu_node(), pod()]
    told = answer("status", record(tmp_path, objects, others=BEFORE), {})
    (found,) = (found for found in told.findings if found.code == "scheduler-panic")
    assert (found.severity, FATAL in {proof.quote for proof in found.evidence}) == ("warning", True)
