"""One verdict of HAMi's filter on one node, over the recorded clusters whose real verdicts the tests compare."""

import asyncio
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.rows import Row
from bot.hami.requests import DeviceConfig, pod_request
from bot.hami.version import parse_version
from bot.hami.view import Facts, View
from bot.kube.models import NODES, PODS, Pod
from bot.kube.recording import RecordedCluster

CLUSTERS = Path(__file__).parents[1] / "tests" / "cases" / "fit"
ROUNDS = 5
BUDGET_US = 100.0


class Probe(msgspec.Struct):
    """A pod, as a webhook admitted it, that was tried on every node."""

    pod: Pod


def rows() -> list[Row]:
    """Everything between decoded objects and a verdict counts: ledger, registrations and requests too."""
    sweeps = [_sweep(path) for path in sorted(CLUSTERS.glob("*.tar.gz"))]
    verdicts = sum(sweep() for sweep in sweeps)
    rounds: list[float] = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for sweep in sweeps:
            sweep()
        rounds.append((time.process_time() - started) / verdicts * 1e6)
    what = f"fit verdict, {verdicts:,} over {len(sweeps)} clusters"
    ours = f"{median(rounds):.0f} us of CPU (fastest {min(rounds):.0f} us)"
    return [Row(what, ours, f"< {BUDGET_US:g} us", median(rounds) < BUDGET_US, "none")]


def _sweep(path: Path) -> Callable[[], int]:
    """Judges every probe of the cluster on every node; gives how many verdicts that was."""
    cluster = RecordedCluster.open(path)
    version = parse_version(cluster.hami_version_hint)
    assert version, f"{path} does not say which version of HAMi it is of"
    nodes, pods = asyncio.run(cluster.list(NODES)), asyncio.run(cluster.list(PODS))
    facts = Facts({node.name: node for node in nodes}, pods, (), DeviceConfig(), cluster.now())
    probes = _probes(path)

    def sweep() -> int:
        view = View(facts, version)
        for probe in probes:
            request = pod_request(probe.pod, facts.config, version)
            for name in facts.nodes:
                view.judge(name, request)
        return len(probes) * len(facts.nodes)

    return sweep


def _probes(path: Path) -> list[Probe]:
    with tarfile.open(path) as archive:
        file = archive.extractfile("probes.json")
        assert file
        return msgspec.json.decode(file.read(), type=list[Probe])
