"""What the schedulers said: every form of it, the newest of it, and nothing of another pod's."""

from pathlib import Path

import pytest

from tests.playbooks.world import (
    Object,
    ago,
    ask,
    cause,
    cluster,
    codes,
    event,
    gpu,
    gpu_node,
    none_of,
    pod,
    quotes,
    refused,
    running,
)

WANTS = gpu(memory=9000)
MEMORY = none_of(1, "1 1/1 CardInsufficientMemory")


def full() -> list[Object]:
    """A node without room for the pod."""
    return [gpu_node(), running("holder", "gpu-1", ("GPU-gpu-1", 10000, 0))]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("FilteringFailed", "1 nodes CardInsufficientMemory(gpu-1)"),
        ("FilteringFailed", "(combined from similar events): 1 nodes CardInsufficientMemory(gpu-1)"),
        ("EventReasonFilteringFailed", "1 nodes CardInsufficientMemory(gpu-1)"),
        ("FilteringFailed", "Bindingfailed: CardInsufficientMemory on node gpu-1"),
        ("EventReasonBindingFailed", "CardInsufficientMemory on node gpu-1"),
        ("FailedScheduling", MEMORY),
        ("FailedScheduling", "0/1 nodes are available: 1 1/1 CardInsufficientMemory."),
    ],
)
def test_a_refusal_is_understood_in_every_form(tmp_path: Path, reason: str, message: str) -> None:
    waiting = pod(limits=WANTS)
    report = ask(tmp_path, cluster(*full(), waiting, event(waiting, reason, message)))
    assert (codes(report), cause(report).scope.nodes) == (["card-insufficient-memory"], ("gpu-1",))
    assert message in quotes(report)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("2.5.1", "no available node, all node scores do not meet"),
        ("2.6.1", "no available node, 1 nodes do not meet"),
        ("2.10.0", "no available node, 1 nodes do not meet"),
    ],
)
def test_a_refusal_without_a_reason_is_explained_by_the_cards(tmp_path: Path, version: str, message: str) -> None:
    waiting = pod(limits=WANTS)
    node, held = full()
    node = gpu_node(text=version < "2.8" and version != "2.10.0")
    report = ask(tmp_path, cluster(node, held, waiting, event(waiting, "FilteringFailed", message), version=version))
    assert codes(report) == ["card-insufficient-memory"]
    assert message in quotes(report)


def test_a_line_of_the_scheduler_s_log_is_quoted(tmp_path: Path) -> None:
    told = '"NodeUnfitPod" pod="ml/wl" node="gpu-1" reason="1/1 CardInsufficientMemory"'
    line = f"I1121 04:59:00.123456       1 score.go:275] {told}"
    other = line.replace("ml/wl", "ml/wl-2").replace("Memory", "Core")
    report = ask(tmp_path, cluster(*full(), pod(limits=WANTS)), logs=f"{other}\n{line}\n", missing=["events"])
    assert (codes(report), cause(report).confidence) == (["card-insufficient-memory"], "confirmed")
    assert line in quotes(report)


def test_events_of_an_earlier_pod_of_the_same_name_are_not_this_one_s(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS)
    foreign = event(waiting, "FailedScheduling", none_of(1, "1 1/1 CardTypeMismatch"), 5)
    foreign["involvedObject"]["uid"] = "uid-of-yesterday"
    report = ask(tmp_path, cluster(*full(), waiting, foreign))
    assert (codes(report), cause(report).confidence) == (["card-insufficient-memory"], "suspected")
    assert foreign["message"] not in quotes(report)


def test_a_pod_of_the_same_name_elsewhere_is_another_pod(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS)
    twin = pod(namespace="dev", uid="uid-twin")
    foreign = event(twin, "FailedScheduling", none_of(1, "1 1/1 CardTypeMismatch"), 5)
    assert foreign["message"] not in quotes(ask(tmp_path, cluster(*full(), waiting, twin, foreign)))


def test_old_events_do_not_beat_a_newer_condition(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS, age=3600, said=refused(MEMORY, 30))
    old = [
        event(waiting, "BindingFailed", "node gpu-1 has been locked within 5m0s", 900),
        event(waiting, "FilteringFailed", "1 nodes CardTypeMismatch(gpu-1)", 1800),
        event(waiting, "FilteringSucceed", "find fit node(gpu-1), 0 nodes not fit, 1 nodes fit(gpu-1:0.00)", 1200),
    ]
    report = ask(tmp_path, cluster(*full(), waiting, *old))
    assert codes(report) == ["card-insufficient-memory"]
    assert not {quote["message"] for quote in old} & set(quotes(report))


def test_of_events_alone_the_newest_counts(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS, age=3600)
    old = event(waiting, "BindingFailed", "node gpu-1 has been locked within 5m0s", 900)
    new = event(waiting, "FailedScheduling", MEMORY, 30)
    assert codes(ask(tmp_path, cluster(*full(), waiting, old, new))) == ["card-insufficient-memory"]


def test_a_reason_that_no_known_version_gives_is_not_lost(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS, said=refused(none_of(1, "1 1/1 CardFromTheFuture")))
    report = ask(tmp_path, cluster(*full(), waiting))
    assert "CardFromTheFuture" in "".join(quotes(report))


def test_a_pod_that_cannot_be_read_is_told_in_the_schedulers_words_and_only_suspected(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS)
    told = event(waiting, "FailedScheduling", MEMORY)
    report = ask(tmp_path, cluster(*full(), waiting, told), missing=["pods"])
    assert (codes(report), cause(report).confidence) == (["card-insufficient-memory"], "suspected")


def test_a_pod_that_cannot_be_read_and_was_placed_since_is_not_explained_by_older_words(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS)
    told = event(waiting, "FailedScheduling", MEMORY, 600), event(waiting, "Scheduled", "Successfully assigned", 60)
    assert codes(ask(tmp_path, cluster(*full(), waiting, *told), missing=["pods"])) == ["not-enough-evidence"]


def test_without_the_nodes_the_schedulers_words_stand_alone(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(*full(), pod(limits=WANTS, said=refused(MEMORY))), missing=["nodes"])
    assert codes(report) == ["card-insufficient-memory"]
    assert "the bot read too little to check" in report.verdict
    assert "nodes" in [gap.source for gap in report.gaps]


def test_an_event_without_any_time_is_as_old_as_can_be(tmp_path: Path) -> None:
    waiting = pod(limits=WANTS, said=refused(MEMORY))
    timeless = event(waiting, "BindingFailed", "node gpu-1 has been locked within 5m0s")
    timeless["lastTimestamp"] = "yesterday"
    timeless["metadata"]["creationTimestamp"] = None
    assert codes(ask(tmp_path, cluster(*full(), waiting, timeless))) == ["card-insufficient-memory"]


def test_an_event_without_words_says_nothing(tmp_path: Path) -> None:
    waiting = pod()
    report = ask(tmp_path, cluster(gpu_node(), waiting, event(waiting, "FailedScheduling", " ")))
    assert codes(report) == ["waiting-for-retry"]
    assert "no scheduling attempt was seen yet" in report.verdict


def test_a_condition_that_says_the_pod_is_scheduled_is_no_refusal(tmp_path: Path) -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(5)}
    assert codes(ask(tmp_path, cluster(gpu_node(), pod(said=scheduled)))) == ["waiting-for-retry"]
