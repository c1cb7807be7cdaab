"""HAMi's own installation: found under any name, and told when it is down, leaderless or unwell."""

from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.refused_support import refused_on_the_node
from tests.playbooks.status_support import CONFIG, configured, healthy, without
from tests.playbooks.world import (
    COMPONENT,
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
    commands,
    event,
    gpu,
    gpu_node,
    none_of,
    pod,
    quotes,
    refused,
    running,
    scheduler,
)

RENAMED = """
nvidia:
  resourceCountName: example.com/vgpu
  resourceMemoryName: example.com/vmem
  resourceMemoryPercentageName: example.com/vmem-percentage
  resourceCoreName: example.com/vcores
"""
SIDECAR = {"name": "proxy", "image": "example/proxy:v1.2.3", "command": ["proxy", "--scheduler-name=wrong"]}
TOO_LITTLE = refused(none_of(1, "1 1/1 CardInsufficientMemory"))


def full_node() -> list[Object]:
    """A node with 6,384 MiB free and a pod that wants 9,000."""
    held = running("holder", "gpu-1", ("GPU-gpu-1", 10000, 0))
    return [gpu_node(), held, pod(limits=gpu(memory=9000), said=TOO_LITTLE)]


# --------------------------------------------------------------------------------------------------- names


def test_resources_renamed_in_the_device_config_are_understood(tmp_path: Path) -> None:
    renamed = {"example.com/vgpu": "1", "example.com/vmem": "9000"}
    node, held, waiting = full_node()
    node["status"]["allocatable"] = {"cpu": "8", "example.com/vgpu": "10"}
    waiting["spec"]["containers"][0]["resources"] = {"limits": renamed}
    report = ask(tmp_path, [*scheduler(config=RENAMED), node, held, waiting])
    assert codes(report) == ["card-insufficient-memory"]
    assert "9000" in quotes(report)


def test_under_renamed_resources_the_chart_s_names_ask_for_nothing(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(config=RENAMED), gpu_node(), pod(limits={"nvidia.com/gpu": "1"})])
    assert codes(report)[-1] == "no-device-request"


def test_an_unreadable_device_config_is_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(config="nvidia: [}"), *full_node()])
    assert codes(report) == ["card-insufficient-memory"]
    assert "device config" in [gap.source for gap in report.gaps]


def test_a_renamed_scheduler_is_hami_s_own(tmp_path: Path) -> None:
    node, held, waiting = full_node()
    waiting["spec"]["schedulerName"] = "gpu-scheduler"
    install = scheduler(scheduler_name="gpu-scheduler", name="gpu-hami-scheduler", namespace="gpu")
    assert codes(ask(tmp_path, [*install, node, held, waiting])) == ["card-insufficient-memory"]


def test_under_a_renamed_scheduler_the_usual_name_is_the_wrong_one(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(scheduler_name="gpu-scheduler"), *full_node()])
    assert codes(report) == ["wrong-scheduler"]
    assert "HAMi's is gpu-scheduler" in report.verdict


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_sidecar_is_not_taken_for_the_extender(tmp_path: Path, place: str) -> None:
    install = scheduler("2.7.1", **{place: [SIDECAR]})
    report = ask(tmp_path, [*install, gpu_node(text=True), *full_node()[1:]])
    assert codes(report) == ["card-insufficient-memory"]
    assert not report.gaps


@pytest.mark.parametrize(
    "labels", [COMPONENT, {"app": "hami-scheduler"}, {"team": "platform"}], ids=["chart", "guides", "own"]
)
def test_the_scheduler_is_found_by_label_or_by_its_container(tmp_path: Path, labels: Object) -> None:
    log = '''I1121 04:59:00.000000       1 score.go:275] "NodeUnfitPod" pod="ml/wl" node="gpu-1" reason="1/1 X"'''
    report = ask(tmp_path, [*scheduler(labels=labels, name="cards"), *full_node()], logs=log + "\n")
    assert codes(report) == ["card-insufficient-memory"]
    assert not report.gaps


def test_a_scheduler_under_labels_of_its_own_is_seen_to_be_down(tmp_path: Path) -> None:
    install = scheduler(labels={"team": "platform"}, name="cards", statuses=[{"phase": "Pending"}])
    assert codes(ask(tmp_path, [*install, *full_node()]))[0] == "scheduler-down"


def test_settings_name_the_install_where_there_are_two(tmp_path: Path) -> None:
    other = scheduler("2.7.1", name="trial", namespace="trial", scheduler_name="trial")
    settings = {"hami_namespace": "hami-system", "scheduler_deployment": "hami-scheduler"}
    report = ask(tmp_path, [*other, *scheduler(), *full_node()], settings=settings)
    assert codes(report) == ["card-insufficient-memory"]


def test_settings_that_name_no_install_are_a_gap(tmp_path: Path) -> None:
    settings = {"hami_namespace": "elsewhere", "scheduler_deployment": "hami-scheduler"}
    report = ask(tmp_path, cluster(*full_node()), settings=settings)
    assert "deployments" in [gap.source for gap in report.gaps]


def test_the_running_image_tells_the_version_and_not_the_chart(tmp_path: Path) -> None:
    install = scheduler("2.7.1")
    install[0]["metadata"]["labels"] = {**COMPONENT, "helm.sh/chart": "hami-2.10.0"}
    report = ask(tmp_path, [*install, gpu_node(), pod(said=refused(none_of(1, "1 node unregistered")))])
    assert "HAMi 2.7.1" in report.verdict


def test_an_unknown_version_is_a_gap_and_every_fitting_one_is_tried(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(image="example/hami:latest"), *full_node()])
    assert codes(report) == ["card-insufficient-memory"]
    assert "HAMi version" in [gap.source for gap in report.gaps]


def test_a_label_selector_that_is_none_is_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(flags=["--node-label-selector=???"]), *full_node()])
    assert codes(report) == ["card-insufficient-memory"]
    assert "scheduler flags" in [gap.source for gap in report.gaps]


# ---------------------------------------------------------------------------------------------- down


def unready(reason: str = "CrashLoopBackOff", **fields: Object) -> Object:
    waiting = {"name": EXTENDER, "restartCount": 7, "state": {"waiting": {"reason": reason}}}
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status: [x]"}],
        "containerStatuses": [waiting | fields],
    }


def test_a_crashing_scheduler_is_the_cause_and_says_how_it_fails(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[unready()]), gpu_node(), pod()])
    assert codes(report)[0] == "scheduler-down"
    assert (report.severity, cause(report).confidence) == ("critical", "confirmed")
    assert "No HAMi scheduler pod is ready in hami-system (CrashLoopBackOff)" in report.verdict
    assert commands(report)[0] == "kubectl -n hami-system describe pods hami-scheduler-0"


def test_a_scheduler_whose_image_does_not_come_is_told_with_the_image_and_without_a_log_that_it_never_wrote(
    tmp_path: Path,
) -> None:
    words = 'Back-off pulling image "registry.k8s.io/kube-scheduler:v1.33.4"'
    waiting = {"name": "kube-scheduler", "state": {"waiting": {"reason": "ImagePullBackOff", "message": words}}}
    report = ask(tmp_path, [*scheduler(statuses=[unready() | {"containerStatuses": [waiting]}]), gpu_node(), pod()])
    assert codes(report)[0] == "scheduler-down"
    assert words in cause(report).claim
    assert words in quotes(report)
    assert not any("--previous" in command for command in commands(report))
    crashing = ask(tmp_path / "other", [*scheduler(statuses=[unready()]), gpu_node(), pod()])
    assert any("--previous" in command for command in commands(crashing))


def test_a_scheduler_that_is_not_ready_is_quoted_by_its_condition(tmp_path: Path) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "message": "not yet"}]}
    report = ask(tmp_path, [*scheduler(statuses=[status]), gpu_node(), pod()])
    assert codes(report)[0] == "scheduler-down"
    assert "not yet" in quotes(report)


def test_a_scheduler_pod_that_finds_no_node_is_quoted_by_what_kubernetes_says(tmp_path: Path) -> None:
    stuck = {"phase": "Pending", "conditions": [refused(none_of(3, "3 node(s) didn't match pod anti-affinity rules"))]}
    report = ask(tmp_path, [*scheduler(statuses=[stuck]), gpu_node(), pod()])
    assert "anti-affinity" in report.verdict


def test_a_scheduler_scaled_to_zero_is_told_as_that(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[], replicas=0), gpu_node(), pod()])
    assert codes(report)[0] == "scheduler-down"
    assert "is scaled to 0" in report.verdict
    assert commands(report)[0].endswith("scale deployment hami-scheduler --replicas=1")
    assert cause(report).next_actions[0].changes_cluster


def test_a_registered_node_without_a_scheduler_is_told_and_only_suspected(tmp_path: Path) -> None:
    report = ask(tmp_path, [gpu_node(), pod()])
    assert (codes(report)[0], cause(report).confidence) == ("scheduler-down", "suspected")
    assert "No HAMi scheduler was found" in report.verdict


def test_without_a_scheduler_a_pod_was_not_missed_by_a_webhook_first_of_all(tmp_path: Path) -> None:
    report = ask(tmp_path, [gpu_node(), pod(schedulerName="default-scheduler")])
    assert codes(report) == ["scheduler-down", "webhook-bypassed"]


def test_a_scheduler_that_could_not_be_looked_for_is_not_called_absent(tmp_path: Path) -> None:
    report = ask(tmp_path, [gpu_node(), pod()], missing=["deployments"])
    assert "scheduler-down" not in codes(report)
    assert "deployments" in [gap.source for gap in report.gaps]


# ------------------------------------------------------------------------------------------- leader


@pytest.mark.parametrize(("version", "leads"), [("2.7.1", False), ("2.8.1", True), ("2.10.0", True)])
def test_an_expired_lease_matters_since_2_8(tmp_path: Path, version: str, leads: bool) -> None:
    objects = [*scheduler(version, renewed=600), gpu_node(text=not leads), pod()]
    assert ("scheduler-no-leader" in codes(ask(tmp_path, objects))) is leads


def test_a_fresh_lease_is_a_leader(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, [*scheduler(renewed=20), gpu_node(), pod()])) == ["waiting-for-retry"]


def test_a_released_lease_is_none(tmp_path: Path) -> None:
    install = scheduler()
    install[2]["spec"]["holderIdentity"] = ""
    assert codes(ask(tmp_path, [*install, gpu_node(), pod()]))[0] == "scheduler-no-leader"


# ------------------------------------------------------------------------------------------ degraded


def restarted(seconds: float, reason: str = "OOMKilled") -> Object:
    ended = {"reason": reason, "exitCode": 137, "finishedAt": ago(seconds)}
    status = {"name": EXTENDER, "ready": True, "restartCount": 2, "state": {"running": {}}}
    return {**READY, "containerStatuses": [status | {"lastState": {"terminated": ended}}]}


def test_a_recent_oom_kill_comes_first_where_nothing_else_explains_the_pod(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[restarted(100)]), gpu_node(), pod()])
    assert codes(report) == ["scheduler-degraded", "waiting-for-retry"]
    assert "OOMKilled" in report.verdict


def test_a_recent_oom_kill_comes_after_a_cause_that_is_known(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[restarted(100)]), *full_node()])
    assert codes(report) == ["card-insufficient-memory", "scheduler-degraded"]


def test_an_old_restart_is_not_told(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[restarted(3600)]), gpu_node(), pod()])
    assert codes(report) == ["waiting-for-retry"]


def test_an_exit_without_a_reason_is_told_by_its_code(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[restarted(100, "")]), gpu_node(), pod()])
    assert "137" in quotes(report)


def test_one_replica_that_is_not_ready_beside_one_that_is_is_background(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(statuses=[READY, unready()], replicas=2), *full_node()])
    assert codes(report) == ["card-insufficient-memory", "scheduler-degraded"]
    assert report.findings[1].severity == "info"


@pytest.mark.parametrize(
    "message",
    [
        'Post "https://127.0.0.1:443/filter": dial tcp 127.0.0.1:443: connect: connection refused',
        'Post "https://127.0.0.1:443/filter": context deadline exceeded (Client.Timeout exceeded)',
        "context deadline exceeded",
        "failed filter with extender at URL https://127.0.0.1:443/filter, code 500",
    ],
)
def test_an_extender_that_does_not_answer_is_critical(tmp_path: Path, message: str) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message))))
    assert (codes(report), report.severity) == (["scheduler-degraded"], "critical")
    assert message in quotes(report)
    assert commands(report) == ["kubectl -n hami-system get pods hami-scheduler-0"]


@pytest.mark.parametrize(
    "message",
    [
        'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
        'Post "https://10.96.0.1:443/api/v1/namespaces/ml/pods/wl/binding": dial tcp: connect: connection refused',
        'Patch "https://10.96.0.1:443/api/v1/nodes/gpu-1": context deadline exceeded',
    ],
)
def test_a_deadline_of_another_call_is_not_blamed_on_the_extender_s_filter(tmp_path: Path, message: str) -> None:
    assert codes(ask(tmp_path, cluster(gpu_node(), pod(said=bind_error(message))))) == ["binding-failed"]


NO_EXTENDER = CONFIG[: CONFIG.index("extenders:")]
NO_ANSWER = 'Post "https://127.0.0.1:443/filter": context deadline exceeded (Client.Timeout exceeded)'
CODE_400 = "failed filter with extender at URL http://127.0.0.1:443/filter, code 400"
ACCOUNT = "system:serviceaccount:{}:hami-scheduler"
FORBIDDEN = 'pods "wl" is forbidden: User "{}" cannot patch resource "pods" in API group "" in the namespace "ml"'


def with_config(text: str, *objects: Object) -> list[Object]:
    return [*configured(healthy(), text), gpu_node(), *objects]


def unled(version: str = "2.10.0") -> list[Object]:
    flags = ["--leader-elect-resource-namespace=elsewhere"]
    return [*without(healthy(version, flags=flags), "Lease"), gpu_node()]


def failed_filter(message: str, **fields: Any) -> list[Object]:
    one = pod(said=bind_error(message), **fields)
    return [*healthy(), gpu_node(), one, event(one, "FilteringFailed", message)]


def test_a_profile_of_another_name_explains_why_nobody_tries_the_pod(tmp_path: Path) -> None:
    text = CONFIG.replace("schedulerName: hami-scheduler", "schedulerName: gpu-scheduler")
    report = ask(tmp_path, with_config(text, pod(age=900)))
    assert codes(report)[0] == "extender-misconfigured"
    assert "no profile is called hami-scheduler, its profiles are: gpu-scheduler" in report.verdict
    assert "- schedulerName: gpu-scheduler" in quotes(report)


def test_a_profile_of_another_name_explains_nothing_of_a_pod_that_hami_refused(tmp_path: Path) -> None:
    text = CONFIG.replace("schedulerName: hami-scheduler", "schedulerName: gpu-scheduler")
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    assert codes(ask(tmp_path, with_config(text, pod(said=said))))[0] != "extender-misconfigured"


def test_an_address_that_hami_does_not_listen_at_explains_why_the_extender_did_not_answer(tmp_path: Path) -> None:
    text = CONFIG.replace("https://127.0.0.1:443", "http://127.0.0.1:443")
    report = ask(tmp_path, with_config(text, pod(said=bind_error(CODE_400))))
    assert codes(report)[0] == "extender-misconfigured"
    assert "it calls http://127.0.0.1:443, HAMi listens on https://0.0.0.0:443" in report.verdict
    assert CODE_400 in quotes(report)


def test_the_extender_s_silence_is_told_as_such_where_the_address_is_right(tmp_path: Path) -> None:
    report = ask(tmp_path, with_config(CONFIG, pod(said=bind_error(CODE_400))))
    assert codes(report)[0] == "scheduler-degraded"


def test_without_an_extender_a_pod_is_placed_without_hami(tmp_path: Path) -> None:
    one = refused_on_the_node(schedulerName="hami-scheduler")
    report = ask(tmp_path, with_config(NO_EXTENDER, one))
    assert codes(report)[0] == "extender-misconfigured"
    assert "does not name HAMi's extender" in report.verdict


def test_without_an_extender_kube_scheduler_looks_for_hami_s_resources_on_the_nodes(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 Insufficient nvidia.com/gpumem"))
    report = ask(tmp_path, with_config(NO_EXTENDER, pod(said=said)))
    assert codes(report)[0] == "extender-misconfigured"
    assert "does not name HAMi's extender" in report.verdict


def test_an_extender_that_waits_for_a_lease_that_nobody_holds_does_not_answer(tmp_path: Path) -> None:
    report = ask(tmp_path, [*unled(), pod(said=bind_error(NO_ANSWER))])
    assert codes(report)[0] == "scheduler-no-leader"
    assert "its lease elsewhere/hami-scheduler does not exist" in report.verdict
    assert NO_ANSWER in quotes(report)


def test_before_2_8_no_lease_is_needed_to_answer(tmp_path: Path) -> None:
    report = ask(tmp_path, [*unled("2.7.1"), pod(said=bind_error(NO_ANSWER))])
    assert codes(report)[0] == "scheduler-degraded"


@pytest.mark.parametrize("stage", ["filter", "bind"])
def test_what_the_api_server_forbids_hami_is_told_as_that(tmp_path: Path, stage: str) -> None:
    words = FORBIDDEN.format(ACCOUNT.format(HAMI))
    objects = failed_filter(words) if stage == "filter" else [*healthy(), gpu_node(), pod(said=bind_error(words))]
    report = ask(tmp_path, objects)
    assert codes(report)[0] == "scheduler-forbidden"
    assert f"kubectl auth can-i patch pods --as={ACCOUNT.format(HAMI)}" in commands(report)


def test_what_is_forbidden_to_somebody_else_is_quoted_and_not_blamed_on_hami_s_rights(tmp_path: Path) -> None:
    report = ask(tmp_path, failed_filter(FORBIDDEN.format(ACCOUNT.format("elsewhere"))))
    assert codes(report)[0] == "filtering-failed"


def test_an_error_of_the_filter_is_not_taken_for_a_refused_bind(tmp_path: Path) -> None:
    words = 'calcScore failed invalid hami.io/device-scoring-weights annotation "slot=1": missing weight for "core"'
    report = ask(tmp_path, failed_filter(words))
    assert (codes(report)[0], cause(report).confidence) == ("filtering-failed", "confirmed")
    assert words in cause(report).claim


def test_volumes_that_kube_scheduler_cannot_bind_are_not_blamed_on_hami(tmp_path: Path) -> None:
    words = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    report = ask(tmp_path, [*healthy(), gpu_node(), pod(said=bind_error(words))])
    assert codes(report)[0] == "binding-failed"
    assert "its plugin VolumeBinding failed before the pod was bound" in report.verdict
    assert commands(report) == ["kubectl -n ml get pvc"]
