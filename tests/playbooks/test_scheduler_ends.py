"""Why HAMi's scheduler is down or leads nobody: the end of its containers and the last words of their logs."""

from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks import status_support
from tests.playbooks.node_side_support import crashing
from tests.playbooks.world import (
    EXTENDER,
    HAMI,
    READY,
    Object,
    ago,
    ask,
    bind_error,
    cause,
    cluster,
    codes,
    gpu_node,
    pod,
    quotes,
    refused,
    scheduler,
)

POD = f"{HAMI}/hami-scheduler-0"
LOG, BEFORE = f"{POD}/{EXTENDER}", f"{POD}/{EXTENDER}.previous"
KUBE_LOG = f"{POD}/kube-scheduler"
PORT = (
    "F1121 04:59:29.123456       1 main.go:128] listen and Serve error, listen tcp 0.0.0.0:443: bind: address already "
    "in use"
)
STACK = "goroutine 1 [running]:\nk8s.io/klog/v2/internal/dbg.Stacks(0x0)"
CONFIG = (
    "F1121 04:59:29.123456       1 config.go:190] Failed to load device config file /device-config.yaml: error "
    "unmarshaling YAML: yaml: unmarshal errors:"
)
NO_LIBRARY = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "error running prestart hook #0: exit status 1, stdout: , stderr: nvidia-container-cli: initialization error: load "
    "library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown"
)
FORBIDDEN = (
    "E1121 04:59:30.123456       1 leaderelection.go:441] error retrieving resource lock hami-system/hami-scheduler: "
    'leases.coordination.k8s.io "hami-scheduler" is forbidden: User "system:serviceaccount:hami-system:hami-scheduler" '
    'cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "hami-system"'
)
TIMED_OUT = (
    "E1121 04:59:30.123456       1 leaderelection.go:441] error retrieving resource lock hami-system/hami-scheduler: "
    'Get "https://10.96.0.1:443/apis/coordination.k8s.io/v1/leases": context deadline exceeded'
)
UNDECODED = 'E1121 04:59:00.123456       1 route.go:66] "Failed to decode extender arguments" err="unexpected EOF"\n'


def down(state: Object) -> Object:
    """The status of a scheduler pod whose extender does not work."""
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status: [x]"}],
        "containerStatuses": [KUBE, {"name": EXTENDER} | state],
    }


def asked(tmp_path: Path, verb: str, statuses: tuple[Object, ...], others: dict[str, str], **fields: object) -> Report:
    if verb == "why":
        objects = [*scheduler(statuses=statuses, **fields), gpu_node(), pod()]
        return ask(tmp_path, objects, others=others, missing=["logs"])
    objects = status_support.healthy(statuses=statuses, **fields)
    return status_support.ask(tmp_path, objects, others=others, missing=["logs"])


FLAG = "Error: unknown flag: --default-mem\nUsage:\n  scheduler [flags]\n"
UNKNOWN = "F1121 04:59:29.123456       1 main.go:9] some [new] way: x"
REQUIRED = 'Error: required flag(s) "device-plugin-namespace" not set'
FORMAT = "exec /usr/bin/scheduler: exec format error"
KUBE = {"name": "kube-scheduler", "ready": True, "state": {"running": {"startedAt": ago(9000)}}}
UP = READY | {"containerStatuses": [KUBE, *READY["containerStatuses"]]}
BOTH = pytest.mark.parametrize("verb", ["why", "status"])


@BOTH
@pytest.mark.parametrize(
    ("state", "others", "said"),
    [
        (crashing(255), {LOG: f"{PORT}\n{STACK}\n"}, ("Another process on the node listens", PORT)),
        (crashing(255), {BEFORE: f"{PORT}\n{STACK}\n"}, ("Another process on the node listens", PORT)),
        (crashing(1), {LOG: FLAG}, ("does not know a flag", "unknown flag: --default-mem")),
        (
            crashing(255),
            {LOG: f"{CONFIG}\n  line 14: cannot unmarshal\n{STACK}\n"},
            ("device config", "line 14: cannot"),
        ),
        (crashing(128, message=NO_LIBRARY, reason="StartError"), {}, ("needs no GPU", "libnvidia-ml.so.1")),
        (crashing(137, reason="OOMKilled"), {}, ("OOMKilled, exit code 137", "OOMKilled")),
        (crashing(128, message="exec: not found", reason="StartError"), {}, ("StartError: exec: not", "exec: not")),
        (crashing(255), {LOG: f"{UNKNOWN}\n{STACK}\n"}, ("Its last error: some [new] way: x.", UNKNOWN)),
        (
            crashing(1),
            {LOG: f"{REQUIRED}\nUsage:\n  scheduler [flags]\n\nFlags:\n  -v\n"},
            ("Its last error: required flag(s)", REQUIRED),
        ),
        (crashing(255), {LOG: f"{FORMAT}\n"}, (f"The last line of its log: {FORMAT}.", FORMAT)),
        (
            crashing(1),
            {LOG: "I1121 04:59:29.123456       1 main.go:60] listen on 0.0.0.0:443\n"},
            ("(exit code 1)", "1"),
        ),
    ],
)
def test_a_scheduler_that_keeps_ending_says_why(
    tmp_path: Path, verb: str, state: Object, others: dict[str, str], said: tuple[str, str]
) -> None:
    told, quoted = said
    report = asked(tmp_path, verb, (down(state),), others)
    assert codes(report)[0] == "scheduler-down"
    assert told in cause(report).claim
    assert "CrashLoopBackOff" in report.verdict
    assert any(quoted in quote for quote in quotes(report))


def test_a_log_that_cannot_be_read_is_a_gap_and_the_exit_is_told_all_the_same(tmp_path: Path) -> None:
    report = asked(tmp_path, "why", (down(crashing(255)),), {})
    assert "exit code 255" in cause(report).claim
    assert any(EXTENDER in gap.source for gap in report.gaps)


def test_the_run_that_ended_is_quoted_and_not_the_one_that_just_began(tmp_path: Path) -> None:
    state = crashing(255) | {"state": {"running": {"startedAt": ago(3)}}}
    others = {LOG: "I1121 04:59:57.123456       1 main.go:60] listen on\n", BEFORE: f"{PORT}\n"}
    report = asked(tmp_path, "why", (down(state),), others)
    assert "Another process" in report.verdict
    assert "--previous" in cause(report).evidence[0].command


def test_the_log_of_a_scheduler_that_works_is_not_read_for_its_end(tmp_path: Path) -> None:
    report = asked(tmp_path, "status", (READY,), {LOG: f"{PORT}\n"})
    assert codes(report) == ["healthy"]


@BOTH
@pytest.mark.parametrize(
    ("line", "told"),
    [(FORBIDDEN, "The API server refuses the scheduler access to its lease"), (TIMED_OUT, "context deadline exceeded")],
)
def test_without_a_leader_kube_scheduler_says_why(tmp_path: Path, verb: str, line: str, told: str) -> None:
    report = asked(tmp_path, verb, (UP,), {KUBE_LOG: f"{line}\nI1121 04:59:31.1 1 x.go:1] more\n"}, renewed=600)
    assert codes(report)[0] == "scheduler-no-leader"
    assert "last renewed at 2026-11-21T04:50:00Z" in cause(report).claim
    assert told in cause(report).claim
    assert line in quotes(report)


def test_where_kube_scheduler_has_no_error_about_the_lease_only_the_renewal_is_told(tmp_path: Path) -> None:
    other = "E1121 04:59:30.123456       1 schedule_one.go:1] Error selecting node for pod\n"
    report = asked(tmp_path, "why", (UP,), {KUBE_LOG: other}, renewed=600)
    assert cause(report).claim == "HAMi's scheduler has no leader: the lease was last renewed at 2026-11-21T04:50:00Z."


def test_a_lease_that_was_never_made_is_told_with_what_refuses_it(tmp_path: Path) -> None:
    objects = status_support.without(status_support.healthy(statuses=(UP,)), "Lease")
    report = status_support.ask(tmp_path, objects, others={KUBE_LOG: f"{FORBIDDEN}\n"})
    assert codes(report)[0] == "scheduler-no-leader"
    assert FORBIDDEN in quotes(report)


# --------------------------------------------------------------------------------------- a request of more than 1 MiB


@pytest.mark.parametrize(
    "message", ["failed filter with extender at URL https://127.0.0.1:443/filter, code 400", "unexpected EOF"]
)
def test_a_request_that_the_extender_cannot_read_is_told_as_that(tmp_path: Path, message: str) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message))), logs=UNDECODED)
    assert codes(report) == ["scheduler-degraded"]
    assert "1 MiB" in report.verdict
    assert UNDECODED.strip() in quotes(report)
    assert message in quotes(report)


def test_a_request_that_was_not_read_at_another_time_explains_nothing(tmp_path: Path) -> None:
    message = "failed filter with extender at URL https://127.0.0.1:443/filter, code 400"
    earlier = UNDECODED.replace("04:59:00", "04:55:00")
    report = ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message))), logs=earlier)
    assert "got no answer" in report.verdict


def test_a_refusal_of_the_filter_is_not_blamed_on_a_request_that_was_not_read(tmp_path: Path) -> None:
    said = refused("0/1 nodes are available: 1 node unregistered.")
    report = ask(tmp_path, cluster(gpu_node(), pod(said=said)), logs=UNDECODED)
    assert "1 MiB" not in report.verdict
