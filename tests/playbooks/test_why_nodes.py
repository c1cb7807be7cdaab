"""Nodes whose cards HAMi does not know: every why, per version, and what is done about it."""

from pathlib import Path

import pytest

from bot.report import Finding
from tests.playbooks.world import (
    HANDSHAKE,
    NOW,
    REGISTER,
    Object,
    as_text,
    ask,
    card,
    cause,
    cluster,
    codes,
    commands,
    event,
    gpu,
    gpu_node,
    node,
    none_of,
    plugin_pod,
    pod,
    quotes,
    refused,
    running,
    scheduler,
)

UNREGISTERED = refused(none_of(1, "1 node unregistered"))
LONG_AGO = "2026-11-21 04:00:00"


def unregistered(tmp_path: Path, gpus: Object, version: str = "2.10.0", *more: Object) -> Finding:
    """The first finding about a pod that was refused because of this node."""
    report = ask(tmp_path, cluster(gpus, *more, pod(said=UNREGISTERED), version=version))
    found = cause(report)
    assert (found.scope.nodes, found.confidence, found.severity) == (("gpu-1",), "confirmed", "warning")
    assert UNREGISTERED["message"] in quotes(report)
    return found


def with_register(text: str) -> Object:
    return gpu_node(annotations={REGISTER: text})


def test_a_node_that_should_have_cards_and_registered_none(tmp_path: Path) -> None:
    found = unregistered(tmp_path, node("gpu-1", labels={"gpu": "on"}))
    assert (found.code, "has registered no GPUs" in found.claim) == ("node-unregistered", True)
    assert found.next_actions[0].command.endswith("spec.nodeName=gpu-1")


def test_a_device_plugin_that_is_there_is_restarted_after_its_log_was_read(tmp_path: Path) -> None:
    found = unregistered(tmp_path, node("gpu-1", labels={"gpu": "on"}), "2.10.0", plugin_pod("gpu-1"))
    log, restart = found.next_actions
    assert log.command == "kubectl -n hami-system logs hami-device-plugin-gpu-1 --all-containers --tail=50"
    assert restart.command == "kubectl -n hami-system delete pod hami-device-plugin-gpu-1"
    assert (log.changes_cluster, restart.changes_cluster) == (False, True)


@pytest.mark.parametrize("text", ["", "[]", "null", "  "])
def test_an_empty_registration_is_told_as_that(tmp_path: Path, text: str) -> None:
    found = unregistered(tmp_path, with_register(text))
    assert (found.code, "empty list" in found.claim) == ("node-unregistered", True)


@pytest.mark.parametrize("text", ["nonsense", '[{"id":', '[{"id": 5}]', '[{"id":"a","count":NaN}]', "a,b,c:"])
def test_a_registration_that_nobody_can_read_is_quoted(tmp_path: Path, text: str) -> None:
    found = unregistered(tmp_path, with_register(text))
    assert "cannot read the register annotation" in found.claim
    assert text in [proof.quote for proof in found.evidence]


def test_a_registration_in_the_older_form_is_a_version_skew(tmp_path: Path) -> None:
    found = unregistered(tmp_path, gpu_node(text=True), "2.8.1")
    assert "plugin and scheduler versions differ" in found.claim
    assert "hami-device-plugin" in found.next_actions[0].command


def test_a_registration_in_the_newer_form_is_a_version_skew(tmp_path: Path) -> None:
    assert "plugin and scheduler versions differ" in unregistered(tmp_path, gpu_node(), "2.7.1").claim


def test_a_node_outside_the_scheduler_s_label_selector(tmp_path: Path) -> None:
    install = scheduler(flags=["--node-label-selector=[pool=gpu]"])
    report = ask(tmp_path, [*install, gpu_node(), pod(said=UNREGISTERED)])
    assert "--node-label-selector" in report.verdict
    assert commands(report) == ["kubectl get node gpu-1 --show-labels"]


def test_a_node_inside_the_scheduler_s_label_selector_is_registered(tmp_path: Path) -> None:
    install = scheduler(flags=["--node-label-selector=pool=gpu"])
    assert codes(ask(tmp_path, [*install, gpu_node(labels={"pool": "gpu"}), pod()])) == ["waiting-for-retry"]


def test_a_topology_score_that_is_no_json_costs_the_node_its_cards(tmp_path: Path) -> None:
    found = unregistered(tmp_path, gpu_node(annotations={"hami.io/node-nvidia-score": "{{"}))
    assert "node-nvidia-score" in found.claim


@pytest.mark.parametrize("version", ["2.8.1", "2.9.0", "2.10.0"])
def test_kubelet_that_offers_no_cards_costs_the_node_its_cards(tmp_path: Path, version: str) -> None:
    silent = gpu_node(allocatable={"nvidia.com/gpu": "0"}, annotations={HANDSHAKE: f"Requesting_{LONG_AGO}"})
    found = unregistered(tmp_path, silent, version)
    assert "allocatable is 0" in found.claim


@pytest.mark.parametrize("version", ["2.6.1", "2.7.1"])
def test_up_to_2_7_an_unanswered_request_is_stale(tmp_path: Path, version: str) -> None:
    found = unregistered(tmp_path, gpu_node(text=True, annotations={HANDSHAKE: f"Requesting_{LONG_AGO}"}), version)
    assert found.code == "handshake-stale"


@pytest.mark.parametrize("version", ["2.6.1", "2.7.1"])
def test_up_to_2_7_a_deleted_handshake_is_given_up(tmp_path: Path, version: str) -> None:
    found = unregistered(tmp_path, gpu_node(text=True, annotations={HANDSHAKE: f"Deleted_{LONG_AGO}"}), version)
    assert found.code == "handshake-deleted"


@pytest.mark.parametrize("state", ["Requesting", "Deleted"])
@pytest.mark.parametrize("version", ["2.8.1", "2.9.0", "2.10.0"])
def test_since_2_8_an_old_handshake_on_a_node_with_cards_is_normal(tmp_path: Path, version: str, state: str) -> None:
    healthy = gpu_node(annotations={HANDSHAKE: f"{state}_{LONG_AGO}"})
    assert codes(ask(tmp_path, cluster(healthy, pod(), version=version))) == ["waiting-for-retry"]


def test_a_node_without_cards_by_right_is_told_only_when_there_is_nothing_else(tmp_path: Path) -> None:
    alone = ask(tmp_path / "alone", cluster(node("cpu-1"), pod(said=UNREGISTERED)))
    assert (codes(alone), alone.severity) == (["node-unregistered"], "info")
    assert "this is normal" in alone.verdict
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    said = refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 node unregistered"))
    report = ask(tmp_path / "both", cluster(node("cpu-1"), gpu_node(), held, pod(said=said)))
    assert cause(report).code == "card-insufficient-memory"
    assert all(finding.severity == "info" for finding in report.findings[1:])


def test_an_unregistered_node_that_would_not_fit_either_is_background(tmp_path: Path) -> None:
    small = gpu_node("gpu-2", card("GPU-2", 8000), annotations={REGISTER: as_text([card("GPU-2", 8000)])})
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    said = refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 node unregistered"))
    report = ask(tmp_path, cluster(gpu_node(), small, held, pod(limits=gpu(memory=12000), said=said)))
    assert codes(report) == ["card-insufficient-memory", "node-unregistered"]
    assert report.findings[1].severity == "info"


# ------------------------------------------------------------------------- the guides' unix-seconds handshake


def guides(seconds_old: int) -> Object:
    """A node with the handshake as the guides describe it."""
    return gpu_node(annotations={HANDSHAKE: str(int(NOW.timestamp()) - seconds_old)})


def test_the_guides_handshake_older_than_300_s_explains_a_refusal(tmp_path: Path) -> None:
    found = unregistered(tmp_path, guides(600))
    assert (found.code, "older than 300 s" in found.claim) == ("handshake-stale", True)
    assert str(int(NOW.timestamp()) - 600) in [proof.quote for proof in found.evidence]


def test_it_explains_the_guides_own_refusal_too(tmp_path: Path) -> None:
    waiting = pod()
    refusal = event(waiting, "FilteringFailed", "NodeUnfitPod on node gpu-1")
    report = ask(tmp_path, cluster(guides(600), waiting, refusal))
    assert (codes(report), cause(report).confidence) == (["handshake-stale"], "suspected")


def test_the_guides_handshake_younger_than_300_s_explains_nothing(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(100), pod(said=UNREGISTERED)))
    assert "handshake-stale" not in codes(report)


def test_where_nothing_was_refused_an_old_one_is_background(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(600), pod()))
    assert (codes(report), report.severity) == (["waiting-for-retry", "handshake-stale"], "info")


def test_where_another_node_has_room_an_old_one_is_background(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(600), gpu_node("gpu-2"), pod(said=UNREGISTERED)))
    assert codes(report) == ["waiting-for-retry", "handshake-stale"]
    assert report.findings[1].severity == "info"


def test_a_full_node_is_full_whatever_its_handshake(tmp_path: Path) -> None:
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    report = ask(tmp_path, cluster(guides(600), held, pod(said=said)))
    assert codes(report) == ["card-insufficient-memory", "handshake-stale"]
    assert report.findings[1].severity == "info"


def test_a_pod_that_runs_on_such_a_node_just_runs(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(600), running("wl", "gpu-1", ("GPU-gpu-1", 1000, 0))))
    assert codes(report) == ["running"]
