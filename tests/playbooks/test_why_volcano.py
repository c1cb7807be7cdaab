"""Pods that Volcano places: its words count, and nobody is told to ask for HAMi's resources."""

from pathlib import Path

import pytest

from bot.kube.models import Node, ObjectMeta
from bot.report import Report
from playbooks.rules.waiting.volcano import cards
from tests.playbooks.world import (
    Object,
    ago,
    ask,
    cause,
    cluster,
    codes,
    commands,
    container,
    event,
    gpu,
    gpu_node,
    node,
    none_of,
    owner,
    pod,
    quotes,
    refused,
    running,
    scheduler,
)

GROUP = {"scheduling.k8s.io/group-name": "podgroup-1"}


def vgpu(number: int = 1, memory: int = 1000) -> Object:
    return {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory)}


def unavailable(reasons: str) -> Object:
    return refused(f"0/3 nodes are unavailable: {reasons}.")


@pytest.mark.parametrize(
    ("words", "means"),
    [
        ("1 no enough gpu cards on node b1, 2 Insufficient volcano.sh/vgpu-number", "at most one vGPU of each GPU"),
        ("3 not enough gpu cards on this node", "at most one vGPU of each GPU"),
        ("3 Insufficient volcano.sh/vgpu-memory", "offers too little of what the pod asks for"),
        ("1 node not initialized with devicehamivgpu, 2 Insufficient cpu", "has not registered a node"),
        ("3 hami-vgpuDeviceSharing error", "refused the node"),
        ("3 not enough gpu fitted on this node", "refused the node"),
    ],
)
def test_volcano_s_words_are_quoted_and_explained(tmp_path: Path, words: str, means: str) -> None:
    said = unavailable(words)
    report = ask(tmp_path, cluster(gpu_node(), pod(limits=vgpu(2), schedulerName="volcano", said=said)))
    assert codes(report) == ["volcano-scheduled"]
    assert means in cause(report).claim
    assert said["message"] in quotes(report)
    assert not any("nvidia.com/gpu" in action.label for action in cause(report).next_actions)


def volcanos(limits: Object | None = None, scheduler: str = "volcano", **fields: object) -> Object:
    return pod(limits=vgpu() if limits is None else limits, schedulerName=scheduler, **fields)


def others(scheduler: str = "default-scheduler", **fields: object) -> Object:
    """A pod for HAMi's resources that another scheduler has."""
    return pod(schedulerName=scheduler, **fields)


UNKNOWN, NO_VGPU = "3 a plugin of the year 2031 said no", "1 Insufficient volcano.sh/vgpu-number"
HAMIS = volcanos(gpu(memory=1000), said=unavailable("3 Insufficient nvidia.com/gpumem"))
BOTH_MODES = volcanos({"volcano.sh/gpu-memory": "1000"} | vgpu())
BY_WEBHOOK = others(containers=[container(gpu(), securityContext={"privileged": True})])
SIDECAR = container(name="sidecar", securityContext={"privileged": True})
NO_CPU = others(limits={}, said=refused(none_of(1, "1 Insufficient cpu")))
DOWN = scheduler(statuses=[], replicas=0)
VOLCANO, BYPASSED, NO_REQUEST = ["volcano-scheduled"], ["webhook-bypassed"], ["no-device-request"]
WHOSE: dict[str, tuple[list[Object], list[str], str]] = {
    "Volcano's words that nobody knows": (cluster(volcanos(said=unavailable(UNKNOWN))), VOLCANO, UNKNOWN[2:]),
    "Volcano's though it asks for nothing": (cluster(volcanos({})), VOLCANO, ""),
    "Volcano's by its PodGroup": (cluster(volcanos(scheduler="batch-volcano", annotations=GROUP)), VOLCANO, ""),
    "Volcano's resources under the default scheduler": (
        cluster(gpu_node(), volcanos(scheduler="default-scheduler", said=unavailable(NO_VGPU))),
        VOLCANO,
        "its scheduler is default-scheduler",
    ),
    "Volcano's resources under HAMi's scheduler": (
        cluster(gpu_node(), volcanos(scheduler="hami-scheduler", said=unavailable(NO_VGPU))),
        VOLCANO,
        "its scheduler is hami-scheduler",
    ),
    "HAMi 2.6's resources under Volcano": (cluster(HAMIS, version="2.6.1"), VOLCANO, "which only hami-scheduler hands"),
    "HAMi's resources under Volcano": (cluster(HAMIS), VOLCANO, "which only hami-scheduler hands out"),
    "both modes of Volcano's GPU sharing": (cluster(BOTH_MODES), VOLCANO, "the two modes cannot be mixed"),
    **{
        f"HAMi's scheduler misspelt {name}": (cluster(gpu_node(), others(name)), ["wrong-scheduler"], name)
        for name in ("hami-schedulr", "hmai-scheduler", "ham-scheduler", "hami_scheduler", "hami")
    },
    "an empty scheduler name": (cluster(others("")), BYPASSED, ""),
    **{
        f"a privileged container in {version}": (cluster(BY_WEBHOOK, version=version), BYPASSED, "is privileged")
        for version in ("2.6.1", "2.9.0")
    },
    "a privileged container in 2.10": (cluster(BY_WEBHOOK), BYPASSED, "webhook missed it"),
    "a privileged sidecar": (
        cluster(others(containers=[container(gpu()), SIDECAR]), version="2.9.0"),
        BYPASSED,
        "webhook missed it",
    ),
    "a label that turns the webhook off": (
        cluster(others(labels={"hami.io/webhook": "ignore"})),
        BYPASSED,
        "hami.io/webhook=ignore",
    ),
    "no request": (cluster(gpu_node(), pod(limits={})), NO_REQUEST, "nvidia.com/gpu"),
    "memory without a count": (cluster(gpu_node(), pod(limits={"nvidia.com/gpumem": "1000"})), NO_REQUEST, ""),
    "first what Kubernetes says": (cluster(gpu_node(), NO_CPU), ["kubernetes-filter", *NO_REQUEST], "Insufficient cpu"),
    "no concern of a HAMi that is down": ([*DOWN, gpu_node(), NO_CPU], ["kubernetes-filter", *NO_REQUEST], ""),
    "first that HAMi is down": ([*DOWN, gpu_node(), pod(limits={})], ["scheduler-down", *NO_REQUEST], ""),
}


@pytest.mark.parametrize(("objects", "told", "said"), WHOSE.values(), ids=WHOSE)
def test_whose_a_pod_is_and_what_it_asks_for_is_told_before_all_else(
    tmp_path: Path, objects: list[Object], told: list[str], said: str
) -> None:
    report = ask(tmp_path, objects)
    assert codes(report) == told
    assert said in report.verdict


NO_NVML = "I1121 04:10:01.200000       1 main.go:122] Failed to initialize NVML: could not load NVML library."
STARTED = (
    "I1121 04:20:01.200000       1 server.go:260] Registered device plugin for 'volcano.sh/vgpu-number' with Kubelet"
)
PLUGIN_LOG = "kube-system/volcano-device-plugin-x/volcano-device-plugin"


def volcano_plugin() -> Object:
    one = pod("volcano-device-plugin-x", {}, namespace="kube-system", labels={"name": "volcano-device-plugin"})
    image = "docker.io/projecthami/volcano-vgpu-device-plugin:v1.11.0"
    names = ["volcano-device-plugin", "monitor"]
    one["spec"] |= {"nodeName": "gpu-1", "containers": [{"name": name, "image": image} for name in names]}
    running = {"ready": True, "state": {"running": {"startedAt": ago(9000)}}}
    return one | {"status": {"phase": "Running", "containerStatuses": [{"name": name} | running for name in names]}}


def asked_with(tmp_path: Path, log: str) -> Report:
    said = unavailable("1 Insufficient volcano.sh/vgpu-number")
    objects = cluster(gpu_node(), pod(limits=vgpu(), schedulerName="volcano", said=said), volcano_plugin())
    return ask(tmp_path, objects, others={PLUGIN_LOG: f"{log}\n"})


def test_what_keeps_volcano_s_device_plugin_from_its_work_is_told_by_its_log(tmp_path: Path) -> None:
    report = asked_with(tmp_path, NO_NVML)
    assert codes(report) == ["volcano-scheduled"]
    assert "On gpu-1 Volcano's device plugin does not work: The container has no NVML library" in cause(report).claim
    assert NO_NVML in quotes(report)
    assert not [gap for gap in report.gaps if "volcano" in gap.source]


def test_a_volcano_plugin_that_registered_since_is_not_blamed(tmp_path: Path) -> None:
    assert "does not work" not in cause(asked_with(tmp_path, f"{NO_NVML}\n{STARTED}")).claim


def test_a_pod_group_that_the_queue_has_no_room_for_explains_its_pod(tmp_path: Path) -> None:
    one = pod(limits=vgpu(), schedulerName="volcano", annotations=GROUP)
    group = {"kind": "PodGroup", "metadata": {"name": "podgroup-1", "namespace": "ml", "uid": "uid-group"}}
    told = event(group, "Unschedulable", "queue resource quota insufficient: volcano.sh/vgpu-number")
    report = ask(tmp_path, cluster(one, told))
    assert codes(report) == ["volcano-scheduled"]
    assert "queue has no room" in cause(report).claim
    assert {"podgroup-1", told["message"]} <= set(quotes(report))
    assert "kubectl -n ml describe podgroups.scheduling.volcano.sh podgroup-1" in commands(report)


def test_a_pod_of_which_volcano_said_nothing_is_still_volcano_s(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod(limits=vgpu(), schedulerName="volcano")))
    assert codes(report) == ["volcano-scheduled"]
    assert "kubectl get pods -A -l app=volcano-scheduler" in commands(report)


def test_a_pod_group_alone_takes_no_pod_from_hami(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(annotations=GROUP)))
    assert "volcano-scheduled" not in codes(report)


def test_events_that_cannot_be_read_leave_volcano_s_condition(tmp_path: Path) -> None:
    said = unavailable("3 not enough gpu cards on this node")
    one = pod(limits=vgpu(2), schedulerName="volcano", annotations=GROUP, said=said)
    report = ask(tmp_path, cluster(one), missing=["events"])
    assert codes(report) == ["volcano-scheduled"]
    assert "events" in [gap.source for gap in report.gaps]


TAKEN = "requested number of devices unavailable for volcano.sh/vgpu-cores. Requested: 100, Available: 0"
DIED = "rpc error: code = Unavailable desc = error reading from server: EOF"
PANIC = "panic: runtime error: invalid memory address or nil pointer dereference"


def rejected(tmp_path: Path, why: str, *others: Object, log: str = "", state: Object | None = None) -> Report:
    """About a pod of Volcano's that kubelet refused; `state` is its device plugin's."""
    one = pod(limits=vgpu(), schedulerName="volcano", nodeName="gpu-1")
    message = f"Allocate failed due to {why}, which is unexpected"
    one["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message, "startTime": ago(120)}
    own = volcano_plugin()
    own["status"]["containerStatuses"][0] |= state or {}
    return ask(tmp_path, cluster(gpu_node(), one, own, *others), others={f"{PLUGIN_LOG}": log})


def test_what_kubelet_says_of_volcano_s_pod_is_not_put_into_volcano_s_mouth(tmp_path: Path) -> None:
    report = rejected(tmp_path, TAKEN)
    assert codes(report)[0] == "volcano-scheduled"
    assert "kubelet refused it" in cause(report).claim
    assert "Requested: 100, Available: 0" in cause(report).claim
    assert "from HAMi" not in " ".join(finding.claim for finding in report.findings)


def test_a_pod_that_is_being_deleted_is_the_holder_only_where_there_is_one(tmp_path: Path) -> None:
    ends = pod("old", vgpu(), uid="uid-old", nodeName="gpu-1", deleted=ago(30))
    assert "of ml/old, which is being deleted" in cause(rejected(tmp_path / "one", TAKEN, ends)).claim
    stays = pod("old", vgpu(), uid="uid-old", nodeName="gpu-1")
    assert "no pod with vGPUs is being deleted there" in cause(rejected(tmp_path / "none", TAKEN, stays)).claim


def test_a_panic_of_volcano_s_device_plugin_is_quoted(tmp_path: Path) -> None:
    down = {"ready": False, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    down["lastState"] = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": ago(20)}}
    report = rejected(tmp_path, DIED, log=f"{PANIC}\n[signal SIGSEGV]\n", state=down)
    assert PANIC in quotes(report)
    assert codes(report)[0] == "volcano-scheduled"


DENIED = 'admission webhook "vgpu.hami.io" denied the request: '


# ------------------------------------------------------------------------------------------- never created


def refused_deployment(why: str) -> list[Object]:
    """A Deployment whose ReplicaSet may not create its pod."""
    top = owner("Deployment", "trainer")
    middle = owner("ReplicaSet", "trainer-6d5f7c9b8", of=top)
    return cluster(top, middle, event(middle, "FailedCreate", f"Error creating: {why}"))


@pytest.mark.parametrize("asked", ["deploy/trainer", "ml/deploy/trainer", "trainer", "ml/trainer-6d5f7c9b8-x7k2p"])
def test_a_deployment_whose_pod_the_webhook_refused_is_told_why(tmp_path: Path, asked: str) -> None:
    report = ask(tmp_path, refused_deployment(DENIED + "pod has node assigned"), asked)
    assert codes(report) == ["admission-denied"]
    assert "HAMi's webhook refused it (pod has node assigned)" in report.verdict
    assert "ReplicaSet trainer-6d5f7c9b8" in report.verdict
    assert report.findings[0].evidence[0].quote.endswith("denied the request: pod has node assigned")
    assert "nodeSelector" in cause(report).next_actions[0].label


def test_an_annotation_that_only_hami_may_set_is_to_be_removed(tmp_path: Path) -> None:
    said = "annotation hami.io/vgpu-node is written by the scheduler and cannot be set when creating a pod"
    report = ask(tmp_path, refused_deployment(DENIED + said), "deploy/trainer")
    assert codes(report) == ["admission-denied"]
    assert "Remove that annotation" in cause(report).next_actions[0].label


def test_the_refusal_is_told_when_its_events_are_gone(tmp_path: Path) -> None:
    objects = refused_deployment("")[:-1]
    said = f"{DENIED}pod has node assigned"
    objects[-1]["status"] = {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": said}]
    }
    report = ask(tmp_path, objects, "deploy/trainer")
    assert codes(report) == ["admission-denied"]
    assert quotes(report) == [said]
    assert "replicaset trainer-6d5f7c9b8 -o" in cause(report).evidence[0].command
    assert all("-n ml " in command for command in commands(report))


def test_a_job_over_its_quota_is_told_to_look_at_the_quotas(tmp_path: Path) -> None:
    job = owner("Job", "train")
    refusal = event(job, "FailedCreate", f"Error creating: {DENIED}exceeding resource quota")
    report = ask(tmp_path, cluster(job, refusal), "job/train")
    assert "(exceeding resource quota)" in report.verdict
    assert commands(report)[0] == "kubectl -n ml get resourcequota -o yaml"


@pytest.mark.parametrize("asked", ["sts/db", "db-0", "db"])
def test_a_statefulset_with_a_privileged_container_is_told_why(tmp_path: Path, asked: str) -> None:
    top = owner("StatefulSet", "db")
    told = f"create Pod db-0 in StatefulSet db failed error: {DENIED}container main is privileged"
    report = ask(tmp_path, cluster(top, event(top, "FailedCreate", told)), asked)
    assert codes(report) == ["admission-denied"]
    assert "StatefulSet db" in report.verdict
    assert "(container main is privileged)" in report.verdict


def test_a_refusal_by_kubernetes_own_quota_is_not_blamed_on_hami(tmp_path: Path) -> None:
    why = 'pods "trainer-6d5f7c9b8-x" is forbidden: exceeded quota: cards, requested: requests.nvidia.com/gpu=1'
    report = ask(tmp_path, refused_deployment(why), "deploy/trainer")
    assert codes(report) == ["admission-denied"]
    assert "exceeded quota: cards" in report.verdict
    assert "HAMi" not in report.verdict


def test_the_newest_refusal_is_the_one_that_is_told(tmp_path: Path) -> None:
    job = owner("Job", "train")
    old = event(job, "FailedCreate", f"Error creating: {DENIED}pod has node assigned", 900)
    new = event(job, "FailedCreate", f"Error creating: {DENIED}exceeding resource quota", 30)
    assert "exceeding resource quota" in ask(tmp_path, cluster(job, old, new), "job/train").verdict


def test_a_rollout_whose_new_pods_are_refused_is_not_called_running(tmp_path: Path) -> None:
    top = owner("Deployment", "trainer")
    old, new = owner("ReplicaSet", "trainer-old", of=top, has=1), owner("ReplicaSet", "trainer-new", of=top)
    refusal = event(new, "FailedCreate", f"Error creating: {DENIED}pod has node assigned")
    objects = cluster(top, old, new, running("trainer-old-x", "gpu-1", owner=old), refusal)
    assert codes(ask(tmp_path, objects, "deploy/trainer")) == ["admission-denied"]


def test_an_old_refusal_of_a_deployment_that_has_all_its_pods_now_is_history(tmp_path: Path) -> None:
    top = owner("Deployment", "trainer")
    middle = owner("ReplicaSet", "trainer-1", of=top, has=1)
    refusal = event(middle, "FailedCreate", f"Error creating: {DENIED}pod has node assigned", 3000)
    objects = cluster(top, middle, running("trainer-1-x", "gpu-1", owner=middle), refusal)
    assert codes(ask(tmp_path, objects, "deploy/trainer")) == ["running"]


def test_a_refusal_of_another_owner_with_a_like_name_is_not_this_one_s(tmp_path: Path) -> None:
    other = owner("StatefulSet", "trainer-db")
    refusal = event(other, "FailedCreate", f"Error creating: {DENIED}pod has node assigned")
    objects = cluster(owner("Deployment", "trainer"), other, refusal)
    assert codes(ask(tmp_path, objects, "deploy/trainer")) == ["not-found"]


def test_without_events_an_absent_pod_is_not_found_and_the_gap_is_told(tmp_path: Path) -> None:
    report = ask(tmp_path, refused_deployment(DENIED + "x"), "deploy/trainer", missing=["events"])
    assert codes(report) == ["not-found"]
    assert "events" in [gap.source for gap in report.gaps]


# -------------------------------------------------------------------------------------------------- gates


def test_a_gated_pod_was_not_tried_whatever_else_is_wrong_with_it(tmp_path: Path) -> None:
    gated = pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}], schedulerName="default-scheduler")
    report = ask(tmp_path, cluster(gpu_node(), gated))
    assert codes(report) == ["scheduling-gated"]
    assert "kueue.x-k8s.io/admission" in report.verdict
    assert "Kueue has not admitted the pod" in report.verdict


# ------------------------------------------------------------------------------------------ other schedulers


@pytest.mark.parametrize("version", ["2.6.1", "2.10.0"])
@pytest.mark.parametrize("scheduler", ["koord-scheduler", "kai-scheduler", "gpu-share-scheduler"])
def test_a_pod_of_another_scheduler_is_left_to_it_with_its_words_and_no_advice(
    tmp_path: Path, version: str, scheduler: str
) -> None:
    said = refused("Resources were not found for 1 node(s)")
    report = ask(tmp_path, cluster(pod(schedulerName=scheduler, said=said), version=version))
    assert codes(report) == ["other-scheduler"]
    assert (cause(report).confidence, cause(report).next_actions) == ("confirmed", ())
    assert scheduler in report.verdict
    assert said["message"] in quotes(report)


@pytest.mark.parametrize(
    "reporter", [{"source": {"component": "kai-scheduler"}}, {"reportingComponent": "kai-scheduler"}]
)
def test_another_scheduler_s_words_may_be_an_event_with_a_reason_of_its_own(tmp_path: Path, reporter: Object) -> None:
    one = pod(schedulerName="kai-scheduler", limits={}, annotations={"gpu-fraction": "0.5"})
    older = event(one, "NotReady", "Job is not ready for scheduling", 90, **reporter)
    newer = event(one, "Unschedulable", "Resource quota exceeded for queue q", **reporter)
    others = event(one, "Injected", "a sidecar was added", 30, source={"component": "mesh"})
    report = ask(tmp_path, cluster(gpu_node(), one, newer, older, others))
    assert codes(report) == ["other-scheduler"]
    assert newer["message"] in report.verdict
    assert quotes(report) == ["kai-scheduler", newer["message"]]


def test_a_pod_left_to_the_default_scheduler_was_missed_by_the_webhook(tmp_path: Path) -> None:
    said = refused(none_of(3, "3 Insufficient nvidia.com/gpumem"))
    report = ask(tmp_path, cluster(gpu_node(), pod(schedulerName="default-scheduler", said=said)))
    assert codes(report) == ["webhook-bypassed"]
    assert said["message"] in quotes(report)
    assert any(action.changes_cluster for action in cause(report).next_actions)


def test_where_hami_is_told_to_leave_the_default_scheduler_alone_the_pod_must_name_hami_s(tmp_path: Path) -> None:
    install = scheduler(flags=["--force-overwrite-default-scheduler=false"])
    report = ask(tmp_path, [*install, pod(schedulerName="default-scheduler")])
    assert codes(report) == ["wrong-scheduler"]
    assert "Set spec.schedulerName: hami-scheduler (now default-scheduler)" in cause(report).next_actions[0].label


def test_where_hami_could_not_be_read_another_scheduler_is_only_suspected(tmp_path: Path) -> None:
    report = ask(tmp_path, [pod(schedulerName="koord-scheduler")], missing=["deployments"])
    assert (codes(report), cause(report).confidence) == (["other-scheduler"], "suspected")
    assert "deployments" in [gap.source for gap in report.gaps]


# ------------------------------------------------------------------------------------------- no request


def test_an_amount_with_a_suffix_is_no_request_to_2_10_and_a_huge_one_before(tmp_path: Path) -> None:
    asks = pod(limits=gpu(memory="5Gi"))
    report = ask(tmp_path / "new", cluster(gpu_node(), asks))
    assert codes(report) == ["no-device-request"]
    assert "nvidia.com/gpumem: 5Gi" in report.verdict
    assert codes(ask(tmp_path / "old", cluster(gpu_node(), asks, version="2.9.0")))[0] == "impossible-anywhere"


# ---------------------------------------------------------------------------------------- going away


def test_a_pod_that_is_being_deleted_is_placed_by_nobody(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(deleted=ago(-20))))
    assert codes(report) == ["terminating"]
    assert cause(report).severity == "info"
    assert "no scheduler places it any more" in report.verdict


def test_a_deletion_that_is_overdue_is_a_warning(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(deleted=ago(600))))
    assert (codes(report), cause(report).severity) == (["terminating"], "warning")
    assert "finalizer" in report.verdict


@pytest.mark.parametrize(("mode", "told"), [("mig", True), ("hami-core", False)])
def test_a_mode_that_no_node_of_volcano_s_has_is_told(tmp_path: Path, mode: str, told: bool) -> None:
    asks = {"annotations": {"volcano.sh/vgpu-mode": mode}, "said": unavailable("1 hami-vgpuDeviceSharing error")}
    one = pod(limits=vgpu(), schedulerName="volcano", **asks)
    register = {"volcano.sh/node-vgpu-register": "GPU-a,10,24576,100,NVIDIA-A10,true,hami-core:"}
    claim = cause(ask(tmp_path, cluster(node("b1", annotations=register), one))).claim
    assert ("no node registers any; b1 has mode hami-core" in claim) == told


def test_gpus_are_read_as_volcanos_plugin_registers_them_with_and_without_cores() -> None:
    older, newer = "GPU-a,10,24576,NVIDIA-A10,true,hami-core:", "GPU-b,10,81559,100,NVIDIA-H100,true,hami-core:"
    one = Node(metadata=ObjectMeta(name="n", annotations={"volcano.sh/node-vgpu-register": older + newer}))
    assert [(card.uuid, card.memory_mib, card.type, card.mode) for card in cards(one)] == [
        ("GPU-a", 24576, "NVIDIA-A10", "hami-core"),
        ("GPU-b", 81559, "NVIDIA-H100", "hami-core"),
    ]
