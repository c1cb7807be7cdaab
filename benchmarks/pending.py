"""`pending` as a whole process where 2,000 pods wait on 5,000 nodes: an incident of the largest clusters."""

from benchmarks.processes import HAMI_BOT, made_up_cluster, measure_runs
from benchmarks.rows import Row

NODES, PODS, PENDING = 5_000, 50_000, 2_000
RUNS = 3
BUDGET_S, BUDGET_MB = 10.0, 250.0


def rows() -> list[Row]:
    """Time, CPU and peak memory of the same runs; the pods make ten different requests."""
    with made_up_cluster(NODES, PODS, pending=PENDING) as kubeconfig:
        runs = measure_runs([*HAMI_BOT, "pending", "--kubeconfig", str(kubeconfig)], RUNS)
    met = runs.median_s < BUDGET_S and runs.peak_mb < BUDGET_MB
    what = f"pending, cold process, {NODES:,} nodes, {PODS:,} pods, {PENDING:,} of them waiting"
    peer = "kubectl lists the pods, and names no cause"
    return [Row(what, str(runs), f"< {BUDGET_S:g} s, < {BUDGET_MB:g} MB", met, peer)]
