"""`status`: every planted fault of HAMi's own installation is found, and what only looks like one is not."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.errors import SourceError
from bot.report import Finding, Report
from tests.playbooks.world import (
    COMPONENT,
    EXTENDER,
    HAMI,
    PLUGIN,
    READY,
    Object,
    ago,
    answer,
    cause,
    codes,
    gpu_node,
    node,
    pod,
    quotes,
    record,
    refused,
    scheduler,
)

ROLE = {"hami.io/scheduler-role": "leader"}
SERVICE = {"kind": "Service", "metadata": {"name": "hami-scheduler", "namespace": HAMI}}
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: hami-scheduler
extenders:
- urlPrefix: "https://127.0.0.1:443"
  filterVerb: filter
  bindVerb: bind
  nodeCacheCapable: true
  httpTimeout: 30s
  managedResources:
  - name: nvidia.com/gpu
    ignoredByScheduler: true
  - name: nvidia.com/gpumem
    ignoredByScheduler: true
  - name: nvidia.com/gpucores
    ignoredByScheduler: true
  - name: nvidia.com/gpumem-percentage
    ignoredByScheduler: true
"""
FORBIDDEN = (
    'E1121 04:59:00.000000       1 scheduler.go:100] "Failed" err="nodes \\"gpu-1\\" is forbidden: '
    'User \\"system:serviceaccount:hami-system:hami-scheduler\\" cannot patch resource \\"nodes\\" in API group"\n'
)

Change = Callable[[Object], None]


def image(version: str) -> str:
    return f"docker.io/projecthami/hami:v{version}"


def plugin_pod(on: str, status: Object = READY, age: float = 9000) -> Object:
    one = pod(f"hami-device-plugin-{on}", {}, namespace=HAMI, labels=PLUGIN, nodeName=on, age=age)
    return one | {"status": status}


def daemon_set(nodes: int, version: str = "2.10.0") -> Object:
    containers = [{"name": "device-plugin", "image": image(version), "command": ["nvidia-device-plugin", "-v=4"]}]
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "hami-device-plugin", "namespace": HAMI, "labels": PLUGIN},
        "spec": {"template": {"spec": {"containers": containers, "nodeSelector": {"gpu": "on"}}}},
        "status": {"desiredNumberScheduled": nodes, "numberReady": nodes, "updatedNumberScheduled": nodes},
    }


def service(version: str = "2.10.0", kind: str = "NodePort") -> Object:
    component = {"app.kubernetes.io/component": "hami-scheduler"}
    labels = ROLE if tuple(map(int, version.split("."))) >= (2, 9, 0) else {}
    ports = [
        {"name": "http", "port": 443, "targetPort": 443, "nodePort": 31998},
        {"name": "monitor", "port": 31993, "targetPort": 9395, "nodePort": 31993},
    ]
    return SERVICE | {"spec": {"type": kind, "selector": component | labels, "ports": ports}}


def endpoints(*pods: str, ready: bool | None = True) -> Object:
    return {
        "kind": "EndpointSlice",
        "metadata": {
            "name": "hami-scheduler-x",
            "namespace": HAMI,
            "labels": {"kubernetes.io/service-name": "hami-scheduler"},
        },
        "endpoints": [
            {"conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "namespace": HAMI, "name": name}}
            for name in pods
        ],
    }


def webhook(policy: str = "Ignore", **client: Any) -> Object:
    usual = {"service": {"namespace": HAMI, "name": "hami-scheduler"}, "caBundle": "Q0EK"}
    selector = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
    hook = {
        "name": "vgpu.hami.io",
        "failurePolicy": policy,
        "clientConfig": usual | client,
        "namespaceSelector": selector,
        "objectSelector": selector,
    }
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "hami-webhook"}, "webhooks": [hook]}


def scheduler_config(text: str = CONFIG, key: str = "config.yaml") -> Object:
    metadata = {
        "name": "hami-scheduler",
        "namespace": HAMI,
        "labels": {"app.kubernetes.io/component": "hami-scheduler"},
    }
    return {"kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def healthy(version: str = "2.10.0", nodes: int = 2, **fields: Any) -> list[Object]:
    """A whole installation in which nothing is wrong; `fields` go to `scheduler`."""
    flags = ["--http_bind=0.0.0.0:443", "--cert_file=/tls/tls.crt", "--metrics-bind-address=:9395"]
    installed = copy.deepcopy(scheduler(version, **fields | {"flags": [*flags, *fields.get("flags", ())]}))
    names = [f"gpu-{number + 1}" for number in range(nodes)]
    for one in installed:
        if one["kind"] == "Pod" and one["metadata"]["name"].endswith("-0"):
            one["metadata"]["labels"] = one["metadata"]["labels"] | ROLE
    return [
        *installed,
        daemon_set(nodes, version),
        *(gpu_node(name, text=version < "2.8") for name in names),
        *map(plugin_pod, names),
        service(version),
        endpoints("hami-scheduler-0"),
        webhook(),
        scheduler_config(),
    ]


def configured(objects: list[Object], text: str, key: str = "config.yaml") -> list[Object]:
    """The installation with another configuration of its kube-scheduler."""
    kept = [one for one in objects if one["kind"] != "ConfigMap" or "device-config.yaml" in one["data"]]
    return [*kept, scheduler_config(text, key)]


def without(objects: list[Object], kind: str, name: str = "") -> list[Object]:
    return [one for one in objects if not (one["kind"] == kind and name in one["metadata"]["name"])]


def changed(objects: list[Object], kind: str, change: Change, name: str = "") -> list[Object]:
    """The objects with one of them changed."""
    objects = copy.deepcopy(objects)
    change(next(one for one in objects if one["kind"] == kind and name in one["metadata"]["name"]))
    return objects


def ask(tmp_path: Path, objects: list[Object], **recorded: Any) -> Report:
    return answer("status", record(tmp_path, objects, **recorded), {})


def only(report: Report, code: str) -> Finding:
    (found,) = [one for one in report.findings if one.code == code]
    return found


def table(report: Report, title: str) -> list[dict[str, str]]:
    found = next(one for one in report.tables if one.title == title)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def component(report: Report, name: str) -> dict[str, str]:
    return next(row for row in table(report, "components") if row["component"] == name)


# -------------------------------------------------------------------------------------------------- nothing


def test_a_healthy_installation_is_one_finding_without_gaps(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy())
    assert codes(report) == ["healthy"]
    assert report.severity == "info"
    assert report.gaps == ()
    assert report.verdict == (
        "HAMi 2.10.0 is well: 1 of 1 scheduler pods ready, hami-scheduler-0 leads, 2 of 2 device plugins ready."
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
    for one in objects:
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("hami-scheduler-"):
            marked = ROLE if one["metadata"]["name"] == "hami-scheduler-1" else {}
            one["metadata"]["labels"] = {"app.kubernetes.io/component": "hami-scheduler"} | marked
    objects = [*without(objects, "EndpointSlice"), endpoints("hami-scheduler-1")]
    objects = changed(objects, "Lease", lambda one: one["spec"].update(holderIdentity="hami-scheduler-1_7"))
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
    objects = changed(healthy(), "DaemonSet", lambda one: one["status"].update(updatedNumberScheduled=1, numberReady=1))
    objects = [*without(objects, "Pod", "device-plugin-gpu-2"), plugin_pod("gpu-2", starting, age=20)]
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_holder_that_just_went_away_during_a_rollout_is_no_fault(tmp_path: Path) -> None:
    starting = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
    objects = healthy("2.8.1", statuses=(READY, starting))
    objects = changed(objects, "Lease", lambda one: one["spec"].update(holderIdentity="hami-scheduler-old_1"))
    assert "scheduler-leader-mismatch" not in codes(ask(tmp_path, objects))


def test_a_leader_that_has_just_begun_may_still_lack_its_label(tmp_path: Path) -> None:
    objects = changed(healthy(), "Pod", lambda one: one["metadata"]["labels"].pop(*ROLE), "hami-scheduler-0")
    objects = changed(objects, "Lease", lambda one: one["spec"].update(acquireTime=ago(8)))
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_leader_on_its_way_out_keeps_its_label(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    objects = changed(objects, "Pod", lambda one: one["metadata"].update(deletionTimestamp=ago(1)), "hami-scheduler-0")
    objects = changed(objects, "Pod", lambda one: one["metadata"].update(labels=COMPONENT | ROLE), "hami-scheduler-1")
    objects = [*without(objects, "EndpointSlice"), endpoints("hami-scheduler-1")]
    objects = changed(objects, "Lease", lambda one: one["spec"].update(holderIdentity="hami-scheduler-1_7"))
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
    objects = changed(healthy(), "Lease", lambda one: one["spec"].update(holderIdentity="cp-1_1"))
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


# ------------------------------------------------------------------------------------------------ scheduler


def test_a_scheduler_that_is_down_comes_first(tmp_path: Path) -> None:
    crashing = {
        "phase": "Running",
        "containerStatuses": [{"name": EXTENDER, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
    report = ask(tmp_path, [*without(healthy(statuses=(crashing,)), "EndpointSlice"), endpoints()])
    assert codes(report)[:2] == ["scheduler-down", "webhook-unreachable"]
    assert report.severity == "critical"


def test_the_last_crash_of_a_day_is_told_and_an_older_one_stands_in_the_table(tmp_path: Path) -> None:
    def crashed(seconds: float) -> Object:
        ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": ago(seconds)}
        status = {"name": EXTENDER, "ready": True, "restartCount": 3, "lastState": {"terminated": ended}}
        return READY | {"containerStatuses": [status]}

    def fix_counts(one: Object) -> None:
        one["status"] = {"replicas": 1, "readyReplicas": 1}

    recent = ask(tmp_path / "a", changed(healthy(statuses=(crashed(7200),)), "Deployment", fix_counts))
    assert codes(recent) == ["scheduler-degraded"]
    assert "OOMKilled" in recent.verdict
    old = ask(tmp_path / "b", changed(healthy(statuses=(crashed(200_000),)), "Deployment", fix_counts))
    assert codes(old) == ["healthy"]
    assert "restarts: 3, last OOMKilled" in component(old, "scheduler pod")["details"]


def test_a_lease_that_nobody_renews_is_no_leader(tmp_path: Path) -> None:
    assert cause(ask(tmp_path, healthy(renewed=300))).code == "scheduler-no-leader"


def test_a_lease_that_never_was_is_no_leader(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, without(healthy(), "Lease"))) == ["scheduler-no-leader"]


def test_a_lease_that_could_not_be_read_is_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), missing=["leases"])
    assert codes(report) == ["healthy"]
    assert cause(report).confidence == "suspected"
    assert any("lease" in gap.source for gap in report.gaps)


def test_a_leader_without_its_label_leaves_the_webhook_without_endpoints(tmp_path: Path) -> None:
    objects = changed(healthy(), "Pod", lambda one: one["metadata"]["labels"].pop(*ROLE), "hami-scheduler-0")
    report = ask(tmp_path, [*without(objects, "EndpointSlice"), endpoints()])
    assert codes(report) == ["scheduler-leader-mismatch", "webhook-unreachable"]
    assert cause(report).severity == "critical"


def test_a_label_on_a_replica_that_does_not_lead_is_found(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    objects = changed(objects, "Lease", lambda one: one["spec"].update(holderIdentity="hami-scheduler-1_7"))
    report = ask(tmp_path, objects)
    assert codes(report) == ["scheduler-leader-mismatch"]
    assert "hami-scheduler-1_7" in quotes(report)


def test_endpoints_of_a_replica_that_does_not_lead_are_found(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    report = ask(tmp_path, [*without(objects, "EndpointSlice"), endpoints("hami-scheduler-1")])
    assert codes(report) == ["scheduler-leader-mismatch"]
    assert "sends to hami-scheduler-1" in report.verdict


def test_a_lease_that_a_stranger_renews_is_suspected(tmp_path: Path) -> None:
    objects = changed(healthy("2.8.1"), "Lease", lambda one: one["spec"].update(holderIdentity="somebody_1"))
    assert only(ask(tmp_path, objects), "scheduler-leader-mismatch").confidence == "suspected"


def test_a_rollout_that_does_not_finish_says_why(tmp_path: Path) -> None:
    pending = {"phase": "Pending", "conditions": [refused("0/1 nodes: didn't match pod anti-affinity rules", 3000)]}
    ended = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
    objects = changed(
        healthy(statuses=(READY, pending)), "Deployment", lambda one: one["status"].update(conditions=[ended])
    )
    report = ask(tmp_path, objects)
    assert cause(report).code == "rollout-stuck"
    assert "anti-affinity" in report.verdict


def test_what_the_api_server_refuses_the_scheduler_is_found_in_its_log(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), logs=FORBIDDEN * 3)
    assert codes(report) == ["scheduler-forbidden"]
    assert "patch nodes" in report.verdict


def test_a_pod_that_a_quota_forbids_is_no_fault_of_the_roles(tmp_path: Path) -> None:
    line = 'E1121 04:59:00.000000       1 x.go:1] "Failed" err="pods \\"a\\" is forbidden: exceeded quota: cards"\n'
    assert codes(ask(tmp_path, healthy(), logs=line)) == ["healthy"]


# -------------------------------------------------------------------------------------------------- webhook


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
    assert "secret-word" not in json.dumps([row for one in report.tables for row in one.rows])


# --------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("schedulerName: hami-scheduler", "schedulerName: other", "no profile is called hami-scheduler"),
        ("filterVerb: filter", "filterVerb: predicates", "filterVerb is 'predicates'"),
        ("bindVerb: bind", "", "bindVerb is ''"),
        ("127.0.0.1:443", "127.0.0.1:8443", "asks https://127.0.0.1:8443"),
        ("https://127", "http://127", "asks http://127.0.0.1:443"),
        ("nodeCacheCapable: true", "nodeCacheCapable: false", "nodeCacheCapable is not true"),
        ("  bindVerb: bind", "  bindVerb: bind\n  ignorable: true", "ignorable"),
        ("httpTimeout: 30s", "httpTimeout: 10s", "httpTimeout 10s"),
        ("  httpTimeout: 30s\n", "", "httpTimeout 5s"),
        ("  - name: nvidia.com/gpumem\n    ignoredByScheduler: true\n", "", "nvidia.com/gpumem"),
        (CONFIG[CONFIG.index("extenders:") :], "", "no extender"),
    ],
)
def test_a_configuration_that_keeps_hami_from_deciding_is_found(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    objects = configured(healthy(), CONFIG.replace(before, after))
    report = ask(tmp_path, objects)
    assert codes(report) == ["extender-misconfigured"]
    assert said in cause(report).claim


def test_the_timeout_matters_only_where_binds_wait_for_locks(tmp_path: Path) -> None:
    text = CONFIG.replace("httpTimeout: 30s", "httpTimeout: 10s")
    older = configured(healthy("2.5.1"), text)
    assert codes(ask(tmp_path / "a", older)) == ["healthy"]
    never = healthy(flags=["--node-lock-retry-timeout=0"])
    newer = configured(never, text)
    assert codes(ask(tmp_path / "b", newer)) == ["healthy"]


def test_a_policy_of_old_kubernetes_is_read_too(tmp_path: Path) -> None:
    names = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage")
    extender = {
        "urlPrefix": "https://127.0.0.1:443",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "httpTimeout": 30_000_000_000,
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
    }
    text = json.dumps({"kind": "Policy", "apiVersion": "v1", "extenders": [extender]})
    objects = configured(healthy(), text, "config.json")
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_configuration_that_is_no_yaml_is_a_gap(tmp_path: Path) -> None:
    text = "kind: KubeSchedulerConfiguration\nextenders: [}"
    objects = configured(healthy(), text)
    report = ask(tmp_path, objects)
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["kube-scheduler config"]


# --------------------------------------------------------------------------------------------- device plugin


def test_a_plugin_pod_that_is_down_is_found_with_its_node(tmp_path: Path) -> None:
    down = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "device-plugin", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
    report = ask(tmp_path, [*without(healthy(), "Pod", "plugin-gpu-2"), plugin_pod("gpu-2", down)])
    assert codes(report) == ["plugin-not-ready"]
    assert cause(report).scope.nodes == ("gpu-2",)
    assert "CrashLoopBackOff" in report.verdict


def test_a_gpu_node_without_a_plugin_pod_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, without(healthy(), "Pod", "plugin-gpu-2"))
    assert codes(report) == ["plugin-missing"]
    assert cause(report).scope.nodes == ("gpu-2",)


def test_a_taint_that_keeps_the_plugin_away_is_named(tmp_path: Path) -> None:
    tainted = gpu_node("gpu-3", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    assert "untolerated taint(s): team" in ask(tmp_path, [*healthy(), tainted]).verdict


def test_a_node_that_hami_has_nothing_to_do_with_is_only_mentioned(tmp_path: Path) -> None:
    other = node("other-1", allocatable={"nvidia.com/gpu": "8"})
    report = ask(tmp_path, [*healthy(), other])
    assert codes(report) == ["healthy", "plugin-missing"]
    assert report.severity == "info"


def test_a_cordoned_node_and_one_without_gpus_need_no_word(tmp_path: Path) -> None:
    cordoned = gpu_node("gpu-3", unschedulable=True)
    assert codes(ask(tmp_path, [*healthy(), cordoned, plugin_pod("gpu-3"), node("cpu-1")])) == ["healthy"]


@pytest.mark.parametrize("kind", ["nodes", "daemonsets"])
def test_coverage_is_not_judged_without_what_decides_it(tmp_path: Path, kind: str) -> None:
    report = ask(tmp_path, without(healthy(), "Pod", "plugin-gpu-2"), missing=[kind])
    assert codes(report) == ["healthy"]
    assert cause(report).confidence == "suspected"


# ------------------------------------------------------------------------------------ versions, flags, secrets


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


def test_a_chart_of_another_minor_version_is_found(tmp_path: Path) -> None:
    objects = changed(
        healthy(), "Deployment", lambda one: one["metadata"].update(labels={"helm.sh/chart": "hami-2.7.0"})
    )
    objects[0]["metadata"]["labels"] |= {"app.kubernetes.io/component": "hami-scheduler"}
    assert codes(ask(tmp_path, objects)) == ["version-mismatch"]


@pytest.mark.parametrize(
    ("version", "kind", "severity"),
    [("2.6.0", "NodePort", "warning"), ("2.9.0", "NodePort", "warning"), ("2.9.0", "ClusterIP", "info")],
)
def test_open_profiles_are_a_security_finding(tmp_path: Path, version: str, kind: str, severity: str) -> None:
    report = ask(tmp_path, [*without(healthy(version), "Service"), service(version, kind)])
    assert sorted(codes(report)) == ["healthy", "pprof-exposed"]
    found = only(report, "pprof-exposed")
    assert (found.severity, found.confidence) == (severity, "suspected")


def test_profiling_that_was_switched_on_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(flags=["--profiling"]))
    assert codes(report) == ["pprof-exposed", "healthy"]
    assert cause(report).confidence == "confirmed"


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
    assert rows["--kube-qps"] == "5 (default)"
    assert rows["-v"] == "4"


# ---------------------------------------------------------------------------------------------------- nobody


def test_a_cluster_without_hami_is_told_so(tmp_path: Path) -> None:
    report = ask(tmp_path, [node("cpu-1")])
    assert codes(report) == ["not-found"]


def test_what_is_left_of_hami_is_shown(tmp_path: Path) -> None:
    report = ask(tmp_path, [webhook(), daemon_set(0)])
    assert codes(report) == ["not-found"]
    assert "vgpu.hami.io" in quotes(report)


def test_without_the_pods_nothing_is_said_to_be_absent(tmp_path: Path) -> None:
    report = ask(tmp_path, [node("cpu-1")], missing=["pods"])
    assert codes(report) == ["not-enough-evidence"]


def test_without_pods_and_deployments_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        ask(tmp_path, [node("cpu-1")], missing=["pods", "deployments"])
