"""What the watcher has seen, and pods that wait."""

from pathlib import Path

from tests.playbooks.world import Object, cluster, gpu, gpu_node, none_of, pod, record, refused, running

FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
HOLDER = running("holder", "gpu-1", ("GPU-gpu-1", 12_000, 10), namespace="other")


def waiting(name: str, minutes: float, namespace: str = "ml") -> Object:
    return pod(name, gpu(memory=8000), said=FULL, age=minutes * 60, namespace=namespace)


def seen(folder: Path, *objects: Object, **more) -> Path:
    folder.mkdir(exist_ok=True)
    return record(folder, cluster(gpu_node("gpu-1"), HOLDER, *objects), **more)
