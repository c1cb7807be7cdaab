"""Nodes are advised by pool: by whatever label names their pool, else by their GPUs' model."""

from pathlib import Path

import pytest

from bot.rows import PoolRow
from tests.playbooks.world import card, gpu_node, scheduler
from tests.tune.lab import tune
from tests.tune.support import cases, rows_of


@pytest.mark.parametrize(
    ("label", "pools"),
    [
        ("karpenter.sh/nodepool", ["one", "two"]),
        ("eks.amazonaws.com/nodegroup", ["one", "two"]),
        ("alpha.eksctl.io/nodegroup-name", ["one", "two"]),
        ("example.com/gpu-pool", ["one", "two"]),
        ("agentpool", ["one", "two"]),
        ("node_pool", ["one", "two"]),
        ("example.com/ip-pool", ["NVIDIA-Tesla T4"]),
        ("example.com/zone", ["NVIDIA-Tesla T4"]),
    ],
)
def test_the_label_of_a_pool_is_known_whoever_sets_it(tmp_path: Path, label: str, pools: list[str]) -> None:
    nodes = [gpu_node(f"gpu-{name}", card(f"GPU-{name}")) for name in ("one", "two")]
    for one, name in zip(nodes, ("one", "two"), strict=True):
        one["metadata"].setdefault("labels", {})[label] = name
    report = tune(tmp_path, [*scheduler(), *nodes])
    found = sorted(row.pool for row in report.typed(PoolRow))
    assert found == [f"{label}={name}" if name in ("one", "two") else name for name in pools]


def test_a_count_that_is_too_large_says_what_grows_with_it() -> None:
    (case,) = (case for case in cases() if case.name == "split-too-large")
    (lower,) = (row for row in rows_of(case.ask()) if (row.topic, row.direction) == ("split-count", "lower"))
    assert "kubelet's list of devices grows with the count, the node's annotation does not" in lower.why
