"""Why, of a pod that runs well: what its user may take for a fault of the GPU limits, and which of it is a fact."""

from pathlib import Path

import pytest

from tests.playbooks.inside_support import HALF, asked, env, placed, with_container
from tests.playbooks.node_side_support import crashing, plugin
from tests.playbooks.world import (
    HANDSHAKE,
    Object,
    ask,
    card,
    cause,
    cluster,
    codes,
    container,
    given,
    gpu,
    gpu_node,
    node,
    quotes,
    running,
    scheduler,
)

CORES = given("gpu-1", ("GPU-0", 16000, 40))


ON_ITS_GPU = running("other", "gpu-1", ("GPU-0", 100, 40))
ON_ANOTHER = running("other", "gpu-1", ("GPU-1", 100, 40))


@pytest.mark.parametrize("others", [[], [ON_ANOTHER]])
def test_a_pod_alone_on_its_gpu_is_told_that_its_core_limit_does_not_hold(tmp_path: Path, others: list[Object]) -> None:
    report = asked(tmp_path, with_container(CORES), plugin(), *others)
    assert (codes(report), report.severity) == (["running"], "info")
    assert "core limit of 40 % is then off" in cause(report).claim
    assert {"GPU-0,NVIDIA,16000,40:;", "vgpu-monitor"} <= set(quotes(report))
    assert "GPU_CORE_UTILIZATION_POLICY: force" in cause(report).next_actions[0].label


@pytest.mark.parametrize(("claims", "told"), [([], True), ([{"name": "gpu", "resourceClaimName": "half-gpu"}], False)])
def test_hami_has_no_part_only_in_a_pod_that_claims_no_device(
    tmp_path: Path, claims: list[Object], *, told: bool
) -> None:
    report = asked(tmp_path, placed(annotations={}, limits={}, resourceClaims=claims))
    assert codes(report) == ["running"]
    assert ("HAMi has no part in it" in cause(report).claim) == told


def test_a_mig_instance_keeps_its_cores_by_itself(tmp_path: Path) -> None:
    node = gpu_node("gpu-1", card("GPU-0", mode="mig"), card("GPU-1"))
    report = ask(tmp_path, cluster(with_container(CORES), node, plugin()))
    assert cause(report).claim == "ml/wl is running on gpu-1. Nothing wrong was seen; its own log was not read."


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([plugin(), ON_ITS_GPU], "other pods there: 1"),
        ([], "alone on its GPU"),
        ([plugin(monitor=crashing())], "alone on its GPU"),
    ],
)
def test_a_core_limit_that_may_hold_is_only_a_step(tmp_path: Path, others: list[Object], told: str) -> None:
    """Another pod is there, or no monitor that would lift the limit."""
    report = asked(tmp_path, with_container(CORES), *others)
    assert cause(report).claim == "ml/wl is running on gpu-1. Nothing wrong was seen."
    assert told in cause(report).next_actions[0].label


def test_a_forced_core_limit_needs_no_remark(tmp_path: Path) -> None:
    report = asked(tmp_path, with_container(CORES, **env("GPU_CORE_UTILIZATION_POLICY", "force")))
    assert cause(report).next_actions == ()


def test_a_pod_behind_one_of_higher_priority_is_told_so(tmp_path: Path) -> None:
    first = running("first", "gpu-1", ("GPU-0", 100, 0), containers=[container({"nvidia.com/priority": "0"})])
    report = asked(tmp_path, with_container(), first)
    assert codes(report) == ["running"]
    assert "ml/first on the same GPU has priority 0" in cause(report).next_actions[0].label


def test_an_option_without_effect_is_named(tmp_path: Path) -> None:
    report = asked(tmp_path, with_container(**env("ACTIVE_OOM_KILLER", "true")))
    assert "ACTIVE_OOM_KILLER has no effect" in cause(report).claim
    assert "ACTIVE_OOM_KILLER" in quotes(report)


def test_a_pod_that_runs_gets_one_sentence_at_most(tmp_path: Path) -> None:
    one = with_container(CORES, image="acme/cuda-sshd:12", **env("ACTIVE_OOM_KILLER", "true"))
    claim = cause(asked(tmp_path, one, plugin())).claim
    assert "serves ssh" in claim
    assert "ACTIVE_OOM_KILLER" not in claim
    assert "core limit" not in claim


SERVES_SSH = [
    ({"image": "acme/cuda-sshd:12"}, "acme/cuda-sshd:12"),
    ({"ports": [{"containerPort": 8888}, {"containerPort": 22}]}, "22"),
    ({"command": ["/usr/sbin/sshd", "-D"]}, "/usr/sbin/sshd"),
    ({"command": ["bash", "-c"], "args": ["service cron start; /usr/sbin/sshd -D"]}, "/usr/sbin/sshd -D"),
]


@pytest.mark.parametrize(("fields", "quote"), SERVES_SSH)
def test_a_container_that_serves_ssh_is_told_that_sessions_have_no_limit(
    tmp_path: Path, fields: Object, quote: str
) -> None:
    report = asked(tmp_path, with_container(**fields))
    assert (codes(report), report.severity) == (["running"], "info")
    assert "a session over ssh does not get" in cause(report).claim
    assert any(quote in text for text in quotes(report))


@pytest.mark.parametrize(("fields", "quote"), SERVES_SSH)
def test_volcano_s_shares_of_a_gpu_have_the_same_limits(tmp_path: Path, fields: Object, quote: str) -> None:
    vgpu = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}
    one = placed(annotations={}, schedulerName="volcano", containers=[container(vgpu, **fields)])
    report = asked(tmp_path, one)
    assert codes(report) == ["running"]
    assert any(quote in text for text in quotes(report))


def test_a_privileged_container_is_only_a_step(tmp_path: Path) -> None:
    report = asked(tmp_path, with_container(securityContext={"privileged": True}))
    assert cause(report).claim == "ml/wl is running on gpu-1. Nothing wrong was seen."
    assert "Container main is privileged" in cause(report).next_actions[0].label


def with_paths(hook: str, read: str) -> Object:
    """The device plugin with HOOK_PATH, whose monitor reads that directory of the host."""
    one = plugin()
    one["spec"]["containers"][0] |= {
        "env": [{"name": "HOOK_PATH", "value": hook}],
        "volumeMounts": [{"name": "lib", "mountPath": "/usr/local/vgpu"}],
    }
    one["spec"]["volumes"] = [{"name": "ctrs", "hostPath": {"path": read}}]
    return one


def test_a_monitor_that_reads_another_directory_has_no_figures_of_the_pod(tmp_path: Path) -> None:
    report = asked(tmp_path, with_container(), with_paths("/data/hami", "/usr/local/vgpu/containers"))
    assert (codes(report), report.severity) == (["running"], "info")
    assert "reads /usr/local/vgpu/containers, and the device plugin writes to /data/hami/vgpu" in cause(report).claim
    assert {"/data/hami", "/usr/local/vgpu/containers"} <= set(quotes(report))
    assert "devicePlugin.monitor.ctrPath" in cause(report).next_actions[0].label


@pytest.mark.parametrize("read", ["/data/hami/vgpu/containers", "/data/hami/vgpu/containers/", ""])
def test_a_monitor_that_reads_what_the_plugin_writes_needs_no_word(tmp_path: Path, read: str) -> None:
    report = asked(tmp_path, with_container(), with_paths("/data/hami/", read))
    assert cause(report).claim == "ml/wl is running on gpu-1. Nothing wrong was seen."


INIT_FIRST = given("gpu-1", ("GPU-0", 8000, 0)) | {"hami.io/vgpu-devices-allocated": ";GPU-0,NVIDIA,8000,0:;"}


@pytest.mark.parametrize(("version", "told"), [("2.9.0", True), ("2.10.0", True), ("2.8.1", False)])
def test_an_empty_entry_of_an_init_container_is_explained(tmp_path: Path, version: str, told: bool) -> None:
    one = with_container(INIT_FIRST)
    one["spec"]["initContainers"] = [container({}, "fetch")]
    report = ask(tmp_path, cluster(one, gpu_node("gpu-1", card("GPU-0")), plugin(), version=version))
    assert codes(report) == ["running"]
    assert ("gives each init container an entry" in cause(report).claim) is told


def test_an_init_container_that_has_a_gpu_itself_needs_no_word(tmp_path: Path) -> None:
    text = "GPU-0,NVIDIA,8000,0:;GPU-0,NVIDIA,8000,0:;"
    one = with_container(INIT_FIRST | {"hami.io/vgpu-devices-allocated": text})
    one["spec"]["initContainers"] = [container(one["spec"]["containers"][0]["resources"]["limits"], "warm-up")]
    assert cause(asked(tmp_path, one, plugin())).claim == "ml/wl is running on gpu-1. Nothing wrong was seen."


def told_as_wrong(tmp_path: Path, one: Object, *others: Object, node: Object | None = None, version: str = "") -> str:
    world = cluster(one, node or gpu_node("gpu-1", card("GPU-0"), card("GPU-1")), *others, version=version or "2.10.0")
    report = ask(tmp_path, world)
    assert codes(report) == ["running"]
    assert report.severity == "warning"
    assert cause(report).next_actions
    return cause(report).claim


CONTRADICTED: list[tuple[Object, Object, str]] = [
    ({"nvidia.com/use-gpuuuid": "GPU-1"}, {}, "GPU-0 (NVIDIA-Tesla T4), which its annotation nvidia.com/use-gpuuuid"),
    ({"nvidia.com/nouse-gpuuuid": "GPU-0, GPU-7"}, {}, "nvidia.com/nouse-gpuuuid leaves out"),
    ({"nvidia.com/use-gputype": "A100"}, {}, "nvidia.com/use-gputype leaves out"),
    ({"nvidia.com/nouse-gputype": "t4"}, {}, "nvidia.com/nouse-gputype leaves out"),
    ({}, {"memory": 4000}, "asks for nvidia.com/gpumem: 4,000, and HAMi gave it 8,000"),
    ({}, {"memory": 8000, "cores": 30}, "asks for nvidia.com/gpucores: 30, and HAMi gave it 0"),
    ({}, {"count": 2, "memory": 8000}, "asks for nvidia.com/gpu: 2, and HAMi gave it 1"),
]


@pytest.mark.parametrize(("annotations", "asks", "told"), CONTRADICTED)
def test_a_pod_that_was_given_something_else_than_it_asks_for_is_told_so(
    tmp_path: Path, annotations: Object, asks: Object, told: str
) -> None:
    one = with_container(HALF | annotations, gpu(**(asks or {"memory": 8000})))
    assert told in told_as_wrong(tmp_path, one)


def test_a_gpu_that_its_node_does_not_register_is_named(tmp_path: Path) -> None:
    one = with_container(given("gpu-1", ("GPU-9", 8000, 0)))
    assert "GPU-9, which gpu-1 does not register now" in told_as_wrong(tmp_path, one)


AS_ASKED: list[tuple[Object, Object]] = [
    ({"nvidia.com/use-gpuuuid": "GPU-7, GPU-0"}, {"memory": 8000}),
    ({"nvidia.com/use-gpuuuid": ""}, {"memory": 8000}),
    ({"nvidia.com/use-gputype": "t4,A100", "nvidia.com/nouse-gputype": "H100"}, {"memory": 8000}),
    ({}, {"nvidia.com/gpumem-percentage": 50}),
    ({}, {}),
]


@pytest.mark.parametrize(("annotations", "asks"), AS_ASKED)
@pytest.mark.parametrize("version", ["2.5.1", "2.9.0", "2.10.0"])
def test_a_pod_that_has_what_it_asks_for_is_left_alone(
    tmp_path: Path, annotations: Object, asks: Object, version: str
) -> None:
    one = with_container(HALF | annotations, gpu(**asks))
    text = version < "2.8" and version != "2.10.0"
    node = gpu_node("gpu-1", card("GPU-0"), text=text, annotations={HANDSHAKE: "Reported 2026-11-21 04:59:50"})
    report = ask(tmp_path, cluster(one, node, version=version))
    assert (codes(report), report.severity) == (["running"], "info")


def test_an_older_hami_that_ignores_an_annotation_beside_another_says_so(tmp_path: Path) -> None:
    both = {"nvidia.com/use-gpuuuid": "GPU-0", "nvidia.com/nouse-gpuuuid": "GPU-0"}
    claim = told_as_wrong(tmp_path, with_container(HALF | both), version="2.9.0")
    assert "HAMi 2.9.0 does not read it beside nvidia.com/use-gpuuuid" in claim


def test_shares_that_exceed_their_gpu_are_added_up(tmp_path: Path) -> None:
    other = running("other", "gpu-1", ("GPU-0", 9000, 0))
    claim = told_as_wrong(tmp_path, with_container(), other)
    assert "2 pods on GPU-0 were given 17,000 MiB of it together, and only 16,384 MiB are registered" in claim


@pytest.mark.parametrize(
    ("shares", "registered", "said"),
    [
        ((1000, 70), {}, "2 pods on GPU-0 were given 110 % of its cores together, and only 100 are registered"),
        ((1000, 0), {"count": 1}, "2 pods on GPU-0 hold 2 slots of it together, and only 1 are registered"),
        ((1000, 60), {"devcore": 150}, ""),
    ],
)
def test_cores_and_slots_that_exceed_their_gpu_are_added_up(
    tmp_path: Path, shares: tuple[int, int], registered: Object, said: str
) -> None:
    one = with_container(given("gpu-1", ("GPU-0", 8000, 40)), gpu(memory=8000, cores=40))
    node = gpu_node("gpu-1", card("GPU-0", **registered))
    report = ask(tmp_path, cluster(one, node, running("other", "gpu-1", ("GPU-0", *shares))))
    assert said in cause(report).claim
    assert report.severity == ("warning" if said else "info")


def test_another_vendor_s_devices_are_added_up_too(tmp_path: Path) -> None:
    def dcu(memory: int) -> Object:
        return {"hami.io/vgpu-node": "gpu-1", "hami.io/dcu-devices-allocated": f"DCU-0,DCU,{memory},30:;"}

    asks = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "9000"}
    one = placed(annotations=dcu(9000), containers=[container(asks)])
    other = placed(annotations=dcu(9000))
    other["metadata"] |= {"name": "other", "uid": "uid-other"}
    register = {"hami.io/node-dcu-register": "DCU-0,4,16384,100,DCU-K100,0,true:"}
    dcus = node("gpu-1", register, allocatable={"hygon.com/dcunum": "4"})
    assert "2 pods on DCU-0 were given 18,000 MiB" in told_as_wrong(tmp_path, one, other, node=dcus)


def test_a_finished_pod_and_a_done_init_container_hold_nothing_of_a_gpu(tmp_path: Path) -> None:
    ended = running("ended", "gpu-1", ("GPU-0", 9000, 0)) | {"status": {"phase": "Succeeded"}}
    both = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,9000,0:;GPU-0,NVIDIA,8000,0:;"}
    init = with_container(given("gpu-1") | both, gpu(memory=8000))
    init["spec"]["initContainers"] = [container(gpu(memory=9000), "warm-up")]
    report = ask(tmp_path, cluster(init, gpu_node("gpu-1", card("GPU-0")), ended))
    assert (codes(report), report.severity) == (["running"], "info")


VOLCANO = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,9000,0:;", "volcano.sh/vgpu-node": "gpu-1"}


@pytest.mark.parametrize("of_volcano", [False, True], ids=["asked of HAMi's pod", "asked of Volcano's pod"])
def test_what_volcano_gave_of_the_same_gpu_counts(tmp_path: Path, *, of_volcano: bool) -> None:
    """Both schedulers give out one GPU, and neither knows of the other."""
    vgpu = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "9000"}
    theirs = placed(annotations=VOLCANO, schedulerName="volcano", containers=[container(vgpu)])
    ours = with_container()
    (theirs if not of_volcano else ours)["metadata"] |= {"name": "other", "uid": "uid-other"}
    claim = told_as_wrong(tmp_path, theirs if of_volcano else ours, ours if of_volcano else theirs)
    assert "given 17,000 MiB of it together" in claim
    assert f"Volcano gave ml/{'wl' if of_volcano else 'other'} theirs" in claim


def test_shares_that_only_memory_scaling_allows_are_told_as_a_fact(tmp_path: Path) -> None:
    config = "nvidia:\n  deviceMemoryScaling: 2\n"
    node = gpu_node("gpu-1", card("GPU-0", 32768))
    other = running("other", "gpu-1", ("GPU-0", 12000, 0))
    report = ask(tmp_path, [*scheduler(config=config), with_container(), node, other])
    assert (codes(report), report.severity) == (["running"], "info")
    assert "given 20,000 MiB of it together, and it has 16,384 MiB (memory scaling 2)" in cause(report).claim


@pytest.mark.parametrize(("version", "apart", "told"), [("2.4.1", 5, True), ("2.4.1", 600, False), ("2.5.0", 5, False)])
def test_pods_that_start_together_under_an_old_plugin_are_told_that_it_may_mix_them_up(
    tmp_path: Path, version: str, apart: int, *, told: bool
) -> None:
    one = with_container(HALF | {"hami.io/bind-time": "1795237200"})
    twin = {"hami.io/bind-time": str(1795237200 + apart)}
    other = running("other", "gpu-1", ("GPU-1", 1000, 0), annotations=twin)
    node = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"), text=True)
    report = ask(tmp_path, cluster(one, other, node, version=version))
    assert ("ml/other was bound there at the same time" in cause(report).claim) == told


@pytest.mark.parametrize(("image", "told"), [("2.8.1", True), ("2.8.2", False)])
def test_an_old_hami_core_limits_several_gpus_by_the_first(tmp_path: Path, image: str, *, told: bool) -> None:
    one = with_container(given("gpu-1", ("GPU-0", 8000, 40), ("GPU-1", 8000, 40)))
    node = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"))
    daemon = plugin()
    for part in daemon["spec"]["containers"]:
        part["image"] = f"projecthami/hami:v{image}"
    report = ask(tmp_path, cluster(one, node, daemon, ON_ITS_GPU))
    assert ("HAMi-core#104" in cause(report).claim) == told


def numa_world(policy: str, idle_numa: int = 1, version: str = "2.7.1") -> list[Object]:
    one = with_container(HALF | {"hami.io/gpu-scheduler-policy": policy})
    older = running("older", "gpu-1", ("GPU-0", 1000, 0), age=5000)
    node = gpu_node("gpu-1", card("GPU-0", numa=0), card("GPU-1", numa=idle_numa), text=version < "2.8")
    return cluster(one, older, node, version=version)


def test_a_pod_that_is_not_spread_is_told_that_numa_nodes_come_first(tmp_path: Path) -> None:
    report = ask(tmp_path, numa_world("spread"))
    assert (
        "shares its GPU with ml/older while GPU-1 is idle: HAMi 2.7.1 prefers the GPUs of one NUMA node"
        in cause(report).claim
    )


@pytest.mark.parametrize(("policy", "numa", "version"), [("binpack", 1, "2.7.1"), ("spread", 0, "2.7.1")])
def test_where_numa_does_not_decide_nothing_is_said_of_it(tmp_path: Path, policy: str, numa: int, version: str) -> None:
    assert "NUMA" not in cause(ask(tmp_path, numa_world(policy, numa, version))).claim
