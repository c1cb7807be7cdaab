"""What the schedulers said: every form of it, the newest of it, and nothing of another pod's."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Evidence, Finding, Report, Scope
from bot.texts import LANGUAGES, Texts
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from playbooks.quotes import PodSays
from playbooks.rules.waiting.alike import cause_signature
from tests.cases_support import CASES
from tests.playbooks.refused_support import refused_again
from tests.playbooks.scheduler_metrics import GIB, counted, scrape
from tests.playbooks.world import (
    LOCK,
    Object,
    ago,
    ask,
    bind_error,
    card,
    cause,
    cluster,
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
    upgrade = cause(report).next_actions[-1].label
    assert upgrade.startswith(f"Upgrade HAMi (here {version}) to {fixed} or later: before that, ")
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
    assert any("to 2.5.0 or later" in action.label for action in cause(report).next_actions)


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


def test_a_request_of_init_containers_alone_is_no_request_before_2_9(tmp_path: Path) -> None:
    one = pod(containers=[container()], initContainers=[container(gpu(memory=4000), "warm-up")])
    report = ask(tmp_path, cluster(one, gpu_node(), version="2.8.2"))
    (told,) = [finding for finding in report.findings if finding.code == "no-device-request"]
    assert "HAMi 2.8.2 does not read what init containers ask for" in told.claim
    assert told.next_actions[0].label.startswith("Request the GPU in an app container as well, or upgrade HAMi")


def test_a_pod_that_never_started_is_told_that_before_that_it_would_get_no_gpu(tmp_path: Path) -> None:
    report = ask(tmp_path, part_of_a_gpu("2.7.1", phase="Pending", containerStatuses=[NOT_PULLED]))
    assert codes(report) == ["image-or-start-failure", "no-device-request"]


def told(code: str = "card-insufficient-memory", nodes: tuple[str, ...] = ("n1",), *quotes: str) -> Finding:
    about = [Evidence("pod", "Pod ml/a", None, quote, "kubectl get pod a -o jsonpath={.spec}") for quote in quotes]
    return Finding(code, "claim", "warning", "confirmed", Scope(nodes), tuple(about))


def test_a_signature_is_the_same_in_every_language(tmp_path: Path) -> None:
    recording = RecordedCluster.open(CASES / "hami-2.10" / "recording.tar.gz")
    playbook = find("pending")
    snapshot = asyncio.run(playbook.gather(playbook.request(), Sources(recording)))
    answers = [playbook.report(snapshot, Texts(language)) for language in LANGUAGES]
    first, *others = ([cause_signature(finding) for finding in report.findings] for report in answers)
    assert len(set(first)) == len(first)
    assert all(other == first for other in others)


def test_a_signature_tells_codes_and_nodes_apart() -> None:
    signatures = {cause_signature(cause) for cause in (told(), told("card-cordoned"), told(nodes=("n1", "n2")))}
    assert len(signatures) == 3


def test_a_signature_leaves_out_whom_and_when_it_is_about() -> None:
    proof = Evidence("event", "Pod ml/b", ago(9), "1 nodes CardInsufficientMemory(n1)", "kubectl get events")
    other = Finding("card-insufficient-memory", "else", "info", "suspected", Scope(("n1",)), (proof,))
    assert cause_signature(told()) == cause_signature(other)


def test_a_signature_tells_kube_scheduler_s_filters_apart() -> None:
    def lost(reason: str, total: int = 3) -> str:
        return cause_signature(told("kubernetes-filter", (), f"0/{total} nodes are available: {total} {reason}."))

    assert lost("Insufficient cpu") != lost("node(s) had untolerated taint {a: b}")
    assert lost("Insufficient cpu") == lost("Insufficient cpu", 5)


def test_what_a_pod_says_equals_the_same_evidence_read_back_from_json() -> None:
    said = PodSays("pod", "Pod ml/a", None, "A100", "kubectl get pod a")
    assert msgspec.json.decode(msgspec.json.encode(said), type=Evidence) == said
    assert len({said, Evidence("pod", "Pod ml/a", None, "A100", "kubectl get pod a")}) == 1
