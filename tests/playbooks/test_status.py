"""`status`: what only looks like a fault of HAMi's own installation is none, and an installation that is not there."""

from pathlib import Path

import pytest

from bot.errors import SourceError
from tests.playbooks.status_support import (
    CONFIG,
    ROLE,
    ask,
    changed,
    component,
    configured,
    daemon_set,
    endpoints,
    healthy,
    plugin_pod,
    scheduler_config,
    webhook,
    without,
)
from tests.playbooks.world import COMPONENT, EXTENDER, HAMI, READY, Object, ago, codes, node, quotes

# -------------------------------------------------------------------------------------------------- nothing


def test_a_healthy_installation_is_one_finding_without_gaps(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy())
    assert codes(report) == ["healthy"]
    assert report.severity == "info"
    assert report.gaps == ()
    assert report.verdict == (
        "HAMi 2.10.0 is healthy: 1 of 1 scheduler pods ready, hami-scheduler-0 leads, 2 of 2 device plugins ready."
    )


@pytest.mark.parametrize("version", ["2.4.1", "2.5.1", "2.10.1"])
def test_other_versions_are_as_healthy(tmp_path: Path, version: str) -> None:
    assert codes(ask(tmp_path, healthy(version))) == ["healthy"]


def test_one_replica_without_leader_election_is_fine(tmp_path: Path) -> None:
    def alone(one: Object) -> None:
        command = next(part for part in one["spec"]["containers"] if part["name"] == EXTENDER)["command"]
        command[:] = [word for word in command if not word.startswith("--leader-elect")]

    objects = changed(without(healthy(), "Lease"), "Pod", alone, "hami-scheduler-0")
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_standby_replica_is_fine(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, healthy(statuses=(READY, READY), replicas=2))) == ["healthy"]


def test_another_replica_may_hold_the_lease(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    for object_ in objects:
        if object_["kind"] == "Pod" and object_["metadata"]["name"].startswith("hami-scheduler-"):
            marked = ROLE if object_["metadata"]["name"] == "hami-scheduler-1" else {}
            object_["metadata"]["labels"] = {"app.kubernetes.io/component": "hami-scheduler"} | marked
    objects = [*without(objects, "EndpointSlice"), endpoints("hami-scheduler-1")]
    objects = changed(objects, "Lease", lambda object_: object_["spec"].update(holderIdentity="hami-scheduler-1_7"))
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_the_lease_of_another_scheduler_is_none_of_ours(tmp_path: Path) -> None:
    other = {
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": HAMI},
        "spec": {"holderIdentity": "cp-9_1", "leaseDurationSeconds": 15, "renewTime": ago(90000)},
    }
    assert codes(ask(tmp_path, [*healthy(), other])) == ["healthy"]


def test_a_rollout_in_progress_is_no_fault(tmp_path: Path) -> None:
    starting = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
    objects = changed(
        healthy(), "DaemonSet", lambda object_: object_["status"].update(updatedNumberScheduled=1, numberReady=1)
    )
    objects = [*without(objects, "Pod", "device-plugin-gpu-2"), plugin_pod("gpu-2", starting, age=20)]
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_holder_that_just_went_away_during_a_rollout_is_no_fault(tmp_path: Path) -> None:
    starting = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
    objects = healthy("2.8.1", statuses=(READY, starting))
    objects = changed(objects, "Lease", lambda object_: object_["spec"].update(holderIdentity="hami-scheduler-old_1"))
    assert "scheduler-leader-mismatch" not in codes(ask(tmp_path, objects))


def test_a_leader_that_has_just_begun_may_still_lack_its_label(tmp_path: Path) -> None:
    objects = changed(healthy(), "Pod", lambda object_: object_["metadata"]["labels"].pop(*ROLE), "hami-scheduler-0")
    objects = changed(objects, "Lease", lambda object_: object_["spec"].update(acquireTime=ago(8)))
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_leader_on_its_way_out_keeps_its_label(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    objects = changed(
        objects, "Pod", lambda object_: object_["metadata"].update(deletionTimestamp=ago(1)), "hami-scheduler-0"
    )
    objects = changed(
        objects, "Pod", lambda object_: object_["metadata"].update(labels=COMPONENT | ROLE), "hami-scheduler-1"
    )
    objects = [*without(objects, "EndpointSlice"), endpoints("hami-scheduler-1")]
    objects = changed(objects, "Lease", lambda object_: object_["spec"].update(holderIdentity="hami-scheduler-1_7"))
    assert "scheduler-leader-mismatch" not in codes(ask(tmp_path, objects))


def test_plugin_pods_that_are_being_replaced_are_no_fault(tmp_path: Path) -> None:
    gone = plugin_pod("gpu-1", {"phase": "Failed", "reason": "Evicted"})
    gone["metadata"]["name"] += "-evicted"
    leaving = plugin_pod("gpu-2", {"phase": "Running"})
    leaving["metadata"] |= {"name": "old", "deletionTimestamp": ago(10)}
    assert codes(ask(tmp_path, [*healthy(), gone, leaving])) == ["healthy"]


def test_resources_of_another_name_are_not_missed_where_the_names_are_unknown(tmp_path: Path) -> None:
    text = CONFIG.replace("nvidia.com/", "example.com/")
    objects = [*without(healthy(), "ConfigMap"), scheduler_config(text)]
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_host_name_that_is_the_nodes_or_cut_off_is_the_pod(tmp_path: Path) -> None:
    objects = changed(healthy(), "Lease", lambda object_: object_["spec"].update(holderIdentity="cp-1_1"))
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_webhook_that_is_switched_off_is_meant(tmp_path: Path) -> None:
    def off(one: Object) -> None:
        command = next(part for part in one["spec"]["containers"] if part["name"] == EXTENDER)["command"]
        command[:] = [word for word in command if not word.startswith(("--cert_file", "--http_bind"))]
        command.append("--http_bind=0.0.0.0:80")

    objects = changed(without(healthy(), "MutatingWebhookConfiguration"), "Pod", off, "hami-scheduler-0")
    objects = configured(objects, CONFIG.replace("https://127.0.0.1:443", "http://127.0.0.1:80"))
    report = ask(tmp_path, objects)
    assert codes(report) == ["healthy"]
    assert component(report, "webhook")["state"] == "switched off"


# ---------------------------------------------------------------------------------------------------- nobody


def test_what_is_left_of_hami_is_shown(tmp_path: Path) -> None:
    report = ask(tmp_path, [webhook(), daemon_set(0)])
    assert codes(report) == ["not-found"]
    assert "vgpu.hami.io" in quotes(report)


def test_without_the_pods_nothing_is_said_to_be_absent(tmp_path: Path) -> None:
    report = ask(tmp_path, [node("cpu-1")], missing=["pods"])
    assert codes(report) == ["bot-blind"]
    assert "scheduler pods" in report.verdict


def test_without_the_nodes_the_bot_says_that_it_is_blind_and_what_it_saw_of_hami(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), missing=["nodes"])
    assert codes(report) == ["bot-blind", "healthy"]
    assert "nodes" in report.verdict
    assert report.findings[0].next_actions[0].command == "hami-bot doctor"


def test_without_nodes_hami_is_still_said_to_be_absent_where_that_was_read(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, [webhook()], missing=["nodes"])) == ["not-found", "bot-blind"]


def test_without_pods_and_deployments_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        ask(tmp_path, [node("cpu-1")], missing=["pods", "deployments"])
