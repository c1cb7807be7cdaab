"""`nodes` about the cause of a problem: the device plugin's log and states, other plugins, faulty GPUs."""

import json
from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.node_side_support import (
    MONITOR_LOG,
    PLUGIN_LOG,
    RUNS,
    counted,
    crashing,
    plugin,
    rival,
    unlabelled,
)
from tests.playbooks.nodes_support import about
from tests.playbooks.status_support import daemon_set
from tests.playbooks.tables import only
from tests.playbooks.world import (
    HAMI,
    Object,
    ago,
    answer,
    ask,
    card,
    cause,
    cluster,
    codes,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quotes,
    record,
    refused,
    running,
)

NOT_LOADED = "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
UNKNOWN = "E1121 04:59:30.000000       1 main.go:128] Received error: failed to initialize NVML: Unknown Error"


def nodes(tmp_path: Path, *objects: Object, node: str = "", **logs: str) -> Report:
    names = {"plugin_log": PLUGIN_LOG, "monitor": MONITOR_LOG}
    others = {names[name]: text for name, text in logs.items()}
    return answer("nodes", record(tmp_path, cluster(*objects), others=others), {}, node=node)


def well(name: str) -> list[Object]:
    return [counted(name, capacity=20, allocatable=20), plugin(name)]


def test_the_cause_comes_first_and_its_consequences_on_that_node_are_not_told_twice(tmp_path: Path) -> None:
    sick = [counted(capacity=20, allocatable=0), plugin(device=crashing(code=128, message=NOT_LOADED))]
    report = nodes(tmp_path, *sick, *well("gpu-2"))
    assert codes(report)[0] == "driver-not-loaded"
    assert "device-plugin-not-ready" not in codes(report)
    assert NOT_LOADED in quotes(report)


def test_vgpumonitor_alone_takes_no_gpus_away(tmp_path: Path) -> None:
    objects = [counted(capacity=20, allocatable=20), plugin(monitor=crashing(code=0, reason="Completed"))]
    told = only(nodes(tmp_path, *objects, monitor=UNKNOWN), "device-plugin-not-ready")
    assert "hands out GPUs" in told.claim
    assert UNKNOWN in [proof.quote for proof in told.evidence]


NIL_MAP = "panic: assignment to entry in nil map"
STACK = f"{NIL_MAP}\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:60 +0x55\n"


def test_a_panic_of_the_monitor_that_no_signature_knows_is_quoted(tmp_path: Path) -> None:
    objects = [counted(capacity=20, allocatable=20), plugin(monitor=crashing(code=2))]
    told = only(nodes(tmp_path, *objects, monitor=STACK), "device-plugin-not-ready")
    assert f"Its log ends with: {NIL_MAP}" in told.claim


@pytest.mark.parametrize("container", ["device", "monitor"])
@pytest.mark.parametrize(("ended", "severity"), [(1800, "warning"), (20_000, "info")])
def test_a_panic_of_the_run_before_is_quoted_of_a_plugin_that_runs_again(
    tmp_path: Path, container: str, ended: float, severity: str
) -> None:
    last = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": ago(ended)}}
    again = RUNS | {"restartCount": 1, "lastState": last}
    log = {"device": PLUGIN_LOG, "monitor": MONITOR_LOG}[container] + ".previous"
    one = plugin(device=again) if container == "device" else plugin(monitor=again)
    objects = cluster(counted(capacity=20, allocatable=20), one, daemon_set(1))
    for verb in ("nodes", "status"):
        report = answer(verb, record(tmp_path / verb, objects, others={log: STACK}), {})
        told = only(report, "device-plugin-crash")
        assert (NIL_MAP in told.claim, told.severity) == (True, severity)
        assert "nodes-healthy" not in codes(report)


def test_of_many_nodes_whose_monitor_is_down_none_is_said_to_allocate_nothing(tmp_path: Path) -> None:
    names = [f"gpu-{number}" for number in range(5)]
    objects = [counted(name, capacity=20, allocatable=20) for name in names]
    objects += [plugin(name, monitor=crashing(code=0, reason="Completed")) for name in names]
    told = [
        finding.claim for finding in nodes(tmp_path, *objects).findings if finding.code == "device-plugin-not-ready"
    ]
    assert told
    assert [text for text in told if "allocates no GPUs" in text] == []


def test_a_second_plugin_is_named_instead_of_a_number_that_differs(tmp_path: Path) -> None:
    report = nodes(tmp_path, counted(capacity=2, allocatable=2), plugin(), rival())
    assert codes(report)[0] == "second-device-plugin"
    assert "allocatable-mismatch" not in codes(report)


def test_a_node_monitor_s_verdict_is_told_of_every_node_that_has_it(tmp_path: Path) -> None:
    names = [f"gpu-{number}" for number in range(5)]
    objects = [item for name in names for item in well(name)]
    for object_ in objects:
        if object_["kind"] == "Node" and object_["metadata"]["name"] != "gpu-4":
            object_["status"]["conditions"].append({"type": "GPUMissing", "status": "True", "message": "7 of 8 GPUs"})
    report = nodes(tmp_path, *objects)
    assert codes(report) == ["card-fault", "nodes-healthy"]
    assert cause(report).scope.nodes == ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
    assert "7 of 8 GPUs" in quotes(report)


def test_a_faulty_gpu_on_a_cordoned_node_is_told_apart_from_those_that_take_pods(tmp_path: Path) -> None:
    objects = [item for name in ("gpu-1", "gpu-2") for item in well(name)]
    for object_ in objects:
        if "conditions" in object_["status"] and object_["metadata"]["name"] in ("gpu-1", "gpu-2"):
            object_["status"]["conditions"].append({"type": "GPUMissing", "status": "True", "message": "7 of 8 GPUs"})
    objects[0]["spec"]["unschedulable"] = True
    faulty = [finding for finding in nodes(tmp_path, *objects).findings if finding.code == "card-fault"]
    assert sorted(finding.scope.nodes for finding in faulty) == [("gpu-1",), ("gpu-2",)]


def test_a_gpu_node_without_the_label_is_only_mentioned_while_others_have_the_plugin(tmp_path: Path) -> None:
    report = nodes(tmp_path, *well("gpu-1"), unlabelled(), daemon_set(1))
    assert only(report, "device-plugin-not-selected").severity == "info"
    assert report.severity == "info"


def test_asked_about_that_node_it_is_the_answer(tmp_path: Path) -> None:
    report = nodes(tmp_path, *well("gpu-1"), unlabelled(), daemon_set(1), node="gpu-9")
    assert codes(report) == ["device-plugin-not-selected"]
    assert report.severity == "warning"


def test_a_condition_about_gpus_that_nobody_knows_is_quoted_and_not_judged(tmp_path: Path) -> None:
    objects = well("gpu-1")
    condition = {"type": "AcmeGpuCheck", "status": "True", "reason": "Hot", "message": "GPU 2 is at 91 C"}
    objects[0]["status"]["conditions"].append(condition)
    report = nodes(tmp_path, *objects, node="gpu-1")
    assert codes(report) == ["nodes-healthy"]
    assert about(report)["AcmeGpuCheck"] == "True, Hot: GPU 2 is at 91 C"


TAINT = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]


@pytest.mark.parametrize("verb", ["nodes", "status"])
def test_a_node_with_the_plugin_s_label_and_a_taint_that_it_does_not_tolerate_is_no_purpose(
    tmp_path: Path, verb: str
) -> None:
    objects = cluster(*well("gpu-1"), unlabelled(labels={"gpu": "on"}, taints=TAINT), daemon_set(1))
    report = answer(verb, record(tmp_path, objects), {})
    (told,) = [found for found in report.findings if "nvidia.com/gpu=true:NoSchedule" in found.claim]
    assert told.severity == "warning"
    assert "devicePlugin.tolerations" in told.next_actions[0].label


def test_a_label_and_a_toleration_that_are_both_missing_are_both_told(tmp_path: Path) -> None:
    report = nodes(tmp_path, *well("gpu-1"), unlabelled(taints=TAINT), daemon_set(1), node="gpu-9")
    assert "lacks that label. Nor does the DaemonSet tolerate the taint nvidia.com/gpu=true" in cause(report).claim
    assert [action.changes_cluster for action in cause(report).next_actions] == [True, True, False]


def test_a_daemon_set_whose_affinity_leaves_a_node_out_is_told(tmp_path: Path) -> None:
    one = daemon_set(1)
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["t4"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    one["spec"]["template"]["spec"] |= {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}
    report = nodes(tmp_path, *well("gpu-1"), unlabelled(), one, node="gpu-9")
    assert "the node affinity of its DaemonSet leaves the node out" in cause(report).claim


def test_a_node_asked_for_is_known_to_have_gpus_by_its_cloud_s_label_too(tmp_path: Path) -> None:
    bare = node("gpu-9", labels={"k8s.amazonaws.com/accelerator": "nvidia-l4"})
    report = nodes(tmp_path, *well("gpu-1"), bare, daemon_set(1), node="gpu-9")
    assert codes(report) == ["device-plugin-not-selected"]


# ------------------------------------------------------------------------------------------ nothing is wrong is earned

FILES = "E1121 04:59:58.000000    2842 feedback.go:269] Failed to update container list: cache num not matched"
NO_PATCH = "E1121 04:59:59.000000       1 register.go:310] Failed to register annotation: patch node: forbidden"
WROTE = "I1121 04:59:59.500000       1 register.go:300] Successfully updated node annotation."
IN_USE = "Could not unload NVIDIA driver kernel modules, driver is in use"


def test_what_a_monitor_that_is_ready_says_is_told(tmp_path: Path) -> None:
    objects = [gpu_node("gpu-1"), plugin()]
    for part in objects[1]["spec"]["containers"]:
        part["image"] = "docker.io/projecthami/hami:v2.9.0"
    report = nodes(tmp_path, *objects, monitor=FILES)
    assert codes(report) == ["device-plugin-not-ready"]
    assert FILES in quotes(report)


def test_what_a_plugin_that_is_ready_has_not_got_done_is_told_until_it_is_done(tmp_path: Path) -> None:
    assert codes(nodes(tmp_path / "fails", *well("gpu-1"), plugin_log=NO_PATCH)) == ["device-plugin-crash"]
    done = nodes(tmp_path / "done", *well("gpu-1"), plugin_log=f"{NO_PATCH}\n{WROTE}")
    assert codes(done) == ["nodes-healthy"]


def test_a_run_before_the_one_that_works_is_no_fault(tmp_path: Path) -> None:
    again = {
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ago(7000)}},
    }
    others = {PLUGIN_LOG: "", f"{PLUGIN_LOG}.previous": UNKNOWN, MONITOR_LOG: ""}
    objects = [counted(capacity=20, allocatable=20), plugin(device=RUNS | again)]
    report = answer("nodes", record(tmp_path, cluster(*objects), others=others), {})
    assert codes(report) == ["nodes-healthy"]


def driver(on: str = "gpu-1", app: str = "nvidia-driver-daemonset", **status: object) -> Object:
    one = pod(f"{app}-{on}", {}, namespace="gpu-operator", nodeName=on, labels={"app": app}, age=3600)
    return one | {"status": {"phase": "Running", "containerStatuses": [{"name": "ctr"} | crashing() | status]}}


def drivers(app: str = "nvidia-driver-daemonset", ready: int = 0) -> Object:
    """The DaemonSet of such pods, of which so many are ready."""
    return daemon_set(9) | {
        "metadata": {"name": app, "namespace": "gpu-operator", "labels": {"app": app}},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": {"spec": {"containers": []}}},
        "status": {"desiredNumberScheduled": 9, "numberReady": ready},
    }


@pytest.mark.parametrize(
    ("app", "code"),
    [
        ("nvidia-driver-daemonset", "driver-not-loaded"),
        ("nvidia-operator-validator", "driver-not-loaded"),
        ("nvidia-container-toolkit-daemonset", "gpu-runtime-missing"),
    ],
)
def test_a_driver_s_pod_that_is_down_is_told_although_gpus_are_handed_out(tmp_path: Path, app: str, code: str) -> None:
    report = nodes(tmp_path, *well("gpu-1"), drivers(app), driver(app=app))
    assert codes(report) == [code]
    assert f"gpu-operator/{app}-gpu-1 (CrashLoopBackOff)" in cause(report).claim


def test_a_driver_that_is_in_use_leads_to_hami_s_label(tmp_path: Path) -> None:
    others = {"gpu-operator/nvidia-driver-daemonset-gpu-1/ctr.previous": f"Unloading modules...\n{IN_USE}"}
    objects = cluster(*well("gpu-1"), drivers(), driver())
    for one in objects:
        if selected := one["spec"].get("nodeSelector") if one["kind"] == "Pod" else None:
            one["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"} | selected
    report = answer("nodes", record(tmp_path, objects, others=others), {})
    assert IN_USE in quotes(report)
    assert cause(report).next_actions[0].command == "kubectl label node gpu-1 gpu-"


def test_of_many_nodes_every_one_is_named_whose_driver_is_down(tmp_path: Path) -> None:
    names = [f"gpu-{number}" for number in range(6)]
    objects = [item for name in names for item in well(name)]
    report = nodes(tmp_path, *objects, drivers(ready=4), driver("gpu-2"), driver("gpu-5"))
    assert codes(report) == ["driver-not-loaded", "nodes-healthy"]
    assert cause(report).scope.nodes == ("gpu-2", "gpu-5")


def test_a_driver_that_was_just_started_is_no_fault_of_a_node_that_works(tmp_path: Path) -> None:
    starts = driver(state={"waiting": {"reason": "PodInitializing"}}, lastState={}, restartCount=0)
    assert codes(nodes(tmp_path, *well("gpu-1"), drivers(), starts)) == ["nodes-healthy"]


def configured(**settings: object) -> Object:
    """The plugin's ConfigMap with these settings of gpu-1."""
    config = json.dumps({"nodeconfig": [{"name": "your-node-name"}, {"name": "gpu-1"} | settings]})
    metadata = {"name": "hami-device-plugin", "namespace": HAMI}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"config.json": config}}


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"operatingmode": "mig"}, "mode-not-fit", "operatingmode mig, and the GPUs are registered as hami-core"),
        ({"devicesplitcount": 5}, "registered-otherwise", "devicesplitcount to 5, and the GPUs are registered with 10"),
        ({"devicememoryscaling": 2}, "registered-otherwise", "devicememoryscaling to 2"),
        ({"devicecorescaling": 1.5}, "registered-otherwise", "devicecorescaling to 1.5"),
    ],
)
@pytest.mark.parametrize("verb", ["nodes", "status"])
def test_a_node_registered_otherwise_than_it_is_configured_is_told(
    tmp_path: Path, verb: str, settings: Object, code: str, said: str
) -> None:
    node = gpu_node("gpu-1", card("GPU-a", type="NVIDIA A100-SXM4-80GB", memory=81559))
    objects = cluster(node, plugin(), daemon_set(1), configured(**settings))
    found = [found for found in answer(verb, record(tmp_path, objects), {}).findings if found.code == code]
    assert said in found[0].claim
    assert any(proof.source == "configmap" for proof in found[0].evidence)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("deviceSplitCount: 5", "deviceSplitCount to 5, and the GPUs are registered with 10"),
        ("deviceMemoryScaling: 1.8", "deviceMemoryScaling to 1.8, and the GPUs are registered with 1"),
        ("deviceCoreScaling: 2", "deviceCoreScaling to 2, and the GPUs are registered with 1"),
    ],
)
@pytest.mark.parametrize("verb", ["nodes", "status"])
def test_nodes_registered_otherwise_than_all_are_configured_are_told(
    tmp_path: Path, verb: str, setting: str, said: str
) -> None:
    labels = {"nvidia.com/gpu.memory": "15360", "nvidia.com/gpu.product": "Tesla-T4"}
    nodes_ = [gpu_node(f"gpu-{at}", card(f"GPU-{at}"), labels=labels) for at in range(5)]
    plugins = [plugin(f"gpu-{at}") for at in range(5)]
    objects = cluster(*nodes_, *plugins, daemon_set(5), config=f"nvidia: {{{setting}}}")
    found = only(answer(verb, record(tmp_path, objects), {}), "registered-otherwise")
    assert said in found.claim
    assert setting in [proof.quote for proof in found.evidence]
    for one in plugins:
        flags = [f"--device-{word}=9" for word in ("split-count", "memory-scaling", "cores-scaling")]
        one["spec"]["containers"][0]["args"] = flags
    objects = cluster(*nodes_, *plugins, daemon_set(5), config=f"nvidia: {{{setting}}}")
    assert "registered-otherwise" not in codes(answer(verb, record(tmp_path / "by-flag", objects), {}))


def test_what_was_not_looked_at_is_said_of_nodes_that_are_well(tmp_path: Path) -> None:
    said = cause(nodes(tmp_path, *well("gpu-1"))).claim
    assert "Not looked at: settings, memory scaling of NVIDIA-Tesla T4" in said
    sized, its_plugin = well("gpu-1")
    sized["metadata"]["labels"] |= {"nvidia.com/gpu.memory": "15360", "nvidia.com/gpu.product": "Tesla-T4"}
    objects = cluster(sized, its_plugin, config="nvidia: {deviceSplitCount: 10}")
    assert "Not looked at" not in cause(answer("nodes", record(tmp_path / "read", objects), {})).claim


def test_a_pod_that_lacks_what_a_node_is_set_to_have_more_of_is_told_so(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 1/1 CardTimeSlicingExhausted"))
    holders = [running(f"holder-{at}", "gpu-1", ("GPU-gpu-1", 100, 0)) for at in range(10)]
    settings = "nvidia: {deviceSplitCount: 20}"
    objects = cluster(pod(limits=gpu(1, memory=100), said=said), gpu_node("gpu-1"), plugin(), *holders, config=settings)
    claim = cause(ask(tmp_path, objects)).claim
    assert "deviceSplitCount to 20, and the GPUs are registered with 10" in claim


def test_a_node_registered_as_it_is_configured_is_well(tmp_path: Path) -> None:
    as_it_is = configured(operatingmode="hami-core", devicesplitcount=10, devicememoryscaling=1, devicecorescaling=1.0)
    node = gpu_node("gpu-1", card("GPU-a", type="NVIDIA A100-SXM4-80GB", memory=81559))
    assert codes(nodes(tmp_path, node, plugin(), as_it_is)) == ["nodes-healthy"]


def test_a_mig_resource_that_kubelet_offers_none_of_is_told_of_every_node(tmp_path: Path) -> None:
    objects = [item for number in range(5) for item in well(f"gpu-{number}")]
    for item in objects:
        if item["kind"] == "Node":
            item["status"]["capacity"] |= {"nvidia.com/mig-1g.10gb": "7"}
            item["status"]["allocatable"] |= {"nvidia.com/mig-1g.10gb": "0"}
    report = nodes(tmp_path, *objects)
    assert "nodes-healthy" not in codes(report)
    assert {name for finding in report.findings for name in finding.scope.nodes} == {f"gpu-{at}" for at in range(5)}


def test_of_how_many_nodes_the_logs_were_read_is_said(tmp_path: Path) -> None:
    many = nodes(tmp_path / "many", *(item for number in range(5) for item in well(f"gpu-{number}")))
    assert "logs of 5 of 5 nodes" in cause(many).claim.partition("Not looked at: ")[2]
    few = nodes(tmp_path / "few", *well("gpu-1"), *well("gpu-2"))
    assert "the device plugins' logs of 2 of 2 nodes" in cause(few).claim


def test_a_pod_that_asks_for_the_mode_that_a_node_is_set_to_is_told_why_it_has_another(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 1/1 CardTypeMismatch"))
    asks = pod(annotations={"nvidia.com/vgpu-mode": "mig"}, said=said)
    set_ = configured(operatingmode="mig")
    report = ask(tmp_path, cluster(asks, gpu_node("gpu-1"), plugin(), set_))
    assert "operatingmode mig, and the GPUs are registered as hami-core" in cause(report).claim
