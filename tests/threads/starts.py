"""Threads in which the runtime does not start the container, or takes its GPU away."""

from tests.threads.scene import created, inside, looping, runs
from tests.threads.thread import Thread

OCI = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running hook #0: error running hook: "
    "exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n"
)
UNKNOWN = f"{OCI}nvidia-container-cli: device error: GPU-gpu-1: unknown device: unknown"
LOST = "Failed to initialize NVML: Unknown Error"

THREADS = (
    Thread(
        "HAMi#411",
        "RunContainerError: unknown device",
        "gpu-start-failure",
        "the runtime does not know the GPU that HAMi gave; the thread did not find why",
        created("RunContainerError", UNKNOWN, version="2.4.1"),
        grade="right way",
    ),
    Thread(
        "HAMi#1481",
        "no GPU with a runtime that uses CDI",
        "gpu-start-failure",
        "the container's log says that there is no GPU; the environment that the plugin sets is not in the API",
        inside("RuntimeError: No CUDA GPUs are available\n", looping(1), version="2.7.1"),
        grade="right way",
    ),
    Thread(
        "HAMi#1903",
        "unresolvable CDI devices MIG-…",
        "gpu-start-failure",
        "the runtime's words in the container's status",
        "HAMi-1903",
    ),
    Thread(
        "HAMi#1520",
        "NVML: Unknown Error in a running pod",
        "gpu-start-failure",
        "the container's log",
        inside(f"step 1200\n{LOST}\n", runs(), version="2.6.1"),
    ),
    Thread(
        "HAMi#1113",
        "nvidia-smi works for seconds, then fails",
        "gpu-start-failure",
        "the container's log",
        inside(f"ok\n{LOST}\n", looping(255), version="2.6.0"),
    ),
    Thread(
        "HAMi#698",
        "a pod of several containers is in CrashLoopBackOff",
        "image-or-start-failure",
        "it says which container ends and how",
        inside("", runs(), looping(1, "sidecar"), version="2.4.1"),
        grade="right way",
    ),
)
