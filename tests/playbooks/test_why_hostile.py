"""Objects that nobody should write and somebody will: an answer or a gap, never an exception, never a huge report."""

import re
from pathlib import Path

import pytest

from bot.errors import Unusable
from bot.report import as_json
from tests.playbooks.world import (
    HANDSHAKE,
    LOCK,
    REGISTER,
    Object,
    ago,
    ask,
    bind_error,
    card,
    cause,
    cluster,
    codes,
    commands,
    event,
    given,
    gpu,
    gpu_node,
    none_of,
    pod,
    quota,
    refused,
    running,
    scheduler,
)

UGLY = "\x00\x1b[31m\u202e💥\n\t<!channel> `rm -rf` {braces} %s \\ " + "A" * 200


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_a_huge_annotation_gives_an_ordinary_report(tmp_path: Path, size: int) -> None:
    huge = "x" * size
    node = gpu_node(annotations={REGISTER: huge, LOCK: huge, HANDSHAKE: huge, "hami.io/device-cordon": huge})
    wants = pod(annotations={"nvidia.com/use-gputype": huge, "nvidia.com/use-gpuuuid": huge})
    report = ask(tmp_path, cluster(node, gpu_node("gpu-2"), wants))
    assert codes(report)
    assert len(as_json(report)) < 50_000


def test_control_characters_and_emoji_stay_on_one_line(tmp_path: Path) -> None:
    node = gpu_node(annotations={LOCK: UGLY, HANDSHAKE: UGLY})
    wants = pod(annotations={"nvidia.com/use-gputype": UGLY, "nvidia.com/vgpu-mode": UGLY}, said=refused(UGLY))
    report = ask(tmp_path, cluster(node, wants))
    assert codes(report) == ["card-type-mismatch"]


def test_a_lock_of_rubbish_is_malformed_and_its_claim_stays_short(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(annotations={LOCK: UGLY}), pod(said=bind_error('parsing time "x"'))))
    assert len(cause(report).claim) < 400


@pytest.mark.parametrize("message", [UGLY, "\n\t", "0/9 nodes are available: ", "0/9 nodes are available: , , ,"])
def test_a_condition_of_rubbish_is_no_exception(tmp_path: Path, message: str) -> None:
    assert codes(ask(tmp_path, cluster(gpu_node(), pod(said=refused(message)))))


def test_numbers_that_no_cluster_has_are_no_exception(tmp_path: Path) -> None:
    nines = "9" * 400
    said = refused(
        f"0/{nines} nodes are available: {nines} CardInsufficientMemory, {nines} {nines}/{nines} CardNotHealth."
    )
    assert codes(ask(tmp_path, cluster(gpu_node(), pod(said=said))))


@pytest.mark.parametrize(
    "register",
    [
        "[" * 100_000,
        "[null]",
        "{}",
        '[{"id": null}]',
        f"[{'9' * 5000}]",
        '[{"devmem": 1e400}]',
        "a,1,NaN,x,T,0,true:",
        ":::",
    ],
)
def test_a_register_annotation_of_rubbish_makes_the_node_unregistered_or_unfit(tmp_path: Path, register: str) -> None:
    node = gpu_node(annotations={REGISTER: register})
    report = ask(tmp_path, cluster(node, pod(said=refused(none_of(1, "1 node unregistered")))))
    assert codes(report)[0] in ("node-unregistered", "impossible-anywhere")


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "1e999999", "-1", "", "abc", "0x10", "1.5", "9" * 300, "５"])
def test_a_quantity_of_rubbish_is_an_answer(tmp_path: Path, amount: str) -> None:
    for limits in ({"nvidia.com/gpu": amount}, gpu() | {"nvidia.com/gpumem": amount}, gpu() | {"cpu": amount}):
        for version in ("2.9.0", "2.10.0"):
            folder = tmp_path / f"{len(limits)}{'cpu' in limits}{version}"
            report = ask(folder, cluster(gpu_node(), quota(gpumem=amount), pod(limits=limits), version=version))
            assert codes(report)


@pytest.mark.parametrize(
    "held", ["", ";", "a,b;;;,,:💥,,,:", "GPU-gpu-1,NVIDIA,NaN,x:;", f"GPU-gpu-1,NVIDIA,{'9' * 99},0:;"]
)
def test_an_allocation_of_rubbish_is_an_answer(tmp_path: Path, held: str) -> None:
    other = pod("other", annotations=given("gpu-1") | {"hami.io/vgpu-devices-allocated": held})
    other["metadata"]["labels"] = {"hami.io/vgpu-node": "gpu-1"}
    assert codes(ask(tmp_path, cluster(gpu_node(), other, pod())))


def broken_node(name: str = "gpu-1") -> Object:
    node = gpu_node(name)
    node["metadata"]["annotations"]["x"] = 5
    return node


def test_a_node_that_cannot_be_read_is_left_out_and_told(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(broken_node(), gpu_node("gpu-2"), pod()))
    assert cause(report).scope.nodes == ("gpu-2",)
    assert any("gpu-1" in gap.why for gap in report.gaps)


def test_a_cluster_whose_every_node_cannot_be_read_is_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(broken_node(), pod()))
    assert codes(report) == ["not-enough-evidence"]
    assert any("gpu-1" in gap.why for gap in report.gaps)


def test_an_event_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    waiting = pod()
    broken = event(waiting, "FailedScheduling", "x")
    broken["involvedObject"] = "ml/wl"
    report = ask(tmp_path, cluster(gpu_node(), waiting, broken))
    assert codes(report) == ["waiting-for-retry"]
    assert any("events.json" in gap.why for gap in report.gaps)


def test_a_recording_that_is_no_json_gives_no_report_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"pods\.json is no JSON"):
        ask(tmp_path, cluster(gpu_node(), pod(limits={"nvidia.com/gpu": float("nan")})))


@pytest.mark.parametrize("config", ["", "[", "nvidia: 5", "nvidia: {resourceCountName: [1]}", "- - -", "'" * 999, UGLY])
def test_a_device_config_of_rubbish_is_an_answer(tmp_path: Path, config: str) -> None:
    assert codes(ask(tmp_path, [*scheduler(config=config), gpu_node(), pod()])) == ["waiting-for-retry"]


@pytest.mark.parametrize("image", ["", ":", "v", "hami:v2.10.0.0.0", "hami:latest", "@sha256:0", UGLY])
def test_an_image_of_rubbish_is_an_unknown_version(tmp_path: Path, image: str) -> None:
    report = ask(tmp_path, [*scheduler(image=image), gpu_node(), pod()])
    assert codes(report) == ["waiting-for-retry"]
    assert "HAMi version" in [gap.source for gap in report.gaps]


def test_a_pod_of_nothing_is_an_answer(tmp_path: Path) -> None:
    bare = {"kind": "Pod", "metadata": {"name": "wl", "namespace": "ml"}}
    assert codes(ask(tmp_path, cluster(gpu_node(), bare))) == ["no-device-request"]


def test_a_cluster_of_one_pod_is_an_answer(tmp_path: Path) -> None:
    bare = {"kind": "Pod", "metadata": {"name": "wl", "namespace": "ml"}}
    kinds = ["nodes", "events", "deployments", "replicasets", "leases", "configmaps", "resourcequotas"]
    assert codes(ask(tmp_path, [bare], missing=kinds)) == ["no-device-request"]


def test_cards_of_no_size_are_an_answer(tmp_path: Path) -> None:
    nothing = gpu_node("gpu-1", card("", 0, count=0, devcore=0))
    assert codes(ask(tmp_path, cluster(nothing, pod(limits=gpu(memory=0)))))


def test_a_name_that_a_shell_would_obey_is_quoted_in_every_command(tmp_path: Path) -> None:
    evil = "wl;$(reboot)"
    held = running(evil, "gpu-1", ("GPU-gpu-1", 16000, 0))
    node = gpu_node(evil, annotations={LOCK: f"{ago(40)},ml,{evil}"}, taints=[{"key": evil, "effect": "NoSchedule"}])
    waiting = pod(said=refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 node(s) had untolerated taint(s)")))
    report = ask(tmp_path, cluster(gpu_node(), node, held, waiting))
    told = [*commands(report), *(proof.command for finding in report.findings for proof in finding.evidence)]
    assert any("reboot" in command for command in told)
    assert [command for command in told if "reboot" in re.sub("'[^']*'", "", command)] == []


def test_a_holder_whose_name_holds_a_slash_is_no_exception(tmp_path: Path) -> None:
    held = running("a/b/c", "gpu-1", ("GPU-gpu-1", 16000, 0))
    assert codes(ask(tmp_path, cluster(gpu_node(), held, pod()))) == ["card-insufficient-memory"]


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-13-45T99:99:99Z", UGLY])
def test_times_at_the_ends_of_the_calendar_are_an_answer(tmp_path: Path, time: str) -> None:
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory")) | {"lastTransitionTime": time}
    waiting = pod(said=said, deleted=None)
    waiting["metadata"]["creationTimestamp"] = time
    locked = gpu_node("gpu-2", annotations={LOCK: f"{time},ml,other", HANDSHAKE: f"Requesting_{time}"})
    leaving = running("leaving", "gpu-1", deleted=time)
    for name, nodes in (("free", [gpu_node()]), ("locked", [locked])):
        assert codes(ask(tmp_path / name, cluster(*nodes, leaving, waiting)))
    assert codes(ask(tmp_path / "leaving", cluster(leaving), "ml/leaving")) == ["terminating"]
