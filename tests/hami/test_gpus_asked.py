"""How many GPUs a pod asks for at once."""

from collections.abc import Iterable
from typing import Any

from bot.hami.pods.request_parsing import DeviceConfig, gpus_of
from tests.hami import build
from tests.hami.build import gpu, pod

Limits = dict[str, Any]


def gpus(*limits: Limits, inits: Iterable[Limits] = (), config: DeviceConfig | None = None) -> int | None:
    return gpus_of(pod("wl", *limits, init=inits), config or DeviceConfig())


def test_a_pod_asks_for_the_gpus_of_its_containers_together() -> None:
    assert gpus(gpu(2), gpu(1), {}) == 3
    assert gpus({}) == 0


def test_an_init_container_that_asks_for_more_counts_alone() -> None:
    assert gpus(gpu(2), inits=[gpu(4), gpu(1)]) == 4
    assert gpus(gpu(2), inits=[gpu(1)]) == 2


def test_memory_or_cores_without_a_count_mean_one_gpu_as_the_webhook_writes_it() -> None:
    assert gpus(gpu(None, 1000), gpu(None, percentage=50)) == 2
    assert gpus({"example.com/gpu": 3}, config=build.config(count="example.com/gpu")) == 3


def test_of_another_vendors_devices_and_of_no_number_it_is_not_known() -> None:
    assert gpus(gpu(1), {"huawei.com/Ascend910A": 1}) is None
    assert gpus(gpu("1500m")) is None
