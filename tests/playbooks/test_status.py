"""`status`: what only looks like a fault of HAMi's own installation is none, and an installation that is not there."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.changes.record import KEY, Record, write_record
from bot.errors import SourceError
from tests.change_shell import cluster, report_of
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
    service,
    webhook,
    without,
)
from tests.playbooks.tables import only, table
from tests.playbooks.world import (
    COMPONENT,
    EXTENDER,
    HAMI,
    READY,
    REGISTER,
    Object,
    ago,
    cause,
    codes,
    commands,
    node,
    quotes,
)

# -------------------------------------------------------------------------------------------------- nothing


def test_a_healthy_installation_is_one_finding_without_gaps(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy())
    assert codes(report) == ["healthy"]
    assert report.severity == "info"
    assert report.gaps == ()
    assert report.verdict == (
        "HAMi 2.10.0 is healthy: 1 of 1 scheduler pods ready, hami-scheduler-0 leads, 2 of 2 device plugins ready."
    )


def test_a_node_that_its_ready_plugin_did_not_register_is_a_warning_that_leads_to_the_node(tmp_path: Path) -> None:
    def unregistered(one: Object) -> None:
        del one["metadata"]["annotations"][REGISTER]

    report = ask(tmp_path, changed(healthy(), "Node", unregistered, "gpu-2"))
    assert codes(report) == ["node-unregistered"]
    assert (report.severity, cause(report).scope.nodes) == ("warning", ("gpu-2",))
    assert commands(report) == ["nodes gpu-2"]


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
    assert report.findings[0].next_actions[0].command == "doctor"


def test_without_nodes_hami_is_still_said_to_be_absent_where_that_was_read(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, [webhook()], missing=["nodes"])) == ["not-found", "bot-blind"]


def test_without_pods_and_deployments_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        ask(tmp_path, [node("cpu-1")], missing=["pods", "deployments"])


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
    assert only(ask(tmp_path / "overdue", opened(at=ago(120))), "change-open").severity == "warning"


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


@pytest.mark.parametrize(
    ("plugin", "found"),
    [
        ("2.7.1", ["version-mismatch"]),
        ("2.9.0", ["version-mismatch"]),
        ("2.10.3", ["healthy"]),
    ],
)
def test_minor_versions_of_scheduler_and_plugin_have_to_agree(tmp_path: Path, plugin: str, found: list[str]) -> None:
    report = ask(tmp_path, [*without(healthy(), "DaemonSet"), daemon_set(2, plugin)])
    assert codes(report) == found
    assert (report.severity == "critical") == (plugin == "2.7.1")


def test_each_of_several_device_plugins_has_to_agree(tmp_path: Path) -> None:
    second = daemon_set(1, "2.7.1")
    second["metadata"] = second["metadata"] | {"name": "hami-device-plugin-old"}
    report = ask(tmp_path, [*healthy(), second])
    assert codes(report) == ["version-mismatch"]
    assert "DaemonSet hami-system/hami-device-plugin-old" in [proof.object for proof in cause(report).evidence]


def test_a_chart_and_a_plugin_that_differ_from_the_scheduler_are_both_told(tmp_path: Path) -> None:
    objects = [*without(healthy(), "DaemonSet"), daemon_set(2, "2.9.0")]
    label = {"helm.sh/chart": "hami-2.8.0", "app.kubernetes.io/component": "hami-scheduler"}
    report = ask(tmp_path, changed(objects, "Deployment", lambda object_: object_["metadata"].update(labels=label)))
    assert codes(report) == ["version-mismatch", "version-mismatch"]


@pytest.mark.parametrize(
    ("version", "kind", "severity"),
    [("2.6.0", "NodePort", "warning"), ("2.9.0", "NodePort", "warning"), ("2.9.0", "ClusterIP", "info")],
)
def test_open_profiles_are_a_security_finding(tmp_path: Path, version: str, kind: str, severity: str) -> None:
    report = ask(tmp_path, [*without(healthy(version), "Service"), service(version, kind)])
    assert sorted(codes(report)) == ["healthy", "pprof-exposed"]
    found = only(report, "pprof-exposed")
    assert (found.severity, found.confidence) == (severity, "suspected")


@pytest.mark.parametrize(("level", "severity"), [(5, "info"), (6, "warning"), (9, "warning")])
def test_a_raised_log_level_is_told(tmp_path: Path, level: int, severity: str) -> None:
    assert only(ask(tmp_path, healthy(flags=[f"-v={level}"])), "verbosity-high").severity == severity


def test_no_flag_shows_a_secret(tmp_path: Path) -> None:
    flags = ["--api-token=hush-hush", "--password", "hush-hush", "--proxy=http://me:hush-hush@proxy"]
    report = ask(tmp_path, healthy(flags=flags))
    rows = {row["flag"]: row["value"] for row in table(report, "flags")}
    assert rows["--api-token"] == rows["--password"] == "***"
    assert "hush-hush" not in json.dumps([*rows.items(), *quotes(report)])


def test_the_flags_show_what_holds_where_nothing_is_set(tmp_path: Path) -> None:
    rows = {row["flag"]: row["value"] for row in table(ask(tmp_path, healthy()), "flags") if row["of"] == "scheduler"}
    assert rows["--kube-qps"] == "5 (the default)"
    assert rows["-v"] == "4"


# ---------------------------------------------------------------------------------------------- Kubernetes


def with_kubelets(version: str, *names: str) -> list[Object]:
    """A healthy installation whose nodes of these names have a kubelet of that version."""
    objects = healthy()
    for object_ in objects:
        if object_["kind"] == "Node" and object_["metadata"]["name"] in names:
            object_["status"]["nodeInfo"] = {"kubeletVersion": version}
    return objects


def test_kubelets_older_than_1_23_are_not_supported(tmp_path: Path) -> None:
    report = ask(tmp_path, with_kubelets("v1.22.17+k3s1", "gpu-2"))
    assert codes(report) == ["kubernetes-unsupported", "healthy"]
    assert "kubelet on gpu-2 is 1.22.17, older than 1.23" in report.verdict
    assert cause(report).scope.nodes == ("gpu-2",)


@pytest.mark.parametrize("version", ["v1.23.0", "v1.36.2-eks-1", "unknown"])
def test_newer_kubelets_and_those_of_no_known_version_are_well(tmp_path: Path, version: str) -> None:
    assert codes(ask(tmp_path, with_kubelets(version, "gpu-1", "gpu-2"))) == ["healthy"]


def test_a_webhook_that_is_not_registered_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, without(healthy(), "MutatingWebhookConfiguration"))
    assert codes(report) == ["webhook-missing"]
    assert cause(report).confidence == "confirmed"


def test_webhooks_that_could_not_be_read_are_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), missing=["mutatingwebhookconfigurations"])
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["webhooks"]


@pytest.mark.parametrize(("policy", "said"), [("Ignore", "bypass HAMi"), ("Fail", "can be created")])
def test_what_a_dead_webhook_means_depends_on_its_policy(tmp_path: Path, policy: str, said: str) -> None:
    objects = without(without(healthy(), "MutatingWebhookConfiguration"), "EndpointSlice")
    report = ask(tmp_path, [*objects, webhook(policy), endpoints("hami-scheduler-0", ready=False)])
    assert codes(report) == ["webhook-unreachable"]
    assert said in report.verdict


def test_a_webhook_whose_service_is_gone_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, without(without(healthy(), "Service"), "EndpointSlice"))
    assert codes(report) == ["webhook-unreachable"]
    assert "does not exist" in report.verdict


def test_endpoints_that_could_not_be_read_are_a_gap(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, healthy(), missing=["endpointslices"])) == ["healthy"]


def test_an_endpoint_without_conditions_is_ready(tmp_path: Path) -> None:
    objects = [*without(healthy(), "EndpointSlice"), endpoints("hami-scheduler-0", ready=None)]
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_webhook_without_a_certificate_authority_is_suspected(tmp_path: Path) -> None:
    objects = [*without(healthy(), "MutatingWebhookConfiguration"), webhook(caBundle=None)]
    found = only(ask(tmp_path, objects), "webhook-untrusted")
    assert found.confidence == "suspected"


def test_a_webhook_by_url_is_a_gap(tmp_path: Path) -> None:
    hook = webhook(service=None, caBundle=None, url="https://user:secret-word@10.0.0.1/webhook")
    report = ask(tmp_path, [*without(healthy(), "MutatingWebhookConfiguration"), hook])
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["webhook"]
    assert "secret-word" not in json.dumps([row for table in report.tables for row in table.rows])


REJECTED = "2026/11/21 04:58:00 http: TLS handshake error from 10.0.0.9:4711: remote error: tls: bad certificate\n"


def test_a_certificate_that_callers_reject_is_suspected(tmp_path: Path) -> None:
    found = only(ask(tmp_path, healthy(), logs=REJECTED), "webhook-untrusted")
    assert (found.severity, found.confidence) == ("critical", "suspected")
    assert found.evidence[0].quote == REJECTED.rstrip()


@pytest.mark.parametrize(
    ("client", "said"),
    [({"port": 8443}, "it calls port 8443"), ({"path": "/mutate"}, "it calls the path /mutate")],
)
def test_a_webhook_that_calls_a_wrong_port_or_path_is_found(tmp_path: Path, client: Object, said: str) -> None:
    hook = webhook(service={"namespace": HAMI, "name": "hami-scheduler", **client})
    report = ask(tmp_path, [*without(healthy(), "MutatingWebhookConfiguration"), hook])
    assert codes(report) == ["webhook-unreachable"]
    assert said in report.verdict


def test_a_service_that_sends_requests_elsewhere_is_found(tmp_path: Path) -> None:
    def change(service: Object) -> None:
        service["spec"]["ports"][0]["targetPort"] = 9443

    assert "HAMi listens on 443" in ask(tmp_path, changed(healthy(), "Service", change)).verdict
