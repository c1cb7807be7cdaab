"""Why a pod is pending that HAMi refuses by a bug which its request meets, told by HAMi's version and the objects."""

from pathlib import Path

import pytest

from tests.playbooks.refused_support import refused_again
from tests.playbooks.scheduler_metrics import GIB, counted, scrape
from tests.playbooks.world import (
    Object,
    ask,
    card,
    cause,
    codes,
    container,
    event,
    gpu,
    gpu_node,
    none_of,
    pod,
    quotes,
    refused,
    running,
    scheduler,
)

TWO_GPUS = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"), text=True)
TWO_MIG = gpu_node("gpu-1", card("GPU-0", mode="mig"), card("GPU-1", mode="mig"))


def with_containers(*limits: Object, reasons: str = "1 NodeUnfitPod") -> list[Object]:
    """A pod that HAMi refused again and again, of containers with these limits."""
    one, *more = refused_again(reasons)
    one["spec"]["containers"] = [container(each, f"part-{number}") for number, each in enumerate(limits)]
    return [one, *more]


@pytest.mark.parametrize("version", ["2.3.13", "2.4.1"])
def test_up_to_2_4_a_pod_with_gpus_in_several_containers_meets_a_known_bug(tmp_path: Path, version: str) -> None:
    objects = with_containers(gpu(memory=1000), {}, gpu(2, memory=1000))
    report = ask(tmp_path, [*scheduler(version), TWO_GPUS, *objects])
    assert (codes(report)[0], cause(report).confidence) == ("node-unfit-pod", "suspected")
    assert "HAMi#798" in cause(report).claim
    assert {"part-0", "part-2"} <= set(quotes(report))
    assert any("Upgrade HAMi to 2.5.0" in action.label for action in cause(report).next_actions)


@pytest.mark.parametrize(
    ("version", "limits"),
    [("2.5.1", [gpu(memory=1000), gpu(memory=1000)]), ("2.4.1", [gpu(2, memory=1000), {}])],
    ids=["a later version", "one container with GPUs"],
)
def test_without_its_signs_that_bug_is_not_told(tmp_path: Path, version: str, limits: list[Object]) -> None:
    report = ask(tmp_path, [*scheduler(version), TWO_GPUS, *with_containers(*limits)])
    assert codes(report)[0] == "scheduler-ledger-stale"


def test_what_the_scheduler_s_own_figures_prove_comes_before_the_bug(tmp_path: Path) -> None:
    objects = with_containers(gpu(memory=1000), gpu(memory=1000))
    ghost = scrape(counted("gone", 15 * GIB, old=True))
    report = ask(tmp_path, [*scheduler("2.4.1"), TWO_GPUS, *objects], metrics=ghost)
    assert (codes(report)[0], cause(report).confidence) == ("scheduler-ledger-stale", "confirmed")


def refused_by_rule(count: int, **fields: object) -> Object:
    said = refused(none_of(1, "1 1/1 CardNotFoundCustomFilterRule, 1 AllocatedCardsInsufficientRequest"))
    return pod(limits=gpu(count), said=said, **fields)


def test_in_2_9_several_mig_devices_on_idle_gpus_meet_a_known_bug(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler("2.9.0"), TWO_MIG, refused_by_rule(2)])
    assert codes(report)[0] == "custom-filter-rule"
    assert "HAMi#2403" in cause(report).claim
    assert any('"mode": "mig"' in quote for quote in quotes(report))


@pytest.mark.parametrize(
    ("version", "count", "more"),
    [
        ("2.10.0", 2, []),
        ("2.9.0", 1, []),
        ("2.9.0", 2, [running("busy", "gpu-1", ("GPU-1", 5000, 14))]),
    ],
    ids=["a later version", "one device", "a GPU in use"],
)
def test_without_its_signs_the_bug_of_mig_is_not_told(
    tmp_path: Path, version: str, count: int, more: list[Object]
) -> None:
    report = ask(tmp_path, [*scheduler(version), TWO_MIG, refused_by_rule(count), *more])
    assert "HAMi#2403" not in cause(report).claim


# --------------------------------------------------------------------------------- a part of a GPU without a count


def part_of_a_gpu(version: str, scheduler_name: str = "hami-scheduler", **status: object) -> list[Object]:
    """A pod on gpu-1 that HAMi's scheduler let pass, as it asks for memory only."""
    one = pod(limits={"nvidia.com/gpumem": "4000"}, nodeName="gpu-1", schedulerName=scheduler_name)
    one["status"] = {"phase": "Running"} | status
    return [*scheduler(version), TWO_GPUS, one, event(one, "FilteringFailed", "does not request any resource")]


CRASHED = {
    "name": "main",
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    "restartCount": 4,
}
NOT_PULLED = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}


@pytest.mark.parametrize(("version", "told"), [("2.6.1", False), ("2.7.1", True), ("2.8.2", True), ("2.9.0", False)])
def test_a_pod_that_names_hami_s_scheduler_itself_gets_no_count_from_the_webhooks_of_2_7_and_2_8(
    tmp_path: Path, version: str, told: bool
) -> None:
    report = ask(tmp_path, part_of_a_gpu(version, containerStatuses=[CRASHED]))
    assert codes(report)[0] == "no-device-request"
    assert ("2.7 and 2.8 leave pods alone that name hami-scheduler" in cause(report).claim) == told
    assert {"4000", "does not request any resource"} <= set(quotes(report))


def test_a_pod_that_never_started_is_told_that_before_that_it_would_get_no_gpu(tmp_path: Path) -> None:
    report = ask(tmp_path, part_of_a_gpu("2.7.1", phase="Pending", containerStatuses=[NOT_PULLED]))
    assert codes(report) == ["image-or-start-failure", "no-device-request"]
