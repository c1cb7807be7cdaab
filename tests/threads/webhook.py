"""Threads in which HAMi never saw the pod: the webhook passed it by, refused it, or was out of reach."""

from tests.playbooks.world import event, gpu, none_of, owner, pod, refused
from tests.threads.scene import NO_BINDING_POD, base, privileged, rejected
from tests.threads.thread import Scene, Thread

NO_MEMORY = refused(none_of(1, "1 Insufficient nvidia.com/gpumem"))
FAILED_CALL = (
    'Error creating: Internal error occurred: failed calling webhook "vgpu.hami.io": failed to call webhook: Post '
    '"https://hami-scheduler.hami-system.svc:443/webhook?timeout=10s": '
)


def passed_by(**fields: object) -> Scene:
    """A pod that went to default-scheduler, which cannot place it."""
    one = pod(said=NO_MEMORY, schedulerName="default-scheduler", **fields)
    return Scene(base(one, version="2.4.1"))


def bound_by_another(**fields: object) -> Scene:
    """A pod that default-scheduler bound, and that the device plugin then refused."""
    one = rejected(NO_BINDING_POD, {}, schedulerName="default-scheduler", **fields)
    return Scene(base(one, version="2.4.1"))


def never_created(why: str) -> Scene:
    """A Deployment whose ReplicaSet may not create its pod."""
    top = owner("Deployment", "wl")
    middle = owner("ReplicaSet", "wl-6d5f7c9b8", of=top)
    return Scene(base(top, middle, event(middle, "FailedCreate", why)), "ml/deploy/wl")


THREADS = (
    Thread(
        "HAMi#1429",
        "pending: default-scheduler says Insufficient nvidia.com/gpucores",
        "webhook-bypassed",
        "schedulerName and who refused show that the webhook did not change the pod",
        "HAMi-1429",
    ),
    Thread(
        "HAMi#611",
        "a privileged pod is not scheduled",
        "webhook-bypassed",
        "up to 2.9 the webhook skips a privileged container",
        passed_by(containers=privileged()),
        says="privileged",
    ),
    Thread(
        "HAMi#790",
        "a privileged pod ends in UnexpectedAdmissionError",
        "webhook-bypassed",
        "the pod has no annotation of HAMi, another scheduler bound it, its container is privileged",
        bound_by_another(containers=privileged()),
        says="privileged",
    ),
    Thread(
        "HAMi#1162",
        "schedulerName is not overwritten",
        "webhook-bypassed",
        "the pod's spec names another scheduler",
        passed_by(),
    ),
    Thread(
        "HAMi#960",
        "no pod: the webhook says pod has node assigned",
        "admission-denied",
        "the event FailedCreate of the ReplicaSet quotes the webhook",
        "HAMi-960",
    ),
    Thread(
        "HAMi#338",
        "UnexpectedAdmissionError: no binding pod found",
        "webhook-bypassed",
        "default-scheduler bound the pod; the plugin's words are its consequence",
        "HAMi-338",
    ),
    Thread(
        "HAMi#653",
        "no route from the API server to the webhook, then no binding pod found",
        "webhook-bypassed",
        "it says that the webhook did not see the pod; only the API server's log says that the network is why",
        bound_by_another(),
        grade="right way",
    ),
    Thread(
        "HAMi#919",
        "Insufficient nvidia.com/gpumem though vGPUs are free",
        "webhook-bypassed",
        "it says that the webhook did not see the pod; the timeout stands only in the API server's log",
        passed_by(),
        grade="right way",
    ),
    Thread(
        "HAMi#160",
        "no pod can be created: failed calling webhook",
        "webhook-unreachable",
        "the event FailedCreate quotes the API server's error",
        never_created(f"{FAILED_CALL}dial tcp 10.96.12.7:443: connect: no route to host"),
    ),
    Thread(
        "HAMi#234",
        "the second pod fails",
        "webhook-bypassed",
        "the pod has no trace of the webhook",
        passed_by(containers=[pod(limits=gpu(memory=1000))["spec"]["containers"][0]]),
    ),
)
