"""GPU containers of placed pods in which HAMi-core crashes, hangs, is missing, is full or cannot hold the limit."""

import json
from pathlib import Path

import pytest

from tests.playbooks.inside_support import HALF, WHOLE, asked, ended, env, looping, placed, runs, with_container
from tests.playbooks.world import (
    Object,
    ago,
    ask,
    card,
    cause,
    cluster,
    codes,
    container,
    given,
    gpu,
    gpu_node,
    plugin_pod,
    pod,
    quotes,
    scheduler,
)

TWO_WHOLE = given("gpu-1", ("GPU-0", 16384, 100), ("GPU-1", 16384, 100))
CORE = "[HAMI-core {} (pid:1 thread=140 allocator.c:52)]: "
OOM = CORE.format("ERROR") + "Device 0 OOM 17179869184 / 16777216000"
WAIT = "[HAMI-core Warn(1:140:multiprocess_memory_limit.c:764)]: Lock shrreg timeout (trial {}/30), owner=4711"
WAITS = "\n".join(WAIT.format(trial) for trial in (1, 2, 3))
PRELOAD = "ERROR: ld.so: object '/usr/local/vgpu/libvgpu.so' from /etc/ld.so.preload cannot be preloaded ({}): ignored."
GONE, SHORT = PRELOAD.format("cannot open shared object file"), PRELOAD.format("file too short")


def plugin(started: float, image: str = "docker.io/projecthami/hami:v2.10.0", **fields: object) -> Object:
    """HAMi's device plugin of gpu-1, running for so many seconds."""
    one = plugin_pod("gpu-1")
    one["spec"]["containers"] = [{"name": "device-plugin", "image": image}]
    state = {"name": "device-plugin", "ready": True, "state": {"running": {"startedAt": ago(started)}}} | fields
    one["status"]["containerStatuses"] = [state]
    return one


# ---------------------------------------------------------------------------------------------- by its log


@pytest.mark.parametrize("place", ["log", "last"])
def test_a_container_that_reached_its_own_limit_is_told_with_both_amounts(tmp_path: Path, place: str) -> None:
    log = f"epoch 1\n{OOM}\ntorch.OutOfMemoryError: CUDA out of memory."
    report = asked(tmp_path, placed(looping(1)), **{place: log})
    assert codes(report) == ["gpu-memory-limit", "image-or-start-failure"]
    assert "would use 16,384 MiB, its limit is 16,000 MiB" in cause(report).claim
    assert OOM in quotes(report)


def test_of_a_user_s_line_only_hami_core_s_words_are_quoted(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log=f'{{"token": "hunter2", "text": "{OOM}"}}\n')
    assert OOM in quotes(report)
    assert "hunter2" not in str(report)


def test_a_program_that_prints_such_words_itself_proves_nothing(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log="Device 0 OOM 17179869184 / 16777216000\n")
    assert codes(report) == ["image-or-start-failure"]


def test_a_counter_below_zero_is_a_bug_and_no_limit(tmp_path: Path) -> None:
    log = OOM.replace("17179869184", "18446744073709027328")
    report = asked(tmp_path, placed(looping(1)), log=log)
    assert codes(report)[0] == "gpu-memory-limit"
    assert "below zero" in cause(report).claim


@pytest.mark.parametrize(
    "after", ["", "\n", "\nGET /healthz 200\n", "\n[HAMI-core Info(1:140:a.c:1)]: Kick dead proc\n"]
)
def test_a_log_that_ends_in_waits_for_the_lock_is_a_hang(tmp_path: Path, after: str) -> None:
    report = asked(tmp_path, placed(), log=f"start\n{WAITS}{after}")
    assert codes(report) == ["hami-core-hang"]
    assert cause(report).confidence == "confirmed"


def test_a_single_wait_is_only_suspected(tmp_path: Path) -> None:
    assert cause(asked(tmp_path, placed(), log=WAIT.format(1))).confidence == "suspected"


@pytest.mark.parametrize(
    "after", ["[HAMI-core Msg(1:140:libvgpu.c:900)]: Initialized", "\n".join(f"step {step}" for step in range(20))]
)
def test_a_process_that_went_on_after_its_wait_does_not_hang(tmp_path: Path, after: str) -> None:
    assert codes(asked(tmp_path, placed(), log=f"{WAITS}\n{after}\n")) == ["running"]


def test_of_a_user_s_line_only_the_capacity_that_proves_it_is_quoted(tmp_path: Path) -> None:
    pod = with_container(**env("CUDA_DISABLE_CONTROL", "true"))
    report = asked(tmp_path, pod, log="key=hunter2 GPU 0 has a total capacity of 23.53 GiB of which 1 MiB is free")
    assert codes(report)[0] == "limit-not-enforced"
    assert "total capacity of 23.53 GiB" in quotes(report)
    assert "hunter2" not in str(report)


STARTS = "[HAMI-core Msg(1:140:libvgpu.c:838)]: Initializing....."
NCCL = "(Worker pid=9) INFO 11-20 09:50:09 [pynccl.py:113] vLLM is using nccl==2.28.9"


@pytest.mark.parametrize(
    ("log", "ran_s", "codes_told"),
    [
        (STARTS, 900, ["hami-core-hang"]),
        (STARTS, 60, ["running"]),
        (f"{STARTS}\n[HAMI-core Msg(1:140:libvgpu.c:900)]: Initialized", 900, ["running"]),
    ],
)
def test_a_start_of_hami_core_that_does_not_end_for_minutes_is_a_hang(
    tmp_path: Path, log: str, ran_s: float, codes_told: list[str]
) -> None:
    report = asked(tmp_path, placed(runs(state={"running": {"startedAt": ago(ran_s)}})), log=log)
    assert codes(report) == codes_told
    assert codes_told == ["running"] or cause(report).confidence == "suspected"


@pytest.mark.parametrize(("annotations", "codes_told"), [(TWO_WHOLE, ["hami-core-hang"]), (None, ["running"])])
def test_vllm_that_stands_still_at_nccl_is_a_hang_on_several_gpus_alone(
    tmp_path: Path, annotations: Object | None, codes_told: list[str]
) -> None:
    pod = placed(**({"annotations": annotations} if annotations else {}))
    assert codes(asked(tmp_path, pod, log=NCCL)) == codes_told


@pytest.mark.parametrize("line", [GONE, SHORT])
def test_a_library_that_is_not_loaded_is_missing(tmp_path: Path, line: str) -> None:
    report = asked(tmp_path, placed(), log=f"{line}\n{line}\nserving on :9000\n")
    assert codes(report) == ["hami-core-missing"]
    assert line in quotes(report)


def test_a_library_of_another_class_is_only_suspected_as_a_helper_prints_it_too(tmp_path: Path) -> None:
    line = PRELOAD.format("wrong ELF class: ELFCLASS64")
    found = asked(tmp_path, placed(), log=f"{line}\nserving on :9000\n")
    assert (codes(found), cause(found).confidence) == (["hami-core-missing"], "suspected")
    assert "32-bit helper" in cause(found).claim


def test_a_reason_of_the_loader_that_is_not_known_proves_nothing(tmp_path: Path) -> None:
    assert codes(asked(tmp_path, placed(), log=f"{PRELOAD.format('cannot allocate memory')}\n")) == ["running"]


@pytest.mark.parametrize(("hook", "told"), [("/usr/local", False), ("/opt/hami", True)])
def test_a_missing_library_is_traced_to_paths_that_differ(tmp_path: Path, hook: str, told: bool) -> None:
    daemon = plugin(5000)
    daemon["spec"]["containers"][0] |= env("HOOK_PATH", hook) | {"volumeMounts": [{"name": "lib"}]}
    daemon["spec"]["volumes"] = [{"name": "lib", "hostPath": {"path": "/usr/local/vgpu"}}]
    report = asked(tmp_path, placed(), daemon, log=f"{GONE}\n")
    assert ("are not the same" in cause(report).claim) == told
    assert (hook in quotes(report)) == told


def test_a_helper_that_could_not_load_it_does_not_count_where_the_program_did(tmp_path: Path) -> None:
    log = f"{GONE}\n[HAMI-core Msg(1:140:libvgpu.c:871)]: Initialized\n"
    assert codes(asked(tmp_path, placed(), log=log)) == ["running"]


def test_words_of_a_crash_count_only_in_a_container_that_ended(tmp_path: Path) -> None:
    line = CORE.format("ERROR") + "Illegal device id: 1627389952\n"
    assert codes(asked(tmp_path, placed(looping(139)), log=line))[0] == "hami-core-crash"
    assert codes(asked(tmp_path, placed(), log=line)) == ["running"]


def test_a_run_that_is_long_over_says_nothing_about_a_container_that_runs(tmp_path: Path) -> None:
    again = runs(restartCount=1, lastState=ended(1, finished=960))
    assert codes(asked(tmp_path, placed(again), log="fine\n", last=OOM)) == ["running"]


def test_gpu_devices_that_a_running_container_lost_are_told(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(), log="Failed to initialize NVML: Unknown Error\n")
    assert codes(report) == ["gpu-start-failure"]
    assert "daemon-reload" in cause(report).claim


LIBCUDA = "{}libcuda.so{}: cannot open shared object file: No such file or directory"
MISSING = LIBCUDA.format("ImportError: ", ".1")
LOST = "pynvml.NVMLError_GpuIsLost: GPU is lost"
HARMLESS = [
    LIBCUDA.format("", "") + "; trying libcuda.so.1",
    "prompt: 'my dmesg says NVRM and that the GPU is lost, what now?'",
    "prompt: 'what is an uncorrectable ECC error?'",
]


@pytest.mark.parametrize("line", HARMLESS)
@pytest.mark.parametrize("status", [runs(), looping(1)], ids=["runs", "ends"])
def test_words_without_those_that_introduce_an_error_prove_nothing(tmp_path: Path, line: str, status: Object) -> None:
    report = asked(tmp_path, placed(status), log=f"{line}\n")
    assert codes(report)[0] in ("running", "image-or-start-failure")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (MISSING, "gpu-runtime-missing"),
        (LIBCUDA.format("serve: error while loading shared libraries: ", ".1"), "gpu-runtime-missing"),
        (LIBCUDA.format("Could not load dynamic library; dlerror: ", ".1"), "gpu-runtime-missing"),
        (LOST, "card-fault"),
        ("Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system", "card-fault"),
        ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", "card-fault"),
        ("worker-3: NCCL WARN Cuda failure 214 'uncorrectable NVLink error detected'", "card-fault"),
        ("failed call to cuInit: CUDA_ERROR_ECC_UNCORRECTABLE: ecc", "card-fault"),
    ],
)
def test_a_program_s_error_is_confirmed_where_it_ends_and_suspected_where_it_runs(
    tmp_path: Path, line: str, code: str
) -> None:
    ends, runs_on = asked(tmp_path, placed(looping(1)), log=line), asked(tmp_path, placed(), log=f"start\n{line}\n")
    assert (codes(ends)[0], cause(ends).confidence) == (code, "confirmed")
    assert (codes(runs_on), cause(runs_on).confidence) == ([code], "suspected")


@pytest.mark.parametrize("line", [MISSING, LOST, "Failed to initialize NVML: Unknown Error"])
def test_an_error_that_a_running_program_has_left_behind_is_none(tmp_path: Path, line: str) -> None:
    after = "\n".join(f"step {step}" for step in range(20))
    assert codes(asked(tmp_path, placed(), log=f"{line}\n{after}\n")) == ["running"]


def test_only_the_log_of_the_container_with_the_gpu_is_read(tmp_path: Path) -> None:
    containers = [container(gpu(memory=8000)), container({}, "sidecar")]
    one = placed(runs(), looping(1, name="sidecar"), containers=containers)
    node = gpu_node("gpu-1", card("GPU-0"))
    logs = {"ml/wl/sidecar": OOM, "ml/wl/main": "fine\n"}
    report = ask(tmp_path, cluster(one, node), others=logs, settings={"workload_logs": True})
    assert codes(report) == ["image-or-start-failure"]


def test_a_log_that_may_not_be_read_is_a_gap_where_it_could_tell_something(tmp_path: Path) -> None:
    for started in (placed(looping(1)), placed()):
        report = asked(tmp_path, started, log=OOM, allowed=False)
        assert codes(report)[0] in ("image-or-start-failure", "running")
        assert "container log" in [gap.source for gap in report.gaps]
        assert "workload_logs" in str(report.gaps)
        assert "kubectl -n ml create role hami-bot-workload-logs --verb=get" in str(report.gaps)


def test_a_container_that_kubernetes_killed_needs_no_log(tmp_path: Path) -> None:
    killed = asked(tmp_path, placed(looping(137, reason="OOMKilled")), allowed=False)
    assert "container log" not in [gap.source for gap in killed.gaps]


# -------------------------------------------------------------------------------------- by a segmentation fault


@pytest.mark.parametrize(
    ("times", "restarts", "started"),
    [({"finished": 66, "lasted": 9}, 3, 130), ({"finished": 60}, 0, 70), ({"finished": 75, "lasted": 80000}, 1, 70)],
)
def test_a_crash_with_the_plugin_s_restart_is_hami_core_s(
    tmp_path: Path, times: dict[str, float], restarts: int, started: float
) -> None:
    report = asked(tmp_path, placed(looping(139, restarts, **times)), plugin(started))
    assert codes(report) == ["hami-core-crash", "image-or-start-failure"]
    assert cause(report).confidence == "suspected"
    assert "HAMi 2.10.0" in cause(report).claim
    assert {"139", ago(started)} <= set(quotes(report))


def test_a_library_that_was_replaced_asks_for_no_step_against_another_crash(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(139)), plugin(40, "projecthami/hami:v2.4.1"))
    told = " ".join(action.label for action in cause(report).next_actions)
    assert "Recreate the pod" in told
    assert "2.8.3" not in told


@pytest.mark.parametrize(
    ("code", "finished", "started", "age"),
    [(139, 30, 5000, 9000), (139, 30, 40, 35), (1, 30, 40, 9000), (139, 4000, 40, 9000)],
    ids=["plugin runs for long", "pod is newer than the plugin", "no segmentation fault", "crash long before"],
)
def test_a_crash_of_the_program_s_own_is_not_hami_core_s(
    tmp_path: Path, code: int, finished: float, started: float, age: float
) -> None:
    report = asked(tmp_path, placed(looping(code, finished=finished), age=age), plugin(started))
    assert codes(report) == ["image-or-start-failure"]


def test_a_crash_of_a_sidecar_without_gpu_is_not_hami_core_s(tmp_path: Path) -> None:
    containers = [container(gpu(memory=8000)), container({}, "sidecar")]
    one = placed(runs(), looping(139, name="sidecar"), containers=containers)
    assert codes(asked(tmp_path, one, plugin(40))) == ["image-or-start-failure"]


@pytest.mark.parametrize(
    ("image", "annotations", "version", "code"),
    [
        ("vllm/vllm-openai:v0.11", HALF, "2.7.0", "hami-core-crash"),
        ("acme/train:1", TWO_WHOLE, "2.6.0", "hami-core-crash"),
        ("acme/train:1", WHOLE, "2.6.0", "image-or-start-failure"),
        ("vllm/vllm-openai:v0.11", TWO_WHOLE, "2.9.0", "image-or-start-failure"),
    ],
)
def test_a_version_that_is_known_to_crash_is_named(
    tmp_path: Path, image: str, annotations: Object, version: str, code: str
) -> None:
    one = placed(looping(139), annotations=annotations)
    one["spec"]["containers"][0]["image"] = image
    report = asked(tmp_path, one, plugin(90000, f"projecthami/hami:v{version}"))
    assert codes(report)[0] == code


DISK_FULL = CORE.format("ERROR") + "Fail to open shrreg /usr/local/vgpu/3f6d.cache: errno=28"
NO_SYMBOL = "python: symbol lookup error: /usr/local/vgpu/libvgpu.so: undefined symbol: _dl_sym, version GLIBC_PRIVATE"


@pytest.mark.parametrize(
    ("log", "code", "version", "thread"),
    [
        (DISK_FULL, 1, "2.7.1", ""),
        (DISK_FULL, 1, "2.4.1", ""),
        (NO_SYMBOL, 127, "2.7.1", "HAMi#20"),
        ("", 139, "2.7.1", "HAMi#1191"),
    ],
    ids=["disk full", "disk full with an old version", "private symbol", "several GPUs"],
)
def test_an_upgrade_is_a_step_only_against_the_bug_that_the_crash_shows(
    tmp_path: Path, log: str, code: int, version: str, thread: str
) -> None:
    one, daemon = placed(looping(code), annotations=TWO_WHOLE), plugin(90000, f"projecthami/hami:v{version}")
    node = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"))
    logs = {"ml/wl/main": log} if log else {}
    report = ask(
        tmp_path, cluster(one, node, daemon, version=version), others=logs, settings={"workload_logs": bool(log)}
    )
    assert codes(report)[0] == "hami-core-crash"
    upgrades = [action.label for action in cause(report).next_actions if "HAMi#" in action.label]
    assert len(upgrades) == bool(thread)
    assert thread in "".join(upgrades)


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


@pytest.mark.parametrize(
    "fields",
    [
        env("CUDA_DISABLE_CONTROL", "false"),
        env("NVIDIA_VISIBLE_DEVICES", "none"),
        env("CUDA_VISIBLE_DEVICES", "0"),
        env("GPU_CORE_UTILIZATION_POLICY", "disable"),
        {"image": "nvcr.io/nvidia/pytorch:25.08-py3"},
        {"runtimeClassName": "nvidia"},
    ],
)
def test_what_does_not_touch_the_limit_is_no_fault(tmp_path: Path, fields: Object) -> None:
    assert codes(asked(tmp_path, with_container(**fields))) == ["running"]


def test_a_whole_gpu_needs_no_limit(tmp_path: Path) -> None:
    one = with_container(WHOLE, gpu(), **env("CUDA_DISABLE_CONTROL", "true"))
    assert codes(asked(tmp_path, one)) == ["running"]


def test_a_core_limit_that_is_turned_off_is_told(tmp_path: Path) -> None:
    one = with_container(given("gpu-1", ("GPU-0", 16384, 40)), **env("GPU_CORE_UTILIZATION_POLICY", "disable"))
    assert codes(asked(tmp_path, one)) == ["limit-not-enforced"]


@pytest.mark.parametrize("share", [HALF | {"nvidia.com/vgpu-mode": "mig"}, given("gpu-1", ("GPU-0[0-1]", 8000, 14))])
def test_a_mig_instance_keeps_its_own_limit(tmp_path: Path, share: Object) -> None:
    one = with_container(share, **env("CUDA_DISABLE_CONTROL", "true"))
    assert codes(asked(tmp_path, one)) == ["running"]


def test_a_sidecar_s_image_does_not_matter(tmp_path: Path) -> None:
    containers = [container(gpu(memory=8000)), container({}, "proxy", image="alpine:3")]
    assert codes(asked(tmp_path, placed(runs(), runs("proxy"), containers=containers))) == ["running"]


def test_a_hang_tells_which_hami_core_the_node_has(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(), plugin(5000, "projecthami/hami:v2.8.0"), log=WAITS)
    assert "HAMi-core of HAMi 2.8.0" in cause(report).claim
    assert "projecthami/hami:v2.8.0" in quotes(report)


def test_a_crash_is_not_explained_by_a_limit_that_cannot_hold(tmp_path: Path) -> None:
    one = placed(looping(1), containers=[container(gpu(memory=8000), **env("CUDA_DISABLE_CONTROL", "true"))])
    assert codes(asked(tmp_path, one)) == ["image-or-start-failure"]


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
        ({"runtimeClassName": "nvidia"}, "the NVIDIA runtime starts them"),
        ({"containers": [container({}, securityContext={"privileged": True})]}, "are privileged"),
        ({"containers": [container({}, **env("NVIDIA_VISIBLE_DEVICES", "all"))]}, "NVIDIA_VISIBLE_DEVICES=all"),
    ],
)
def test_pods_that_may_use_the_full_gpu_without_a_share_are_named(tmp_path: Path, fields: Object, told: str) -> None:
    usual: Object = {"containers": [container({})], "nodeName": "gpu-1", "status": {"phase": "Running"}} | fields
    one, of_node = pod("stray", None, **usual), pod("agent", None, **usual)
    of_node["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}]
    others = [one] if "VISIBLE" in told else [one, of_node]
    claim = cause(asked(tmp_path, placed(looping(1)), *others, log=SHORT_OF.format("7.44 GiB"))).claim
    assert "ml/stray" in claim
    assert told in claim
    assert "ml/agent" not in claim


def test_a_neighbour_that_turns_hami_core_off_is_named_where_the_gpu_is_full(tmp_path: Path) -> None:
    off = container(gpu(memory=4000), **env("CUDA_DISABLE_CONTROL", "true"))
    other = pod("greedy", annotations=given("gpu-1", ("GPU-0", 4000, 0)), nodeName="gpu-1", containers=[off])
    other["status"] |= {"phase": "Running"}
    assert "ml/greedy turn" in cause(asked(tmp_path, placed(looping(1)), other, log=SHORT_OF.format("7 GiB"))).claim


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
    assert "driver 595 is newer" in cause(report).claim


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
    assert "log was not read" in found.claim
    assert "logs wl -c main" in found.next_actions[-1].command


ILLEGAL = CORE.format("ERROR") + "Illegal device id: -644371744"


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


def test_what_turns_the_limit_off_is_told_beside_what_the_log_says(tmp_path: Path) -> None:
    one = with_container(**env("CUDA_DISABLE_CONTROL", "true"))
    report = asked(tmp_path, one, log=CORE.format("ERROR") + "cuInit failed:999")
    assert codes(report) == ["gpu-start-failure", "limit-not-enforced"]


def test_a_limit_in_hami_core_s_words_that_hami_did_not_give_is_told(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log=OOM)
    assert "its limit is 16,000 MiB" in cause(report).claim
    assert "HAMi gave the pod 8,000 MiB" in cause(report).claim


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


def test_a_stack_that_a_running_program_logs_is_no_end_of_its(tmp_path: Path) -> None:
    assert codes(asked(tmp_path, placed(), log="panic: runtime error: index out of range [3]\nrecovered\n")) == [
        "running"
    ]


@pytest.mark.parametrize(("off", "told"), [("true", ["limit-not-enforced"]), ("false", ["hami-core-hang"])])
def test_where_hami_core_is_turned_off_it_is_not_what_stands_still(tmp_path: Path, off: str, told: list[str]) -> None:
    two = given("gpu-1", ("GPU-0", 8000, 0), ("GPU-1", 8000, 0))
    one = with_container(two, **env("CUDA_DISABLE_CONTROL", off))
    assert codes(asked(tmp_path, one, log=NCCL)) == told


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


def test_nvidia_s_words_of_another_vendor_s_pod_are_no_reason_for_nvidia_s_runtime(tmp_path: Path) -> None:
    dcu = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000"}
    given_dcu = {"hami.io/vgpu-node": "gpu-1", "hami.io/dcu-devices-allocated": "DCU-0,DCU,2000,10:;"}
    report = asked(tmp_path, placed(looping(1), annotations=given_dcu, limits=dcu), log=MISSING)
    assert codes(report) == ["image-or-start-failure"]
