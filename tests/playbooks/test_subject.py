"""Whom a question is about: names as people type them, what is found for them, and what is said when nothing is."""

import asyncio
from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.report import Subject
from bot.texts import in_english
from playbooks.gather.subject import parse_subject
from playbooks.why.playbook import OwnedRow
from sandbox.apiserver import Fault
from tests.playbooks.world import (
    Object,
    ago,
    answer,
    answer_live,
    ask,
    cause,
    cluster,
    codes,
    commands,
    gpu,
    gpu_node,
    owner,
    pod,
    quotes,
    record,
    running,
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("trainer-0", Subject("Pod", "", "trainer-0")),
        ("  trainer-0 ", Subject("Pod", "", "trainer-0")),
        ("ml/trainer-0", Subject("Pod", "ml", "trainer-0")),
        ("pod/trainer-0", Subject("Pod", "", "trainer-0")),
        ("deploy/trainer", Subject("Deployment", "", "trainer")),
        ("ml/deploy/trainer", Subject("Deployment", "ml", "trainer")),
        ("StatefulSet/db", Subject("StatefulSet", "", "db")),
        ("job/train", Subject("Job", "", "train")),
        ("ds/agent", Subject("DaemonSet", "", "agent")),
        ("rs/trainer-6d5f", Subject("ReplicaSet", "", "trainer-6d5f")),
    ],
)
def test_a_subject_is_understood_as_people_type_it(typed: str, meant: Subject) -> None:
    assert parse_subject(typed) == meant


def test_a_namespace_given_apart_is_the_subject_s() -> None:
    assert parse_subject("deploy/trainer", "ml") == Subject("Deployment", "ml", "trainer")
    assert parse_subject("ml/trainer-0", "ml") == Subject("Pod", "ml", "trainer-0")


def test_two_namespaces_that_differ_are_refused() -> None:
    with pytest.raises(UsageError, match="another namespace"):
        parse_subject("ml/trainer-0", "dev")


@pytest.mark.parametrize(
    "typed", ["", "/", "a/b/c/d", "ml/", "Train_er", "-x", "a b", "x" * 300, "$(reboot)", "svc/x/y"]
)
def test_what_is_no_name_is_refused_with_an_example(typed: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_subject(typed)
    assert len(in_english(refused.value.message)) < 200


def test_a_name_without_a_namespace_is_found_where_it_is(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(running("trainer-0", "gpu-1", namespace="team-a")), "trainer-0")
    assert (report.subject.namespace, report.subject.name) == ("team-a", "trainer-0")


def test_a_name_in_several_namespaces_is_asked_back(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod("trainer-0"), pod("trainer-0", namespace="dev")), "trainer-0")
    assert (codes(report), report.severity) == (["not-found"], "info")
    assert report.verdict == "2 pods are called trainer-0: dev/trainer-0, ml/trainer-0. Which one?"
    assert commands(report) == ["why dev/trainer-0", "why ml/trainer-0"]


def test_the_part_that_a_generated_name_begins_with_is_enough_and_told_to_be_one(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(running("trainer-0", "gpu-1"), running("web-1", "gpu-1")), "trainer")
    assert report.subject.name == "trainer-0"
    assert (report.findings[-1].code, report.severity) == ("not-found", report.findings[0].severity)
    assert "taken for ml/trainer-0" in report.findings[-1].claim
    assert not [gap for gap in report.gaps if "trainer" in gap.source]


@pytest.mark.parametrize("typed", ["ml/trainer-1", "ml/train", "trainer-1"])
def test_a_pod_whose_name_only_goes_on_where_what_was_typed_ends_is_another_one(tmp_path: Path, typed: str) -> None:
    report = ask(tmp_path, cluster(running("trainer-10", "gpu-1")), typed)
    assert codes(report) == ["not-found"]
    assert commands(report) == ["why ml/trainer-10"]


def test_the_log_of_a_pod_that_is_gone_is_not_that_of_another_whose_name_begins_with_its_own(tmp_path: Path) -> None:
    path = record(tmp_path, cluster(running("trainer-10", "gpu-1"), running("trainer-1-x", "gpu-1")))
    report = answer("logs", path, {}, pod="ml/trainer-1")
    assert (report.subject.name, codes(report)[0]) == ("trainer-1", "not-found")
    assert commands(report)[:2] == ["logs ml/trainer-1-x", "logs ml/trainer-10"]


def test_a_prefix_of_several_pods_asks_which(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod("trainer-0"), pod("trainer-1")), "ml/trainer")
    assert (codes(report), report.severity) == (["not-found"], "info")
    assert report.verdict == "The names of 2 pods begin with trainer: ml/trainer-0, ml/trainer-1. Which one?"
    assert commands(report) == ["why ml/trainer-0", "why ml/trainer-1"]


def test_a_misspelt_name_offers_the_near_one(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod("trainer-0")), "ml/trianer-0")
    assert "did you mean ml/trainer-0" in report.verdict
    assert (report.severity, cause(report).confidence) == ("warning", "confirmed")


def test_a_misspelt_owner_offers_the_near_one(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(owner("Deployment", "trainer")), "deploy/trianer")
    assert commands(report) == ["why ml/deployment/trainer"]


def test_a_name_that_nothing_is_near_is_simply_not_there(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod("trainer-0")), "ml/qqq")
    assert codes(report) == ["not-found"]
    assert report.verdict.startswith('pods "qqq" not found')
    assert commands(report) == ["pending -n ml", "kubectl -n ml get deployments,statefulsets,daemonsets,jobs"]


def test_a_deployment_that_wants_no_pods_says_so(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(owner("Deployment", "trainer", wants=0)), "deploy/trainer")
    assert report.verdict == 'deployments "trainer" has no pod, and wants 0 replicas.'


def suspended(**labels: str) -> Object:
    one = owner("Job", "train")
    one["metadata"]["labels"] = labels
    return one | {"spec": {"suspend": True}, "status": {}}


def test_a_job_that_is_suspended_says_so(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(suspended()), "job/train")
    assert report.verdict == "Job ml/train has no pod, because it is suspended (spec.suspend is true)."
    assert commands(report) == ["kubectl -n ml describe job train"]


def queued(name: str, age: int, owner: str, priority: int = 0, **condition: str) -> Object:
    """Kueue's Workload of what has that uid."""
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "creationTimestamp": ago(age)}
    metadata |= {"ownerReferences": [{"kind": "Job", "name": "x", "uid": owner}]}
    conditions = [{"type": "QuotaReserved", "status": "False", **condition}]
    spec = {"queueName": "gpu-queue", "priority": priority}
    return {"kind": "Workload", "metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


SAID = {"reason": "WaitingForQuota", "message": "couldn't assign flavors: insufficient unused quota for nvidia.com/gpu"}


def test_what_kueue_holds_is_told_with_its_place_and_kueue_s_own_words(tmp_path: Path) -> None:
    job = suspended(**{"kueue.x-k8s.io/queue-name": "gpu-queue"})
    gated = pod("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    done = queued("done", 900, "another") | {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}
    line = [queued("a", 500, job["metadata"]["uid"], **SAID), queued("b", 600, "uid-gated", **SAID), done]
    objects = cluster(gpu_node("gpu-1"), job, gated, *line, queued("c", 100, "third", priority=9))
    assert ask(tmp_path, objects, "job/train").verdict == (
        "Job ml/train has no pod, because it is suspended: it waits in Kueue's queue gpu-queue."
        " It is number 3 of 3 that wait in queue gpu-queue."
    )
    claims = [cause(ask(tmp_path, objects, typed)).claim for typed in ("job/train", "ml/gated")]
    assert ["number 3 of 3 that wait in queue gpu-queue" in claims[0], "number 2 of 3" in claims[1]] == [True, True]
    assert all("Kueue says WaitingForQuota: couldn't assign flavors" in claim for claim in claims)


def test_a_job_that_kueue_holds_names_the_queue(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(suspended(**{"kueue.x-k8s.io/queue-name": "gpu-queue"})), "job/train")
    assert report.verdict == "Job ml/train has no pod, because it is suspended: it waits in Kueue's queue gpu-queue."
    assert quotes(report) == ["true", "gpu-queue"]


def test_an_owner_in_several_namespaces_is_asked_back_by_kind(tmp_path: Path) -> None:
    objects = cluster(owner("Job", "train"), owner("Job", "train", namespace="dev"))
    assert commands(ask(tmp_path, objects, "job/train")) == ["why dev/job/train", "why ml/job/train"]


# ------------------------------------------------------------------------------------ which pod of an owner


def deployment(*states: Object) -> list[Object]:
    """A Deployment, its ReplicaSet, and these as its pods."""
    top = owner("Deployment", "trainer", wants=len(states), has=len(states))
    middle = owner("ReplicaSet", "trainer-6d5f", of=top, wants=len(states), has=len(states))
    refers = [{"kind": "ReplicaSet", "name": "trainer-6d5f", "uid": middle["metadata"]["uid"], "controller": True}]
    for state in states:
        state["metadata"]["ownerReferences"] = refers
    return [top, middle, *states]


def crashing(name: str) -> Object:
    one = running(name, "gpu-1")
    one["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    return one


def failed(name: str, **fields: object) -> Object:
    one = pod(name, nodeName="gpu-1", **fields)
    one["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    return one


def test_of_a_deployment_the_pod_that_waits_for_a_node_is_explained(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), *deployment(running("t-a", "gpu-1"), crashing("t-b"), pod("t-c"), failed("t-d")))
    assert ask(tmp_path, objects, "deploy/trainer").subject.name == "t-c"


def test_of_a_deployment_a_crashing_pod_comes_before_a_failed_one_and_those_before_healthy_ones(tmp_path: Path) -> None:
    objects = cluster(*deployment(running("t-a", "gpu-1"), failed("t-d"), crashing("t-b")))
    assert ask(tmp_path, objects, "deploy/trainer").subject.name == "t-b"


def test_of_a_deployment_a_pod_that_is_going_away_is_the_last_choice(tmp_path: Path) -> None:
    leaving = pod("t-a", deleted=ago(5), age=900)
    objects = cluster(*deployment(leaving, running("t-b", "gpu-1")))
    assert codes(ask(tmp_path, objects, "deploy/trainer")) == ["running"]


def test_of_several_waiting_pods_the_oldest_is_explained(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), *deployment(pod("t-a", age=10), pod("t-b", age=500), pod("t-c", age=100)))
    assert ask(tmp_path, objects, "deploy/trainer").subject.name == "t-b"


def test_a_statefulset_s_own_pods_are_found(tmp_path: Path) -> None:
    top = owner("StatefulSet", "db", has=1)
    report = ask(tmp_path, cluster(top, running("db-0", "gpu-1", owner=top)), "sts/db")
    assert (codes(report), report.subject.name) == (["running"], "db-0")


def test_another_owner_s_pods_with_a_like_name_are_not_taken(tmp_path: Path) -> None:
    other = owner("ReplicaSet", "trainer-extra-1")
    objects = cluster(*deployment(running("t-a", "gpu-1")), pod("trainer-extra-1-x", owner=other))
    assert ask(tmp_path, objects, "deploy/trainer").subject.name == "t-a"


def test_a_pod_that_cannot_be_read_is_a_gap_and_not_an_absence(tmp_path: Path) -> None:
    broken = pod("wl", limits=gpu())
    broken["metadata"]["annotations"] = {"a": ["not text"]}
    report = ask(tmp_path, cluster(broken))
    assert codes(report) == ["not-enough-evidence"]
    assert [gap.source for gap in report.gaps] == ["pod"]
    assert cause(report).confidence == "suspected"
    assert quotes(report) == []


@pytest.mark.parametrize("name", ["wl", "nobody"])
async def test_where_only_one_namespace_may_be_searched_the_answer_says_so(tmp_path: Path, name: str) -> None:
    recording = record(tmp_path, cluster(gpu_node(), pod("wl"), pod("nobody", namespace="dev")))
    refused = Fault(r"/api/v1/pods(\?|$)", "status", status=403)
    report = await answer_live("why", recording, tmp_path, refused, namespace="ml", pod=name)
    gap = next(gap for gap in report.gaps if gap.source == "pods of all namespaces")
    assert "403" in gap.why
    assert "only namespace ml was searched" in in_english(gap.advice)
    if name == "nobody":
        assert (cause(report).code, cause(report).confidence) == ("not-found", "suspected")


@pytest.mark.parametrize("verb", ["why", "logs"])
def test_a_live_cluster_and_a_recording_say_in_the_same_words_that_there_is_no_such_pod(
    tmp_path: Path, verb: str
) -> None:
    recording = record(tmp_path, cluster(gpu_node()))
    live = asyncio.run(answer_live(verb, recording, tmp_path, pod="ml/nosuch"))
    assert live.verdict == answer(verb, recording, {}, pod="ml/nosuch").verdict


def made_for(kind: str, name: str) -> Object:
    return {"kind": kind, "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{kind}-{name}"}}


@pytest.mark.parametrize(
    ("typed", "between", "of_pod", "labels"),
    [
        ("pytorchjob/pt", [], made_for("PyTorchJob", "pt"), {"training.kubeflow.org/replica-type": "worker"}),
        ("ml/pytorchjobs.kubeflow.org/pt", [], made_for("PyTorchJob", "pt"), {}),
        ("tfjob/pt", [], made_for("TFJob", "pt"), {}),
        ("mpijob/pt", [("Job", "pt-launcher", made_for("MPIJob", "pt"))], made_for("Job", "pt-launcher"), {}),
        ("vcjob/pt", [], made_for("Job", "pt"), {"volcano.sh/task-spec": "worker"}),
        ("cronjob/pt", [("Job", "pt-1", made_for("CronJob", "pt"))], made_for("Job", "pt-1"), {}),
        ("jobset/pt", [("Job", "pt-w-0", made_for("JobSet", "pt"))], made_for("Job", "pt-w-0"), {}),
        ("lws/pt", [("StatefulSet", "pt", made_for("LeaderWorkerSet", "pt"))], made_for("StatefulSet", "pt"), {}),
        ("rayjob/pt", [], made_for("RayCluster", "pt-raycluster-x"), {"ray.io/originated-from-cr-name": "pt"}),
        ("raycluster/pt", [], made_for("RayCluster", "pt"), {"ray.io/group": "gpu"}),
        ("isvc/pt", [], made_for("ReplicaSet", "pt-predictor-1"), {"serving.kserve.io/inferenceservice": "pt"}),
        ("workflow/pt", [], made_for("Workflow", "pt"), {}),
        ("notebook/pt", [], made_for("StatefulSet", "pt"), {"notebook-name": "pt"}),
        ("rollout/pt", [("ReplicaSet", "pt-1", made_for("Rollout", "pt"))], made_for("ReplicaSet", "pt-1"), {}),
    ],
)
def test_what_operators_make_pods_for_is_asked_about_by_its_kind(
    tmp_path: Path, typed: str, between: list[tuple[str, str, Object]], of_pod: Object, labels: dict[str, str]
) -> None:
    middle = [made_for(kind, name) | {"spec": {"template": {"spec": {}}}} for kind, name, _ in between]
    for thing, (_, _, of) in zip(middle, between, strict=True):
        thing["metadata"]["ownerReferences"] = [{"kind": of["kind"], "name": of["metadata"]["name"], "uid": "u"}]
    waiting = pod("pt-0", owner=of_pod, labels=labels)
    others = [running("pt-1", "gpu-1", owner=of_pod), running("web-1", "gpu-1")]
    others[0]["metadata"]["labels"] |= labels
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), *middle, waiting, *others), typed)
    (row,) = report.typed(OwnedRow)
    assert (report.subject.name, row.pods, row.waiting, row.gpus_each) == ("pt-0", 2, 1, 1)
    assert any("has 2 pods; ml/pt-0" in gap.why for gap in report.gaps)


def test_an_owner_of_which_no_pod_is_there_says_so(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), running("web-1", "gpu-1")), "ml/pytorchjob/pt")
    assert report.verdict.startswith('no pod of PyTorchJob "pt" was found')
