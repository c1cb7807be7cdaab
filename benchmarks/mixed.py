"""`why` and `nodes` on 5,000 nodes with devices of many vendors: recorded worlds, each of them many times."""

import asyncio
import gc
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.nodes_sweep import BUDGETS, measure_sweeps
from benchmarks.processes import recorded_cluster
from benchmarks.rows import Row
from bot.gc_tuning import COLLECT_EVERY
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import in_words
from bot.texts import Texts
from playbooks.playbook import Sources
from playbooks.why import playbook as why
from tests.cases_support import files_in, write_recording
from tests.vendor_worlds import FOLDER
from tests.vendor_worlds import recording as recorded_world

NODES = BUDGETS[0].nodes
WORLDS = ("mixed-s1", "mixed-s2", "mixed-s3", "mixed-s4")
BASE = "mixed-s3", "probe-001"
"""The world whose HAMi all the others are given."""
WHY_BUDGET_MS, WHY_WORST_BUDGET_MS = 100.0, 300.0
_EVERY = 4
"""Of the recorded probes every fourth is asked about."""
_UUID = re.compile(
    r"DCU-T\d+|(?:GPU|BRGPU)-[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-F]{8}(?:-[0-9A-F]{8}){4}|(?:XPU|vastai|biren)-[0-9a-f]{12}"
)
_HANDSHAKE = re.compile(r"(20\d\d-\d\d-\d\d \d\d:\d\d:)\d\d")


def rows() -> list[Row]:
    """The sweep as in `benchmarks.nodes_sweep`; `why` without the API's own time, in a process that runs already."""
    with tempfile.TemporaryDirectory() as folder:
        path, waiting = _write(Path(folder))
        return [_sweep(path), asyncio.run(_why(path, waiting))]


def _sweep(recording: Path) -> Row:
    budget = BUDGETS[0]
    with recorded_cluster(recording) as kubeconfig:
        sweep = measure_sweeps(kubeconfig)
    ours = f"{sweep.cpu_s:.2f} s of CPU, {sweep.wall_s:.2f} s with the API server"
    what = f"nodes, sweep in a running process, {NODES:,} nodes of many vendors"
    return Row(what, ours, f"< {budget.seconds:g} s", sweep.cpu_s < budget.seconds, "none")


async def _why(recording: Path, waiting: list[str]) -> Row:
    """The first answers fill what a bot that watches has at hand; they are not counted."""
    cluster = RecordedCluster.open(recording)
    cluster.kept = {}
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
    taken: list[float] = []
    for number, pod in enumerate([*waiting[:3], *waiting]):
        snapshot = await why.gather(why.request(pod=pod), Sources(cluster))
        started = time.process_time()
        in_words(why.diagnose(snapshot), Texts("en"))
        if number >= len(waiting[:3]):
            taken.append((time.process_time() - started) * 1e3)
    worst = quantiles(taken, n=100, method="inclusive")[98]
    met = median(taken) < WHY_BUDGET_MS and worst < WHY_WORST_BUDGET_MS
    ours = f"p50 {median(taken):.0f} ms, p99 {worst:.0f} ms of CPU"
    what = f"why, warm, {NODES:,} nodes of many vendors, {len(taken)} pods that wait"
    return Row(what, ours, f"p50 < {WHY_BUDGET_MS:g} ms, p99 < {WHY_WORST_BUDGET_MS:g} ms", met, "none")


def _write(folder: Path) -> tuple[Path, list[str]]:
    """The cluster, and the pods that wait there."""
    base, _ = recorded_world(*BASE, folder)
    files = files_in(base)
    worlds = [
        {name: json.loads(text) for name, text in files_in(FOLDER / f"{world}.tar.gz").items()} for world in WORLDS
    ]
    lists = {name: json.loads(files[f"objects/{name}.json"]) for name in ("nodes", "pods")}
    number = 0
    while len(lists["nodes"]["items"]) < NODES:
        for world in worlds:
            lists["nodes"]["items"] += _copies(world, "nodes", number)
            lists["pods"]["items"] += _copies(world, "pods", number)
        number += 1
    probes = [probe["pod"] for world in worlds for probe in world["probes.json"]][::_EVERY]
    waiting = [_waiting(pod, place) for place, pod in enumerate(probes)]
    lists["pods"]["items"] += waiting
    files |= {f"objects/{name}.json": json.dumps(found).encode() for name, found in lists.items()}
    names = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in waiting]
    return write_recording(files, folder / "mixed.tar.gz"), names


def _copies(world: dict[str, Any], kind: str, number: int) -> Iterator[Any]:
    """The world's nodes or pods once more, on nodes and with devices of their own, asked at another second."""
    cluster = world["meta.json"]["cluster"].removeprefix("fit-")
    text = json.dumps(world[f"objects/{kind}.json"]["items"]).replace(
        f"{cluster}-node-", f"{cluster}-{number:03d}-node-"
    )
    text = _UUID.sub(lambda found: f"{found[0]}-{number}", text)
    for found in json.loads(_HANDSHAKE.sub(lambda at: f"{at[1]}{number % 30:02d}", text)):
        if kind == "nodes":
            found["spec"].pop("taints", None)
        else:
            found["metadata"]["name"] += f"-{number}"
        found["metadata"]["uid"] += f"-{number}"
        yield found


def _waiting(pod: Any, place: int) -> Any:
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{NODES} nodes are available: {NODES} NodeInsufficientDevice.",
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
    }
    metadata = pod["metadata"] | {"name": f"waits-{place}", "uid": f"waits-{place}"}
    return pod | {"metadata": metadata, "status": {"phase": "Pending", "conditions": [said]}}
