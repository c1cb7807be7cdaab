"""What a card promises over what it has: by the size in its name, else as the config maps set it."""

import json

import pytest

from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import PluginSettings, core_factor, memory_factor, read_plugin_settings, size_factor
from bot.kube.models import ConfigMap, Node, ObjectMeta


def card(kind: str, memory: int = 0, cores: int = 100) -> Card:
    return Card(uuid="GPU-0", slots=10, memory_mib=memory, cores=cores, type=kind)


def node(name: str, labels: dict[str, str] | None = None) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


@pytest.mark.parametrize(
    ("kind", "memory", "factor"),
    [
        ("NVIDIA A100-SXM4-80GB", 81920, 1.0),
        ("NVIDIA H100 80GB HBM3", 81559, 1.0),
        ("NVIDIA-Tesla V100-SXM2-32GB", 65536, 2.0),
        ("NVIDIA A100-SXM4-40GB", 20480, 0.5),
        ("NVIDIA-Tesla T4", 15360, None),
    ],
)
def test_the_size_in_the_name_tells_the_factor(kind: str, memory: int, factor: float | None) -> None:
    assert memory_factor(card(kind, memory), node("gpu-1"), PluginSettings()) == factor


@pytest.mark.parametrize(
    ("kind", "product", "factor"),
    [
        ("NVIDIA-Tesla T4", "Tesla-T4", 2.0),
        ("NVIDIA GeForce RTX 4090", "NVIDIA-GeForce-RTX-4090-SHARED", 2.0),
        ("NVIDIA-Tesla T4", "NVIDIA-A10", None),
        ("NVIDIA GH200 480GB", "NVIDIA-GH200-480GB", 2.0),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", 0.4),
    ],
)
def test_where_the_name_tells_no_size_the_label_of_that_model_does(kind: str, product: str, factor: float) -> None:
    labels = {"nvidia.com/gpu.memory": "15360", "nvidia.com/gpu.product": product}
    assert size_factor(card(kind, 30720), node("gpu-1", labels)) == factor


def test_a_node_s_own_setting_counts_before_the_cluster_s() -> None:
    settings = {"nodeconfig": [{"name": "gpu-2", "devicememoryscaling": 2}, {"name": "gpu-3"}]}
    maps = [
        ConfigMap(data={"device-config.yaml": "nvidia: {deviceMemoryScaling: 1.5}"}),
        ConfigMap(data={"config.json": json.dumps(settings)}),
    ]
    scaling = read_plugin_settings(maps)
    assert [memory_factor(card("T4"), node(f"gpu-{i}"), scaling) for i in (1, 2, 3)] == [1.5, 2, 1.5]


@pytest.mark.parametrize("text", ["", "[", "nvidia: 3", '{"nodeconfig": 1}', "\ud800"])
def test_what_cannot_be_read_sets_nothing(text: str) -> None:
    maps = [ConfigMap(data={"device-config.yaml": text}), ConfigMap(data={"config.json": text}), ConfigMap()]
    assert read_plugin_settings(maps) == PluginSettings()


def test_cores_are_held_against_a_whole_card() -> None:
    assert core_factor(card("T4", cores=250)) == 2.5
