"""A cluster with three reasons to wait: cards that are full, a type that no card has, and a gate."""

from pathlib import Path

from tests.playbooks.world import Object, cluster, gpu, gpu_node, none_of, pod, record, refused, running

CAUSES = ("card-insufficient-memory", "card-type-mismatch", "scheduling-gated")
_FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
_TYPE = refused(none_of(1, "1 1/1 CardTypeMismatch"))


def waiting(number: int) -> Object:
    """Pod number N has cause number N modulo three."""
    name = f"trainer-{number}"
    match number % 3:
        case 0:
            return pod(name, gpu(memory=8000), said=_FULL)
        case 1:
            return pod(name, gpu(memory=100), annotations={"nvidia.com/use-gputype": "H100"}, said=_TYPE)
        case _:
            return pod(name, gpu(memory=100), schedulingGates=[{"name": "example.com/quota"}])


def busy_cluster(folder: Path, pods: int) -> Path:
    """A recording in which so many pods wait."""
    folder.mkdir(exist_ok=True)
    node = gpu_node("gpu-1")
    asks = gpu(memory=12_000, cores=10)
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 12_000, 10), namespace="other", limits=asks)
    return record(folder, cluster(node, holder, *(waiting(number) for number in range(pods))))
