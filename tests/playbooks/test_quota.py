"""`quota`: what HAMi counts, what Kubernetes shows, which limit holds nobody; every planted fault found, no other."""

from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.report import Report
from playbooks.own.discovery import find
from tests import cases_support
from tests.playbooks.tables import table
from tests.playbooks.world import (
    NAMESPACE,
    Object,
    answer,
    card,
    cause,
    cluster,
    codes,
    commands,
    event,
    gpu,
    gpu_node,
    none_of,
    owner,
    pod,
    quotes,
    record,
    refused,
    running,
    scheduler,
)


def ask(tmp_path: Path, objects: list[Object], namespace: str = "", **recorded: object) -> Report:
    return answer("quota", record(tmp_path, objects, **recorded), {}, namespace=namespace)


def rows(report: Report) -> dict[tuple[str, str], dict[str, str]]:
    listed = table(report, "quota")
    return {(row["namespace"], row["resource"].removeprefix("nvidia.com/")): row for row in listed}


def quota(
    hard: Object, used: Object | None = None, name: str = "cards", namespace: str = NAMESPACE, **spec: object
) -> Object:
    """A ResourceQuota; keys are in full, or short under nvidia.com/: `limits/gpumem`. `used`: what its status shows."""

    def amounts(short: Object) -> Object:
        return {key if "." in key else key.replace("/", ".nvidia.com/"): str(value) for key, value in short.items()}

    shown = {"hard": amounts(hard)} | ({"used": amounts(used)} if used is not None else {})
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": amounts(hard)} | spec, "status": shown}


def holds(name: str, *memories: int, limits: Object | None = None, **fields: object) -> Object:
    """A running pod that HAMi gave so much of as many cards."""
    shares = [(f"GPU-{number}", memory, 0) for number, memory in enumerate(memories)]
    asked = gpu(len(memories), memory=memories[0]) if limits is None else limits
    return running(name, "gpu-1", *shares, limits=asked, **fields)


NODE = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"))


# ----------------------------------------------------------------------------------------------- what is counted


def test_every_card_counts_with_what_was_given_of_it(tmp_path: Path) -> None:
    pods = [holds("pair", 3000, 3000), holds("one", 500), holds("over-there", 9999, namespace="dev")]
    report = ask(tmp_path, cluster(NODE, quota({"limits/gpumem": 20000}), *pods), "ml")
    row = rows(report)["ml", "gpumem"]
    columns = "HAMi limit", "HAMi counts", "HAMi %", "pods ask for"
    assert [row[column] for column in columns] == ["20000", "6500", "32%", "3500"]
    assert row["most used by"] == "pair 6,000, one 500"
    assert codes(report) == ["quota", "quota-differs"]
    assert report.verdict.startswith("1 namespace has a quota on HAMi's resources, the fullest is ml at 32%")
    assert commands(ask(tmp_path, cluster(NODE, quota({"limits/gpumem": 20000}), *pods))) == ["quota ml"]


def test_finished_pods_count_nowhere(tmp_path: Path) -> None:
    done = holds("done", 9000)
    done["status"]["phase"] = "Succeeded"
    row = rows(ask(tmp_path, cluster(NODE, quota({"limits/gpumem": 10000}), done)))["ml", "gpumem"]
    assert (row["HAMi counts"], row["pods ask for"]) == ("0", "0")


def test_kubernetes_counts_what_is_written_and_the_difference_is_explained_pod_by_pod(tmp_path: Path) -> None:
    pods = [
        holds("pair", 3000, 3000),
        holds("half", 8192, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}),
        pod("waiting", gpu(memory=700)),
        holds("alike", 100),
    ]
    own = quota({"requests/gpumem": 20000}, {"requests/gpumem": 3800})
    report = ask(tmp_path, cluster(NODE, own, *pods))
    assert codes(report) == ["quota", "quota-differs"]
    assert report.findings[1].claim == (
        "HAMi counts 14,292 of nvidia.com/gpumem in ml, Kubernetes counts 3,800: "
        "1 pod with several GPUs, which HAMi multiplies (+3,000); "
        "1 pod that names no amount: HAMi counts what it got (+8,192); "
        "1 pod without GPUs yet, which only Kubernetes counts (-700)."
    )
    row = rows(report)["ml", "gpumem"]
    assert (row["Kubernetes limit"], row["Kubernetes counts"], row["HAMi limit"]) == ("20000", "3800", "none")


def test_a_difference_that_no_pod_explains_is_told_as_one(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, quota({"requests/gpumem": 20000}, {"requests/gpumem": 0}), holds("one", 500)))
    assert report.findings[1].claim.endswith("counts 0: no pod explains the difference; one of the counts may be late.")


def test_that_kubernetes_shows_no_use_of_a_limits_key_is_told(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, quota({"limits/gpumem": "10k"}, {}), holds("one", 500)))
    assert codes(report) == ["quota", "quota-differs"]
    assert "Only HAMi counts this use: 500 of 10k" in report.findings[1].claim


def test_a_memory_factor_scales_the_limit(tmp_path: Path) -> None:
    objects = [*scheduler(config="nvidia: {memoryFactor: 10}\n"), NODE, quota({"limits/gpumem": 1000}), holds("a", 500)]
    assert rows(ask(tmp_path, objects))["ml", "gpumem"]["HAMi limit"] == "10000"


def test_namespaces_without_a_quota_come_last_and_are_said_to_have_none(tmp_path: Path) -> None:
    objects = cluster(NODE, quota({"limits/gpumem": 1000}), holds("a", 500, namespace="dev"))
    report = ask(tmp_path, objects)
    assert [key for key in rows(report) if key[1] == "gpumem"] == [("ml", "gpumem"), ("dev", "gpumem")]
    assert rows(report)["dev", "gpumem"]["HAMi limit"] == "none"
    assert "1 more uses GPUs without one" in report.verdict
    alone = ask(tmp_path, objects, "dev")
    assert alone.verdict == "dev has no quota on HAMi's resources; its pods hold 500 MiB of GPU memory."


def test_a_cluster_without_quotas_on_hamis_resources_is_told_as_that(tmp_path: Path) -> None:
    other = quota({}) | {"spec": {"hard": {"requests.cpu": "4", "pods": "10", "limits.memory": "1Gi"}}}
    report = ask(tmp_path, cluster(NODE, other, holds("a", 500)))
    assert (codes(report), report.severity) == (["quota"], "info")
    assert report.verdict.startswith("No namespace has a quota on HAMi's resources; 1 of them holds 500 MiB")


def test_a_namespace_without_cards_and_quotas_is_no_warning(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, pod("web", {"cpu": "1"}, namespace="web")), "web")
    assert (codes(report), report.severity) == (["not-found"], "info")
    assert report.verdict == "web has no quota on HAMi's resources, and no pod there holds a GPU."


# ------------------------------------------------------------------------------------------------------ problems


@pytest.mark.parametrize(
    ("used", "code"), [(899, "quota"), (900, "quota-near-limit"), (1000, "quota-near-limit"), (1001, "quota-exceeded")]
)
def test_from_nine_tenths_on_a_quota_is_nearly_used_up_and_above_it_is_exceeded(
    tmp_path: Path, used: int, code: str
) -> None:
    report = ask(tmp_path, cluster(NODE, quota({"limits/gpumem": 1000}), holds("big", used), holds("small", 0)))
    assert codes(report)[0] == code
    if code != "quota":
        assert f"HAMi counts {used:,} against a limits.nvidia.com/gpumem of 1,000" in report.verdict
        assert "1000" in quotes(report)
        assert "big" in commands(report)[0]


def test_kubernetes_own_limit_may_be_the_full_one(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, quota({"requests/gpu": 4}, {"requests/gpu": 4})))
    assert codes(report) == ["quota-near-limit"]
    assert "Kubernetes counts 4 against a requests.nvidia.com/gpu of 4" in report.verdict


@pytest.mark.parametrize(
    ("hard", "told"),
    [
        ({"limits/gpu": 2}, "limits nothing"),
        ({"limits/gpumem-percentage": 2}, "limits nothing"),
        ({"limits/gpumem": "1500m"}, "1500m: HAMi reads only whole numbers"),
    ],
)
def test_a_limit_that_neither_reads_limits_nothing(tmp_path: Path, hard: Object, told: str) -> None:
    report = ask(tmp_path, cluster(NODE, quota(hard)))
    assert (codes(report), report.severity) == (["quota-not-enforced"], "warning")
    assert told in report.verdict


def test_before_2_7_hami_holds_nobody_against_a_quota(tmp_path: Path) -> None:
    objects = cluster(NODE, quota({"limits/gpumem": 1000}), holds("a", 5000), version="2.6.1")
    report = ask(tmp_path, objects)
    assert codes(report) == ["quota-not-enforced"]
    assert "HAMi 2.6.1 does not support quotas" in report.verdict
    memory = rows(report)["ml", "gpumem"]
    assert (memory["HAMi limit"], memory["HAMi counts"], memory["HAMi %"]) == ("none", "5000", "")
    assert commands(report) == ["status"]


def test_a_limit_of_zero_is_none_before_2_10_and_refuses_everybody_since(tmp_path: Path) -> None:
    for version, code in (("2.9.0", "quota-not-enforced"), ("2.10.0", "quota-near-limit")):
        report = ask(tmp_path / version, cluster(NODE, quota({"limits/gpumem": 0}), version=version))
        assert codes(report)[0] == code


# ------------------------------------------------------------------------------------------------ who is kept out

FULL = quota({"limits/gpumem": 9000})
HELD = holds("big", 8000)


def kept_out(report: Report) -> list[str]:
    return [row["pod"] for row in table(report, "waiting for a quota")]


def test_the_pods_that_a_quota_keeps_out_are_named_before_all_else(tmp_path: Path) -> None:
    waiting = [pod("later", gpu(memory=4000), age=60), pod("first", gpu(memory=2000), age=600)]
    report = ask(tmp_path, cluster(NODE, FULL, HELD, *waiting))
    assert codes(report)[0] == "resource-quota-not-fit"
    assert report.verdict == (
        "The quota of ml keeps 2 pods pending (8,000 of 9,000 nvidia.com/gpumem used, the oldest requests 2,000): "
        "first, later."
    )
    assert kept_out(report) == ["first", "later"]
    assert commands(report)[0] == "why ml/first"
    assert "9000" in quotes(report)


def test_a_pod_that_is_kept_out_may_ask_for_less_or_the_quota_be_raised(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, FULL, HELD, pod("only", gpu(memory=2000))))
    look, smaller, more = cause(report).next_actions
    assert look.command == "why ml/only"
    assert "Request at most 1,000 MiB per GPU" in smaller.label
    assert more.label == "Raise limits.nvidia.com/gpumem of quota ml/cards to 10,000, which only needs"
    assert more.command == (
        "kubectl -n ml patch resourcequota cards --type merge -p "
        """'{"spec":{"hard":{"limits.nvidia.com/gpumem":"10000"}}}'"""
    )
    assert more.changes_cluster


def test_of_two_quotas_with_one_key_none_is_said_to_be_the_one_to_raise(tmp_path: Path) -> None:
    other = quota({"limits/gpumem": 9500}, name="other")
    report = ask(tmp_path, cluster(NODE, FULL, other, HELD, pod("only", gpu(memory=2000))))
    assert not any(action.label.startswith("Raise") for action in cause(report).next_actions)


@pytest.mark.parametrize(
    ("limit", "asked", "told"),
    [
        ({"limits/gpumem": 9000}, gpu(memory=2000), "8,000 of 9,000 nvidia.com/gpumem used, 2,000 requested."),
        ({"limits/gpucores": 50}, gpu(memory=1000, cores=60), "0 of 50 nvidia.com/gpucores used, 60 requested."),
        (
            {"limits/gpumem": 9000},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"},
            "8,000 of 9,000 nvidia.com/gpumem used, a share of a GPU requested.",
        ),
    ],
    ids=["memory", "cores", "a share of a card by what it comes to"],
)
def test_a_quota_on_memory_or_cores_keeps_a_pod_out(tmp_path: Path, limit: Object, asked: Object, told: str) -> None:
    report = ask(tmp_path, cluster(NODE, quota(limit), HELD, pod("only", asked)), "ml")
    assert report.verdict == f"The quota of ml keeps only pending: {told}"


def test_a_pod_that_has_room_or_would_not_run_without_the_quota_either_does_not_wait_for_it(tmp_path: Path) -> None:
    wrong = pod("h100", gpu(memory=2000), annotations={"nvidia.com/use-gputype": "H100"})
    elsewhere = pod("default", gpu(memory=2000), schedulerName="default-scheduler")
    gated = pod("gated", gpu(memory=2000), schedulingGates=[{"name": "example.com/wait"}])
    room = [pod("fits", gpu(memory=1000)), pod("free", gpu(memory=5000), namespace="dev"), pod("web", {"cpu": "1"})]
    report = ask(tmp_path, cluster(NODE, FULL, HELD, wrong, elsewhere, gated, *room))
    assert kept_out(report) == []
    assert "resource-quota-not-fit" not in codes(report)


def test_what_quota_says_of_a_pod_pending_says_too(tmp_path: Path) -> None:
    objects = cluster(NODE, FULL, HELD, pod("only", gpu(memory=2000)))
    mine, theirs = ask(tmp_path / "a", objects), answer("pending", record(tmp_path / "b", objects), {})
    for told in ("code", "scope", "evidence", "confidence"):
        assert getattr(cause(mine), told) == getattr(cause(theirs), told)


def test_of_many_namespaces_the_waiting_pods_are_named_though_the_others_are_not_read(tmp_path: Path) -> None:
    others = [quota({"limits/gpumem": 9000}, namespace=f"team-{number}") for number in range(20)]
    report = ask(tmp_path, cluster(NODE, FULL, HELD, *others, pod("only", gpu(memory=2000))))
    assert kept_out(report) == ["only"]
    assert rows(report)["ml", "gpumem"]["pods ask for"] == ""
    (gap,) = [gap for gap in report.gaps if gap.source == "pods"]
    assert gap.why == (
        "21 namespaces with a quota have too many pods: the bot read what HAMi counts, not what the pods request"
    )


def test_without_the_nodes_hamis_own_words_say_who_is_kept_out(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 1/1 ResourceQuotaNotFit"))
    objects = cluster(NODE, FULL, HELD, pod("only", gpu(memory=2000), said=said))
    report = ask(tmp_path, objects, missing=["nodes"])
    assert kept_out(report) == ["only"]
    assert "nodes" in [gap.source for gap in report.gaps]


# --------------------------------------------------------------------------------- who is refused when created

BY_HAMI = 'Error creating: admission webhook "vgpu.hami.io" denied the request: exceeding resource quota'
BY_KUBERNETES = 'Error creating: pods "x" is forbidden: exceeded quota: cards, requested: requests.nvidia.com/gpu=1'
USED = ", used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4"


def test_controllers_that_the_webhook_refuses_are_named(tmp_path: Path) -> None:
    job, web = owner("Job", "train"), owner("ReplicaSet", "web-6d5f7c9b8")
    refusals = [event(job, "FailedCreate", BY_HAMI, 40), event(web, "FailedCreate", BY_HAMI, 90)]
    report = ask(tmp_path, cluster(NODE, FULL, HELD, job, web, *refusals))
    assert codes(report)[0] == "admission-denied"
    assert report.verdict == (
        "HAMi refuses new pods of Job train, ReplicaSet web-6d5f7c9b8: "
        "the quota of ml has no room for them; last at 2026-11-21T04:59:20Z."
    )
    assert commands(report)[0] == "why job/train -n ml"
    assert quotes(report)[:3] == [BY_HAMI, BY_HAMI, "9000"]


def test_kubernetes_own_quota_is_told_apart(tmp_path: Path) -> None:
    own, job = quota({"requests/gpu": 4}, {"requests/gpu": 4}), owner("Job", "train")
    report = ask(tmp_path, cluster(NODE, own, job, event(job, "FailedCreate", BY_KUBERNETES + USED)))
    assert codes(report)[0] == "admission-denied"
    assert report.verdict.startswith("Kubernetes refuses new pods of Job train: the quota of ml has no room")


def test_both_limits_that_the_webhook_may_have_meant_are_quoted(tmp_path: Path) -> None:
    both, job = quota({"limits/gpucores": 100, "limits/gpumem": 9000}), owner("Job", "train")
    report = ask(tmp_path, cluster(NODE, both, HELD, job, event(job, "FailedCreate", BY_HAMI, 40)))
    assert [proof.quote for proof in report.findings[0].evidence] == [BY_HAMI, "100", "9000"]


def test_the_newest_refusal_is_quoted_first_however_many_controllers_there_are(tmp_path: Path) -> None:
    jobs = [owner("Job", f"train-{at}") for at in range(4)]
    first = event(jobs[0], "FailedCreate", f"{BY_HAMI} ", 900)
    others = [event(job, "FailedCreate", BY_HAMI, 500 - at) for at, job in enumerate(jobs[1:])]
    last = event(jobs[0], "FailedCreate", f"{BY_HAMI} again", 10)
    report = ask(tmp_path, cluster(NODE, FULL, HELD, *jobs, first, *others, last))
    assert quotes(report)[0] == f"{BY_HAMI} again"


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        (BY_HAMI, 3600),
        (BY_HAMI.replace("exceeding resource quota", "pod has node assigned"), 30),
        (BY_KUBERNETES.replace("cards", "others"), 30),
        (BY_KUBERNETES.replace("nvidia.com/gpu", "cpu"), 30),
        (BY_KUBERNETES + USED, 30),
    ],
    ids=["long ago", "for another reason", "by another quota", "for another resource", "by a limit raised since"],
)
def test_refusals_that_are_over_or_have_another_reason_are_no_matter_of_the_quota(
    tmp_path: Path, message: str, seconds: float
) -> None:
    job, own = owner("Job", "train"), quota({"limits/gpumem": 9000, "requests/gpu": 8}, {"requests/gpu": 4})
    report = ask(tmp_path, cluster(NODE, own, job, event(job, "FailedCreate", message, seconds)))
    assert "admission-denied" not in codes(report)


@pytest.mark.parametrize(("missing", "gap"), [("pods", "pods that wait"), ("events", "events")])
def test_who_is_kept_out_or_refused_is_a_gap_where_that_could_not_be_read(
    tmp_path: Path, missing: str, gap: str
) -> None:
    report = ask(tmp_path, cluster(NODE, FULL, HELD, pod("only", gpu(memory=2000))), missing=[missing])
    assert kept_out(report) == ([] if missing == "pods" else ["only"])
    assert gap in [found.source for found in report.gaps]


def test_without_the_quotas_nothing_is_claimed(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, holds("a", 500)), missing=["resourcequotas"])
    assert codes(report) == ["not-enough-evidence"]
    assert "resource quotas" in [gap.source for gap in report.gaps]


def test_without_the_holders_only_limits_are_told(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, quota({"limits/gpumem": 1000})), missing=["pods"])
    assert (codes(report), cause(report).confidence) == (["quota"], "suspected")
    assert rows(report)["ml", "gpumem"]["HAMi counts"] == "?"


def test_without_quotas_or_holders_no_amount_is_claimed(tmp_path: Path) -> None:
    report = cases_support.ask(record(tmp_path, cluster(NODE), missing=["pods"]), verb="quota")
    assert report.verdict == "There is no quota on HAMi's resources; which pods hold GPUs could not be read."


def test_an_unknown_version_makes_everything_suspected(tmp_path: Path) -> None:
    objects = [*scheduler(image="example/hami:latest"), NODE, quota({"limits/gpumem": 1000}), holds("a", 2000)]
    report = ask(tmp_path, objects)
    assert (codes(report)[0], cause(report).confidence) == ("quota-exceeded", "suspected")
    assert "HAMi version" in [gap.source for gap in report.gaps]


def test_the_namespace_is_read_in_the_forms_people_type() -> None:
    for text in ("ml", " ml ", "ns/ml", "namespace/ml", "ml/"):
        assert find("quota").request(text).namespace == "ml"


@pytest.mark.parametrize("verb", ["quota", "pending"])
def test_of_two_namespaces_none_is_dropped(verb: str) -> None:
    assert find(verb).request(namespace="ml", named="ns/ml").namespace == "ml"
    with pytest.raises(UsageError, match="ml and eval"):
        find(verb).request(namespace="ml", named="eval")


CONFIG = "nvidia: {}\nvnpus:\n- chipName: 910B3\n  commonWord: Ascend910B3\n  resourceName: huawei.com/Ascend910B3\n"
CONFIG += "  resourceMemoryName: huawei.com/Ascend910B3-memory\n"


@pytest.mark.parametrize(
    ("key", "counted"),
    [
        ("nvidia.com/gpumem", "limits.nvidia.com/gpumem"),
        ("nvidia.com/gpu", "requests.nvidia.com/gpu"),
        ("limits.nvidia.com/gpu-mem", "limits.nvidia.com/gpumem"),
        ("requests.nvidia.com/gpus", "requests.nvidia.com/gpu"),
        ("limits.huawei.com/Ascend910B3-memry", "limits.huawei.com/Ascend910B3-memory"),
    ],
)
def test_a_key_that_nobody_counts_is_told_with_the_one_that_is_counted(tmp_path: Path, key: str, counted: str) -> None:
    flags = ["--enable-ascend=true"]
    report = ask(tmp_path, [*scheduler(config=CONFIG, flags=flags), NODE, quota({key: 4})], "ml")
    found = cause(report)
    assert (found.code, found.severity) == ("quota-not-enforced", "warning")
    assert found.claim.endswith(f"{counted}.")
    assert counted in found.next_actions[0].label
    assert key in quotes(report)


@pytest.mark.parametrize(("version", "told"), [("2.6.1", True), ("2.9.0", True), ("2.10.0", False)])
def test_before_2_10_a_quota_holds_nobody_who_uses_another_vendor_s_devices(
    tmp_path: Path, version: str, told: bool
) -> None:
    objects = scheduler(config=CONFIG, flags=["--enable-ascend=true"], version=version)
    report = ask(tmp_path, [*objects, NODE, quota({"limits.huawei.com/Ascend910B3-memory": 9000})], "ml")
    words = f"HAMi {version} applies no quota to this vendor's devices, 2.10.0 and later do"
    assert (words in cause(report).claim) == told


@pytest.mark.parametrize("missing", [[], ["nodes"]])
def test_no_key_is_unknown_that_a_node_offers_or_where_nodes_could_not_be_read(
    tmp_path: Path, missing: list[str]
) -> None:
    node = gpu_node("gpu-2", card("GPU-9"), allocatable={"nvidia.com/mig-1g.5gb": "7"})
    objects = cluster(NODE, node, quota({"requests.nvidia.com/mig-1g.5gb": 2}))
    report = ask(tmp_path, objects, "ml", missing=missing)
    assert "quota-not-enforced" not in codes(report)
    assert ("nodes" in [gap.source for gap in report.gaps]) == bool(missing)


def test_why_hami_counts_more_than_pods_ask_for_stands_in_the_answer(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NODE, quota({"limits/gpumem": 7000}), holds("pair", 3200, 3200)), "ml")
    assert codes(report)[0] == "quota-near-limit"
    assert (
        "HAMi counts 6,400, more than the 3,200 that its pods ask for: 1 pod with several GPUs" in cause(report).claim
    )


@pytest.mark.parametrize(("version", "code"), [("2.10.0", "quota-differs"), ("2.11.0", "quota-not-enforced")])
def test_a_quota_with_scopes_limits_every_pod_or_none(tmp_path: Path, version: str, code: str) -> None:
    scoped = quota({"limits.nvidia.com/gpumem": 100}, scopes=["NotTerminating"])
    report = ask(tmp_path, cluster(NODE, scoped, holds("one", 500), version=version), "ml")
    assert ("quota-exceeded" in codes(report)) == (code == "quota-differs")
    [found] = [finding for finding in report.findings if "scopes" in finding.claim]
    assert (found.code, found.severity, bool(found.next_actions)) == (code, "warning", True)


@pytest.mark.parametrize(("version", "limit"), [("2.10.0", "the one that it read last"), ("2.11.0", "the smallest")])
def test_of_several_quotas_one_holds_by_version(tmp_path: Path, version: str, limit: str) -> None:
    several = [quota({"limits/gpumem": amount}, name=name) for name, amount in (("a", 1000), ("b", 9000))]
    report = ask(tmp_path, cluster(NODE, *several, version=version), "ml")
    assert codes(report)[0] == "quota-ambiguous"
    assert "a (1000), b (9000)" in report.verdict
    assert any(f"applies {limit}" in finding.claim for finding in report.findings)
