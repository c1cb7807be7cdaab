"""What stands beside a cause: a release without the bug that can be behind it, and a Kubernetes that is too old."""

from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import LOCK, Object, ago, ask, bind_error, cause, cluster, codes, gpu_node, pod, running


def dangling(folder: Path, version: str) -> Report:
    """A pod whose node is locked by a pod that is gone."""
    text = version < "2.8" and not version.startswith("2.10")
    locked = gpu_node(text=text, annotations={LOCK: f"{ago(400)},ml,gone"})
    waiting = pod(said=bind_error("node gpu-1 has been locked within 5m0s", 20))
    return ask(folder, cluster(locked, waiting, version=version))


@pytest.mark.parametrize(("version", "fixed"), [("2.9.0", "2.10.0"), ("2.6.1", "2.10.0")])
def test_a_bug_that_a_newer_release_does_not_have_comes_after_what_helps_at_once(
    tmp_path: Path, version: str, fixed: str
) -> None:
    report = dangling(tmp_path, version)
    assert codes(report)[0] == "node-lock-dangling"
    upgrade = cause(report).next_actions[2].label
    assert upgrade.startswith(f"Upgrade HAMi to {fixed} or later: in {version} ")
    assert "(HAMi#2293, HAMi#2307)" in upgrade


def test_a_release_without_the_bug_is_not_told_to_upgrade(tmp_path: Path) -> None:
    report = dangling(tmp_path, "2.10.0")
    assert not any("Upgrade HAMi" in action.label for action in cause(report).next_actions)


def old(node: Object) -> Object:
    node["status"]["nodeInfo"] = {"kubeletVersion": "v1.21.14"}
    return node


def test_an_old_kubelet_is_background_and_never_the_cause(tmp_path: Path) -> None:
    waits = ask(tmp_path, cluster(old(gpu_node()), pod(nodeSelector={"zone": "b"})))
    assert codes(waits)[-1] == "kubernetes-unsupported"
    assert (codes(waits)[0], waits.findings[-1].severity) == ("kubernetes-filter", "info")


def test_a_running_pod_on_an_old_kubelet_runs_and_is_told_that_its_gpu_may_be_another(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(old(gpu_node()), running("wl", "gpu-1", ("GPU-gpu-1", 1000, 0))))
    assert codes(report) == ["running", "kubernetes-unsupported"]
    assert report.severity == "info"
