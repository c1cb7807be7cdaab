"""`nodes` on clusters of 5,000 and 15,000 nodes: as a whole process, and the sweep alone in a bot that runs already."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.processes import HAMI_BOT, LONGEST_S, made_up_cluster, measure, measure_runs
from benchmarks.rows import Row

RUNS, SWEEPS = 3, 5
_OTHER_PODS = 1_000  # beside a device plugin's pod on every node
_LOOP_SAMPLE = 20
_GUIDES_COMMANDS = (
    "jsonpath={.metadata.annotations.hami\\.io/node-nvidia-register}",
    "jsonpath={.metadata.annotations.hami\\.io/node-handshake}",
)
# Measured on another machine, with 5,000 nodes; the loop was measured on 100.
_PEER_ELSEWHERE = "measured elsewhere: kubectl get nodes -o json 13 s, 690 MB; two kubectl per node about 700 s"


class Budget(NamedTuple):
    """What a sweep of so many nodes may take."""

    nodes: int
    seconds: float
    megabytes: float


class Sweep(msgspec.Struct):
    """Several sweeps in one process: the medians. The API server, on the same machine, is in `wall_s` only."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    severity: str


BUDGETS = (Budget(5_000, 0.5, 150), Budget(15_000, 1.5, 200))

_SWEEP = """
import asyncio, gc, json, resource, sys, time
from pathlib import Path
from statistics import median
from bot.kube.client.connect import open_cluster
from bot.gc_tuning import COLLECT_EVERY
from bot.report import in_words
from bot.texts import Texts
from playbooks.nodes import playbook as nodes
from playbooks.playbook import Sources

async def main():
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
    walls, cpus = [], []
    async with await open_cluster(kubeconfig=Path(sys.argv[1])) as cluster:
        for _ in range(int(sys.argv[2])):
            wall, cpu = time.perf_counter(), time.process_time()
            snapshot = await nodes.gather(nodes.request(), Sources(cluster))
            report = in_words(nodes.diagnose(snapshot), Texts("en"))
            severity = report.severity
            del snapshot, report
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(json.dumps({"wall_s": median(walls), "cpu_s": median(cpus), "peak_mb": peak, "severity": severity}))

asyncio.run(main())
"""


def rows() -> list[Row]:
    """Per size one row for the sweep, judged by its CPU, and one for the process, judged by its memory."""
    found: list[Row] = []
    for budget in BUDGETS:
        with made_up_cluster(budget.nodes, budget.nodes + _OTHER_PODS) as kubeconfig:
            sweep = measure_sweeps(kubeconfig)
            assert sweep.severity == "info", "something is wrong on a node that was made up to be well"
            process = measure_runs([*HAMI_BOT, "nodes", "--kubeconfig", str(kubeconfig)], RUNS)
            peer = _kubectl(kubeconfig, budget.nodes) if budget is BUDGETS[0] else "see above"
        shown = f"{sweep.cpu_s:.2f} s of CPU, {sweep.wall_s:.2f} s with the API server, {sweep.peak_mb:.0f} MB"
        limit = f"< {budget.seconds:g} s, < {budget.megabytes:g} MB"
        alone = f"nodes, sweep in a running process (median of {SWEEPS}), {budget.nodes:,} nodes"
        met = sweep.cpu_s < budget.seconds and process.peak_mb < budget.megabytes
        found.append(Row(alone, shown, limit, met, f"{peer}\n{_PEER_ELSEWHERE}" if budget is BUDGETS[0] else peer))
        whole = f"nodes, cold process, {budget.nodes:,} nodes"
        met = process.peak_mb < budget.megabytes
        found.append(Row(whole, str(process), f"< {budget.megabytes:g} MB", met, "the same"))
    return found


def measure_sweeps(kubeconfig: Path) -> Sweep:
    """Several sweeps over that cluster, one after the other in a process of their own."""
    command = [sys.executable, "-c", _SWEEP, str(kubeconfig), str(SWEEPS)]
    printed = subprocess.run(command, check=True, capture_output=True, timeout=LONGEST_S).stdout
    return msgspec.json.decode(printed, type=Sweep)


def _kubectl(kubeconfig: Path, nodes: int) -> str:
    """The nodes in one list, and the guides' loop of two calls per node on a few of them."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return "here: no kubectl on PATH"
    command = [kubectl, "--kubeconfig", str(kubeconfig), "get"]
    try:
        listed = measure([*command, "nodes", "-o", "json"])
        calls = [
            measure([*command, "node", f"gpu-node-{number:05d}", "-o", path]).wall_s
            for number in range(_LOOP_SAMPLE)
            for path in _GUIDES_COMMANDS
        ]
    except subprocess.CalledProcessError as error:
        return f"here: kubectl cannot read the sandbox: {error.stderr.strip().splitlines()[-1]}"
    loop_s = sum(calls) / _LOOP_SAMPLE * nodes
    return (
        f"here: kubectl get nodes -o json {listed.wall_s:.1f} s, {listed.peak_mb:.0f} MB; the guides' loop "
        f"{loop_s:.0f} s (extrapolated from {_LOOP_SAMPLE} nodes)"
    )
