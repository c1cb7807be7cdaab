"""What a pod asks for: the device config, and each version's arithmetic."""

import pytest
from msgspec import structs

from bot.hami.pods.pod_request import UNSET_PERCENTAGE, Constraints
from bot.hami.pods.request_parsing import DeviceConfig, asked_resources, pod_request, read_device_config
from bot.hami.vendors import FIRST as NVIDIA
from tests.hami import build
from tests.hami.build import V25, V26, V27, V28, V29, V210, VERSIONS, container, gpu, pod

OLD = [version for version in VERSIONS if version < V210]


def asked(limits, version=V210, config=None):
    """(count, memory, percentage, cores) of one container, None when it asks for nothing."""
    found = NVIDIA.request(container(limits), (config or DeviceConfig()).gpus, version)
    return found and (found.count, found.memory_mib, found.percentage, found.cores)


# ------------------------------------------------------------------ count


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [None, "0", "-1", "1500m", "x", "3Gi", ""])
def test_without_a_usable_count_a_container_asks_for_nothing(count, version):
    assert asked(gpu(count, 1000), version) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("count", "number"), [("1", 1), (2, 2), ("2k", 2000), ("1e1", 10)])
def test_counts_are_kubernetes_quantities(count, number, version):
    assert asked(gpu(count, 1000), version) == (number, 1000, UNSET_PERCENTAGE, 0)


def test_a_limit_is_taken_before_a_request():
    limits, requests = gpu(2, 1000), gpu(1, 500, 30)
    both = NVIDIA.request(container(limits, requests), DeviceConfig().gpus, V210)
    assert both is not None
    assert (both.count, both.memory_mib, both.cores) == (2, 1000, 30)
    only = NVIDIA.request(container(None, requests), DeviceConfig().gpus, V210)
    assert only is not None
    assert only.count == 1


# ------------------------------------------------------------------ memory and percentage


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("limits", "memory", "percentage"),
    [
        (gpu(1), 0, 100),
        (gpu(1, "0"), 0, 100),
        (gpu(1, "3k"), 3000, UNSET_PERCENTAGE),
        (gpu(1, percentage="50"), 0, 50),
        (gpu(1, "1000", percentage="50"), 1000, 50),
        (gpu(1, percentage="100"), 0, 100),
        (gpu(1, percentage="1500m"), 0, 100),
    ],
)
def test_memory_and_percentage(limits, memory, percentage, version):
    assert asked(limits, version) == (1, memory, percentage, 0)


@pytest.mark.parametrize("memory", ["1500m", "5Gi", "2147483648", "-1", "x"])
def test_in_2_10_a_memory_that_is_no_int32_makes_the_container_ask_for_nothing(memory):
    assert asked(gpu(1, memory)) is None


def test_in_2_10_the_factor_counts_towards_the_int32():
    config = build.config(memory_factor=1024)
    assert asked(gpu(1, "2097151"), config=config) == (1, 2097151 * 1024, UNSET_PERCENTAGE, 0)
    assert asked(gpu(1, "2097152"), config=config) is None


@pytest.mark.parametrize(
    ("memory", "left"),
    [("1Gi", 2**30), ("2Gi", -(2**31)), ("3Gi", -(2**30)), ("4Gi", 0), ("5Gi", 2**30), ("8Gi", 0), ("10Gi", -(2**31))],
)
def test_before_2_10_an_amount_in_bytes_overflows_and_may_mean_no_memory_at_all(memory, left):
    for version in OLD:
        request = NVIDIA.request(container(gpu(1, memory)), DeviceConfig().gpus, version)
        assert request is not None
        assert (request.memory_mib, request.percentage) == (left, UNSET_PERCENTAGE)
        assert request.memory_on(16384) == max(left, 0)


def test_before_2_10_a_memory_that_is_no_whole_number_counts_as_absent():
    for version in OLD:
        assert asked(gpu(1, "1500m"), version) == (1, 0, 100, 0)


@pytest.mark.parametrize(
    ("percentage", "now", "before"),
    [("0", 100, 0), ("101", 100, 100), ("150", 100, 150), ("-5", 100, -5), ("99", 99, 99)],
)
def test_percentages_are_clamped_from_2_10_on_and_101_is_the_old_word_for_absent(percentage, now, before):
    assert asked(gpu(1, percentage=percentage)) == (1, 0, now, 0)
    for version in OLD:
        assert asked(gpu(1, percentage=percentage), version) == (1, 0, before, 0)


def test_a_percentage_beside_a_memory_that_is_not_positive_is_absent_in_2_10():
    assert asked(gpu(1, "1000", percentage="0")) == (1, 1000, UNSET_PERCENTAGE, 0)


def test_the_default_memory_is_for_containers_that_name_neither():
    config = build.config(default_memory_mib=5000)
    assert asked(gpu(1), config=config) == (1, 5000, UNSET_PERCENTAGE, 0)
    assert asked(gpu(1, percentage="50"), config=config) == (1, 0, 50, 0)
    assert asked(gpu(1, "7"), config=config) == (1, 7, UNSET_PERCENTAGE, 0)


def test_what_a_request_means_on_a_card():
    def on(limits, card_memory, version=V210):
        found = NVIDIA.request(container(limits), DeviceConfig().gpus, version)
        assert found is not None
        return found.memory_on(card_memory)

    assert on(gpu(1, percentage="33"), 1000) == 330
    assert on(gpu(1, percentage="33"), 1001) == 330
    assert on(gpu(1, "5", percentage="33"), 1000) == 5
    assert on(gpu(1, percentage="0"), 1000, V29) == 0
    assert on(gpu(1, percentage="200"), 1000, V29) == 2000


# ------------------------------------------------------------------ cores


@pytest.mark.parametrize("version", VERSIONS)
def test_cores(version):
    assert asked(gpu(1, 1, "30"), version) == (1, 1, UNSET_PERCENTAGE, 30)
    assert asked(gpu(1, 1, "250"), version) == (1, 1, UNSET_PERCENTAGE, 100)
    assert asked(gpu(1, 1), version, build.config(default_cores=20)) == (1, 1, UNSET_PERCENTAGE, 20)
    assert asked(gpu(1, 1, "0"), version, build.config(default_cores=20)) == (1, 1, UNSET_PERCENTAGE, 0)
    assert asked(gpu(1, 1, "1500m"), version, build.config(default_cores=20)) == (1, 1, UNSET_PERCENTAGE, 20)


# ------------------------------------------------------------------ pods


def test_only_containers_that_ask_are_listed():
    request = pod_request(pod("wl", {}, gpu(1, 1000), gpu(0)), DeviceConfig(), V210)
    assert [container.container for container in request.containers] == ["c1"]
    assert (request.namespace, request.name, request.uid) == ("ml", "wl", "uid-wl")


def test_init_containers_are_unknown_up_to_2_8_and_come_first_later():
    subject = pod("wl", gpu(1, 10), init=[gpu(1, 20), {}])
    for version in (V25, V26, V27, V28):
        assert [container.container for container in pod_request(subject, DeviceConfig(), version).containers] == ["c0"]
    for version in (V29, V210):
        request = pod_request(subject, DeviceConfig(), version)
        assert [(container.container, container.init) for container in request.containers] == [
            ("i0", True),
            ("c0", False),
        ]
        assert request.init_count == 2


@pytest.mark.parametrize(
    ("value", "binds"),
    [("true", True), ("1", True), ("T", True), ("True", True), ("tRUE", False), ("yes", False), ("", False)],
)
def test_numa_binding_is_a_go_boolean(value, binds):
    subject = pod("wl", gpu(), annotations={"nvidia.com/numa-bind": value})
    assert pod_request(subject, DeviceConfig(), V210).constraints.numa_bind is binds


def test_annotations_are_kept_as_they_are():
    given = {
        "nvidia.com/use-gputype": "A100,",
        "nvidia.com/nouse-gputype": "",
        "nvidia.com/use-gpuuuid": " GPU-1 ",
        "nvidia.com/nouse-gpuuuid": "GPU-2",
        "nvidia.com/vgpu-mode": "mig",
        "hami.io/gpu-scheduler-policy": "",
        "hami.io/device-scoring-weights": "",
    }
    wanted = pod_request(pod("wl", gpu(), annotations=given), DeviceConfig(), V210).constraints
    assert structs.astuple(wanted) == ("A100,", "", " GPU-1 ", "GPU-2", "mig", "", "", False, ())
    assert pod_request(pod("wl", gpu()), DeviceConfig(), V210).constraints == Constraints()


def test_asked_resources_are_every_vendor_s_of_every_container():
    subject = pod("wl", {"huawei.com/Ascend910B3": "1", "cpu": "4"}, gpu(1, 0), init=[gpu(2)])
    assert asked_resources(subject, DeviceConfig()) == {"nvidia.com/gpu": "2", "huawei.com/Ascend910B3": "1"}
    assert asked_resources(pod("wl", {"cpu": "1"}), DeviceConfig()) == {}


# ------------------------------------------------------------------ the device config


CHART = """
nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  resourcePriorityName: nvidia.com/priority
  overwriteEnv: false
  defaultMemory: 4000
  defaultCores: 10
  defaultGPUNum: 1
  memoryFactor: 4
  deviceSplitCount: 10
  migProfileAllowlist:
  - models: [A30]
    profiles: [1g.6gb]
cambricon:
  resourceCountName: cambricon.com/vmlu
vnpus:
- chipName: 910B
  commonWord: Ascend910A
  resourceName: huawei.com/Ascend910A
  resourceMemoryName: huawei.com/Ascend910A-memory
iluvatars:
- resourceCountName: example.com/BI
"""


def test_a_chart_s_device_config_is_read():
    config = read_device_config(CHART)
    assert isinstance(config, DeviceConfig)
    assert config.gpus.all == (
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
    )
    assert (config.gpus.default_memory_mib, config.gpus.default_cores, config.gpus.memory_factor) == (4000, 10, 4)
    assert {"example.com/BI", "huawei.com/Ascend910A-memory"} <= config.other_resources
    assert config.manages("example.com/BI")
    assert not config.manages("example.com/other")


def test_renamed_resources_are_asked_for_by_their_new_names():
    config = read_device_config("nvidia: {resourceCountName: example.com/gpu, resourceMemoryName: example.com/mem}")
    assert isinstance(config, DeviceConfig)
    assert asked({"example.com/gpu": "1", "example.com/mem": "5"}, config=config) == (1, 5, UNSET_PERCENTAGE, 0)
    assert asked(gpu(1, 5), config=config) is None


@pytest.mark.parametrize("text", ["", "{}", "nvidia:", "other: 1", "# nothing"])
def test_what_is_left_out_is_the_chart_s_default(text):
    config = read_device_config(text)
    assert isinstance(config, DeviceConfig)
    assert config.gpus.count == "nvidia.com/gpu"
    assert config.gpus.memory_factor == 1


@pytest.mark.parametrize(
    "text",
    [
        "nvidia: [",
        "[1, 2]",
        "just text",
        "nvidia: {memoryFactor: many}",
        "nvidia: {resourceCountName: 5}",
        "nvidia: {defaultMemory: !!bool maybe}",
        "a: !!timestamp never",
        "a: !!int ''",
        "a: !!float x",
        "a: !!set [1]",
        "? [a]\n: b",
        "a: &x [*x, *x]\nb: \x00",
        "!!python/object/apply:os.system ['true']",
    ],
)
def test_a_config_that_cannot_be_read_says_why_in_a_few_words(text):
    why = read_device_config(text)
    assert isinstance(why, str)
    assert 0 < len(why) <= 160
    assert "\n" not in why


def test_a_config_that_cannot_be_read_says_in_which_section():
    assert str(read_device_config("hygon: {memoryFactor: many}")).startswith("hygon: ")


def test_a_config_that_refers_to_itself_ends():
    assert isinstance(read_device_config("a: &x\n  resourceName: b\n  again: *x\n"), DeviceConfig)


@pytest.mark.parametrize("opener", ["[", "{", "- ", "? ", "[a, ", '["]",'])
def test_a_config_of_great_depth_is_refused_before_it_can_do_harm(opener):
    assert str(read_device_config(opener * 60000)).startswith("nested too deeply")
    assert not str(read_device_config(opener * 50)).startswith("nested too deeply")
