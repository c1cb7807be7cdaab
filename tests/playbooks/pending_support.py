"""A node that is full, and pods that are too large for what is left of it."""

from typing import Any

from tests.playbooks.world import Object, gpu, gpu_node, none_of, pod, refused, running

FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))


def too_large(name: str, memory: int = 15000, **fields: Any) -> Object:
    """A pod that asks for more memory than the node of `full` has free."""
    return pod(name, gpu(memory=memory), said=FULL, **fields)


def full(name: str = "gpu-1", **fields: Any) -> list[Object]:
    return [gpu_node(name, **fields), running(f"holder-{name}", name, (f"GPU-{name}", 10000, 0))]
