"""What a pod's several containers use of one GPU counts together, and what is no NVIDIA GPU is not measured at all."""

from pathlib import Path
from typing import Any

from bot.report import Report
from tests.playbooks.world import Object, card, gpu_node, node, running, scheduler
from tests.tune.lab import GIB, HOURS, KERNEL, LIMIT, USED, FakePrometheus, advised, row, tune, use
from tests.tune.support import rows_of

HOUR = 3600
TWO_CONTAINERS = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,4096,0:;GPU-a,NVIDIA,8192,0:;"}
PAIR = running("pair", "gpu-1", annotations=TWO_CONTAINERS)
DCU_REGISTER = {"hami.io/node-dcu-register": "DCU-0,4,65536,100,DCU-K100_AI,0,true:"}
DCU_GIVEN = {"hami.io/vgpu-devices-allocated": "", "hami.io/dcu-devices-allocated": "DCU-0,DCU,16384,20:;"}


def ask(tmp_path: Path, **seen: Any) -> Report:
    return tune(tmp_path, [*scheduler(config="nvidia: {}\n"), gpu_node("gpu-1", card("GPU-a")), PAIR], **seen)


def both(name: str, first: float, second: float) -> str:
    return use(name, "pair", "GPU-a", first) + use(name, "pair", "GPU-a", second, container="side")


def prometheus(peaks: str, hours: str) -> FakePrometheus:
    return FakePrometheus(both(USED, GIB, GIB), peaks, hours)


def test_the_peaks_of_two_containers_on_one_gpu_add_up(tmp_path: Path) -> None:
    seen = prometheus(both(USED, 6 * GIB, 2 * GIB), both(USED, HOURS, HOURS))
    found = row(ask(tmp_path, prometheus=seen), "memory-scaling")
    assert "12,288 MiB / 8,192 MiB x 0.9 = 1.35" in found.why


def test_a_peak_of_one_of_two_containers_is_no_peak_of_the_pod(tmp_path: Path) -> None:
    one = prometheus(use(USED, "pair", "GPU-a", GIB), use(USED, "pair", "GPU-a", HOURS))
    assert row(ask(tmp_path, prometheus=one), "memory-scaling").direction == "cannot-tell"


def test_two_containers_without_a_kernel_are_an_idle_pod(tmp_path: Path) -> None:
    found = row(ask(tmp_path, monitors={"gpu-1": both(KERNEL, 9 * HOUR, 8 * HOUR)}), "idle-holder")
    assert (found.direction, found.why) == ("lower", "no kernel for 8.0 h")


def test_a_pod_is_not_idle_for_one_of_its_containers(tmp_path: Path) -> None:
    idle = use(KERNEL, "pair", "GPU-a", 9 * HOUR) + use(USED, "pair", "GPU-a", GIB // 8)
    report = ask(tmp_path, monitors={"gpu-1": idle + use(LIMIT, "pair", "GPU-a", 4 * GIB)})
    assert row(report, "idle-holder").direction == "cannot-tell"
    assert advised(report) == set()


def dcu_cluster() -> list[Object]:
    pod = running("dcu", "dcu-1", annotations=DCU_GIVEN)
    return [*scheduler(config="nvidia: {}\n"), gpu_node("gpu-1", card("GPU-a")), node("dcu-1", DCU_REGISTER), PAIR, pod]


def test_nothing_is_asked_of_a_pod_on_another_vendors_devices(tmp_path: Path) -> None:
    working = both(KERNEL, 5, 5) + both(USED, 2 * GIB, 2 * GIB)
    report = tune(tmp_path, dcu_cluster(), monitors={"gpu-1": working})
    assert advised(report) == set()
    assert [advice for advice in rows_of(report) if "dcu" in advice.object] == []
