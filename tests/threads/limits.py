"""Threads about a limit that does not hold, usage that differs, and metrics of GPUs."""

from collections.abc import Mapping

from tests.playbooks.world import Object, container, given, gpu
from tests.threads.scene import base, inside, looping, placed, plugin, runs
from tests.threads.thread import Scene, Thread

FULL = "[HAMI-core ERROR (pid:1 thread=140 allocator.c:114)]: cuMemoryAllocate failed res=2\n"


def healthy_pod(limits: Object | None = None, env: Mapping[str, str] | None = None, **fields: object) -> Scene:
    """A pod that runs well by all that the API shows, beside a monitor that does."""
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    one = container(limits or gpu(memory=1000), env=variables, **fields)
    share = given("gpu-1", ("GPU-gpu-1", 1000, int(one["resources"]["limits"].get("nvidia.com/gpucores", 0))))
    monitored = plugin(runs("device-plugin"), runs("vgpu-monitor"), ready=True)
    return Scene(base(monitored, placed(containers=[one], annotations=share)))


def moved_hook() -> Scene:
    """HOOK_PATH was changed, and the monitor's volume was not."""
    one = plugin(runs("device-plugin"), runs("vgpu-monitor"), version="2.4.1", ready=True)
    one["spec"]["containers"][0] |= {
        "env": [{"name": "HOOK_PATH", "value": "/data"}],
        "volumeMounts": [{"name": "lib", "mountPath": "/usr/local/vgpu"}],
    }
    one["spec"]["volumes"] = [{"name": "ctrs", "hostPath": {"path": "/usr/local/vgpu/containers"}}]
    return Scene(base(one, placed(), version="2.4.1"))


INSIDE_ONLY = "only the driver and HAMi-core in the container know what is used"

THREADS = (
    Thread(
        "HAMi-core#79",
        "the GPU is full before the limits are",
        "limit-not-enforced",
        "HAMi-core's line in the container's log",
        inside(FULL, looping(1)),
    ),
    Thread(
        "HAMi#332", "gpumem and gpucores are not enforced", "running", INSIDE_ONLY, healthy_pod(), grade="not visible"
    ),
    Thread(
        "HAMi#1112",
        "an ssh session sees the whole GPU",
        "running",
        "the container's command starts sshd",
        healthy_pod(command=["/usr/sbin/sshd", "-D"]),
        says="a session over ssh does not get",
    ),
    Thread(
        "HAMi#1777",
        "Docker in Docker sees the whole GPU",
        "limit-not-enforced",
        "the container is privileged and its image is docker:dind",
        Scene(
            base(
                placed(
                    containers=[
                        container(gpu(memory=1000), image="docker:27-dind", securityContext={"privileged": True})
                    ]
                ),
                version="2.8.1",
            )
        ),
    ),
    Thread(
        "HAMi#446",
        "usage in the pod and on the host differ",
        "running",
        INSIDE_ONLY,
        healthy_pod(),
        grade="not visible",
    ),
    Thread(
        "HAMi#952",
        "usage in the pod and on the host differ",
        "running",
        INSIDE_ONLY,
        healthy_pod(),
        grade="not visible",
    ),
    Thread(
        "HAMi#1221", "a program uses more than its limit", "running", INSIDE_ONLY, healthy_pod(), grade="not visible"
    ),
    Thread(
        "HAMi#424",
        "20 % cores, 60 % used",
        "running",
        "what the bot says is true of every pod that is alone; the thread blames calls that HAMi-core does not hook",
        healthy_pod(gpu(memory=1000, cores=20)),
        says="core limit",
        grade="not visible",
    ),
    Thread(
        "HAMi#737",
        "the limit of cores is ignored",
        "running",
        "by the annotations of the node's pods it is alone on its GPU, and its env sets no other policy",
        healthy_pod(gpu(memory=1000, cores=30)),
        says="core limit",
    ),
    Thread(
        "HAMi#372",
        "ACTIVE_OOM_KILLER has no effect",
        "running",
        "the variable stands in the pod's spec; HAMi-core reads it and never acts on it",
        healthy_pod(env={"ACTIVE_OOM_KILLER": "true"}),
        says="has no effect",
    ),
    Thread(
        "HAMi-core#37",
        "cores 30 %, 90 % used",
        "running",
        "by the annotations of the node's pods it is alone on its GPU, and its env sets no other policy",
        healthy_pod(gpu(memory=1000, cores=30)),
        says="core limit",
    ),
    Thread(
        "HAMi#410",
        "no series in Grafana",
        "nodes-healthy",
        "Prometheus' own configuration is not HAMi's",
        Scene(base(), verb="nodes"),
        grade="not visible",
    ),
    Thread(
        "HAMi#849",
        "part of the metrics is missing",
        "running",
        "the monitor's volume against HOOK_PATH, in the spec of the device plugin's pod",
        moved_hook(),
        says="vGPUmonitor has no figures of it",
    ),
    Thread(
        "HAMi#931",
        "no pod metrics for whole GPUs",
        "nodes-healthy",
        "without HAMi-core in the container there is no file to measure by; nothing is broken",
        Scene(base(), verb="nodes"),
        grade="not visible",
    ),
)
