"""One verdict of HAMi's filter on one node, over the recorded clusters whose real verdicts the tests compare.

Those of several vendors are also judged as one cluster of 5,000 nodes, each of them many times, as nodes of a real one
are alike.
"""

import asyncio
import tarfile
import time
from collections.abc import Sequence
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from benchmarks.rows import Row
from bot.hami.fit.cluster_view import ClusterFacts, View
from bot.hami.pods.request_parsing import DeviceConfig, pod_request, read_device_config
from bot.hami.version import Version, parse_version
from bot.kube.models import NODES as NODES_KIND
from bot.kube.models import PODS, Node, Pod
from bot.kube.recording.recorded_cluster import RecordedCluster

CASES = Path(__file__).parents[1] / "tests" / "cases"
MIXED = CASES / "fit-vendors"
ROUNDS = 5
NODES, PROBES = 5_000, 10
RESERVED = "hami.io/vgpu-node"
BUDGET_US, MIXED_BUDGET_US = 100.0, 20.0


class Probe(msgspec.Struct):
    """A pod, as a webhook admitted it, that was tried on every node."""

    pod: Pod


def rows() -> list[Row]:
    """Everything between decoded objects and a verdict counts: ledger, registrations and requests too."""
    alone = [_read(path) for path in sorted((CASES / "fit").glob("*.tar.gz"))]
    config = read_device_config((MIXED / "device-config.yaml").read_text())
    assert isinstance(config, DeviceConfig), config
    mixed = [_read(path, config) for path in sorted(MIXED.glob("mixed-*.tar.gz"))]
    return [
        _row(f"over {len(alone)} clusters", alone, BUDGET_US),
        _row(f"on {NODES:,} nodes with devices of many vendors", [_as_one(mixed)], MIXED_BUDGET_US),
    ]


def _row(what: str, worlds: Sequence["World"], budget_us: float) -> Row:
    verdicts = sum(map(_judge_all, worlds))
    rounds: list[float] = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for world in worlds:
            _judge_all(world)
        rounds.append((time.process_time() - started) / verdicts * 1e6)
    ours = f"{median(rounds):.0f} us of CPU (fastest {min(rounds):.0f} us)"
    what = f"fit verdict, {verdicts:,} {what}"
    return Row(what, ours, f"< {budget_us:g} us", median(rounds) < budget_us, "none")


class World(NamedTuple):
    """A cluster and the pods that were tried there."""

    facts: ClusterFacts
    version: Version
    probes: Sequence[Probe]


def _read(path: Path, config: DeviceConfig = DeviceConfig()) -> World:  # noqa: B008  # it is frozen
    cluster = RecordedCluster.open(path)
    version = parse_version(cluster.hami_version_hint)
    assert version, f"{path} does not say which version of HAMi it is of"
    nodes, pods = asyncio.run(cluster.list(NODES_KIND)), asyncio.run(cluster.list(PODS))
    return World(
        ClusterFacts({node.name: node for node in nodes}, pods, (), config, cluster.now()), version, _probes(path)
    )


def _as_one(worlds: Sequence[World]) -> World:
    """All their nodes and pods under names of their own, again and again until there are enough."""
    first, nodes, pods = worlds[0], dict[str, Node](), list[Pod]()
    for number, world in zip(count(), cycle(worlds), strict=False):
        if len(nodes) >= NODES:
            break
        for node in world.facts.nodes.values():
            metadata = replace(node.metadata, name=f"{node.name}-{number}")
            nodes[metadata.name] = replace(node, metadata=metadata)
        pods += [_on_copy(pod, number) for pod in world.facts.pods or () if isinstance(pod, Pod)]
    facts = ClusterFacts(nodes, pods, (), first.facts.config, first.facts.now)
    return World(facts, first.version, [probe for world in worlds for probe in world.probes[:PROBES]])


def _on_copy(pod: Pod, number: int) -> Pod:
    """The pod with its reservation on the copy of its node, which is all that is counted."""
    texts = dict(pod.metadata.annotations or {})
    if node := texts.get(RESERVED):
        texts[RESERVED] = f"{node}-{number}"
    metadata = replace(pod.metadata, annotations=texts, uid=f"{pod.metadata.uid}-{number}")
    return replace(pod, metadata=metadata)


def _judge_all(world: World) -> int:
    """Judges every probe on every node; gives how many verdicts that was."""
    view = View(world.facts, world.version)
    for probe in world.probes:
        view.judge_each(world.facts.nodes, pod_request(probe.pod, world.facts.config, world.version))
    return len(world.probes) * len(world.facts.nodes)


def _probes(path: Path) -> list[Probe]:
    with tarfile.open(path) as archive:
        file = archive.extractfile("probes.json")
        assert file
        return msgspec.json.decode(file.read(), type=list[Probe])
