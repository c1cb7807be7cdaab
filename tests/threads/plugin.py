"""Threads in which the device plugin of a node does not start, does not register or refuses Allocate."""

from tests.playbooks.world import Object, card, gpu, gpu_node, pod
from tests.threads.scene import PLUGIN_LOG, base, looping, plugin, plugin_down, rejected, waiting
from tests.threads.thread import Scene, Thread

UNAVAILABLE = "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"
NO_NVML = """\
I1121 04:57:39.590312 1 factory.go:123] Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1
I1121 04:57:39.590370 1 factory.go:123] Detected non-Tegra platform: /sys/devices/soc0/family file not found
E1121 04:57:39.590385 1 factory.go:131] Incompatible platform detected
E1121 04:57:39.590393 1 factory.go:132] If this is a GPU node, did you configure the NVIDIA Container Toolkit?
E1121 04:57:39.590500 1 main.go:170] error getting plugins: platform detection failed
"""
NO_STRATEGY = """\
I1121 04:57:39.590312 1 main.go:380] Retrieving plugins.
E1121 04:57:39.590385 1 factory.go:112] Incompatible strategy detected auto
E1121 04:57:39.590500 1 main.go:230] unable to create plugin manager: invalid device discovery strategy
"""
NVML_UNKNOWN = "E1121 04:57:39.590500 1 main.go:230] failed to initialize NVML: nvml init failed: Unknown Error"
NVML_OLD = "2026/11/21 04:57:39 Failed to initialize NVML: could not load NVML library."
DRIVER = "E1121 04:57:39.590500 1 main.go:230] error starting plugins: nvml init failed: Driver Not Loaded"
GB10 = """\
E1121 04:57:39.590385 1 register.go:97] nvml get memory error ret=3
panic: 0

goroutine 67 [running]:
github.com/Project-HAMi/HAMi/pkg/device-plugin/nvidiadevice/nvinternal/plugin.(*NvidiaDevicePlugin).getAPIDevices(...)
"""
ONE_BAD = GB10.replace("nvml get memory error ret=3", "nvml new device by index error, index=3, err=Unknown Error")
FATAL = """\
I1121 04:57:39.590312 1 register.go:200] Start WatchAndRegister
F1121 04:57:39.590385 1 register.go:214] exit status 255: failed to run nvidia-smi
goroutine 1 [running]:
"""
NIL = """\
I1121 04:57:39.590312 1 server.go:300] Allocate [&ContainerAllocateRequest{DevicesIDs:[GPU-gpu-1-0],}]
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x15d0f3a]

goroutine 88 [running]:
"""
MIG_PARTED = 'F1121 04:57:39.590385 1 util.go:480] "nvidia-mig-parted failed with" err="exit status 1"'


MIG_NODE = gpu_node("gpu-1", *(card(f"GPU-{at}", 24576, type="NVIDIA-A30", count=4, mode="mig") for at in (0, 1)))


def two_plugins(capacity: int) -> Scene:
    """NVIDIA's own plugin serves the node's GPUs, so kubelet offers as many as there are."""
    labels = {"name": "nvidia-device-plugin-ds"}
    other = pod("nvidia-device-plugin-x", {}, namespace="kube-system", labels=labels, nodeName="gpu-1")
    other["status"] = {"phase": "Running"}
    gpus = gpu_node("gpu-1", card("GPU-gpu-1"), allocatable={"nvidia.com/gpu": str(capacity)}, text=True)
    return Scene(
        base(gpus, other, waiting("1 Insufficient nvidia.com/gpu"), rejected_by_kubelet(), version="2.4.0"), "ml/second"
    )


def rejected_by_kubelet() -> Object:
    one = rejected(UNAVAILABLE)
    return one | {"metadata": one["metadata"] | {"name": "second", "uid": "uid-second"}}


def crashed_in_allocate(log: str, version: str) -> Scene:
    """The plugin panics when kubelet asks it for a device, and runs again."""
    status = looping(2, "device-plugin")
    one = rejected("rpc error: code = Unavailable desc = transport is closing")
    objects = base(one, plugin(status, version=version), version=version)
    return Scene(objects, recorded={"others": {f"{PLUGIN_LOG}.previous": log}})


def driver_reinstalled() -> Scene:
    """The GPU Operator's driver pod is not ready yet, and HAMi's plugin finds no driver."""
    scene = plugin_down(DRIVER, version="2.3.13")
    driver = pod("nvidia-driver-daemonset-x", {}, namespace="gpu-operator", nodeName="gpu-1")
    return scene._replace(objects=[*scene.objects, driver])


THREADS = (
    Thread(
        "HAMi#596",
        "Requested: 1, Available: 0 right after Bind",
        "allocate-failed",
        "kubelet's words and what they mean; the thread's only answer was an upgrade",
        Scene(base(rejected(UNAVAILABLE), version="2.4.1")),
        grade="right way",
    ),
    Thread(
        "HAMi#39",
        "Allocate: transport is closing",
        "device-plugin-crash",
        "kubelet's words with the end of the device plugin",
        crashed_in_allocate(NIL, "2.2.13"),
    ),
    Thread(
        "HAMi#829",
        "after a restart of k3s nvidia.com/gpu is the number of GPUs",
        "second-device-plugin",
        "kubelet's capacity against the registration, and the other plugin's pod",
        "HAMi-829",
    ),
    Thread(
        "HAMi#587",
        "the second pod is not scheduled, the capacity is 1",
        "second-device-plugin",
        "kubelet's capacity against the registration, and the other plugin's pod",
        two_plugins(1),
    ),
    Thread(
        "HAMi#805",
        "the plugin is in CrashLoopBackOff after the install",
        "gpu-runtime-missing",
        "the plugin's log",
        plugin_down(NO_NVML, version="2.4.0"),
    ),
    Thread(
        "HAMi#136",
        "the GPU Operator reinstalls the driver, the plugin crashes",
        "driver-not-loaded",
        "the plugin's log",
        driver_reinstalled(),
    ),
    Thread(
        "HAMi#861",
        "k3s: the plugin has no runtimeClass",
        "gpu-runtime-missing",
        "the plugin's log: it finds no NVML library",
        "HAMi-861",
    ),
    Thread(
        "HAMi#452",
        "Failed to initialize NVML: ERROR_UNKNOWN",
        "device-plugin-crash",
        "the plugin's log; the first action is privileged=true",
        plugin_down(NVML_UNKNOWN, version="2.4.1"),
        says="cannot open the GPU devices",
    ),
    Thread(
        "HAMi#1940",
        "the plugin does not start on 2.9.0",
        "gpu-runtime-missing",
        "the plugin's log: it finds no NVML library",
        plugin_down(NO_STRATEGY, version="2.9.0"),
    ),
    Thread(
        "4paradigm/k8s-vgpu-scheduler#36",
        "Failed to initialize NVML",
        "gpu-runtime-missing",
        "the plugin's log: it finds no NVML library",
        plugin_down(NVML_OLD, version="2.3.0"),
    ),
    Thread(
        "HAMi#1511",
        "the plugin panics on a GB10",
        "device-plugin-crash",
        "the plugin's log: a GPU without its own memory makes it panic; fixed in 2.8.3",
        plugin_down(last=GB10, exit_code=2, version="2.7.1"),
        says="GB10",
    ),
    Thread(
        "HAMi#2233",
        "one bad GPU takes the plugin down",
        "card-fault",
        "the plugin's log before the panic",
        plugin_down(last=ONE_BAD, exit_code=2, version="2.9.0"),
    ),
    Thread(
        "HAMi#169",
        "the plugin exits now and then",
        "device-plugin-crash",
        "the last words of the plugin's run before",
        plugin_down(last=FATAL, exit_code=255, version="2.3.13"),
        says="255",
    ),
    Thread(
        "HAMi#116",
        "the plugin panics for a pod with nodeName",
        "device-plugin-crash",
        "the plugin's log",
        crashed_in_allocate(NIL, "2.3.7"),
        says="nil pointer",
    ),
    Thread(
        "HAMi#441",
        "GPUs are registered as unhealthy while they work",
        "card-fault",
        "the registration and the plugin's log; a restart of the plugin heals it",
        "HAMi-441",
    ),
    Thread(
        "HAMi#1044",
        "a MIG pod is refused",
        "device-plugin-crash",
        "the device plugin ends while it applies the layout, and its log says so",
        crashed_in_allocate(MIG_PARTED, "2.5.0"),
        says="one MIG layout to all GPUs of the node",
    ),
    Thread(
        "HAMi#2403",
        "MIG: a request for two devices is refused",
        "custom-filter-rule",
        "HAMi's reason and version, the request, and idle GPUs in MIG mode",
        Scene(base(MIG_NODE, waiting("1 1/1 CardNotFoundCustomFilterRule", gpu(2)), version="2.9.0")),
        says="several devices on idle GPUs in MIG mode",
    ),
    Thread(
        "HAMi#1422",
        "the plugin restarts when a pod starts in mode mig",
        "device-plugin-crash",
        "the log of the plugin's run before",
        plugin_down(last=MIG_PARTED, exit_code=255, version="2.7.0"),
        says="could not apply the MIG layout",
    ),
)
