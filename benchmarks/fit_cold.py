"""`fit` as a whole process on 5,000 nodes: where there is room, and where the advice has to look at every node."""

from benchmarks.processes import HAMI_BOT, made_up_cluster, measure_runs
from benchmarks.rows import Row

NODES, PODS = 5_000, 50_000
RUNS = 5
BUDGET_S, BUDGET_MB = 2.0, 200.0
QUESTIONS = {"there is room": ["2x16Gi"], "nothing fits, with advice": ["8", "--type", "A100"]}


def rows() -> list[Row]:
    """Time and memory of the same runs, per question."""
    found: list[Row] = []
    with made_up_cluster(NODES, PODS) as kubeconfig:
        for what, words in QUESTIONS.items():
            runs = measure_runs([*HAMI_BOT, "fit", *words, "--kubeconfig", str(kubeconfig)], RUNS)
            met = runs.median_s < BUDGET_S and runs.peak_mb < BUDGET_MB
            title = f"fit {' '.join(words)}, cold process, {NODES:,} nodes, {PODS:,} pods: {what}"
            found.append(Row(title, str(runs), f"< {BUDGET_S:g} s, < {BUDGET_MB:g} MB", met, "none"))
    return found
