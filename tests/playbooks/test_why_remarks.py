"""Why, of a pod that runs well: what its user may take for a fault of the GPU limits, and which of it is a fact."""

from pathlib import Path

import pytest

from tests.playbooks.inside_support import asked, env, placed, with_container
from tests.playbooks.node_side_support import crashing, plugin
from tests.playbooks.world import Object, ask, card, cause, cluster, codes, container, given, gpu_node, quotes, running

CORES = given("gpu-1", ("GPU-0", 16384, 40))


ON_ITS_GPU = running("other", "gpu-1", ("GPU-0", 100, 40))
ON_ANOTHER = running("other", "gpu-1", ("GPU-1", 100, 40))


@pytest.mark.parametrize("others", [[], [ON_ANOTHER]])
def test_a_pod_alone_on_its_gpu_is_told_that_its_core_limit_does_not_hold(tmp_path: Path, others: list[Object]) -> None:
    report = asked(tmp_path, with_container(CORES), plugin(), *others)
    assert (codes(report), report.severity) == (["running"], "info")
    assert "core limit of 40 % is off" in cause(report).claim
    assert {"GPU-0,NVIDIA,16384,40:;", "vgpu-monitor"} <= set(quotes(report))
    assert "GPU_CORE_UTILIZATION_POLICY=force" in cause(report).next_actions[0].label


def test_a_mig_instance_keeps_its_cores_by_itself(tmp_path: Path) -> None:
    node = gpu_node("gpu-1", card("GPU-0", mode="mig"), card("GPU-1"))
    report = ask(tmp_path, cluster(with_container(CORES), node, plugin()))
    assert cause(report).claim == "ml/wl is running on gpu-1."


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
    assert cause(report).claim == "ml/wl is running on gpu-1."
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
    assert cause(report).claim == "ml/wl is running on gpu-1."
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
    assert cause(report).claim == "ml/wl is running on gpu-1."


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
    assert cause(asked(tmp_path, one, plugin())).claim == "ml/wl is running on gpu-1."
