"""Lock values of every version, and what refused binds say of them."""

from datetime import UTC, datetime

import pytest

from bot.hami.nodes.node_lock import DEFAULT_EXPIRY, Lock, judge_lock, lock_complaint, parse_lock, read_timeout
from bot.hami.version import Version
from tests.hami.build import V25, V26, V27, V28, V29, V210, VERSIONS

AT = datetime(2025, 8, 6, 5, 51, 42, tzinfo=UTC)


@pytest.mark.parametrize("version", [*VERSIONS, None])
def test_a_lock_names_its_time_and_owner(version):
    assert parse_lock("2025-08-06T05:51:42Z,default,gpu-workload-short", version) == Lock(
        AT, "default", "gpu-workload-short"
    )
    assert parse_lock("2025-08-06T13:51:42+08:00,ns,p", version) == Lock(AT, "ns", "p")
    assert parse_lock("2025-08-06T05:51:42.000000000Z,ns,p", version) == Lock(AT, "ns", "p")


def test_a_bare_time_is_a_lock_up_to_2_7():
    for version in (V25, V26, V27, None):
        assert parse_lock("2025-08-06T05:51:42Z", version) == Lock(AT)
    for version in (V28, V29, V210):
        assert parse_lock("2025-08-06T05:51:42Z", version) is None


@pytest.mark.parametrize("version", [*VERSIONS, None])
@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        ",,",
        "2025-08-06T05:51:42Z,default",
        "2025-08-06T05:51:42Z,a,b,c",
        "2025-08-06 05:51:42,default,p",
        "2025-08-06T05:51:42,default,p",
        "1754459502,default,p",
        "locked",
        "2025-99-06T05:51:42Z,a,b",
    ],
)
def test_other_values_no_version_can_read(text, version):
    assert parse_lock(text, version) is None


@pytest.mark.parametrize(
    ("message", "node"),
    [
        ("node node6 has been locked within 5 minutes", "node6"),
        ("node gpu-a has been locked within 5m0s", "gpu-a"),
        ("node gpu-a has been locked within 5m0s: node lock contention", "gpu-a"),
        ("node gpu-node-07 is locked", "gpu-node-07"),
        ("node gpu-node-10 is locked: node lock contention", "gpu-node-10"),
        ("binding rejected: node gpu.a has been locked within 5 minutes", "gpu.a"),
        ("timed out after 28s waiting for node gpu-a to be unlocked: node lock contention", "gpu-a"),
        ("node mlu-1 has been locked within 2 minutes", "mlu-1"),
        ("node gpu-a lock expired while ml/trainer-0 still waits to be allocated", "gpu-a"),
    ],
)
def test_a_bind_that_met_a_lock_names_the_node(message, node):
    complaint = lock_complaint(message)
    assert complaint is not None
    assert (complaint.node, complaint.malformed) == (node, False)


@pytest.mark.parametrize(
    "message",
    [
        "malformed lock annotation: expected 3 parts, got 2 from 2026-11-21T05:00:00Z,ml",
        'parsing time "2026-11-21 05:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse " 05:00:00" as "T"',
    ],
)
def test_a_bind_that_could_not_read_a_lock_says_so(message):
    complaint = lock_complaint(message)
    assert complaint is not None
    assert (complaint.node, complaint.malformed) == ("", True)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "failed to get node gpu-z",
        'Post "https://127.0.0.1:443/bind": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        "setNodeLock exceeds retry count 5",
        "failed to set node lock (node=gpu-a, retry strategy={Duration:100ms}): conflict",
        'pods "x" is forbidden: no node is unlocked',
    ],
)
def test_other_refusals_are_about_no_lock(message):
    assert lock_complaint(message) is None


@pytest.mark.parametrize(("version", "phase"), [(V210, "dangling"), (Version(2, 11, 0), "held")])
def test_an_expired_lock_of_a_pod_that_waits_for_its_devices_is_kept_after_2_10(version, phase):
    text, later = "2025-08-06T05:51:42Z,ns,p", AT + 2 * DEFAULT_EXPIRY
    state = judge_lock(text, version, later, DEFAULT_EXPIRY, "there")
    assert (state.phase, state.passing) == (phase, phase == "dangling")
    assert judge_lock(text, version, later, DEFAULT_EXPIRY, "gone").passing


@pytest.mark.parametrize(
    ("flag", "seconds"),
    [("", 300), ("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("1.5m", 90), ("soon", 300), ("0s", 300), ("+10m", 600)],
)
def test_the_timeout_of_the_flag_is_read_as_go_reads_it(flag, seconds):
    assert read_timeout(flag).total_seconds() == seconds
