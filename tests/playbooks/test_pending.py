"""`pending`: every pod that waits for cards, judged as `why` judges it, together with those of the same cause."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bot.errors import SourceError
from bot.kube.models import Pod
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.render.overview import brief, steps_shown
from bot.report import Report
from bot.texts import Texts, in_english
from playbooks.judgement.waiting import Judge
from playbooks.own.discovery import find
from playbooks.pending.rows import PendingRow
from playbooks.playbook import Sources
from playbooks.scenes.cluster import ClusterScene
from sandbox.apiserver import Fault
from tests import cases_support
from tests.cases_support import CASES, VERSIONS
from tests.playbooks.pending_support import FULL, full, too_large
from tests.playbooks.tables import table
from tests.playbooks.world import (
    LOCK,
    Object,
    ago,
    answer,
    answer_live,
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
    node,
    none_of,
    pod,
    quota,
    record,
    refused,
    running,
    scheduler,
)
from tests.playbooks.world import ask as why
from tests.vendor_worlds import CHART


def ask(tmp_path: Path, *objects: Object, version: str = "2.10.0", **more: Any) -> Report:
    """What `pending` says. `more`: namespace; `missing` and `logs` go to the recording."""
    recorded = {key: more.pop(key) for key in ("missing", "logs") if key in more}
    return answer("pending", record(tmp_path, cluster(*objects, version=version), **recorded), {}, **more)


def rows(report: Report, title: str = "pending") -> list[dict[str, str]]:
    return table(report, title)


def names(report: Report) -> list[str]:
    return [row["pod"] for row in rows(report)]


# --------------------------------------------------------------------------------------------- as `why` judges


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_pod_that_waits_is_there_with_the_cause_that_why_gives_it(version: str) -> None:
    recording = RecordedCluster.open(CASES / version / "recording.tar.gz")
    report = cases_support.ask_cluster(recording, verb="pending")
    statuses = {
        item["metadata"]["name"]: (item["status"]["phase"], item["spec"].get("nodeName"))
        for item in json.loads(recording.read("objects/pods.json"))["items"]
    }
    assert sorted(names(report)) == sorted(name for name, status in statuses.items() if status == ("Pending", None))
    for row in rows(report):
        first = cause(cases_support.ask_cluster(recording, f"{row['namespace']}/{row['pod']}"))
        assert (row["cause"], row["nodes"]) == (first.code, str(len(first.scope.nodes))), row


def test_the_evidence_is_that_of_the_oldest_pod_as_why_has_it(tmp_path: Path) -> None:
    pods = [too_large("young", age=100), too_large("old", age=900)]
    first = cause(ask(tmp_path, *full(), *pods))
    assert first.evidence == cause(why(tmp_path, cluster(*full(), *pods), "ml/old")).evidence


def test_pods_with_reservations_are_judged_without_their_own(tmp_path: Path) -> None:
    held = given("gpu-1", ("GPU-gpu-1", 16000, 0))
    alone = pod("alone", gpu(memory=16000), annotations=held, said=FULL)
    report = ask(tmp_path, gpu_node(), alone)
    assert codes(report) == ["waiting-for-retry"]
    assert codes(report) == codes(why(tmp_path, cluster(gpu_node(), alone), "ml/alone"))


# ------------------------------------------------------------------------------------------------------ groups


def test_pods_of_one_cause_are_one_finding_the_oldest_first(tmp_path: Path) -> None:
    pods = [too_large("b", age=300), too_large("c", age=900), too_large("a", age=60, namespace="dev")]
    report = ask(tmp_path, *full(), *pods)
    assert codes(report) == ["card-insufficient-memory"]
    assert names(report) == ["c", "b", "a"]
    assert report.verdict == "3 pods are pending: 3 for room; first ml/c."
    assert cause(report).claim.startswith("3 pods are pending for the same cause; ml/c is the oldest: ")
    assert cause(report).scope.nodes == ("gpu-1",)


def test_other_amounts_for_the_same_nodes_are_the_same_cause(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), too_large("a", 15000), too_large("b", 14000))
    assert codes(report) == ["card-insufficient-memory"]


def test_other_nodes_are_another_cause(tmp_path: Path) -> None:
    pods = [too_large(f"on-{name}", nodeSelector={"pool": name}) for name in ("a", "b")]
    nodes = [item for name in ("a", "b") for item in full(name, labels={"pool": name})]
    assert codes(ask(tmp_path, *nodes, *pods)) == ["card-insufficient-memory"] * 2


def test_what_pods_themselves_say_tells_causes_apart(tmp_path: Path) -> None:
    def wanting(name: str, kind: str) -> Object:
        said = refused(none_of(1, "1 1/1 CardTypeMismatch"))
        return pod(name, annotations={"nvidia.com/use-gputype": kind}, said=said)

    report = ask(tmp_path, gpu_node(), wanting("a", "H100"), wanting("b", "H100"), wanting("c", "A100"))
    assert [row["pods"] for row in rows(report, "causes")] == ["2", "1"]


def test_who_asks_wrongly_comes_before_who_needs_room_and_what_is_harmless_last(tmp_path: Path) -> None:
    fitting = [pod(f"fits-{number}", said=FULL, age=4000) for number in range(3)]
    misspelt = pod("named", schedulerName="hami-schedulr", age=5000)
    report = ask(tmp_path, *full(), *fitting, too_large("a"), too_large("b"), misspelt)
    assert codes(report) == ["wrong-scheduler", "card-insufficient-memory", "waiting-for-retry"]
    assert cause(report).severity == "warning"


NEVER_FITS = {
    "memory": gpu(memory=20000),
    "number": gpu(3, memory=1000),
}


@pytest.mark.parametrize("limits", NEVER_FITS.values(), ids=NEVER_FITS)
def test_a_pod_that_its_nodes_could_not_take_even_empty_waits_for_its_owner_beside_one_that_waits_for_room(
    tmp_path: Path, limits: Object
) -> None:
    large = gpu_node("large", *[card(f"GPU-{number}", devmem=81920) for number in range(4)], labels={"pool": "large"})
    never = pod("never", limits, nodeSelector={"pool": "small"}, said=FULL)
    waits = too_large("waits", nodeSelector={"pool": "small"})
    report = ask(tmp_path, *full(labels={"pool": "small"}), large, never, waits)
    assert report.verdict.startswith("2 pods are pending: 1 because of what it asks for, 1 for room")
    assert Counter(row.waits_for for row in report.typed(PendingRow)) == {"misconfigured": 1, "capacity": 1}
    told = why(tmp_path, cluster(*full(labels={"pool": "small"}), large, never), "ml/never")
    assert told.verdict.endswith("Waiting will not help.")


def waits_in_vain(folder: Path, objects: list[Object], claim: str) -> None:
    told = why(folder, objects)
    assert told.verdict == claim
    assert cause(told).pending_class == "misconfigured"
    listed = answer("pending", folder / "recording", {}).typed(PendingRow)
    assert [row.waits_for for row in listed] == ["misconfigured"]


def test_a_pod_for_which_no_mig_profile_is_large_enough_waits_for_its_owner(tmp_path: Path) -> None:
    profile = {"name": "1g.10gb", "memoryMB": 9728, "placements": [{"start": 0, "size": 1}]}
    split = card("GPU-m", memory=81920, type="NVIDIA A100", mode="mig", count=7, migProfiles=[profile])
    large = gpu_node("gpu-2", card("GPU-2", memory=81920), labels={"pool": "large"})
    said = refused(none_of(2, "1 1/1 CardMigTopologyInfeasible, 1 node(s) didn't match Pod's node affinity/selector"))
    objects = cluster(
        gpu_node("gpu-1", split, labels={"pool": "mig"}),
        large,
        running("big", "gpu-2", ("GPU-2", 80000, 0)),
        pod(limits=gpu(memory=60000), nodeSelector={"pool": "mig"}, said=said),
    )
    claim = "No MIG GPU of gpu-1 has a profile with 60,000 MiB, even empty. Waiting will not help."
    waits_in_vain(tmp_path, objects, claim)


def test_a_pod_that_asks_for_more_cores_than_a_device_has_waits_for_its_owner(tmp_path: Path) -> None:
    device = {"mthreads.com/vgpu": "16", "mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"}
    silent = node("n-2", allocatable={"mthreads.com/vgpu": "16"})
    asked = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-core": "20", "mthreads.com/sgpu-memory": "2"}
    waits = pod(limits=asked, said=refused(none_of(2, "1 1/1 CardInsufficientCore")))
    objects = [*scheduler(config=CHART), node("n-1", allocatable=device), silent, waits]
    claim = "The pod asks for 20 cores, and one Mthreads has only 16."
    waits_in_vain(tmp_path, objects, claim)


def test_rows_that_stand_for_several_are_not_left_out(tmp_path: Path) -> None:
    nodes = [item for name in ("a", "b") for item in full(name, labels={"pool": name})]
    report = ask(tmp_path, *nodes, *(too_large(f"on-{name}", nodeSelector={"pool": name}) for name in ("a", "b")))
    overview = brief(report, Texts("en"))
    assert overview is not None
    assert [(len(table.shown.rows), table.left_out) for table in overview.tables] == [(1, 0)]


def test_a_scheduler_that_is_down_comes_before_everything(tmp_path: Path) -> None:
    objects = [*scheduler(replicas=0, statuses=()), *full(), too_large("a"), too_large("b"), too_large("c")]
    report = answer("pending", record(tmp_path, objects), {})
    assert codes(report) == ["scheduler-down"]
    assert report.severity == "critical"


def test_at_most_ten_causes_are_told_and_all_are_counted(tmp_path: Path) -> None:
    nodes = [item for number in range(12) for item in full(f"n{number:02}", labels={"pool": f"n{number:02}"})]
    pods = [too_large(f"p{number:02}", nodeSelector={"pool": f"n{number:02}"}) for number in range(12)]
    report = ask(tmp_path, *nodes, *pods)
    assert len(report.findings) == 10
    assert len(rows(report, "causes")) == 12
    assert len(rows(report)) == 12


def test_the_next_actions_ask_why_about_the_oldest_pods(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), too_large("a"), too_large("b", age=500), pod("odd", schedulerName="hami-schedulr"))
    assert commands(report) == ["why ml/odd", "why ml/b"]
    assert [action.label.partition(":")[0] for action in steps_shown(report)] == ["its owner", "room"]


# --------------------------------------------------------------------------------------------------- who waits


def test_a_cluster_where_nothing_waits_says_so(tmp_path: Path) -> None:
    report = ask(tmp_path, *full())
    assert codes(report) == ["nothing-pending"]
    assert report.verdict == "No pod that requests HAMi's GPUs is pending."
    assert (report.severity, report.tables, report.gaps) == ("info", (), ())


def test_pods_without_cards_and_pods_that_are_placed_or_ending_do_not_count(tmp_path: Path) -> None:
    others = [
        pod("plain", {"cpu": "1"}, schedulerName="default-scheduler"),
        pod("starting", nodeName="gpu-1"),
        pod("ending", deleted=ago(5)),
        pod("done", status={"phase": "Succeeded"}),
    ]
    assert codes(ask(tmp_path, gpu_node(), *others)) == ["nothing-pending"]


def test_a_pod_that_names_the_scheduler_without_a_request_counts(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node(), pod("plain", {"cpu": "1"}))
    assert (names(report), rows(report)[0]["asks"]) == (["plain"], "")


def test_cards_asked_for_under_configured_names_count(tmp_path: Path) -> None:
    config = "nvidia:\n  resourceCountName: example.com/card\n"
    objects = [
        *scheduler(config=config),
        gpu_node(),
        pod("wl", {"example.com/card": "1"}, schedulerName="hami-schedulr"),
    ]
    report = answer("pending", record(tmp_path, objects), {})
    assert (codes(report), rows(report)[0]["asks"]) == (["wrong-scheduler"], "card 1")


def test_pods_of_other_schedulers_are_told_apart_and_not_counted(tmp_path: Path) -> None:
    said = refused("Resources were not found for 1 node(s)")
    of_kai = [pod(name, said=said, schedulerName="kai-scheduler", age=age) for name, age in (("k1", 50), ("k2", 900))]
    report = ask(tmp_path, *full(), too_large("a"), *of_kai, pod("misspelt", schedulerName="hami-schedulr"))
    assert codes(report) == ["wrong-scheduler", "card-insufficient-memory", "other-scheduler"]
    assert sorted(names(report)) == ["a", "misspelt"]
    assert (report.findings[-1].severity, report.findings[-1].next_actions) == ("info", ())
    assert [row["oldest"] for row in rows(report, "other schedulers")] == ["ml/k2"]
    alone = ask(tmp_path / "alone", gpu_node(), *of_kai)
    assert codes(alone) == ["nothing-pending", "other-scheduler"]


def test_one_namespace_is_asked_about_alone(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), too_large("a"), too_large("b", namespace="dev"), namespace="dev")
    assert names(report) == ["b"]
    assert report.subject.namespace == "dev"
    quiet = running("fine", "gpu-1", namespace="dev")
    assert codes(ask(tmp_path, *full(), too_large("a"), quiet, namespace="dev")) == ["nothing-pending"]


def test_a_namespace_in_which_nothing_was_seen_is_no_all_clear(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), too_large("a", namespace="training"), namespace="trainnig")
    assert (codes(report), report.severity) == (["not-found"], "warning")
    assert report.verdict == ("Namespace trainnig has no pod and no quota, or does not exist; did you mean training?")
    assert commands(report) == ["pending -n training"]
    assert codes(ask(tmp_path, *full(), quota(namespace="new", gpumem=1000), namespace="new")) == ["nothing-pending"]
    assert cause(ask(tmp_path, *full(), namespace="qqq")).claim.startswith("Namespace qqq has no pod and no quota")


def test_whether_a_namespace_is_one_is_not_told_where_its_quotas_could_not_be_read(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), namespace="dev", missing=["resourcequotas"])
    assert (codes(report), cause(report).confidence) == (["nothing-pending"], "suspected")


def test_a_pod_that_has_just_come_alarms_nobody(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), too_large("new", age=10))
    assert (codes(report), report.severity) == (["card-insufficient-memory"], "info")
    assert ask(tmp_path, *full(), too_large("new", age=10), too_large("old", age=100)).severity == "warning"


def test_a_namespace_s_quota_is_a_cause_of_its_own(tmp_path: Path) -> None:
    refusal = refused(none_of(1, "1 1/1 ResourceQuotaNotFit"))
    pods = [pod(f"p-{space}", gpu(memory=2000), namespace=space, said=refusal) for space in ("ml", "dev")]
    quotas = [quota(namespace=space, gpumem=1000) for space in ("ml", "dev")]
    report = ask(tmp_path, gpu_node(), *pods, *quotas)
    assert codes(report) == ["resource-quota-not-fit"] * 2


def test_a_bind_refused_by_a_lock_is_the_same_cause_for_all_who_meet_it(tmp_path: Path) -> None:
    locked = gpu_node(annotations={LOCK: f"{ago(400)},ml,gone"})
    said = bind_error("node gpu-1 has been locked within 5 minutes")
    pods = [pod(name, said=said, annotations=given("gpu-1", ("GPU-gpu-1", 1000, 0))) for name in ("a", "b")]
    assert codes(ask(tmp_path, locked, *pods)) == ["node-lock-dangling"]


def test_a_pod_filtered_a_moment_ago_is_on_its_way(tmp_path: Path) -> None:
    one = pod(age=60)
    passed = "find fit node(gpu-1), 0 nodes not fit, 1 nodes fit(gpu-1:1.00)"
    for seconds, severity in ((5, "info"), (90, "warning")):
        told = event(one, "FilteringSucceed", passed, seconds, type="Normal")
        report = ask(tmp_path, gpu_node(), one, told)
        assert (codes(report), report.severity) == (["blocked-after-filter"], severity)


# ------------------------------------------------------------------------------------------------------- unseen


@pytest.mark.parametrize("missing", ["nodes", "events", "resourcequotas", "deployments", "logs"])
def test_what_is_missing_is_a_gap_and_the_pods_stay_listed(tmp_path: Path, missing: str) -> None:
    report = ask(tmp_path, *full(), too_large("a"), too_large("b"), missing=[missing])
    assert sorted(names(report)) == ["a", "b"]
    assert report.gaps


def test_without_pods_nothing_can_be_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="pods"):
        ask(tmp_path, *full(), too_large("a"), missing=["pods"])


def test_the_log_s_words_count_where_nothing_else_was_said(tmp_path: Path) -> None:
    stamp = "I1121 04:59:{:02}.000000       1 score.go:275] "
    lines = [
        f'{stamp.format(1)}"Starting schedule filter process" pod="wl" uuid="uid-wl" namespace="ml"',
        f'{stamp.format(2)}"NodeUnfitPod" pod="ml/wl" node="gpu-1" reason="1/1 CardInsufficientMemory"',
        f'{stamp.format(3)}"NodeUnfitPod" pod="ml/wl-2" node="gpu-1" reason="1/1 CardTypeMismatch"',
    ]
    report = ask(tmp_path, *full(), pod("wl", gpu(memory=15000)), logs="\n".join(lines))
    assert cause(report).confidence == "confirmed"
    assert any(proof.source == "scheduler log" and '"ml/wl"' in proof.quote for proof in cause(report).evidence)


async def test_where_only_one_namespace_may_be_read_the_answer_says_so(tmp_path: Path) -> None:
    refused_everywhere = Fault(r"/api/v1/pods(\?|$)", "status", status=403)
    pods = [too_large("mine"), too_large("theirs", namespace="dev")]
    recording = record(tmp_path, cluster(*full(), *pods))
    report = await answer_live("pending", recording, tmp_path, refused_everywhere, namespace="ml")
    assert names(report) == ["mine"]
    assert report.subject.namespace == "ml"
    gap = next(gap for gap in report.gaps if gap.source == "pods of all namespaces")
    assert "403" in gap.why
    assert "only namespace ml was searched" in in_english(gap.advice)


def test_where_nothing_says_whose_pods_are_mine_they_are_everybodys_and_the_answer_says_so(tmp_path: Path) -> None:
    report = ask(tmp_path, *full(), too_large("a"), mine=True)
    assert names(report) == ["a"]
    assert "your pods (set mine)" in [gap.source for gap in report.gaps]


def judge_of(tmp_path: Path, *objects: Object, **room: int) -> tuple[Judge, list[Pod]]:
    """A judge with room for so much (`most_verdicts`, `most_runs`), and the pods that wait."""
    playbook = find("pending")
    sources = Sources(RecordedCluster.open(record(tmp_path, cluster(*objects))))
    seen = asyncio.run(playbook.gather(playbook.request(), sources)).scene
    scene = ClusterScene(seen.install, seen.cluster.capacity, seen.cluster.now)
    return Judge(scene, **room), seen.waiting.pods


def test_pods_that_are_alike_take_the_room_of_one(tmp_path: Path) -> None:
    alike = [too_large(f"p{number}", age=900 - number) for number in range(5)]
    other = too_large("other", 14000, age=10)
    judge, pods = judge_of(tmp_path, *full(), *alike, other, most_verdicts=1)
    judged = [judge.cause(pod) for pod in pods]
    assert [cause.code if cause else None for cause in judged] == ["card-insufficient-memory"] * 5 + [None]
    assert len({id(cause) for cause in judged[:5]}) == 1


@pytest.mark.parametrize(
    "different",
    [
        {"limits": gpu(memory=14000)},
        {"nodeSelector": {"gpu": "on"}},
        {"annotations": {"nvidia.com/use-gputype": "T4"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"schedulerName": "hami-schedulr"},
        {"schedulingGates": [{"name": "later"}]},
        {"labels": {"hami.io/webhook": "ignore"}},
        {"annotations": given("gpu-1", ("GPU-gpu-1", 1, 0))},
    ],
    ids=lambda different: next(iter(different)),
)
def test_pods_that_differ_in_what_decides_are_not_alike(tmp_path: Path, different: Any) -> None:
    fields = {"limits": gpu(memory=15000), "said": FULL} | different
    judge, pods = judge_of(tmp_path, *full(), too_large("a", age=900), pod("b", age=10, **fields), most_verdicts=1)
    first, second = (judge.cause(pod) for pod in pods)
    assert first is not None
    assert second is None


def test_requests_that_cost_too_many_runs_of_the_filter_are_left_and_told(tmp_path: Path) -> None:
    pods = [too_large(f"p{number}", 15000 + number, age=900 - number) for number in range(3)]
    judge, waiting = judge_of(tmp_path, *full(), *pods, most_runs=1)
    judged = [judge.cause(pod) for pod in waiting]
    assert [cause.code if cause else None for cause in judged] == ["card-insufficient-memory", None, None]


def test_namespaces_with_room_for_the_request_share_what_was_worked_out(tmp_path: Path) -> None:
    """Hundreds of quotas of different sizes cost no more runs of the filter than one."""
    names = [f"team-{number}" for number in range(20)]
    pods = [too_large("p", age=900 - number, namespace=name) for number, name in enumerate(names)]
    quotas = [quota(namespace=name, gpumem=100_000 + number) for number, name in enumerate(names)]
    judge, waiting = judge_of(tmp_path, *full(), *pods, *quotas, most_runs=10)
    judged = [judge.cause(pod) for pod in waiting]
    assert [cause.code if cause else None for cause in judged] == ["card-insufficient-memory"] * 20
