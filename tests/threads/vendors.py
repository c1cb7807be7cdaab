"""Threads about the GPUs and NPUs of other vendors, and about Volcano."""

from tests.playbooks.offered_support import DEVICES
from tests.playbooks.status_support import CONFIG, configured
from tests.playbooks.world import Object, container, node, pod, refused, scheduler
from tests.threads.scene import base, placed, rejected, runs, waiting
from tests.threads.thread import Scene, Thread

ASCEND = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "8192"}


def ascend(limits: Object, insufficient: str) -> Scene:
    """The webhook knows the NPU, and kube-scheduler's configuration lacks its memory."""
    offered = {"huawei.com/Ascend910B3": "10", "huawei.com/Ascend910B2": "10"}
    npu = node("npu-1", labels={"ascend": "on"}, allocatable=offered)
    devices = DEVICES + DEVICES[DEVICES.index("- commonWord: Ascend910B3") :].partition("- commonWord: Ascend310P")[
        0
    ].replace("B3", "B2")
    parts = scheduler("2.5.0", config=devices)
    objects = configured(
        base(
            *parts, npu, waiting(f"1 node unregistered, 1 Insufficient {insufficient}", limits, of=2), version="2.5.0"
        ),
        CONFIG,
    )
    return Scene(objects)


def volcano(reasons: str, limits: Object, **fields: object) -> Scene:
    """A pod that Volcano could not place."""
    one = pod(limits=limits, schedulerName="volcano", said=refused(f"0/1 nodes are unavailable: {reasons}."), **fields)
    return Scene(base(one))


def running_with(limits: Object) -> Scene:
    """A pod that holds devices of that vendor and runs well by all that the API shows."""
    return Scene(base(placed(runs(), annotations={}, limits=limits)))


def vgpus(number: int, memory: int = 1000) -> Object:
    return {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory)}


def serving_ssh() -> Scene:
    """A pod with a share of a GPU from Volcano, into which users log in."""
    one = container(vgpus(1), ports=[{"containerPort": 22}])
    return Scene(base(placed(runs(), annotations={}, containers=[one], schedulerName="volcano")))


THREADS = (
    Thread(
        "HAMi#1413",
        "Insufficient huawei.com/Ascend910B3-memory",
        "extender-misconfigured",
        "kube-scheduler's managedResources lack it",
        "HAMi-1413",
    ),
    Thread(
        "HAMi#927",
        "an Ascend 910B2 pod is pending",
        "extender-misconfigured",
        "kube-scheduler's managedResources lack it",
        ascend(
            {"huawei.com/Ascend910B2": "1", "huawei.com/Ascend910B2-memory": "8192"}, "huawei.com/Ascend910B2-memory"
        ),
        says="huawei.com/Ascend910B2-memory",
    ),
    Thread(
        "HAMi#1042",
        "the NPU is not mounted",
        "running",
        "the cause stands in ascend-docker-runtime's log on the host",
        running_with({"huawei.com/Ascend910B4-1": "2"}),
        grade="not visible",
    ),
    Thread(
        "ascend-device-plugin#15",
        "two pending pods get the wrong template",
        "running",
        "a lock inside the plugin; the pods run",
        running_with(ASCEND),
        grade="not visible",
    ),
    Thread(
        "ascend-device-plugin#128",
        "at most 4 pods for each NPU",
        "running",
        "the Ascend plugin registers a count of 4; the pods that run are well",
        running_with(ASCEND),
        grade="not visible",
    ),
    Thread(
        "HAMi#946",
        "all pods on one MLU, then Allocate fails",
        "allocate-failed",
        "kubelet's words and what they mean",
        Scene(
            base(
                rejected("rpc error: code = Unknown desc = exist profile 2.6144 but its remain 0 is invaild"),
                version="2.5.0",
            )
        ),
    ),
    Thread(
        "HAMi#1776",
        "the DCU is not seen in the container",
        "running",
        "the image and the driver inside the container",
        running_with({"hygon.com/dcunum": "1"}),
        grade="not visible",
    ),
    Thread(
        "dcu-vgpu-device-plugin#2",
        "the DCU plugin does not start on a K100_AI",
        "resource-unknown",
        "it says that nobody offers the DCUs; the DCU plugin's log is not read",
        Scene(
            base(node("dcu-1", labels={"dcu": "on"}), waiting("1 node unregistered", {"hygon.com/dcunum": "1"}, of=2))
        ),
        grade="right way",
    ),
    Thread("HAMi#1548", "XPU: empty id from pod annotation", "allocate-failed", "kubelet's words", "HAMi-1548"),
    Thread(
        "HAMi#1629",
        "XPU: pods share the UUID of a virtual function",
        "running",
        "which virtual functions a container sees, only the container shows",
        running_with({"kunlunxin.com/vxpu": "8"}),
        grade="not visible",
    ),
    Thread(
        "HAMi#1135",
        "Insufficient metax-tech.com/gpu",
        "resource-unknown",
        "no node offers it: its operator is not installed",
        "HAMi-1135",
    ),
    Thread(
        "volcano-vgpu-device-plugin#7",
        "two vGPUs on one GPU are pending",
        "volcano-scheduled",
        "Volcano's words: one vGPU of each GPU",
        "volcano-vgpu-7",
    ),
    Thread(
        "volcano-sh/volcano#2907",
        "a vGPU pod is pending",
        "volcano-scheduled",
        "Volcano's words: one vGPU of each GPU",
        volcano("1 no enough gpu cards on node gpu-1", vgpus(2)),
        says="at most one vGPU of each GPU",
    ),
    Thread(
        "volcano-vgpu-device-plugin#8",
        "an ssh session sees the whole GPU",
        "running",
        "the container has port 22",
        serving_ssh(),
        says="a session over ssh does not get",
    ),
    Thread(
        "volcano-sh/volcano#3160",
        "vgpu-number is not in allocatable",
        "volcano-scheduled",
        "Volcano's own plugin and its log are not read",
        volcano("1 Insufficient volcano.sh/vgpu-number", vgpus(1)),
        grade="right way",
    ),
    Thread(
        "volcano-sh/volcano#3624",
        "sharing does not work",
        "volcano-scheduled",
        "the pod asks for resources of both modes",
        volcano("1 Insufficient volcano.sh/gpu-memory", vgpus(1) | {"volcano.sh/gpu-memory": "1024"}),
        says="the two modes cannot be mixed",
    ),
    Thread(
        "volcano-sh/volcano#4416",
        "node not initialized with hamivgpu",
        "volcano-scheduled",
        "Volcano's words",
        volcano("1 node not initialized with devicehamivgpu", vgpus(1)),
        says="has not registered",
    ),
    Thread(
        "volcano-sh/volcano#4742",
        "never scheduled",
        "volcano-scheduled",
        "Volcano's words; which Volcano goes with which Kubernetes is not known",
        volcano("1 hami-vgpuDeviceSharing error", vgpus(1)),
        grade="right way",
    ),
)
