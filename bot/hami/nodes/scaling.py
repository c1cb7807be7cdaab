"""By how much a node promises more than its cards have: HAMi's deviceMemoryScaling and deviceCoreScaling.

Settings: HAMi charts/hami values under `devices`, and `nodeconfig` of the device plugin's config.json.
"""

import re
from collections.abc import Iterable

import msgspec

from bot.hami.nodes.cards import Card
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE, read_device_config
from bot.kube.models import ConfigMap

PLUGIN_CONFIG_FILE = "config.json"
FULL_CORES = 100

_GIGABYTES = re.compile(r"(?<![0-9A-Za-z])([0-9]{1,4}) ?GB(?![A-Za-z])")


class _NodeConfig(msgspec.Struct):
    name: str = ""
    scaling: float | None = msgspec.field(default=None, name="devicememoryscaling")


class _PluginConfigFile(msgspec.Struct):
    nodeconfig: list[_NodeConfig] | None = None


class MemoryScaling(msgspec.Struct, frozen=True):
    """The settings: the cluster's, None where it was not seen, and those of single nodes."""

    default: float | None = None
    by_node: dict[str, float] = {}


def read_memory_scaling(config_maps: Iterable[ConfigMap]) -> MemoryScaling:
    """What HAMi's config maps set; a file that cannot be read sets nothing."""
    default: float | None = None
    by_node: dict[str, float] = {}
    for config_map in config_maps:
        for name, text in (config_map.data or {}).items():
            try:
                if name == DEVICE_CONFIG_FILE:
                    config = read_device_config(text)
                    scaling = None if isinstance(config, str) else config.gpus.memory_scaling
                    default = default if scaling is None else scaling
                elif name == PLUGIN_CONFIG_FILE:
                    nodes = msgspec.json.decode(text.encode(), type=_PluginConfigFile).nodeconfig or ()
                    by_node |= {node.name: node.scaling for node in nodes if node.scaling}
            except (ValueError, RecursionError):
                continue
    return MemoryScaling(default, by_node)


def memory_factor(card: Card, node: str, settings: MemoryScaling) -> float | None:
    """Registered over physical memory: by the size in the model's name, else as set. None where neither tells."""
    if found := _GIGABYTES.search(card.type):
        return round(card.memory_mib / (int(found[1]) * 1024), 1) if int(found[1]) else None
    return settings.by_node.get(node, settings.default)


def core_factor(card: Card) -> float:
    """Registered cores over the 100 of a whole card."""
    return round(card.cores / FULL_CORES, 2)
