"""GPU containers of placed pods in which HAMi-core crashes, hangs, is missing, is full or cannot hold the limit."""

from pathlib import Path

import pytest

from tests.playbooks.inside_support import (
    CORE,
    GONE,
    HALF,
    ILLEGAL,
    LIBCUDA,
    LOST,
    MISSING,
    NCCL,
    NO_NVML,
    OFF,
    OOM,
    PRELOAD,
    SHORT,
    STARTS,
    TWO_WHOLE,
    WAIT,
    WAITS,
    WHOLE,
    asked,
    ended,
    env,
    looping,
    placed,
    plugin,
    runs,
    with_container,
)
from tests.playbooks.world import Object, ago, ask, card, cause, cluster, codes, container, given, gpu, gpu_node, quotes

# ---------------------------------------------------------------------------------------------- by its log


@pytest.mark.parametrize("place", ["log", "last"])
def test_a_container_that_reached_its_own_limit_is_told_with_both_amounts(tmp_path: Path, place: str) -> None:
    log = f"epoch 1\n{OOM}\ntorch.OutOfMemoryError: CUDA out of memory."
    report = asked(tmp_path, placed(looping(1)), **{place: log})
    assert codes(report) == ["gpu-memory-limit", "image-or-start-failure"]
    assert "would use 16,384 MiB, its limit is 16,000 MiB" in cause(report).claim
    assert "HAMi gave the pod 8,000 MiB" in cause(report).claim
    assert OOM in quotes(report)


@pytest.mark.parametrize(("annotations", "told"), [(TWO_WHOLE, True), (HALF, False)])
def test_a_limit_is_only_suspected_where_hami_core_may_count_another_gpu_s_use(
    tmp_path: Path, annotations: Object, told: bool
) -> None:
    log = f"{CORE.format('ERROR')}host pid is error!\n{OOM}\n"
    first = cause(asked(tmp_path, placed(looping(1), annotations=annotations), log=log))
    assert (first.code, first.confidence) == ("gpu-memory-limit", "suspected" if told else "confirmed")
    assert ("counts one's use against another's limit" in first.claim) == told
    assert ("CUDA_VISIBLE_DEVICES" in first.next_actions[0].label) == told


def test_of_a_user_s_line_only_hami_core_s_words_are_quoted(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log=f'{{"token": "hunter2", "text": "{OOM}"}}\n')
    assert OOM in quotes(report)
    assert "hunter2" not in str(report)


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


GPU_OF_OLD = "GPU 0; 23.53 GiB total capacity"


@pytest.mark.parametrize(
    "words",
    ["GPU 0 has a total capacity of 23.53 GiB", "GPU 0 has a total capacty of 23.53 GiB", GPU_OF_OLD],
    ids=["now", "PyTorch 2.1", "PyTorch 1"],
)
def test_of_a_user_s_line_only_the_capacity_that_proves_it_is_quoted(tmp_path: Path, words: str) -> None:
    pod = with_container(**env("CUDA_DISABLE_CONTROL", "true"))
    report = asked(tmp_path, pod, log=f"key=hunter2 it has {words}; 1 MiB is free")
    assert codes(report)[0] == "limit-not-enforced"
    assert words in quotes(report)
    assert "hunter2" not in str(report)


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


@pytest.mark.parametrize(("hook", "told"), [("/usr/local", False), ("/opt/hami", True)])
def test_a_missing_library_is_traced_to_paths_that_differ(tmp_path: Path, hook: str, told: bool) -> None:
    daemon = plugin(5000)
    daemon["spec"]["containers"][0] |= env("HOOK_PATH", hook) | {"volumeMounts": [{"name": "lib"}]}
    daemon["spec"]["volumes"] = [{"name": "lib", "hostPath": {"path": "/usr/local/vgpu"}}]
    report = asked(tmp_path, placed(), daemon, log=f"{GONE}\n")
    assert ("are not the same" in cause(report).claim) == told
    assert (hook in quotes(report)) == told


PANIC = "panic: runtime error: index out of range [3]"
BEGAN = "[HAMI-core Msg(1:140:libvgpu.c:900)]: Initialized"
STEPS = "\n".join(f"step {step}" for step in range(20))
TWO_PARTS = given("gpu-1", ("GPU-0", 8000, 0), ("GPU-1", 8000, 0))
DCU_GIVEN = {"hami.io/vgpu-node": "gpu-1", "hami.io/dcu-devices-allocated": "DCU-0,DCU,2000,10:;"}
DCU = placed(looping(1), annotations=DCU_GIVEN, limits={"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000"})


def since(seconds: float) -> Object:
    return placed(runs(state={"running": {"startedAt": ago(seconds)}}))


TRACE = '!!!!!!! Segfault encountered !!!!!!!\n  File "/libvgpu/src/allocator/allocator.c", line 44, in oom_check'
FRAME, CONFIG = "libvgpu.so!cuMemGetInfo_v2+0xd2", "ValueError: bad config key 'lr'"
NO_POWER = "WARNING gpu_stats: nvmlDeviceGetPowerUsage: NVMLError_Unknown: Unknown Error; skipping power metric"
SIGSEGV = "  traceback : Signal 11 (SIGSEGV) received by PID 78"
ENDS, HANGS, RUNS_ON = ["image-or-start-failure"], ["hami-core-hang"], ["running"]
LOGGED: dict[str, tuple[Object, str, list[str]]] = {
    "words that a program prints itself": (placed(looping(1)), "Device 0 OOM 17179869184 / 16777216000", ENDS),
    "a lock that it waited for, and then began": (placed(), f"{WAITS}\n{BEGAN}", RUNS_ON),
    "a lock that it waited for, and then went on": (placed(), f"{WAITS}\n{STEPS}", RUNS_ON),
    "a start of HAMi-core that does not end for minutes": (since(900), STARTS, HANGS),
    "a start of HAMi-core a minute ago": (since(60), STARTS, RUNS_ON),
    "a start of HAMi-core that ended": (since(900), f"{STARTS}\n{BEGAN}", RUNS_ON),
    "vLLM that stands still at NCCL on several GPUs": (placed(annotations=TWO_WHOLE), NCCL, HANGS),
    "vLLM that stands still at NCCL on one GPU": (placed(), NCCL, RUNS_ON),
    "NCCL where HAMi-core is turned off": (with_container(TWO_PARTS, **OFF), NCCL, ["limit-not-enforced"]),
    "NCCL where HAMi-core is not turned off": (
        with_container(TWO_PARTS, **env("CUDA_DISABLE_CONTROL", "false")),
        NCCL,
        HANGS,
    ),
    "a reason of the loader that is not known": (placed(), PRELOAD.format("cannot allocate memory"), RUNS_ON),
    "a helper without HAMi-core beside a program with it": (
        placed(),
        f"{GONE}\n[HAMI-core Msg(1:140:libvgpu.c:871)]: Initialized",
        RUNS_ON,
    ),
    "words of a crash where it ended": (placed(looping(139)), ILLEGAL, ["hami-core-crash", *ENDS]),
    "words of a crash where it runs": (placed(), ILLEGAL, RUNS_ON),
    "a crash of a process under another one": (placed(looping(1)), TRACE, ["hami-core-crash", *ENDS]),
    "a stack of a process that goes on": (placed(), TRACE, RUNS_ON),
    "a stack of a process that went on, and ended of its own error": (
        placed(looping(1)),
        f"watchdog: slow call: {FRAME}\n{STEPS}\n{CONFIG}",
        ENDS,
    ),
    "a power reading that failed": (placed(looping(1)), f"{NO_POWER}\n{STEPS}\n{CONFIG}", ENDS),
    "a table of errors": (placed(looping(1)), "registered error names: cudaErrorSystemNotReady", ENDS),
    "a worker that crashed on one GPU": (placed(looping(1)), SIGSEGV, ENDS),
    "a library that it did without": (placed(), f"{MISSING}\n{STEPS}", RUNS_ON),
    "a lost GPU that it did without": (placed(), f"{LOST}\n{STEPS}", RUNS_ON),
    "a driver that it did without": (placed(), f"{NO_NVML}\n{STEPS}", RUNS_ON),
    "a stack that a running program logs": (
        placed(),
        "panic: runtime error: index out of range [3]\nrecovered",
        RUNS_ON,
    ),
    "a fault beside a limit that is turned off": (
        with_container(**OFF),
        CORE.format("ERROR") + "cuInit failed:999",
        ["gpu-start-failure", "limit-not-enforced"],
    ),
    "NVIDIA's words of a pod for another vendor's GPU": (DCU, MISSING, ENDS),
    **{
        f"{words} of one that {does}": (one, words, told)
        for words in (
            LIBCUDA.format("", "") + "; trying libcuda.so.1",
            "prompt: 'my dmesg says NVRM and that the GPU is lost, what now?'",
            "prompt: 'what is an uncorrectable ECC error?'",
        )
        for does, one, told in (("runs", placed(), RUNS_ON), ("ends", placed(looping(1)), ENDS))
    },
}


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1"}, gpu() | {"nvidia.com/gpumem-percentage": "50"}])
def test_a_limit_that_is_no_amount_is_told_as_one_that_is_not_set(tmp_path: Path, limits: Object) -> None:
    report = asked(tmp_path, placed(looping(1), limits=limits, annotations=WHOLE), log=f"{OOM}\n")
    assert "(now not set: 16,384 MiB" in cause(report).next_actions[0].label


@pytest.mark.parametrize(("one", "log", "told"), LOGGED.values(), ids=LOGGED)
def test_words_in_a_log_are_weighed_by_what_its_container_does(
    tmp_path: Path, one: Object, log: str, told: list[str]
) -> None:
    report = asked(tmp_path, one, log=f"{log}\n")
    assert codes(report) == told
    assert log is not STARTS or told == RUNS_ON or cause(report).confidence == "suspected"


def test_a_run_that_is_long_over_says_nothing_about_a_container_that_runs(tmp_path: Path) -> None:
    again = runs(restartCount=1, lastState=ended(1, finished=960))
    assert codes(asked(tmp_path, placed(again), log="fine\n", last=OOM)) == ["running"]


def test_gpu_devices_that_a_running_container_lost_are_told(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(), log=f"{NO_NVML}\n")
    assert codes(report) == ["gpu-start-failure"]
    assert "daemon-reload" in cause(report).claim


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


RESTARTED = {"restartCount": 1, "state": {"running": {"startedAt": ago(50)}}, "lastState": ended(139, finished=60)}


@pytest.mark.parametrize(
    ("status", "key", "command"),
    [
        (runs(**RESTARTED), "hami-core-crash.wait", "kubectl -n ml get pod wl"),
        (looping(139, finished=60), "change.recreate", "kubectl -n ml delete pod wl"),
    ],
)
def test_a_pod_whose_container_runs_again_after_its_crash_is_watched_and_not_recreated(
    tmp_path: Path, status: Object, key: str, command: str
) -> None:
    report = asked(tmp_path, placed(status), plugin(70))
    assert codes(report)[0] == "hami-core-crash"
    first, *others = cause(report).next_actions
    assert (first.key, first.command) == (key, command)
    assert first.changes_cluster == (key == "change.recreate")
    assert "change.recreate" not in [step.key for step in others]


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


NO_WORKER = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."
UCX = "[vllm-0:285  :0:285] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))"
NO_PEER = "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.\n"
CHILD_FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
TORCHRUN = f"""{CHILD_FAILED}
=====================================================
train.py FAILED
-----------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_08:11:05
  rank      : 0 (local_rank: 0)
  exitcode  : -11 (pid: 78)
  error_file: <N/A>
{SIGSEGV}
"""
LAUNCHER = "subprocess.CalledProcessError: Command '['python', 'train.py']'"
LOADER = "RuntimeError: DataLoader worker (pid 78) is killed by signal: Segmentation fault. "
OF_THE_MODEL = "[core.py:708] OSError: /models/qwen does not appear to have a file named config.json.\n"


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (NO_WORKER, "hami-core-crash"),
        (UCX, "hami-core-crash"),
        (TORCHRUN, "hami-core-crash"),
        (f"{LAUNCHER} died with <Signals.SIGSEGV: 11>.\n{UCX}", "hami-core-crash"),
        (f"{LAUNCHER} returned non-zero exit status 1.\n{NO_WORKER}", "image-or-start-failure"),
        (f"{LOADER}\n{UCX}", "hami-core-crash"),
        (f"vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n{UCX}", "hami-core-crash"),
        (f"requests.exceptions.ConnectTimeoutError: telemetry\n{UCX}", "hami-core-crash"),
        (NO_PEER + NO_WORKER, "hami-core-crash"),
        (OF_THE_MODEL + NO_WORKER, "image-or-start-failure"),
    ],
    ids=[
        *("no other words", "signal", "torchrun's", "launcher's", "compiler's", "loader's", "engine's", "network's"),
        *("another worker's loss", "the worker's own error"),
    ],
)
def test_a_worker_that_died_is_suspected_of_hami_core_only_where_it_told_no_error_of_its_own(
    tmp_path: Path, log: str, code: str
) -> None:
    one = placed(looping(1), annotations=TWO_WHOLE)
    report = asked(tmp_path, one, plugin(90000, "projecthami/hami:v2.7.0"), log=log)
    assert codes(report)[0] == code
    assert code == "image-or-start-failure" or cause(report).confidence == "suspected"


def test_a_process_that_crashed_after_a_day_did_not_die_at_its_start(tmp_path: Path) -> None:
    one, log = placed(looping(1, lasted=80000), annotations=TWO_WHOLE, age=90000), f"{STEPS}\n{UCX}"
    report = asked(tmp_path, one, plugin(99000, "projecthami/hami:v2.7.0"), log=log)
    assert (codes(report)[0], cause(report).confidence) == ("hami-core-crash", "suspected")
    assert "a process crashed with a segmentation fault" in cause(report).claim
    assert "while it started" not in cause(report).claim


def test_a_crash_with_hami_core_on_its_stack_is_suspected_of_it(tmp_path: Path) -> None:
    one, log = placed(looping(139), annotations=WHOLE), f"001: {FRAME}\n"
    report = asked(tmp_path, one, plugin(90000, "projecthami/hami:v2.9.0"), log=log)
    assert (codes(report)[0], cause(report).confidence) == ("hami-core-crash", "suspected")
    assert not any("CUDA_DISABLE_CONTROL" in action.label for action in cause(report).next_actions)


def test_a_worker_that_kubernetes_killed_is_not_hami_core_s(tmp_path: Path) -> None:
    one = placed(looping(137), annotations=TWO_WHOLE)
    one["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] = "OOMKilled"
    report = asked(tmp_path, one, plugin(90000, "projecthami/hami:v2.7.0"), log=NO_WORKER)
    assert codes(report)[0] == "image-or-start-failure"


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
