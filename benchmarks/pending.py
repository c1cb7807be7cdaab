"""`pending` and `quota` as whole processes where thousands of pods wait: incidents of the largest clusters."""

from benchmarks.processes import HAMI_BOT, made_up_cluster, measure_runs
from benchmarks.rows import Row

NODES, PODS, PENDING = 5_000, 50_000, 2_000
LIMITED_NODES, LIMITED_PENDING, LIMITED = 2_000, 3_000, 300
RUNS = 3
BUDGET_S, BUDGET_MB = 10.0, 250.0
LIMITED_BUDGET_S = 10.0
"""As much for reading as for judging, which is bounded to half of it."""
PEER = "kubectl lists the pods, and names no cause"


def rows() -> list[Row]:
    """Time, CPU and peak memory of the same runs; the pods make ten different requests."""
    with made_up_cluster(NODES, PODS, pending=PENDING) as kubeconfig:
        runs = measure_runs([*HAMI_BOT, "pending", "--kubeconfig", str(kubeconfig)], RUNS)
    met = runs.median_s < BUDGET_S and runs.peak_mb < BUDGET_MB
    what = f"pending, cold process, {NODES:,} nodes, {PODS:,} pods, {PENDING:,} of them waiting"
    return [Row(what, str(runs), f"< {BUDGET_S:g} s, < {BUDGET_MB:g} MB", met, PEER), *_limited()]


def _limited() -> list[Row]:
    found: list[Row] = []
    with made_up_cluster(LIMITED_NODES, PODS, pending=LIMITED_PENDING, limited=LIMITED) as kubeconfig:
        for verb in ("pending", "quota"):
            runs = measure_runs([*HAMI_BOT, verb, "--kubeconfig", str(kubeconfig)], RUNS)
            what = f"{verb}, cold process, {LIMITED_PENDING:,} pods wait in {LIMITED} namespaces with a quota each"
            found.append(Row(what, str(runs), f"< {LIMITED_BUDGET_S:g} s", runs.median_s < LIMITED_BUDGET_S, PEER))
    return found
