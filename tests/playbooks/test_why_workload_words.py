"""What other programs than HAMi-core say in a GPU container's log: drivers, PyTorch, vLLM, nvidia-smi."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from tests.playbooks.inside_support import CORE, HALF, WHOLE, asked, looping, placed
from tests.playbooks.world import (
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
    none_of,
    pod,
    quotes,
    refused,
    running,
    scheduler,
)

NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
NO_NVML = "pynvml.nvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found"
SMI = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest"
COMBINATION = "UserWarning: CUDA initialization: Unexpected error. Error 803: system has unsupported display driver / "
TOO_OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update"
INSUFFICIENT = "CUDA driver version is insufficient for CUDA runtime version"
OLD_TORCH = "RuntimeError: cuda runtime error (35) : {} at /pytorch/aten/src/THC/THCGeneral.cpp:50"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (NO_DRIVER, "gpu-runtime-missing"),
        (NO_NVML, "gpu-runtime-missing"),
        ("DEBUG Exception happens when checking CUDA platform: NVML Shared Library Not Found", "gpu-runtime-missing"),
        (SMI, "driver-not-loaded"),
        ("Failed to initialize NVML: ERROR_DRIVER_NOT_LOADED", "driver-not-loaded"),
        (
            "pynvml.nvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
            "driver-not-loaded",
        ),
        ("Failed to initialize NVML: ERROR_UNKNOWN", "gpu-start-failure"),
        (COMBINATION + "cuda driver combination (Triggered internally)", "driver-not-loaded"),
        ("CUDA error: forward compatibility was attempted on non supported HW", "driver-not-loaded"),
        (TOO_OLD, "gpu-start-failure"),
        (f"  what():  {INSUFFICIENT}: cudaErrorInsufficientDriver", "gpu-start-failure"),
        (f"cupy.cuda.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: {INSUFFICIENT}", "gpu-start-failure"),
        (OLD_TORCH.format(INSUFFICIENT), "gpu-start-failure"),
        (f"Failed to allocate device vector A (error code {INSUFFICIENT})!", "gpu-start-failure"),
    ],
)
def test_a_program_that_ends_for_want_of_a_driver_is_told_in_its_words(tmp_path: Path, line: str, code: str) -> None:
    report = asked(tmp_path, placed(looping(1)), log=f"start\n{line}\n")
    assert (codes(report)[0], cause(report).confidence) == (code, "confirmed")
    assert any(quote in line for quote in quotes(report))


@pytest.mark.parametrize(
    "line",
    [
        CORE.format("ERROR") + "cuInit failed:802",
        "torch.AcceleratorError: CUDA error: system not yet initialized",
        "Error loading plugin: Error 802: system not yet initialized",
        "cupy.cuda.runtime.CUDARuntimeError: cudaErrorSystemNotReady: system not yet initialized",
    ],
)
def test_gpus_that_are_not_ready_are_suspected_where_a_program_ends(tmp_path: Path, line: str) -> None:
    report = asked(tmp_path, placed(looping(1)), log=f"start\n{line}\n")
    assert (codes(report)[0], cause(report).confidence) == ("gpu-start-failure", "suspected")
    assert "nvidia-fabricmanager" in cause(report).claim


def test_vllm_without_a_device_is_only_suspected_to_lack_the_runtime(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log="RuntimeError: Failed to infer device type, please set\n")
    assert (codes(report)[0], cause(report).confidence) == ("gpu-runtime-missing", "suspected")


# ------------------------------------------------------------------------------------------- memory, without HAMi-core

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total {} of {} GiB of which"
)
OLDER = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.81 GiB total capacity; 7 GiB already"
)
NO_CACHE = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"


OLDEST = OLDER.replace("OutOfMemoryError", "RuntimeError")


@pytest.mark.parametrize("line", [TORCH.format("capacity", "7.81"), TORCH.format("capacty", "7.81"), OLDER, OLDEST])
def test_memory_that_ends_where_the_container_s_limit_is_is_suspected_to_be_the_limit(
    tmp_path: Path, line: str
) -> None:
    report = asked(tmp_path, placed(looping(1)), log=line)
    assert (codes(report)[0], cause(report).confidence) == ("gpu-memory-limit", "suspected")
    assert "8,000 MiB" in cause(report).claim
    assert HALF["hami.io/vgpu-devices-allocated"] in quotes(report)


@pytest.mark.parametrize("line", [TORCH.format("capacity", "7.81"), OLDEST])
def test_memory_that_ends_at_a_limit_below_a_gibibyte_is_suspected_too(tmp_path: Path, line: str) -> None:
    one = placed(looping(1), annotations=given("gpu-1", ("GPU-0", 800, 0)))
    report = asked(tmp_path, one, log=line.replace("7.81 GiB", "800.00 MiB"))
    assert (codes(report)[0], "800 MiB" in cause(report).claim) == ("gpu-memory-limit", True)


def test_memory_that_ends_on_a_whole_gpu_is_no_limit(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1), annotations=WHOLE), log=TORCH.format("capacity", "16.00"))
    assert codes(report) == ["image-or-start-failure"]


def test_a_program_that_sees_more_memory_than_its_limit_has_no_hami_core(tmp_path: Path) -> None:
    report = asked(tmp_path, placed(looping(1)), log=TORCH.format("capacity", "14.57"))
    assert (codes(report)[0], cause(report).confidence) == ("limit-not-enforced", "suspected")
    assert "8,000 MiB (GPU 0 has a total capacity of 14.57 GiB)" in cause(report).claim
    look = cause(report).next_actions[0].command
    assert look == "kubectl -n ml exec wl -c main -- cat /etc/ld.so.preload"


def test_a_program_is_without_hami_core_only_where_its_gpu_was_read_to_have_it(tmp_path: Path) -> None:
    one, log = placed(looping(1)), {"ml/wl/main": TORCH.format("capacity", "14.57")}
    report = ask(tmp_path, cluster(one), others=log, missing=["nodes"], settings={"workload_logs": True})
    assert "limit-not-enforced" not in codes(report)


@pytest.mark.parametrize(
    "line", ["cache volume has a total capacity of 500 GiB", "data loader: GPU 0; 39.40 GiB of host memory pinned"]
)
def test_a_capacity_of_something_else_than_a_gpu_proves_nothing(tmp_path: Path, line: str) -> None:
    assert codes(asked(tmp_path, placed(), log=line)) == ["running"]


def test_a_program_that_goes_on_after_it_ran_out_of_memory_is_left_alone(tmp_path: Path) -> None:
    assert codes(asked(tmp_path, placed(), log=TORCH.format("capacity", "7.81"))) == ["running"]


@pytest.mark.parametrize(
    "line",
    [
        NO_CACHE,
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in",
        "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is",
    ],
)
def test_a_model_that_leaves_no_cache_is_suspected_to_reach_the_limit_where_there_is_one(
    tmp_path: Path, line: str
) -> None:
    limited = asked(tmp_path, placed(looping(1)), log=line)
    assert (codes(limited)[0], cause(limited).confidence) == ("gpu-memory-limit", "suspected")
    whole = asked(tmp_path, placed(looping(1), annotations=WHOLE), log=line)
    assert codes(whole) == ["image-or-start-failure"]


NO_ROOM = "OP_REQUIRES failed : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,128] and type float"
OTHERS = [
    "failed to allocate 50.00GiB (53687091200 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "RuntimeError: CUDA error: out of memory",
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory",
    "ValueError: Free memory on device (1.2/7.8 GiB) on startup is less than desired GPU memory utilization (0.9)",
    "ValueError: Free memory on device cuda:1 (1.2/7.8 GiB) on startup is less than desired GPU memory utilization",
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
    "[E:onnxruntime:, inference_session.cc:2105] Exception during initialization: CUDA failure 2: out of memory ;",
    "Out of memory error on GPU 0. Cannot allocate 256.000000MB memory on GPU 0, 7.6GB memory has been allocated",
    "[TRT] [E] 1: [defaultAllocator.cpp::allocate::20] Error Code 1: Cuda Runtime (out of memory)",
    f"{NO_ROOM} on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
    "include/alloc.h:48 NCCL WARN Cuda failure 'out of memory'",
]


@pytest.mark.parametrize("line", OTHERS)
def test_other_programs_words_for_no_memory_are_suspected_to_be_the_limit_where_there_is_one(
    tmp_path: Path, line: str
) -> None:
    limited = asked(tmp_path, placed(looping(1)), log=line)
    assert (codes(limited)[0], cause(limited).confidence) == ("gpu-memory-limit", "suspected")
    assert codes(asked(tmp_path, placed(looping(1), annotations=WHOLE), log=line)) == ["image-or-start-failure"]
    assert codes(asked(tmp_path, placed(), log=line)) == ["running"]


@pytest.mark.parametrize("line", [TORCH.format("capacity", "7.81"), NO_CACHE, *OTHERS])
def test_a_program_that_went_on_with_less_memory_ended_of_the_error_at_its_end(tmp_path: Path, line: str) -> None:
    log = "\n".join([line, *STEPS, "ValueError: bad config key 'lr'"])
    assert codes(asked(tmp_path, placed(looping(1)), log=log)) == ["image-or-start-failure"]


def test_a_tensor_that_finds_no_room_in_the_host_s_memory_is_not_about_the_gpu(tmp_path: Path) -> None:
    line = f"{NO_ROOM} on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
    assert codes(asked(tmp_path, placed(looping(1)), log=line)) == ["image-or-start-failure"]


def test_a_limit_above_what_the_gpu_has_is_told_where_a_program_has_no_memory(tmp_path: Path) -> None:
    node = gpu_node("gpu-1", card("GPU-0", 163840, type="NVIDIA A100-SXM4-80GB"))
    one = placed(looping(1), annotations=given("gpu-1", ("GPU-0", 100000, 0)))
    logs = {"ml/wl/main": OTHERS[0]}
    report = ask(tmp_path, cluster(one, node), others=logs, settings={"workload_logs": True})
    assert codes(report)[0] == "limit-not-enforced"
    assert "limit is 100,000 MiB, and the GPU has 81,920 MiB (memory scaling 2)" in cause(report).claim


# ------------------------------------------------------------------------------------------------------------ quoted

UNKNOWN = "Failed to initialize NVML: Unknown Error"
MENTIONS = [
    f'2026-11-23 08:11 INFO docs: if you see "Xid 79" or "{UNKNOWN}" call ops',
    f"prompt: what does `{UNKNOWN}` mean?",
    f"{{'role': 'user', 'content': 'my pod prints \"{UNKNOWN}\", why'}}",
]


@pytest.mark.parametrize("line", [*MENTIONS, f"2026-11-23 08:11 INFO a peer said: {UNKNOWN}"])
def test_a_sound_container_that_mentions_an_error_has_none(tmp_path: Path, line: str) -> None:
    assert codes(asked(tmp_path, placed(), log=f"{line}\n")) == ["running"]


@pytest.mark.parametrize("line", MENTIONS)
def test_a_quoted_error_is_not_why_a_container_ends(tmp_path: Path, line: str) -> None:
    assert codes(asked(tmp_path, placed(looping(1)), log=f"{line}\n")) == ["image-or-start-failure"]


@pytest.mark.parametrize(
    "line",
    [
        UNKNOWN,
        f"2026-11-23 08:11:05,120 ERROR worker: {UNKNOWN}",
        f'{{"level": "error", "msg": "{UNKNOWN}"}}',
        f'level=error msg="{UNKNOWN}"',
    ],
)
def test_the_same_error_as_a_logger_writes_it_counts(tmp_path: Path, line: str) -> None:
    assert codes(asked(tmp_path, placed(), log=f"{line}\n")) == ["gpu-start-failure"]


# ------------------------------------------------------------------------------------------------------ without a GPU

STEPS = [f"step {at} loss 1.2" for at in range(30)]
NO_GPU = "RuntimeError: No CUDA GPUs are available"


def test_a_container_that_sees_no_gpu_is_told_where_it_was_given_one(tmp_path: Path) -> None:
    assert codes(asked(tmp_path, placed(looping(1)), log=NO_GPU))[0] == "gpu-start-failure"


def test_a_container_that_asked_for_no_count_was_given_no_gpu_that_it_could_lose(tmp_path: Path) -> None:
    alone = [container({"nvidia.com/gpumem": "4000"})]
    report = asked(tmp_path, placed(looping(1), annotations={}, containers=alone), log=NO_GPU)
    assert "gpu-start-failure" not in codes(report)
    assert "image-or-start-failure" in codes(report)


def test_a_count_alone_is_a_gpu_given(tmp_path: Path) -> None:
    counted = [container(gpu())]
    report = asked(tmp_path, placed(looping(1), annotations={}, containers=counted), log=NO_GPU)
    assert "gpu-start-failure" in codes(report)


CONFIG = """
nvidia: {resourceCountName: nvidia.com/gpu}
hygon: {resourceCountName: hygon.com/dcunum, resourceMemoryName: hygon.com/dcumem, resourceCoreName: hygon.com/dcucores}
vnpus:
- {commonWord: Ascend910B3, resourceName: huawei.com/Ascend910B3, resourceMemoryName: huawei.com/Ascend910B3-memory,
   resourceCoreName: huawei.com/Ascend910B3-core, memoryAllocatable: 65536, memoryCapacity: 65536, aiCore: 20}
"""


def dcus(kind: str = "DCU-K100_AI") -> Object:
    text = "".join(f"DCU-{at},4,65536,100,{kind},0,true:" for at in range(2))
    return node("dcu-1", {"hami.io/node-dcu-register": text}, allocatable={"hygon.com/dcunum": "8"})


def npus(**annotations: str) -> Object:
    cards = [
        {"id": f"NPU-{at}", "count": 4, "devmem": 65536, "devcore": 20, "type": "Ascend910B3", "health": True}
        for at in range(2)
    ]
    register = {"hami.io/node-register-Ascend910B3": json.dumps(cards)}
    return node("npu-1", register | annotations, allocatable={"huawei.com/Ascend910B3": "8"})


def refusal(tmp_path: Path, reason: str, limits: Object, *objects: Object, **fields: Any) -> Report:
    waiting = pod(limits=limits, **fields)
    waiting["status"]["conditions"] = [refused(none_of(1, f"1 {reason}"))]
    return ask(tmp_path, [*scheduler(config=CONFIG, flags=["--enable-ascend"]), waiting, *objects])


def holder(cores: int) -> Object:
    held = "".join(f"DCU-{at},DCU,1000,{cores}:" for at in range(2)) + ";"
    return running("holder", "dcu-1", annotations={"hami.io/dcu-devices-allocated": held})


@pytest.mark.parametrize(
    ("cores", "reason", "code"),
    [
        (0, "ExclusiveDeviceAllocateConflict", "exclusive-device-conflict"),
        (10, "CardInsufficientCore", "card-insufficient-core"),
    ],
)
def test_cores_that_are_left_out_mean_whole_unused_devices(tmp_path: Path, cores: int, reason: str, code: str) -> None:
    report = refusal(tmp_path, reason, {"hygon.com/dcunum": "1", "hygon.com/dcumem": "900"}, dcus(), holder(cores))
    assert codes(report)[0] == code
    assert "names no hygon.com/dcucores" in cause(report).claim


def test_a_type_without_the_word_does_not_count(tmp_path: Path) -> None:
    report = refusal(tmp_path, "NodeInsufficientDevice", {"hygon.com/dcunum": "1"}, dcus("K100_AI"))
    assert (codes(report), cause(report).claim) == (
        ["node-insufficient-device"],
        "dcu-1: no registered device has DCU in its type.",
    )


def test_more_devices_than_a_node_has_are_counted_by_the_word(tmp_path: Path) -> None:
    report = refusal(tmp_path, "NodeInsufficientDevice", {"hygon.com/dcunum": "3", "hygon.com/dcumem": "1000"}, dcus())
    assert "a node has at most 2 that fit the request" in cause(report).claim
    assert "fewer devices with DCU in their type than the 3" in report.findings[1].claim


def test_a_soft_split_needs_a_node_that_is_set_up_for_it(tmp_path: Path) -> None:
    limits = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "8192"}
    soft = {"huawei.com/vnpu-mode": "hami-core"}
    report = refusal(tmp_path, "ModeNotFit", limits, npus(), annotations=soft)
    assert codes(report)[0] == "mode-not-fit"
    assert cause(report).claim == (
        "npu-1: not set up for the soft split that the pod asks for (huawei.com/vnpu-mode: hami-core)."
    )
    assert "hami-core" in quotes(report)


@pytest.mark.parametrize(
    ("limits", "step"),
    [
        (
            {"hygon.com/dcunum": "1", "hygon.com/dcumem": "16Gi"},
            "Give hygon.com/dcumem as a plain number, in units of 1 MiB",
        ),
        ({"hygon.com/dcumem": "2000"}, "Add hygon.com/dcunum to the container's limits if it needs a GPU"),
    ],
)
def test_a_quantity_in_bytes_or_no_count_asks_for_nothing(tmp_path: Path, limits: Object, step: str) -> None:
    waiting = pod(limits=limits)
    report = ask(tmp_path, [*scheduler(config=CONFIG), waiting, dcus()])
    (told,) = [finding for finding in report.findings if finding.code == "no-device-request"]
    assert "needs hygon.com/dcunum, and plain numbers" in told.claim
    assert [action.label.partition(";")[0] for action in told.next_actions] == [step]
