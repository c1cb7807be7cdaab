"""A GPU whose memory is used up refuses more promises; one that a single pod was given whole says nothing."""

from pathlib import Path

import pytest

from tests.playbooks.world import Object, card, gpu_node, running, scheduler
from tests.tune.lab import GIB, tune
from tests.tune.support import rows_of

T4 = 15 * 1024
ALONE = [running("a", "gpu-1", ("GPU-a", T4, 0))]
SHARED = [running("a", "gpu-1", ("GPU-a", 8192, 0)), running("b", "gpu-1", ("GPU-a", T4 - 8192, 0))]
FULL = f'hami_host_gpu_memory_used_bytes{{device_uuid="GPU-a"}} {14.9 * GIB}\n'


@pytest.mark.parametrize(
    ("pods", "scaling", "directions"),
    [
        (ALONE, 1, ["cannot-tell"]),
        (SHARED, 1, ["refuse"]),
        (ALONE, 2, ["lower", "refuse"]),
        (SHARED, 2, ["lower", "refuse"]),
    ],
    ids=["alone", "shared", "alone, over-committed", "shared, over-committed"],
)
def test_a_full_gpu_that_is_shared_or_over_committed_refuses_more(
    tmp_path: Path, pods: list[Object], scaling: int, directions: list[str]
) -> None:
    gpu = card("GPU-a", devmem=T4 * scaling)
    objects = [*scheduler(config=f"nvidia:\n  deviceMemoryScaling: {scaling}\n"), gpu_node("gpu-1", gpu), *pods]
    report = tune(tmp_path, objects, monitors={"gpu-1": FULL})
    assert [row.direction for row in rows_of(report) if row.topic == "memory-scaling"] == directions
