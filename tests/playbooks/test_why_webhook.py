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


def nobody_answers(policy: str = "Ignore") -> list[Object]:
    return [*without(hooked(healthy(), policy), "EndpointSlice"), endpoints()]


BOTH = pytest.mark.parametrize("one", [bypassed(), refused_on_the_node()], ids=["waits", "refused on the node"])


def after(one: Object) -> list[str]:
    """What follows from the cause."""
    return ["allocate-failed"] if one["status"]["phase"] == "Failed" else []


def hook(**fields: Any) -> list[Object]:
    """A healthy installation whose webhook has other fields."""
    return changed(healthy(), "MutatingWebhookConfiguration", lambda one: one["webhooks"][0].update(fields))


def calling(**service: Any) -> list[Object]:
    return hooked(healthy(), service={"namespace": "hami-system", "name": "hami-scheduler", **service})


def sending_to(port: int | str) -> list[Object]:
    """A healthy installation whose Service sends requests to another port."""
    return changed(healthy(), "Service", lambda one: one["spec"]["ports"][0].update(targetPort=port))


OLD = {"app.kubernetes.io/component": "hami-scheduler", "release": "old"}
SELECTS_OLD = changed(nobody_answers(), "Service", lambda one: one["spec"].update(selector=OLD))
SERVICE_GONE = without(without(healthy(), "Service"), "EndpointSlice")
HOOK_GONE = without(healthy(), "MutatingWebhookConfiguration")
YOUNG = changed(
    healthy(), "MutatingWebhookConfiguration", lambda one: one["metadata"].update(creationTimestamp=ago(30))
)
DOWN = [*without(healthy(statuses=({"phase": "Pending"},)), "EndpointSlice"), endpoints()]
NOT_ML = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "ml"]}
WHITELIST, LABELLED = {"matchExpressions": [NOT_ML]}, {"matchLabels": {"gpu-sharing": "on"}}
WITH_TEAM = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
OPTS_OUT = bypassed(labels={"hami.io/webhook": "ignore"})
PRIVILEGED = refused_on_the_node(containers=[container(gpu(), securityContext={"privileged": True})])
IN_INIT = bypassed(containers=[container()], initContainers=[container(gpu(), name="init")])
STATIC = refused_on_the_node(annotations={"kubernetes.io/config.mirror": "1"})
PAST, REFUSED = ["webhook-bypassed"], ["webhook-bypassed", "allocate-failed"]
UNREACHED = ["webhook-unreachable", *PAST]
WHYS: dict[str, tuple[list[Object], Object, list[str], str]] = {
    "a Service that selects no pod": (
        SELECTS_OLD,
        bypassed(),
        UNREACHED,
        "selects release=old, which no scheduler pod has",
    ),
    "a Service that is gone": (SERVICE_GONE, bypassed(), UNREACHED, "does not exist"),
    "a wrong port": (calling(port=8443), bypassed(), UNREACHED, "it calls port 8443"),
    "a wrong path": (calling(port=443, path="/mutate"), bypassed(), UNREACHED, "it calls the path /mutate"),
    "a port where HAMi does not listen": (sending_to(9443), bypassed(), UNREACHED, "port 9443, HAMi listens on 443"),
    "no fault: a port by its name": (sending_to("https"), bypassed(), PAST, ""),
    "a webhook that is not registered": (HOOK_GONE, bypassed(), ["webhook-missing", *PAST], ""),
    "first the scheduler that is down": (DOWN, bypassed(), ["scheduler-down", *UNREACHED], ""),
    "a namespace that a list leaves out": (
        hook(namespaceSelector=WHITELIST),
        bypassed(),
        PAST,
        "leaves out namespace ml (kubernetes.io/metadata.name=ml)",
    ),
    "a namespace without the label": (hook(namespaceSelector=LABELLED), bypassed(), PAST, "(gpu-sharing)"),
    "a pod without the label": (hook(objectSelector=WITH_TEAM), bypassed(), PAST, "objectSelector (team)"),
    "a pod that is older than the webhook": (YOUNG, bypassed(), PAST, "older than HAMi's webhook"),
    "a privileged container before 2.10": (healthy("2.9.0"), PRIVILEGED, REFUSED, "is privileged"),
    "init containers before 2.10": (healthy("2.9.0"), IN_INIT, PAST, "Only an init container requests nvidia.com/gpu"),
    "a static pod": (healthy(), STATIC, REFUSED, "static pod"),
    "first the pod's own label": (nobody_answers(), OPTS_OUT, [*PAST, "webhook-unreachable"], ""),
}


@pytest.mark.parametrize(("objects", "one", "told", "said"), WHYS.values(), ids=WHYS)
def test_why_hami_missed_the_pod_is_told_by_what_is_wrong_with_its_webhook_or_the_pod(
    tmp_path: Path, objects: list[Object], one: Object, told: list[str], said: str
) -> None:
    report = ask(tmp_path, [*objects, namespace(), one])
    assert codes(report) == told
    assert said in cause(report).claim
    assert objects is not SELECTS_OLD or "old" in quotes(report)


@pytest.mark.parametrize("selector", [WHITELIST, {"matchLabels": {"kubernetes.io/metadata.name": "gpu"}}])
def test_a_label_that_the_api_server_sets_or_the_selector_wants_is_not_to_be_removed(
    tmp_path: Path, selector: Object
) -> None:
    report = ask(tmp_path, [*hook(namespaceSelector=selector), namespace(), bypassed()])
    assert not [step for step in cause(report).next_actions if "label namespace" in step.command]


# --------------------------------------------------------------------------------------- the webhook's own faults


@BOTH
def test_a_webhook_without_an_endpoint_is_why_hami_missed_the_pod(tmp_path: Path, one: Object) -> None:
    report = ask(tmp_path, [*nobody_answers(), namespace(), one])
    assert codes(report) == ["webhook-unreachable", "webhook-bypassed", *after(one)]
    assert "bypass HAMi" in cause(report).claim
    assert cause(report).confidence == "confirmed"


@BOTH
def test_a_certificate_that_the_caller_rejects_is_why(tmp_path: Path, one: Object) -> None:
    report = ask(tmp_path, [*healthy(), namespace(), one], logs=REJECTED)
    assert codes(report) == ["webhook-untrusted", "webhook-bypassed", *after(one)]
    assert REJECTED.rstrip() in quotes(report)
    assert cause(report).confidence == "confirmed"  # the pod was created at that second
    commands = [action.command for action in cause(report).next_actions]
    assert "rollout restart deployment" in commands[1]  # it may serve a certificate of before
    assert [command for command in commands[2:] if "delete pod wl" not in command] == []


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
    ways = [action for action in cause(report).next_actions if "networkpolicies" in action.command]
    assert len(ways) == (code == "webhook-unreachable")


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


@BOTH
def test_a_label_of_the_pod_that_opts_out_is_named(tmp_path: Path, one: Object) -> None:
    one = one | {"metadata": one["metadata"] | {"labels": {"hami.io/webhook": "ignore"}}}
    report = ask(tmp_path, [*healthy(), namespace(), one])
    assert codes(report) == ["webhook-bypassed", *after(one)]
    assert "hami.io/webhook=ignore" in cause(report).claim


@BOTH
def test_a_pod_that_hami_missed_is_recreated_once(tmp_path: Path, one: Object) -> None:
    steps = cause(ask(tmp_path, [*healthy(), namespace(), one])).next_actions
    assert [step.key for step in steps].count("change.recreate") == 1


@BOTH
def test_a_pod_that_hami_missed_for_no_reason_that_can_be_seen_is_told_that_none_is_known(
    tmp_path: Path, one: Object
) -> None:
    found = cause(ask(tmp_path, [*healthy(), namespace(), one]))
    assert found.code == "webhook-bypassed"
    assert "Why is not known" in found.claim
    look = found.next_actions[0]
    assert look.command == "kubectl get mutatingwebhookconfiguration hami-webhook -o yaml"
    assert not look.changes_cluster


def test_what_hami_missed_for_a_fault_of_its_webhook_is_not_called_unexplained(tmp_path: Path) -> None:
    claims = [finding.claim for finding in ask(tmp_path, [*nobody_answers(), namespace(), bypassed()]).findings]
    assert not any("Why is not known" in claim for claim in claims)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_a_template_that_names_the_node_is_named(tmp_path: Path, kind: str) -> None:
    maker = owner(kind, "web")
    maker["spec"]["template"] = {"spec": {"nodeName": "gpu-1"}}
    report = ask(tmp_path, [*healthy(), namespace(), maker, refused_on_the_node(owner=maker)])
    assert codes(report) == ["webhook-bypassed", "allocate-failed"]
    assert "names its own node" in cause(report).claim


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
