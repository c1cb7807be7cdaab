"""Threads about HAMi-core in the container: crashes, hangs, and a library that is not loaded."""

from tests.playbooks.world import card, container, given, gpu, gpu_node
from tests.threads.scene import base, inside, looping, placed
from tests.threads.thread import Scene, Thread

SEGFAULT = looping(139)
PAIR = given("gpu-1", ("GPU-0", 16384, 100), ("GPU-1", 16384, 100))
WARN = "[HAMI-core Warn(1:140:{})]: "
OLD = "[4pdvGPU Warn(1:140:utils.c:37)]: "


def vllm(version: str, image: str = "vllm/vllm-openai:v0.11.0", log: str = "") -> Scene:
    """A pod of two whole GPUs that ends by a segmentation fault."""
    containers = [container(gpu(2), image=image)]
    one = placed(SEGFAULT, annotations=PAIR, containers=containers)
    objects = base(gpu_node("gpu-1", card("GPU-0"), card("GPU-1")), one, version=version)
    return Scene(objects, recorded={"others": {"ml/wl/main.previous": log}} if log else {})


THREADS = (
    Thread(
        "HAMi#1479",
        "vLLM 0.11: NCCL, TCPStore",
        "hami-core-crash",
        "exit code 139, two GPUs, and a version of HAMi-core that is known for it",
        vllm("2.7.0"),
        says="2.7.0",
    ),
    Thread(
        "HAMi#1191",
        "vLLM with tensor-parallel-size 8",
        "hami-core-crash",
        "exit code 139, several GPUs, and a version of HAMi-core that is known for it",
        vllm("2.6.0"),
        says="2.6.0",
    ),
    Thread(
        "HAMi#1230",
        "vLLM with several GPUs, NCCL 2.26",
        "hami-core-crash",
        "exit code 139, several GPUs, and a version of HAMi-core that is known for it",
        vllm("2.6.0", "registry.example/nccl-tests:2.26"),
        says="2.6.0",
    ),
    Thread(
        "HAMi#1055",
        "segmentation fault in cuDeviceGet",
        "image-or-start-failure",
        "one GPU and no library that is known for it: only a core dump tells HAMi-core's crash from the program's own",
        inside("E0519 torch/distributed/elastic: failed (exitcode: -11) local_rank: 0\n", looping(1), version="2.5.0"),
        says="scheduling is not the cause",
        grade="not visible",
    ),
    Thread(
        "HAMi-core#61",
        "segmentation fault with PyTorch, placed by Volcano",
        "image-or-start-failure",
        "exit code 139; HAMi-core of Volcano's plugin is not known by its version",
        inside("", SEGFAULT, annotations={}, schedulerName="volcano", limits={"volcano.sh/vgpu-number": "1"}),
        says="139",
        grade="right way",
    ),
    Thread(
        "HAMi#727",
        "all vGPU pods fail when the plugin restarts",
        "hami-core-crash",
        "exit code 139 within seconds of the plugin's start",
        "HAMi-727",
    ),
    Thread(
        "HAMi#1346", "ld.so: libvgpu.so cannot be preloaded", "hami-core-missing", "the container's log", "HAMi-1346"
    ),
    Thread(
        "HAMi-core#86",
        "endless lock shrreg",
        "hami-core-hang",
        "the container's log",
        inside(
            "".join(
                f"{WARN.format('multiprocess_memory_limit.c:515')}Lock shrreg timeout, try fix (1:4711)\n"
                for _ in range(4)
            )
        ),
    ),
    Thread(
        "HAMi#1662",
        "one minute until the program starts",
        "hami-core-hang",
        "the container's log",
        inside(
            "".join(f"{WARN.format('utils.c:52')}unified_lock locked, waiting 1 second...\n" for _ in range(20)),
            version="2.8.0",
        ),
    ),
    Thread(
        "HAMi#55",
        "unified_lock, workers are killed",
        "hami-core-hang",
        "the container's log",
        inside(
            f"{OLD}unified_lock locked, waiting 1 second...\n" * 20 + "[CRITICAL] WORKER TIMEOUT (pid:33)\n",
            looping(1),
            version="2.2.0",
        ),
    ),
)
