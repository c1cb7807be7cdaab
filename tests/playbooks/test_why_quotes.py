"""`why`: the two quotes that are shown under a verdict prove it."""

from pathlib import Path

import pytest

from bot.render.words import quoted, telling
from bot.report import Report
from tests.playbooks.started_support import container_status, placed, report_on
from tests.playbooks.test_why_nodes import UNREGISTERED, holder
from tests.playbooks.world import (
    HANDSHAKE,
    Object,
    ago,
    ask,
    card,
    cause,
    cluster,
    codes,
    container,
    event,
    gpu,
    gpu_node,
    node,
    none_of,
    plugin_pod,
    pod,
    quota,
    refused,
    running,
    scheduler,
)

ELSEWHERE = "1 node(s) had untolerated taint(s), 40 node(s) didn't match Pod's node affinity/selector"
TAINTS = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
ONLY = "Kubernetes itself rules out all other nodes for the pod."


def shown(report: Report) -> list[str]:
    return [str(quoted(proof)) for proof in telling(cause(report).evidence)[:2]]


def crashing(end: Object) -> Object:
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    return placed(phase="Running", containerStatuses=container_status(state=waits, lastState=end))


def refusal(tmp_path: Path, reason: str, waiting: Object, *objects: Object) -> list[str]:
    """What is shown where HAMi says the same in its event and in the condition, which is about other nodes too."""
    waiting["status"]["conditions"] = [refused(none_of(42, f"1 1/1 {reason}, {ELSEWHERE}"))]
    said = event(waiting, "FilteringFailed", f"1 nodes {reason}(gpu-1)")
    return shown(ask(tmp_path, cluster(waiting, said, *objects)))


@pytest.mark.parametrize(
    ("flags", "labels", "told"),
    [
        (
            ["--node-label-selector", "pool in (big)"],
            {"gpu": "on"},
            ["vgpu-scheduler-extender command = pool in (big)", 'labels = {"gpu":"on"}'],
        ),
        (
            ["--node-label-selector=pool=big,tier!=test"],
            {"tier": "test", "pool": "big"},
            [
                "vgpu-scheduler-extender command = --node-label-selector=pool=big,tier!=test",
                'labels = {"gpu":"on","pool":"big","tier":"test"}',
            ],
        ),
    ],
)
def test_a_node_outside_the_label_selector_is_proven_by_the_flag_and_the_labels(
    tmp_path: Path, flags: list[str], labels: Object, told: list[str]
) -> None:
    report = ask(tmp_path, [*scheduler(flags=flags), gpu_node(labels=labels), pod(said=UNREGISTERED)])
    assert (codes(report)[0], shown(report)) == ("registration-ignored", told)


def test_the_only_node_that_the_pod_selects_is_told_with_the_selector(tmp_path: Path) -> None:
    silent = gpu_node(allocatable={"nvidia.com/gpu": "0"}, annotations={HANDSHAKE: "Requesting_2026-11-20 01:02:03"})
    silent["metadata"]["labels"] |= {"a.b/pool": "spare"}
    waiting = pod(said=refused(none_of(42, f"1 node unregistered, {ELSEWHERE}")), nodeSelector={"a.b/pool": "spare"})
    report = ask(tmp_path, cluster(silent, gpu_node("gpu-2"), waiting))
    assert cause(report).claim.endswith(ONLY)
    assert shown(report) == ["allocatable nvidia.com/gpu = 0", "nodeSelector a.b/pool = spare"]


@pytest.mark.parametrize("others", [[], [running("full", "gpu-2", ("GPU-gpu-2", 16384, 0))]])
def test_where_other_nodes_are_left_or_there_are_none_nothing_is_ruled_out(
    tmp_path: Path, others: list[Object]
) -> None:
    silent = gpu_node(allocatable={"nvidia.com/gpu": "0"})
    more = [gpu_node("gpu-2"), *others] if others else []
    report = ask(tmp_path, cluster(silent, *more, pod(said=UNREGISTERED)))
    assert ONLY not in " ".join(finding.claim for finding in report.findings)


@pytest.mark.parametrize(
    ("reason", "waiting", "objects", "told"),
    [
        (
            "CardInsufficientMemory",
            pod(limits=gpu(memory=20000)),
            [gpu_node("gpu-1", card("GPU-gpu-1", memory=15360)), gpu_node("gpu-2", card(memory=81920), taints=TAINTS)],
            '"devmem": 15360',
        ),
        (
            "CardInsufficientMemory",
            pod(limits=gpu(memory=9000)),
            [gpu_node(), holder(10000)],
            "limits nvidia.com/gpumem = 9000",
        ),
        ("CardNotHealth", pod(), [gpu_node("gpu-1", card("GPU-gpu-1", health=False))], '"health": false'),
        (
            "CardCordoned",
            pod(),
            [gpu_node(annotations={"hami.io/device-cordon": "GPU-gpu-1"})],
            "hami.io/device-cordon = GPU-gpu-1",
        ),
        (
            "ResourceQuotaNotFit",
            pod(limits=gpu(memory=9000)),
            [gpu_node(), quota(gpumem="8k")],
            "hard limits.nvidia.com/gpumem = 8k",
        ),
        (
            "CardTypeMismatch",
            pod(annotations={"nvidia.com/use-gputype": "H100"}),
            [gpu_node()],
            "nvidia.com/use-gputype = H100",
        ),
    ],
    ids=["too-small", "used", "health", "cordon", "quota", "type"],
)
def test_a_refusal_is_shown_once_and_beside_it_the_fact(
    tmp_path: Path, reason: str, waiting: Object, objects: list[Object], told: str
) -> None:
    said, fact = refusal(tmp_path, reason, waiting, *objects)
    assert said == f"1 nodes {reason}(gpu-1)"
    assert told in fact


def test_memory_that_is_used_up_is_proven_by_who_holds_it(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod(limits=gpu(memory=9000)), gpu_node(), holder(10000)))
    assert any("NVIDIA,10000," in proof.quote for proof in cause(report).evidence)


@pytest.mark.parametrize(
    ("limits", "told"),
    [(gpu(2, memory=90000), ["gpumem = 90000", '"devmem": 16384']), (gpu(4), ["gpu = 4", '"GPU-gpu-1"'])],
)
def test_a_request_that_is_too_large_everywhere_is_shown_beside_the_largest(
    tmp_path: Path, limits: Object, told: list[str]
) -> None:
    report = ask(tmp_path, cluster(gpu_node(), gpu_node("gpu-2", card("GPU-b", memory=8192)), pod(limits=limits)))
    assert codes(report)[0] == "impossible-anywhere"
    assert [part in quote for part, quote in zip(told, shown(report), strict=True)] == [True, True]


def test_a_variable_is_quoted_with_its_value_where_it_has_one(tmp_path: Path) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "CUDA_VISIBLE_DEVICES", "value": "-1"}]
    end = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": ago(60), "finishedAt": ago(30)}}
    failing = crashing(end)
    failing["spec"]["containers"] = [container(gpu(), env=env)]
    report = ask(tmp_path, cluster(failing, gpu_node()))
    assert codes(report)[0] == "gpu-start-failure"
    assert shown(report) == ["main CUDA_VISIBLE_DEVICES value = -1"]


def test_how_a_container_ended_is_quoted_with_its_code_and_when_it_did(tmp_path: Path) -> None:
    end = {"terminated": {"exitCode": 7, "reason": "Error", "startedAt": ago(60), "finishedAt": ago(30)}}
    failing = crashing(end)
    first, second = cause(report_on(tmp_path, failing, gpu_node())).evidence[:2]
    assert (first.quote, first.at) == ("7", ago(30))
    assert (second.quote, "state.waiting.message" in second.command) == ("back-off 5m0s", True)


def test_a_taint_that_the_device_plugin_does_not_tolerate_is_shown(tmp_path: Path) -> None:
    tainted = node("gpu-1", labels={"gpu": "on", "nvidia.com/gpu.present": "true"})
    tainted["spec"] = {"taints": TAINTS}
    daemon_set: Object = {
        "kind": "DaemonSet",
        "metadata": {"name": "hami", "namespace": "kube-system", "labels": plugin_pod("gpu-1")["metadata"]["labels"]},
        "spec": {"template": {"spec": {"nodeSelector": {"gpu": "on"}, "containers": []}}},
    }
    tolerant = pod(said=UNREGISTERED, tolerations=[{"operator": "Exists"}])
    report = ask(tmp_path, cluster(tainted, daemon_set, tolerant))
    assert codes(report)[0] == "device-plugin-not-selected"
    assert shown(report)[0] == "taints key = team"
