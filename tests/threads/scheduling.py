"""Threads in which HAMi or kube-scheduler refuses the pod for what it asks, or by what the scheduler remembers."""

from tests.playbooks.refused_support import refused_again
from tests.playbooks.scheduler_metrics import GIB, counted, scrape
from tests.playbooks.world import HANDSHAKE, bind_error, container, gpu, gpu_node, node, pod, running
from tests.threads.scene import base, looping, plugin, two_gpus, waiting
from tests.threads.thread import Scene, Thread

PANIC = """\
2026/11/21 04:58:59 http: panic serving 127.0.0.1:49194: runtime error: invalid memory address or nil pointer
goroutine 5398 [running]:
github.com/Project-HAMi/HAMi/pkg/device/metax.parseMetaxAnnos(...)
"""
CLEANED = (
    'I1121 04:59:20.123456       1 scheduler.go:201] "Device is unhealthy, cleaning up node" node="gpu-1" '
    'device="NVIDIA"'
)
LOST = 'E1121 04:10:20.123456       1 scheduler.go:148] "unknown add object type"'
GHOST = scrape(counted("gone", 15 * GIB, old=True))


def no_volume() -> Scene:
    """A notebook whose volume claim is not bound."""
    return Scene(base(waiting("pod has unbound immediate PersistentVolumeClaims")))


def two_containers() -> Scene:
    """Two containers ask for a GPU each, and HAMi 2.4 does not find room on two GPUs."""
    limits = gpu(memory=4000)
    parts = [container(limits), container(limits, name="second")]
    one, *more = refused_again("1 NodeUnfitPod")
    one["spec"]["containers"] = parts
    return Scene(base(two_gpus(text=True), one, *more, version="2.4.1"))


def cleaned_up(version: str) -> Scene:
    """The node's registration is correct, and the scheduler drops the node from its memory."""
    return Scene(base(*refused_again("1 node unregistered"), version=version), recorded={"logs": CLEANED})


def metrics_only() -> Scene:
    """Nobody waits; the scheduler's metrics count a pod that is gone."""
    return Scene(base(version="2.5.2"), verb="status", recorded={"metrics": GHOST, "logs": LOST})


def lost_plugin() -> Scene:
    """The driver's DaemonSet is broken, HAMi's device plugin is down, and HAMi asks in vain."""
    status = looping(1, "device-plugin")
    driver = pod("nvidia-driver-daemonset-x", {}, labels={"app": "nvidia-driver-daemonset"}, nodeName="gpu-1")
    driver["status"] = {"phase": "Running", "containerStatuses": [looping(1, "nvidia-driver-ctr")]}
    asked = {HANDSHAKE: "Requesting_2026.11.21 04:50:00"}
    gpus = gpu_node(annotations=asked, allocatable={"nvidia.com/gpu": "0"}, text=True)
    return Scene(base(gpus, driver, plugin(status, version="2.3.13"), waiting("1 node unregistered"), version="2.3.13"))


def unlabelled() -> Scene:
    """The only GPU node lacks the label that HAMi's DaemonSet selects."""
    found = node(
        "gpu-1", labels={"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true"}
    )
    sets = {"desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberReady": 0}
    daemons = next(item for item in base() if item["kind"] == "DaemonSet") | {"status": sets}
    objects = base(found, daemons, waiting("1 node unregistered"), without=("hami-device-plugin-gpu-1",))
    return Scene(objects)


def occupied() -> Scene:
    """The annotations of two running pods hold more of a GPU than it has."""
    holders = [running(name, "gpu-1", ("GPU-gpu-1", 16384, 100)) for name in ("first", "wl")]
    return Scene(base(*holders))


def extra_entry() -> Scene:
    """A running pod with an init container, whose annotation begins with an empty entry."""
    one = running("wl", "gpu-1", ("GPU-gpu-1", 1000, 30), initContainers=[container(name="fetch")])
    one["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = ";GPU-gpu-1,NVIDIA,1000,30:;"
    return Scene(base(one, version="2.9.0"))


def no_scheduler() -> Scene:
    """HAMi's scheduler was never installed; the pod asks for a virtual XPU."""
    limits = {"kunlunxin.com/vxpu": "1"}
    one = waiting("1 Insufficient kunlunxin.com/vxpu", limits, schedulerName="default-scheduler")
    gone = (
        "Deployment",
        "hami-scheduler-0",
        "Service",
        "EndpointSlice",
        "MutatingWebhookConfiguration",
        "Lease",
        "ConfigMap",
    )
    return Scene(base(one, without=gone))


THREADS = (
    Thread(
        "HAMi#1527",
        "nvidia.com/gpu: 4 is refused with NodeUnfitPod",
        "impossible-anywhere",
        "the node registered two GPUs, and one container gets at most one share of each",
        "HAMi-1527",
    ),
    Thread(
        "HAMi#1528",
        "nvidia.com/gpu: 4 is refused with NodeUnfitPod",
        "impossible-anywhere",
        "the same as HAMi#1527",
        Scene(base(two_gpus(), waiting("1 NodeUnfitPod", gpu(4)))),
    ),
    Thread(
        "HAMi#1173",
        "nvidia.com/gpu: 2 is refused",
        "impossible-anywhere",
        "each node registered one GPU",
        Scene(base(waiting("2 NodeUnfitPod", gpu(2), 2), nodes=2)),
    ),
    Thread(
        "HAMi#6",
        "pending: no node matches the selector",
        "kubernetes-filter",
        "kube-scheduler says so",
        Scene(base(waiting("1 node(s) didn't match Pod's node affinity/selector", nodeSelector={"gpu-kind": "a100"}))),
        says="selector",
    ),
    Thread(
        "HAMi#198",
        "a Kubeflow notebook is pending",
        "kubernetes-filter",
        "kube-scheduler says that the volume claim is not bound",
        no_volume(),
        says="PersistentVolumeClaim",
    ),
    Thread(
        "HAMi#1069",
        "Insufficient nvidia.com/gpu.memory",
        "resource-unknown",
        "nobody offers a resource of that name; the nearest that HAMi has is told",
        "HAMi-1069",
    ),
    Thread(
        "HAMi#798",
        "a pod of two containers with GPUs does not fit",
        "node-unfit-pod",
        "HAMi's version, the pod's containers, and that HAMi refuses what the objects allow",
        two_containers(),
        says="whose containers ask for GPUs each",
    ),
    Thread(
        "HAMi#1258",
        "a Deployment's pod gets NodeUnfitPod, the same pod alone runs",
        "scheduler-ledger-stale",
        "the thread did not find the cause; the bot says that HAMi refuses what the objects allow",
        Scene(base(*refused_again("1 NodeUnfitPod"), version="2.6.1")),
        says="NodeUnfitPod",
        grade="not visible",
    ),
    Thread(
        "HAMi#812",
        "pending after a reboot of the node until it is deleted",
        "waiting-for-retry",
        "the node registered after the last refusal, and kube-scheduler retries late",
        "HAMi-812",
    ),
    Thread(
        "HAMi#1875",
        "pending for minutes now and then",
        "registration-ignored",
        "HAMi refuses the node again and again, though its registration is correct",
        cleaned_up("2.8.1"),
    ),
    Thread(
        "HAMi#272",
        "the plugin crashed, the handshake stays at Requesting_",
        "driver-not-loaded",
        "the plugin ends, and the driver's pod on that node does not start",
        lost_plugin(),
        says="loads the NVIDIA driver is not ready",
    ),
    Thread(
        "HAMi#1899",
        "several scheduler replicas: nodes vanish after 60 seconds",
        "registration-ignored",
        "HAMi refuses the node again and again, though its registration is correct",
        cleaned_up("2.9.0"),
    ),
    Thread(
        "HAMi#2923",
        "CardInsufficientMemory on 8 of 8 GPUs, all of them idle",
        "scheduler-ledger-stale",
        "HAMi refused 13 times for memory that no pod holds",
        "HAMi-2923-repeated",
    ),
    Thread(
        "HAMi#1458",
        "the metrics count deleted pods",
        "scheduler-ledger-stale",
        "the scheduler's metrics against the pods' annotations",
        metrics_only(),
        says="ml/gone",
    ),
    Thread(
        "HAMi#303",
        "wrong accounting after an update",
        "scheduler-ledger-stale",
        "the scheduler's metrics against the pods' annotations",
        Scene(
            base(gpu_node(text=True), *refused_again(count=1, first=30), version="2.3.9"), recorded={"metrics": GHOST}
        ),
        says="ml/gone",
    ),
    Thread(
        "HAMi#193",
        "the device status is empty now and then",
        "registration-ignored",
        "HAMi refuses the node again and again, though its registration is correct",
        cleaned_up("2.3.9"),
    ),
    Thread(
        "HAMi#2280",
        "no GPU in the node's allocatable",
        "device-plugin-not-selected",
        "the DaemonSet's selector against the node's labels",
        unlabelled(),
        says="gpu=on",
    ),
    Thread(
        "HAMi#1491",
        "a new pod gets an occupied GPU",
        "running",
        "the thread did not find the cause",
        occupied(),
        grade="not visible",
    ),
    Thread(
        "HAMi#2232",
        "the annotated GPU is not the GPU in the pod",
        "kubernetes-unsupported",
        "the API server's version is before 1.23",
        "m1-kubernetes-1.22",
    ),
    Thread(
        "HAMi#212",
        "a pod with two containers: the extender panics",
        "scheduler-panic",
        "kube-scheduler's call broke off, and the extender's log has the panic",
        "HAMi-212",
    ),
    Thread(
        "HAMi#1075",
        "the scheduler crashes when the Metax GPUs run out",
        "scheduler-panic",
        "kube-scheduler's call broke off, and the extender's log has the panic",
        Scene(
            base(
                pod(said=bind_error('Post "http://127.0.0.1:80/filter": EOF'), limits={"metax-tech.com/gpu": "1"}),
                version="2.5.0",
            ),
            recorded={"logs": PANIC},
        ),
        says="nil pointer",
    ),
    Thread(
        "HAMi#1130",
        "the second pod waits 5 minutes for the lock",
        "node-lock-dangling",
        "the lock's owner runs already",
        "HAMi-1130",
    ),
    Thread(
        "HAMi#1932",
        "devices-allocated has one entry too many",
        "running",
        "the annotation, the init container and HAMi's version",
        extra_entry(),
        says="gives each init container an entry",
    ),
    Thread("HAMi#2031", "no vxpu is handed out", "scheduler-down", "no Deployment of HAMi's scheduler", no_scheduler()),
)
