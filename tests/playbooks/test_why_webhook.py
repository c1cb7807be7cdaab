"""Why HAMi's webhook did not see a pod, or kept it from being created: its own faults, and what leaves pods out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from tests.playbooks.refused_support import refused_on_the_node
from tests.playbooks.status_support import CONFIG, changed, endpoints, healthy, scheduler_config, webhook, without
from tests.playbooks.world import (
    Object,
    ago,
    answer,
    ask,
    cause,
    codes,
    commands,
    container,
    event,
    gpu,
    node,
    none_of,
    owner,
    pod,
    quotes,
    record,
    refused,
)

POST = 'failed to call webhook: Post "https://x.svc:443/webhook?timeout=10s": '
INSUFFICIENT = refused(none_of(3, "3 Insufficient nvidia.com/gpumem"))
REJECTED = "2026/11/21 04:58:00 http: TLS handshake error from 10.0.0.9:4711: remote error: tls: bad certificate\n"


def bypassed(**fields: Any) -> Object:
    """A pod that default-scheduler refuses, 2 minutes old."""
    return pod(**{"schedulerName": "default-scheduler", "said": INSUFFICIENT} | fields)


def namespace(name: str = "ml", **labels: str) -> Object:
    labels = {"kubernetes.io/metadata.name": name} | labels
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def hooked(objects: Sequence[Object], policy: str = "Ignore", **client: Any) -> list[Object]:
    """The installation with another webhook."""
    return [*without(list(objects), "MutatingWebhookConfiguration"), webhook(policy, **client)]


def selecting(which: str, **wanted: Any) -> list[Object]:
    """A healthy installation whose webhook has another selector."""

    def change(one: Object) -> None:
        one["webhooks"][0][which] = wanted

    return changed(healthy(), "MutatingWebhookConfiguration", change)


def nobody_answers(policy: str = "Ignore") -> list[Object]:
    return [*without(hooked(healthy(), policy), "EndpointSlice"), endpoints()]


BOTH = pytest.mark.parametrize("one", [bypassed(), refused_on_the_node()], ids=["waits", "refused on the node"])


def after(one: Object) -> list[str]:
    """What follows from the cause."""
    return ["allocate-failed"] if one["status"]["phase"] == "Failed" else []


# --------------------------------------------------------------------------------------- the webhook's own faults


@BOTH
def test_a_webhook_without_an_endpoint_is_why_hami_missed_the_pod(tmp_path: Path, one: Object) -> None:
    report = ask(tmp_path, [*nobody_answers(), namespace(), one])
    assert codes(report) == ["webhook-unreachable", "webhook-bypassed", *after(one)]
    assert "bypass HAMi" in cause(report).claim
    assert cause(report).confidence == "confirmed"


def test_a_service_that_selects_no_scheduler_pod_is_told_which_label_is_wrong(tmp_path: Path) -> None:
    def change(service: Object) -> None:
        service["spec"]["selector"] = {"app.kubernetes.io/component": "hami-scheduler", "release": "old"}

    objects = changed(nobody_answers(), "Service", change)
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert "selects release=old, which no scheduler pod has" in cause(report).claim
    assert "old" in quotes(report)


def test_a_webhook_whose_service_is_gone_is_why(tmp_path: Path) -> None:
    objects = without(without(healthy(), "Service"), "EndpointSlice")
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert codes(report) == ["webhook-unreachable", "webhook-bypassed"]
    assert "does not exist" in cause(report).claim


@pytest.mark.parametrize(
    ("client", "said"),
    [({"port": 8443}, "it calls port 8443"), ({"port": 443, "path": "/mutate"}, "it calls the path /mutate")],
)
def test_a_webhook_that_calls_a_wrong_port_or_path_reaches_nobody(tmp_path: Path, client: Object, said: str) -> None:
    objects = hooked(healthy(), service={"namespace": "hami-system", "name": "hami-scheduler", **client})
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert codes(report) == ["webhook-unreachable", "webhook-bypassed"]
    assert said in cause(report).claim


def test_a_service_that_sends_requests_to_a_port_where_hami_does_not_listen_reaches_nobody(tmp_path: Path) -> None:
    def change(service: Object) -> None:
        service["spec"]["ports"][0]["targetPort"] = 9443

    report = ask(tmp_path, [*changed(healthy(), "Service", change), namespace(), bypassed()])
    assert codes(report) == ["webhook-unreachable", "webhook-bypassed"]
    assert "port 9443, HAMi listens on 443" in cause(report).claim


def test_a_service_whose_port_is_named_is_not_judged_by_its_number(tmp_path: Path) -> None:
    def change(service: Object) -> None:
        service["spec"]["ports"][0]["targetPort"] = "https"

    report = ask(tmp_path, [*changed(healthy(), "Service", change), namespace(), bypassed()])
    assert codes(report) == ["webhook-bypassed"]


@BOTH
def test_a_certificate_that_the_caller_rejects_is_why(tmp_path: Path, one: Object) -> None:
    report = ask(tmp_path, [*healthy(), namespace(), one], logs=REJECTED)
    assert codes(report) == ["webhook-untrusted", "webhook-bypassed", *after(one)]
    assert REJECTED.rstrip() in quotes(report)
    assert cause(report).confidence == "confirmed"  # the pod was created at that second


def test_a_rejected_certificate_is_only_suspected_when_the_pod_was_created_at_another_time(tmp_path: Path) -> None:
    report = ask(tmp_path, [*healthy(), namespace(), bypassed(age=600)], logs=REJECTED)
    assert (codes(report)[0], cause(report).confidence) == ("webhook-untrusted", "suspected")


@pytest.mark.parametrize(
    "line",
    [
        REJECTED.replace("10.0.0.9", "127.0.0.1"),
        REJECTED.replace("10.0.0.9", "[::1]"),
        REJECTED.replace("04:58:00", "03:58:00"),
        REJECTED.replace("remote error: tls: bad certificate", "EOF"),
    ],
    ids=["kube-scheduler's own", "the same over IPv6", "an hour ago", "a health check"],
)
def test_other_handshakes_that_ended_are_no_fault_of_the_certificate(tmp_path: Path, line: str) -> None:
    assert codes(ask(tmp_path, [*healthy(), namespace(), bypassed()], logs=line)) == ["webhook-bypassed"]


def test_a_webhook_that_is_not_registered_is_why(tmp_path: Path) -> None:
    objects = without(healthy(), "MutatingWebhookConfiguration")
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert codes(report) == ["webhook-missing", "webhook-bypassed"]


def test_a_scheduler_that_is_down_comes_before_its_webhook(tmp_path: Path) -> None:
    objects = [*without(healthy(statuses=({"phase": "Pending"},)), "EndpointSlice"), endpoints()]
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert codes(report) == ["scheduler-down", "webhook-unreachable", "webhook-bypassed"]


def api_server_log(why: str, at: str) -> str:
    call = f'failed calling webhook "vgpu.hami.io": {POST}{why}'
    return f"W1121 {at}.000000       1 dispatcher.go:210] Failed calling webhook, failing open vgpu.hami.io: {call}\n"


def logged_by_api_servers(
    folder: Path, *logs: str, policy: str = "Ignore", ready: float = 9000, verb: str = ""
) -> Report:
    """What is said of a pod that went past HAMi, created at 04:58, or by `verb`. The scheduler is ready so long."""
    names = [f"cp-{number}" for number, _ in enumerate(logs, 1)]
    nodes = [node(name, labels={"node-role.kubernetes.io/control-plane": ""}) for name in names]
    objects = changed(hooked(healthy(), policy), "Pod", lambda object_: became_ready(object_, ready))
    log = "kube-system/kube-apiserver-{}/kube-apiserver"
    others = {log.format(name): text for name, text in zip(names, logs, strict=True)}
    path = record(folder, [*objects, *nodes, namespace(), bypassed()], others=others)
    return answer(verb, path, {}) if verb else answer("why", path, {}, pod="ml/wl")


def became_ready(one: Object, seconds: float) -> None:
    for condition in one["status"].get("conditions", ()):
        condition["lastTransitionTime"] = ago(seconds)


def logged_by_the_api_server(folder: Path, why: str, at: str = "04:58:00", **fields: Any) -> Report:
    return logged_by_api_servers(folder, api_server_log(why, at), **fields)


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("context deadline exceeded", "webhook-unreachable"),
        ("dial tcp 10.96.0.12:443: connect: no route to host", "webhook-unreachable"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "webhook-untrusted"),
    ],
)
def test_the_api_server_s_log_tells_what_no_object_shows(tmp_path: Path, why: str, code: str) -> None:
    report = logged_by_the_api_server(tmp_path, why)
    assert codes(report) == [code, "webhook-bypassed"]
    assert why in cause(report).claim
    assert "failurePolicy Ignore" in cause(report).claim


@pytest.mark.parametrize("verb", ["why", "status"])
def test_calls_that_failed_before_the_scheduler_was_ready_are_over(tmp_path: Path, verb: str) -> None:
    refusal = "dial tcp 10.96.0.12:443: connect: connection refused"
    report = logged_by_the_api_server(tmp_path, refusal, ready=100, verb=verb.replace("why", ""))
    assert "webhook-unreachable" not in codes(report)


def test_calls_that_fail_since_the_scheduler_is_ready_are_told_by_status(tmp_path: Path) -> None:
    report = logged_by_the_api_server(tmp_path, "context deadline exceeded", verb="status")
    assert (codes(report)[0], cause(report).confidence) == ("webhook-unreachable", "confirmed")


@pytest.mark.parametrize(("at", "confidence"), [("04:57:50", "confirmed"), ("04:59:50", "suspected")])
def test_a_failed_call_is_proven_to_be_why_only_when_the_pod_was_created(
    tmp_path: Path, at: str, confidence: str
) -> None:
    found = cause(logged_by_the_api_server(tmp_path, "context deadline exceeded", at))
    assert (found.code, found.confidence) == ("webhook-unreachable", confidence)


def test_of_several_api_servers_the_last_words_are_told(tmp_path: Path) -> None:
    logs = [api_server_log("context deadline exceeded", "04:58:10"), api_server_log("EOF", "04:57:50")]
    assert "context deadline exceeded" in cause(logged_by_api_servers(tmp_path, *logs)).claim


def test_an_old_line_of_the_api_server_s_log_is_history(tmp_path: Path) -> None:
    assert codes(logged_by_the_api_server(tmp_path, "EOF", at="03:58:00")) == ["webhook-bypassed"]


# --------------------------------------------------------------------------------------- what leaves the pod out


@BOTH
def test_a_namespace_that_the_webhook_leaves_out_is_named(tmp_path: Path, one: Object) -> None:
    report = ask(tmp_path, [*healthy(), namespace(**{"hami.io/webhook": "ignore"}), one])
    assert codes(report) == ["webhook-bypassed", *after(one)]
    assert "leaves out namespace ml (hami.io/webhook=ignore)" in cause(report).claim
    assert "ignore" in quotes(report)
    assert commands(report)[0] == "kubectl label namespace ml hami.io/webhook-"


def test_a_namespace_of_the_whitelist_is_named(tmp_path: Path) -> None:
    leaves_out = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "ml"]}
    objects = selecting("namespaceSelector", matchExpressions=[leaves_out])
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert "leaves out namespace ml (kubernetes.io/metadata.name=ml)" in cause(report).claim


def test_a_namespace_without_the_label_that_the_webhook_wants_is_named(tmp_path: Path) -> None:
    objects = selecting("namespaceSelector", matchLabels={"gpu-sharing": "on"})
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert codes(report) == ["webhook-bypassed"]
    assert "(gpu-sharing)" in cause(report).claim


@BOTH
def test_a_label_of_the_pod_that_opts_out_is_named(tmp_path: Path, one: Object) -> None:
    one = one | {"metadata": one["metadata"] | {"labels": {"hami.io/webhook": "ignore"}}}
    report = ask(tmp_path, [*healthy(), namespace(), one])
    assert codes(report) == ["webhook-bypassed", *after(one)]
    assert "hami.io/webhook=ignore" in cause(report).claim


def test_a_pod_without_the_label_that_the_webhook_wants_is_named(tmp_path: Path) -> None:
    wants = {"key": "team", "operator": "Exists"}
    objects = selecting("objectSelector", matchExpressions=[wants])
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert "objectSelector (team)" in cause(report).claim


def test_a_pod_that_is_older_than_the_webhook_only_needs_to_be_recreated(tmp_path: Path) -> None:
    def change(one: Object) -> None:
        one["metadata"]["creationTimestamp"] = ago(30)

    objects = changed(healthy(), "MutatingWebhookConfiguration", change)
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert codes(report) == ["webhook-bypassed"]
    assert "older than HAMi's webhook" in cause(report).claim


def test_a_privileged_pod_before_2_10_is_named_before_its_refusal(tmp_path: Path) -> None:
    privileged = container(gpu(), securityContext={"privileged": True})
    report = ask(tmp_path, [*healthy("2.9.0"), namespace(), refused_on_the_node(containers=[privileged])])
    assert codes(report) == ["webhook-bypassed", "allocate-failed"]
    assert "is privileged" in cause(report).claim


def test_a_request_of_an_init_container_alone_is_not_seen_before_2_10(tmp_path: Path) -> None:
    one = bypassed(containers=[container()], initContainers=[container(gpu(), name="init")])
    report = ask(tmp_path, [*healthy("2.9.0"), namespace(), one])
    assert "Only an init container requests nvidia.com/gpu" in cause(report).claim


def test_a_static_pod_never_passes_the_webhook(tmp_path: Path) -> None:
    one = refused_on_the_node(annotations={"kubernetes.io/config.mirror": "1"})
    report = ask(tmp_path, [*healthy(), namespace(), one])
    assert codes(report) == ["webhook-bypassed", "allocate-failed"]
    assert "static pod" in cause(report).claim


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_a_template_that_names_the_node_is_named(tmp_path: Path, kind: str) -> None:
    maker = owner(kind, "web")
    maker["spec"]["template"] = {"spec": {"nodeName": "gpu-1"}}
    report = ask(tmp_path, [*healthy(), namespace(), maker, refused_on_the_node(owner=maker)])
    assert codes(report) == ["webhook-bypassed", "allocate-failed"]
    assert "names its own node" in cause(report).claim


def test_a_pod_s_own_reason_comes_before_a_fault_of_the_webhook(tmp_path: Path) -> None:
    one = bypassed(labels={"hami.io/webhook": "ignore"})
    assert codes(ask(tmp_path, [*nobody_answers(), namespace(), one])) == ["webhook-bypassed", "webhook-unreachable"]


def test_a_scheduler_that_became_ready_after_the_pod_was_created_is_suspected(tmp_path: Path) -> None:
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(60)}]
    objects = healthy(statuses=({"phase": "Running", "conditions": ready},))
    for object_ in objects:
        if object_["kind"] == "Pod" and object_["metadata"]["name"].startswith("hami-scheduler"):
            object_["metadata"]["creationTimestamp"] = ago(300)
    report = ask(tmp_path, [*objects, namespace(), bypassed()])
    assert (codes(report)[0], cause(report).confidence) == ("webhook-bypassed", "suspected")
    assert "no scheduler pod was ready" in cause(report).claim


def test_volcano_s_pod_that_kubelet_refused_is_volcano_s(tmp_path: Path) -> None:
    limits = {"volcano.sh/vgpu-number": "1"}
    report = ask(tmp_path, [*healthy(), refused_on_the_node(limits=limits, schedulerName="volcano")])
    assert codes(report) == ["volcano-scheduled", "allocate-failed"]


def test_a_kube_scheduler_that_never_asks_hami_about_the_resource_is_misconfigured(tmp_path: Path) -> None:
    config = scheduler_config(CONFIG.replace("name: nvidia.com/gpu\n", "name: example.com/gpu\n"))
    objects = [*without(healthy(), "ConfigMap"), config]
    report = ask(tmp_path, [*objects, namespace(), refused_on_the_node(limits=gpu(), schedulerName="hami-scheduler")])
    assert codes(report) == ["extender-misconfigured", "allocate-failed"]
    assert "without asking HAMi" in cause(report).claim


# -------------------------------------------------------------------------------------------- what is not seen


@pytest.mark.parametrize(
    "missing", ["mutatingwebhookconfigurations", "services", "endpointslices", "namespaces", "logs"]
)
@pytest.mark.parametrize("objects", [nobody_answers(), healthy()], ids=["nobody answers", "well"])
def test_what_cannot_be_read_makes_the_answer_weaker_and_never_another(
    tmp_path: Path, objects: list[Object], missing: str
) -> None:
    whole = codes(ask(tmp_path, [*objects, namespace(), bypassed()]))
    report = ask(tmp_path / "less", [*objects, namespace(), bypassed()], missing=[missing])
    assert set(codes(report)) <= set(whole)
    assert "webhook-bypassed" in codes(report)
    assert report.gaps


def test_a_pod_that_hami_s_scheduler_has_is_not_asked_about_at_the_webhook(tmp_path: Path) -> None:
    report = ask(tmp_path, [*healthy(), pod()], missing=["mutatingwebhookconfigurations", "namespaces"])
    assert {"webhooks", "namespaces"}.isdisjoint(gap.source for gap in report.gaps)


# ------------------------------------------------------------------------------------------------ never created

CALL = f'Internal error occurred: failed calling webhook "vgpu.hami.io": {POST}'


def never_created(kind: str, why: str) -> tuple[list[Object], str]:
    """What owns a pod that could not be created, and how to ask about it."""
    top = owner(kind, "web")
    if kind != "Deployment":
        return [top, event(top, "FailedCreate", f"Error creating: {CALL}{why}")], f"{kind.lower()}/web"
    middle = owner("ReplicaSet", "web-6d5f", of=top)
    return [top, middle, event(middle, "FailedCreate", f"Error creating: {CALL}{why}")], "deploy/web"


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_a_webhook_that_fails_closed_is_why_no_pod_was_created(tmp_path: Path, kind: str) -> None:
    made, name = never_created(kind, 'no endpoints available for service "hami-scheduler"')
    report = ask(tmp_path, [*nobody_answers("Fail"), *made], name)
    assert codes(report) == ["webhook-unreachable", "admission-denied"]
    assert "No pod that it covers can be created" in cause(report).claim
    assert made[-1]["message"] in quotes(report)


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("context deadline exceeded", "webhook-unreachable"),
        ("dial tcp 10.96.0.12:443: connect: no route to host", "webhook-unreachable"),
        ("dial tcp 10.96.0.12:443: connect: connection refused", "webhook-unreachable"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "webhook-untrusted"),
        ("x509: certificate has expired or is not yet valid", "webhook-untrusted"),
    ],
)
def test_what_the_api_server_says_is_enough_where_the_objects_look_well(tmp_path: Path, why: str, code: str) -> None:
    made, name = never_created("Deployment", why)
    report = ask(tmp_path, [*hooked(healthy(), "Fail"), *made], name)
    assert codes(report) == [code, "admission-denied"]
    assert why in cause(report).claim
    assert cause(report).confidence == "confirmed"


def test_words_of_an_older_api_server_are_told_without_the_address_that_it_called(tmp_path: Path) -> None:
    top = owner("DaemonSet", "web")
    told = CALL.replace(POST, "Post https://x.svc:443/webhook?timeout=10s: ") + "dial tcp 10.96.1.2:443: i/o timeout"
    report = ask(tmp_path, [*hooked(healthy(), "Fail"), top, event(top, "FailedCreate", told)], "ds/web")
    assert codes(report) == ["webhook-unreachable", "admission-denied"]
    assert "(dial tcp 10.96.1.2:443: i/o timeout)" in cause(report).claim


def test_the_api_server_s_words_are_enough_where_nothing_else_can_be_read(tmp_path: Path) -> None:
    made, name = never_created("Job", "context deadline exceeded")
    unread = ["mutatingwebhookconfigurations", "services", "endpointslices", "deployments", "configmaps"]
    report = ask(tmp_path, [*hooked(healthy(), "Fail"), *made], name, missing=unread)
    assert codes(report) == ["webhook-unreachable", "admission-denied"]


def test_another_webhook_that_fails_closed_is_not_hami_s(tmp_path: Path) -> None:
    top = owner("Job", "web")
    told = CALL.replace("vgpu.hami.io", "validate.example.com") + "context deadline exceeded"
    report = ask(tmp_path, [*healthy(), top, event(top, "FailedCreate", f"Error creating: {told}")], "job/web")
    assert codes(report) == ["admission-denied"]
    assert "HAMi" not in report.verdict


# ----------------------------------------------------------------------------------------------------- pending


def pending(folder: Path, objects: Sequence[Object]) -> Report:
    return answer("pending", record(folder, objects), {})


def test_pending_gives_the_same_cause_as_why(tmp_path: Path) -> None:
    assert codes(pending(tmp_path, [*nobody_answers(), namespace(), bypassed()])) == ["webhook-unreachable"]


def test_pods_of_a_namespace_that_is_left_out_are_not_grouped_with_others(tmp_path: Path) -> None:
    apart = namespace("apart", **{"hami.io/webhook": "ignore"})
    others = [bypassed(), bypassed(name="wl-2", namespace="apart")]
    claims = [finding.claim for finding in pending(tmp_path, [*healthy(), namespace(), apart, *others]).findings]
    assert len(claims) == 2
    assert sum("leaves out namespace apart" in claim for claim in claims) == 1
