"""What containers use of their GPUs, read from recorded scrapes of every version."""

import pytest

from bot.hami.metrics.exposition import read_samples
from bot.hami.metrics.gpu_usage import NAMES, ContainerUse, Usage, read_usage

NEW = '{container="main",device_uuid="GPU-7d",namespace="serving",pod="infer-8",vdevice_index="0",zone="vGPU"} '
OLD = '{ctrname="main",deviceuuid="GPU-7d",podname="infer-8",podnamespace="serving",vdeviceid="0",zone="vGPU"} '
NEWEST = (
    f"hami_vgpu_memory_used_bytes{NEW}6.591978976e+09\nhami_vgpu_memory_limit_bytes{NEW}8.589934592e+09\n"
    f"hami_container_device_utilization_ratio{NEW}40\nhami_container_last_kernel_elapsed_seconds{NEW}6\n"
    'hami_host_gpu_memory_used_bytes{device_uuid="GPU-7d",node="n1"} 7e+09\n'
)
OLDEST = (
    f"vGPU_device_memory_usage_in_bytes{OLD}6.591978976e+09\nvGPU_device_memory_limit_in_bytes{OLD}8.589934592e+09\n"
    f"Device_utilization_desc_of_container{OLD}40\nDevice_last_kernel_of_container{OLD}6\n"
    'HostGPUMemoryUsage{deviceuuid="GPU-7d",nodeid="n1"} 7e+09\n'
)


def used(text: str) -> Usage:
    return read_usage(read_samples(text, NAMES))


def figures(use: ContainerUse) -> list[float | None]:
    return [reading and reading.value for reading in (use.used, use.limit, use.last_kernel)]


@pytest.mark.parametrize("text", [NEWEST, OLDEST, NEWEST + OLDEST, OLDEST + NEWEST])
def test_the_figures_are_the_same_under_each_name_and_count_once(text: str) -> None:
    usage = used(text)
    assert [(use.namespace, use.pod, use.container, use.uuid) for use in usage.containers] == [
        ("serving", "infer-8", "main", "GPU-7d")
    ]
    assert figures(usage.containers[0]) == [6591978976.0, 8589934592.0, 6.0]
    assert [(gpu.uuid, gpu.node, gpu.used and gpu.used.value) for gpu in usage.gpus] == [("GPU-7d", "n1", 7e9)]


def test_with_both_names_the_newest_is_quoted() -> None:
    (use,) = used(OLDEST + NEWEST).containers
    assert use.used is not None
    assert use.used.line == f"hami_vgpu_memory_used_bytes{NEW}6.591978976e+09"


@pytest.mark.parametrize(
    "sample",
    [
        'hami_vgpu_memory_used_bytes{device_uuid="GPU-1",exported_container="main",exported_namespace="ml",exported_pod="a",',
        'vGPU_device_memory_usage_in_bytes{podnamespace="ml",podname="a",ctrname="main",deviceuuid="GPU-1",',
    ],
    ids=["moved aside", "names of their own"],
)
def test_the_labels_that_prometheus_adds_of_the_monitor_name_no_container(sample: str) -> None:
    added = 'namespace="hami-system",pod="hami-device-plugin-x",container="vgpu-monitor"} 1\n'
    (use,) = used(sample + added).containers
    assert (use.namespace, use.pod, use.container) == ("ml", "a", "main")


@pytest.mark.parametrize("value", ["NaN", "nan", "+Inf", "much"])
def test_what_is_no_number_is_no_figure(value: str) -> None:
    assert used(f"hami_vgpu_memory_used_bytes{NEW}{value}") == Usage()


def test_a_figure_that_comes_twice_counts_once() -> None:
    (use,) = used(f"hami_vgpu_memory_used_bytes{NEW}5\nhami_vgpu_memory_used_bytes{NEW}7\n").containers
    assert figures(use) == [5.0, None, None]


def test_a_mig_instance_belongs_to_its_gpu() -> None:
    (use,) = used(f"hami_vgpu_memory_used_bytes{NEW}5".replace("GPU-7d", "GPU-7d[0-1]")).containers
    assert use.uuid == "GPU-7d"


def test_what_names_no_pod_or_no_gpu_is_left_out() -> None:
    text = 'hami_vgpu_memory_used_bytes{pod="p",namespace="n"} 5\nhami_vgpu_memory_used_bytes{device_uuid="GPU-1"} 5\n'
    assert used(text) == Usage()


def test_quotes_and_newlines_in_labels_are_what_they_stand_for() -> None:
    text = r'hami_vgpu_memory_used_bytes{pod="a\"b\\c\nd",namespace="n",device_uuid="GPU-1"} 5 1700000000'
    (use,) = used(text).containers
    assert use.pod == 'a"b\\c\nd'
    assert figures(use)[0] == 5.0
