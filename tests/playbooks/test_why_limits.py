"""Placed pods whose GPU limit cannot hold, or whose GPU others fill: by the pod, its log, its node and its metrics."""

import json
from pathlib import Path

import pytest

from tests.playbooks.inside_support import (
    CORE,
    GONE,
    HALF,
    ILLEGAL,
    MISSING,
    OOM,
    WAITS,
    asked,
    env,
    looping,
    placed,
    plugin,
    with_container,
)
from tests.playbooks.world import (
    Object,
    ask,
    card,
    cause,
    cluster,
    codes,
    container,
    event,
    given,
    gpu,
    gpu_node,
    pod,
    quotes,
    scheduler,
)

# ---------------------------------------------------------------------------------------- limits that cannot hold


SOCKET = {
    "volumes": [{"name": "run", "hostPath": {"path": "/var/run/docker.sock"}}],
    "volumeMounts": [{"name": "run", "mountPath": "/var/run/docker.sock"}],
}


@pytest.mark.parametrize(
    ("fields", "quote"),
    [
        (env("CUDA_DISABLE_CONTROL", "true"), "true"),
        (env("NVIDIA_VISIBLE_DEVICES", "all"), "all"),
        (env("CUDA_DEVICE_MEMORY_LIMIT_0", "0"), "0"),
        (env("CUDA_VISIBLE_DEVICES", "GPU-0"), "GPU-0"),
        ({"image": "docker.io/library/python:3.12-alpine3.20"}, "docker.io/library/python:3.12-alpine3.20"),
        ({"image": "registry.acme.io:5000/ocr-musl:3"}, "registry.acme.io:5000/ocr-musl:3"),
        ({"image": "docker:27-dind"}, "docker:27-dind"),
        ({"runtimeClassName": "kata-qemu"}, "kata-qemu"),
        (SOCKET, "/var/run/docker.sock"),
    ],
)
def test_a_limit_that_cannot_hold_is_told_with_what_turns_it_off(tmp_path: Path, fields: Object, quote: str) -> None:
    report = asked(tmp_path, with_container(**fields))
    assert codes(report) == ["limit-not-enforced"]
    assert quote in quotes(report)


def test_a_hang_tells_which_hami_core_the_node_has(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(), plugin(5000, "projecthami/hami:v2.8.0"), log=WAITS)
    assert "HAMi-core of HAMi 2.8.0" in cause(report).claim
    assert "projecthami/hami:v2.8.0" in quotes(report)


def faulty() -> Object:
    """The node's GPU as AKS reports it."""
    one = gpu_node("gpu-1", card("GPU-0"))
    one["status"]["conditions"].append({"type": "XIDErrors", "status": "True", "message": "Xid 79 on GPU 0"})
    return one


def test_a_crash_that_nothing_else_explains_may_come_from_the_faulty_gpu_of_its_node(tmp_path: Path) -> None:
    report = ask(tmp_path, [faulty(), plugin(9000), placed(looping(1))])
    found = cause(report)
    assert (codes(report), found.confidence) == (["card-fault", "image-or-start-failure"], "suspected")
    assert "Xid 79 on GPU 0" in quotes(report)


@pytest.mark.parametrize("end", [{"reason": "OOMKilled"}, {"reason": "StartError", "message": "exec: no such file"}])
def test_an_end_that_tells_its_own_cause_is_not_put_down_to_a_faulty_gpu(tmp_path: Path, end: Object) -> None:
    one = looping(137)
    one["lastState"]["terminated"] |= end
    assert codes(ask(tmp_path, [faulty(), plugin(9000), placed(one)])) == ["image-or-start-failure"]


def test_a_pod_that_runs_on_a_node_with_a_faulty_gpu_is_running(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, [faulty(), plugin(9000), placed()])) == ["running"]


def test_a_pod_that_never_began_is_not_told_of_a_limit_that_could_not_hold(tmp_path: Path) -> None:
    one = with_container(**env("CUDA_DISABLE_CONTROL", "true"))
    state = {"waiting": {"reason": "ContainerCreating"}}
    one["status"] |= {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]}
    words = "failed to setup network for sandbox: plugin type=calico failed"
    said = event(one, "FailedCreatePodSandBox", words)
    assert codes(ask(tmp_path, cluster(one, gpu_node("gpu-1", card("GPU-0")), said))) == ["image-or-start-failure"]


def test_without_the_node_a_limit_that_was_asked_for_still_counts(tmp_path: Path) -> None:
    one = with_container(**env("CUDA_DISABLE_CONTROL", "true"))
    assert codes(ask(tmp_path, cluster(one), missing=["nodes"])) == ["limit-not-enforced"]


# ------------------------------------------------------------- by the whole sentence, and by who else is on the GPU

SHORT_OF = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 784.00 MiB. GPU 0 has a total capacity of 7.81 GiB"
    " of which {} is free. Process 41 has 3.04 GiB memory in use."
)


@pytest.mark.parametrize(
    ("free", "code"),
    [("7.44 GiB", "limit-not-enforced"), ("512.00 MiB", "gpu-memory-limit"), ("0 bytes", "gpu-memory-limit")],
)
def test_what_was_free_of_the_limit_decides_whether_the_gpu_itself_is_full(
    tmp_path: Path, free: str, code: str
) -> None:
    found = cause(asked(tmp_path, placed(looping(1)), log=SHORT_OF.format(free)))
    assert (found.code, found.confidence) == (code, "suspected")
    assert ("the GPU itself is full" in found.claim) == (code == "limit-not-enforced")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"runtimeClassName": "nvidia"}, "started by the NVIDIA runtime, and asking for no GPU"),
        ({"containers": [container({}, securityContext={"privileged": True})]}, "privileged, and asking for none"),
        ({"containers": [container({}, **env("NVIDIA_VISIBLE_DEVICES", "all"))]}, "(NVIDIA_VISIBLE_DEVICES)"),
        ({"containers": [container({}, **env("NVIDIA_VISIBLE_DEVICES", "GPU-0,GPU-1"))]}, "(NVIDIA_VISIBLE_DEVICES)"),
    ],
)
def test_pods_that_may_use_the_full_gpu_without_a_share_are_named(tmp_path: Path, fields: Object, told: str) -> None:
    usual: Object = {"containers": [container({})], "nodeName": "gpu-1", "status": {"phase": "Running"}} | fields
    stray, of_node = pod("stray", None, **usual), pod("agent", None, **usual)
    of_node["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}]
    found = cause(asked(tmp_path, placed(looping(1)), of_node, stray, log=SHORT_OF.format("7.44 GiB")))
    assert "ml/stray" in found.claim
    assert told in found.claim
    assert ("ml/agent" in found.claim) == ("VISIBLE" in told)
    assert not any("agent" in action.label for action in found.next_actions)
    assert any("ml/stray" in action.label for action in found.next_actions) == ("VISIBLE" in told)


@pytest.mark.parametrize("value", ["", "none", "void", "GPU-1", "0", "MIG-aaaa"])
def test_a_pod_that_sees_no_gpu_or_another_one_is_not_named(tmp_path: Path, value: str) -> None:
    one = pod("stray", None, containers=[container({}, **env("NVIDIA_VISIBLE_DEVICES", value))], nodeName="gpu-1")
    assert "stray" not in cause(asked(tmp_path, placed(looping(1)), one, log=SHORT_OF.format("7.44 GiB"))).claim


def test_a_neighbour_that_turns_hami_core_off_is_named_where_the_gpu_is_full(tmp_path: Path) -> None:
    off = container(gpu(memory=4000), **env("CUDA_DISABLE_CONTROL", "true"))
    other = pod("greedy", annotations=given("gpu-1", ("GPU-0", 4000, 0)), nodeName="gpu-1", containers=[off])
    other["status"] |= {"phase": "Running"}
    assert (
        "HAMi-core is turned off in ml/greedy"
        in cause(asked(tmp_path, placed(looping(1)), other, log=SHORT_OF.format("7 GiB"))).claim
    )


# ------------------------------------------------------------------------- by its node, its annotations, its metrics


@pytest.mark.parametrize(
    ("driver", "image", "log", "first"),
    [
        ("595.58.03", "hami:v2.8.2", "\n", "hami-core-hang"),
        ("595.58.03", "hami:v2.8.2", "serving on :9000\n", "running"),
        ("595.58.03", "hami:v2.9.0", "\n", "running"),
        ("570.86.15", "hami:v2.8.2", "\n", "running"),
    ],
)
def test_silence_under_a_driver_that_hami_core_does_not_know_is_a_hang(
    tmp_path: Path, driver: str, image: str, log: str, first: str
) -> None:
    node = gpu_node("gpu-1", card("GPU-0"), labels={"nvidia.com/cuda.driver-version.full": driver})
    objects = cluster(placed(), node, plugin(5000, image))
    report = ask(tmp_path, objects, others={"ml/wl/main": log}, settings={"workload_logs": True})
    assert codes(report) == [first]
    assert (driver in quotes(report)) == (first == "hami-core-hang")


def test_a_driver_that_hami_core_does_not_know_is_told_of_a_running_pod_whose_log_was_not_read(tmp_path: Path) -> None:
    node = gpu_node("gpu-1", card("GPU-0"), labels={"nvidia.com/cuda.driver.major": "595"})
    report = ask(tmp_path, cluster(placed(), node, plugin(5000, "hami:v2.8.2")))
    assert codes(report) == ["running"]
    assert "does not support the node's driver 595" in cause(report).claim


LIMIT = (
    'vGPU_device_memory_limit_in_bytes{{ctrname="main",deviceuuid="GPU-0",podname="wl",podnamespace="ml",vdeviceid="0",'
    'zone="vGPU"}} {}\n'
)


@pytest.mark.parametrize(("mib", "told"), [(8000, False), (4000, True), (0, False)])
def test_a_measured_limit_that_hami_did_not_give_is_another_pod_s(tmp_path: Path, mib: int, told: bool) -> None:
    other = pod("twin", annotations=given("gpu-1", ("GPU-0", 4000, 0)), nodeName="gpu-1")
    other["status"] |= {"phase": "Running"}
    objects = cluster(placed(), gpu_node("gpu-1", card("GPU-0")), plugin(5000), other)
    report = ask(tmp_path, objects, monitors={"gpu-1": LIMIT.format(mib * 1024 * 1024)})
    assert codes(report)[0] == ("limit-not-enforced" if told else "running")
    assert ("ml/twin was given" in cause(report).claim) == told


LEFT = {"hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,8000,0:;", "hami.io/bind-phase": "success"}


@pytest.mark.parametrize(("beside", "told"), [(None, True), (";", True), ("GPU-0,NVIDIA,100,0:;", False)])
def test_devices_that_were_never_struck_out_are_told_unless_the_plugin_strikes_out_none(
    tmp_path: Path, beside: str | None, told: bool
) -> None:
    others: list[Object] = []
    if beside is not None:
        left = {"hami.io/vgpu-devices-to-allocate": beside, "hami.io/bind-phase": "success"}
        others = [pod("other", annotations=given("gpu-1", ("GPU-0", 100, 0)) | left, nodeName="gpu-1")]
    report = asked(tmp_path, placed(annotations=HALF | LEFT), *others)
    assert (codes(report), report.severity) == (["running"], "info")
    assert ("devices-to-allocate" in cause(report).claim) == told


@pytest.mark.parametrize(("allowed", "log"), [(False, OOM), (True, "")])
def test_a_running_pod_whose_log_was_not_read_is_not_simply_running(tmp_path: Path, allowed: bool, log: str) -> None:
    found = cause(asked(tmp_path, placed(), log=log, allowed=allowed))
    assert (found.code, found.severity) == ("running", "info")
    assert "was not read" in found.claim
    assert "logs wl -c main" in found.next_actions[-1].command


@pytest.mark.parametrize(
    ("version", "confidence", "upgrade"), [("2.8.2", "confirmed", True), ("2.10.0", "suspected", False)]
)
def test_a_bug_that_the_node_s_hami_core_no_longer_has_is_neither_sure_nor_a_reason_to_upgrade(
    tmp_path: Path, version: str, confidence: str, *, upgrade: bool
) -> None:
    daemon = plugin(7200, f"projecthami/hami:v{version}")
    world = [*scheduler("2.8.2"), placed(looping(139)), gpu_node("gpu-1", card("GPU-0")), daemon]
    report = ask(tmp_path, world, others={"ml/wl/main": ILLEGAL}, settings={"workload_logs": True})
    found = cause(report)
    assert (found.code, found.confidence) == ("hami-core-crash", confidence)
    assert any("pgrade HAMi" in action.label for action in found.next_actions) == upgrade
    assert ("older than the upgrade" in found.claim) != upgrade


@pytest.mark.parametrize(("runtime", "asked_to_set"), [("", True), ("kata", True), ("nvidia", False)])
def test_a_runtime_class_that_the_pod_has_is_no_advice(tmp_path: Path, runtime: str, *, asked_to_set: bool) -> None:
    one = with_container(runtimeClassName=runtime)
    one["status"]["containerStatuses"] = [looping(1)]
    found = cause(asked(tmp_path, one, log=MISSING))
    assert found.code == "gpu-runtime-missing"
    assert ("Set runtimeClassName" in found.next_actions[0].label) == asked_to_set


FULL = CORE.format("ERROR") + "cuMemoryAllocate failed res=2"


@pytest.mark.parametrize(
    ("scaling", "of_node", "lower"),
    [(1, None, False), (2, None, True), (2, 1, False), (1, 1.5, True)],
)
def test_memory_scaling_is_to_be_lowered_only_where_it_is_above_1(
    tmp_path: Path, scaling: float, of_node: float | None, *, lower: bool
) -> None:
    """The node's own setting wins over the cluster's."""
    world = [
        *scheduler(config=f"nvidia:\n  deviceMemoryScaling: {scaling}\n"),
        placed(),
        gpu_node("gpu-1", card("GPU-0")),
    ]
    if of_node:
        text = json.dumps({"nodeconfig": [{"name": "gpu-1", "devicememoryscaling": of_node}]})
        own = {"name": "hami-device-plugin", "namespace": "hami-system"}
        world.append({"kind": "ConfigMap", "metadata": own, "data": {"config.json": text}})
    report = ask(tmp_path, world, others={"ml/wl/main": FULL}, settings={"workload_logs": True})
    assert codes(report)[0] == "limit-not-enforced"
    assert ("deviceMemoryScaling" in cause(report).next_actions[0].label) == lower
    assert f"scaling is {of_node or scaling:g}" in cause(report).claim


def test_faults_of_two_kinds_in_one_log_are_both_told(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log=f"{GONE}\n{MISSING}\n")
    assert set(codes(report)) == {"gpu-runtime-missing", "hami-core-missing", "image-or-start-failure"}
    assert all(finding.next_actions for finding in report.findings)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "serving\npanic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:",
            "index out of range",
        ),
        ("fatal error: concurrent map writes\n\ngoroutine 7 [running]:", "concurrent map writes"),
        ('panic: cannot log in as "root" with hunter2\n\ngoroutine 1 [running]:', "panicked (panic)"),
    ],
)
def test_a_panic_in_a_container_s_log_is_quoted_as_one(tmp_path: Path, log: str, words: str) -> None:
    report = asked(tmp_path, placed(looping(2)), log="starts\n", last=log)
    assert codes(report) == ["image-or-start-failure"]
    assert words in cause(report).claim
    assert "hunter2" not in str(report)


@pytest.mark.parametrize(
    ("driver", "version", "told"), [("595.45", "2.8.2", True), ("580.95", "2.8.2", False), ("595.45", "2.9.0", False)]
)
def test_the_driver_s_version_is_read_in_the_device_plugin_s_log_too(
    tmp_path: Path, driver: str, version: str, *, told: bool
) -> None:
    daemon = plugin(7200, f"projecthami/hami:v{version}")
    world = [*scheduler(version), placed(), gpu_node("gpu-1", card("GPU-0")), daemon]
    line = f"I1121 03:00:02.000000       1 nvml.go:41] NVML initialized, driver version: {driver}.01, CUDA 13.2\n"
    name = f"{daemon['metadata']['namespace']}/{daemon['metadata']['name']}/device-plugin"
    logs = {name: line, "ml/wl/main": "\n"}
    report = ask(tmp_path, world, others=logs, settings={"workload_logs": True})
    assert (codes(report) == ["hami-core-hang"]) == told
    assert not told or f"driver version: {driver}.01" in " ".join(quotes(report))
