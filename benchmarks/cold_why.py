"""`why` as a whole process on a cluster of 5,000 nodes and 50,000 pods: what a person waits for in a shell."""

import shutil
import subprocess
from pathlib import Path
from statistics import median

from benchmarks.processes import HAMI_BOT, made_up_cluster, measure, measure_runs
from benchmarks.rows import Row

NODES, PODS = 5_000, 50_000
RUNS = 5
BUDGET_S, BUDGET_MB = 2.0, 200.0

# Measured on another machine, against a real API server with 5,000 nodes.
_PEER_ELSEWHERE = "measured elsewhere: kubectl get nodes -o json 13 s, 690 MB; two kubectl per node about 700 s"
_LOOP_SAMPLE = 10
_KUBECTL_PER_NODE = 2


def rows() -> list[Row]:
    """Time and memory of the same runs."""
    with made_up_cluster(NODES, PODS) as kubeconfig:
        runs = measure_runs([*HAMI_BOT, "why", "ml/pending-0", "--kubeconfig", str(kubeconfig)], RUNS)
        peer = _kubectl(kubeconfig)
    met = runs.median_s < BUDGET_S and runs.peak_mb < BUDGET_MB
    what = f"why, cold process, {NODES:,} nodes, {PODS:,} pods"
    return [Row(what, str(runs), f"< {BUDGET_S:g} s, < {BUDGET_MB:g} MB", met, f"{peer}\n{_PEER_ELSEWHERE}")]


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
