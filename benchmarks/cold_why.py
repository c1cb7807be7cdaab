"""Whole processes on the largest clusters: what a person waits for in a shell, `why` first."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.processes import HAMI_BOT, made_up_cluster, measure, measure_runs
from benchmarks.rows import Row

NODES, PODS = 5_000, 50_000
RUNS = 5
LARGEST, LARGEST_RUNS = (15_000, 150_000), 3
WHY, GPUS, PENDING = ("why", "ml/pending-0"), ("gpus",), ("pending",)
BUDGETS = {WHY: (2.0, 200.0), GPUS: (1.2, 150.0)}
"""Seconds of the median, and MB at most."""
BUDGETS_OF_LARGEST = {WHY: (2.0, 300.0), GPUS: (3.0, 350.0), PENDING: (2.0, 300.0)}

# Measured on another machine, against a real API server with 5,000 nodes.
_PEER_ELSEWHERE = "measured elsewhere: kubectl get nodes -o json 13 s, 690 MB; two kubectl per node about 700 s"
_LOOP_SAMPLE = 10
_KUBECTL_PER_NODE = 2


def rows() -> list[Row]:
    """Time and memory of the same runs."""
    with made_up_cluster(NODES, PODS) as kubeconfig:
        peer = f"{_kubectl(kubeconfig)}\n{_PEER_ELSEWHERE}"
        size = f"{NODES:,} nodes, {PODS:,} pods"
        found = [_row(verb, size, kubeconfig, RUNS, *budget, peer) for verb, budget in BUDGETS.items()]
    with made_up_cluster(*LARGEST) as kubeconfig:
        size = "{:,} nodes, {:,} pods".format(*LARGEST)
        for verb, budget in BUDGETS_OF_LARGEST.items():
            found.append(_row(verb, size, kubeconfig, LARGEST_RUNS, *budget, "none"))
    return found


def _row(  # noqa: PLR0917
    verb: Sequence[str],
    size: str,
    kubeconfig: Path,
    runs: int,
    budget_s: float,
    budget_mb: float,
    peer: str,
) -> Row:
    took = measure_runs([*HAMI_BOT, *verb, "--kubeconfig", str(kubeconfig)], runs)
    met = took.median_s < budget_s and took.peak_mb < budget_mb
    budget = f"< {budget_s:g} s, < {budget_mb:g} MB"
    return Row(f"{verb[0]}, cold process, {size}", str(took), budget, met, peer)


def _kubectl(kubeconfig: Path) -> str:
    """The nodes in one list, and the guides' two calls per node, extrapolated from a few."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return "here: no kubectl on PATH"
    command = [kubectl, "--kubeconfig", str(kubeconfig), "get"]
    try:
        listed = measure([*command, "nodes", "-o", "json"])
    except subprocess.CalledProcessError as error:
        return f"here: kubectl cannot read the sandbox: {error.stderr.strip().splitlines()[-1]}"
    one_s = median(measure([*command, "node", f"gpu-node-{i:05d}", "-o", "json"]).wall_s for i in range(_LOOP_SAMPLE))
    loop_s = one_s * _KUBECTL_PER_NODE * NODES
    return (
        f"here: kubectl get nodes -o json {listed.wall_s:.1f} s, {listed.peak_mb:.0f} MB;"
        f" two kubectl per node {loop_s:.0f} s, extrapolated from {_LOOP_SAMPLE} calls"
    )
