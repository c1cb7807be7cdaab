"""`fit -f`: per pod and node HAMi's verdict as its filter words it, and kubernetes' own filters beside it."""

import asyncio
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from bot.errors import SourceError, UsageError
from bot.kube.models import Pod
from bot.report import Report
from bot.texts import Texts
from handlers.parsing.slack_grammar import understand
from playbooks.fit.playbook import asked_of
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from tests.cases_support import VERSIONS, ask_cluster, opened
from tests.playbooks.tables import table
from tests.playbooks.world import (
    Object,
    cause,
    cluster,
    codes,
    commands,
    container,
    fit,
    gpu,
    gpu_node,
    node,
    pod,
    quota,
    quotes,
    running,
    scheduler,
)

TAINT = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}


def rows(report: Report) -> list[tuple[str, ...]]:
    (table,) = (table for table in report.tables if table.title == "nodes")
    assert table.columns == ("pod", "node", "verdict", "reason", "kubernetes")
    return list(table.rows)


def ask(tmp_path: Path, objects: list[Object], *pods: Object, **more: object) -> Report:
    return fit(tmp_path, objects, *(json.dumps(pod) for pod in pods), **more)


def used(memory: int, name: str = "gpu-1") -> Object:
    return running(f"holder-{name}", name, (f"GPU-{name}", memory, 0))


# ------------------------------------------------------------------------------------------------- the table


def test_every_pod_and_node_has_a_row_in_hami_s_words(tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-1"), gpu_node("gpu-2"), node("cpu-1"), used(10000))
    report = ask(tmp_path, objects, pod("small"), pod("large", gpu(memory=9000)))
    assert rows(report) == [
        ("small", "cpu-1", "unfit", "node unregistered", ""),
        ("small", "gpu-1", "fit", "", ""),
        ("small", "gpu-2", "fit", "", ""),
        ("large", "cpu-1", "unfit", "node unregistered", ""),
        ("large", "gpu-1", "unfit", "1/1 CardInsufficientMemory", ""),
        ("large", "gpu-2", "fit", "", ""),
    ]


def test_kubernetes_own_filter_has_a_column_of_its_own_and_changes_no_verdict(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), gpu_node("gpu-2", taints=[TAINT])), pod())
    assert rows(report) == [
        ("wl", "gpu-1", "fit", "", ""),
        ("wl", "gpu-2", "fit", "", "node(s) had untolerated taint(s)"),
    ]


def test_pods_of_one_name_are_told_apart_by_their_namespace(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod(), pod(namespace="dev"))
    assert [row[0] for row in rows(report)] == ["ml/wl", "dev/wl"]


def test_pods_without_a_name_get_one(tmp_path: Path) -> None:
    nameless, generated = pod(), pod()
    del nameless["metadata"]["name"]
    generated["metadata"] = {"generateName": "train-"}
    report = ask(tmp_path, cluster(gpu_node()), nameless, generated)
    assert [row[0] for row in rows(report)] == ["pod-1", "train-2"]


# ----------------------------------------------------------------------------------------------- the answer


def test_a_pod_that_fits_is_told_where(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), gpu_node("gpu-2", taints=[TAINT])), pod())
    assert (codes(report), report.severity) == (["fits"], "info")
    assert report.verdict == "wl fits now on 1 node: gpu-1."
    assert cause(report).scope.nodes == ("gpu-1",)


def test_a_pod_that_fits_only_where_kubernetes_drops_the_node_does_not_fit(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(taints=[TAINT])), pod())
    assert (codes(report), report.severity) == (["kubernetes-filter"], "warning")
    assert "HAMi would give wl GPUs on 1 node (gpu-1)" in report.verdict


def test_a_pod_that_fits_nowhere_is_told_the_smallest_change(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), used(10000)), pod(limits=gpu(memory=9000)))
    assert (codes(report), report.severity) == (["fits-nowhere"], "warning")
    assert "9000" in quotes(report)
    labels = [action.label for action in cause(report).next_actions]
    assert any("at most 6,384 MiB" in label for label in labels)
    assert any("ml/holder-gpu-1" in label for label in labels)


def test_a_pod_that_could_never_fit_is_told_as_that(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod(limits=gpu(memory=99999)))
    assert codes(report) == ["impossible-anywhere"]
    assert "even an empty one" in report.verdict


def test_of_several_pods_those_that_fit_nowhere_come_first(tmp_path: Path) -> None:
    pods = [pod("a"), pod("b", gpu(memory=9000)), pod("c", gpu(memory=9500)), pod("d")]
    report = ask(tmp_path, cluster(gpu_node(), used(10000)), *pods)
    assert codes(report) == ["fits-nowhere", "fits-nowhere", "fits", "fits"]
    assert report.verdict == "2 of 4 pods fit on some node now, each checked alone."
    assert (report.subject.kind, report.subject.namespace, report.subject.name) == ("Pods", "ml", "")
    assert len(commands(report)) <= 3


def test_a_pod_as_kubectl_prints_it_does_not_count_against_itself(tmp_path: Path) -> None:
    itself = running("wl", "gpu-1", ("GPU-gpu-1", 16000, 0))
    itself["spec"]["containers"] = [container(gpu(memory=16000))]
    assert rows(ask(tmp_path, cluster(gpu_node(), itself), itself))[0][2] == "fit"


# --------------------------------------------------------------------------------------------------- quotas


def test_a_pod_without_a_namespace_is_tried_where_the_question_says(tmp_path: Path) -> None:
    homeless = pod()
    del homeless["metadata"]["namespace"]
    objects = cluster(gpu_node(), quota(namespace="dev", gpumem=500))
    assert rows(ask(tmp_path / "dev", objects, homeless, namespace="dev"))[0][3] == "1/1 ResourceQuotaNotFit"
    report = ask(tmp_path / "default", objects, homeless)
    assert (rows(report)[0][2], report.subject.namespace) == ("fit", "default")


# --------------------------------------------------------------------------------------- what cannot be told


def test_without_quotas_the_answer_is_only_suspected(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod(), missing=["resourcequotas"])
    assert (codes(report), cause(report).confidence) == (["fits"], "suspected")
    assert "resource quotas" in [gap.source for gap in report.gaps]


def test_without_the_holders_nothing_is_claimed(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod(), missing=["pods"])
    assert codes(report) == ["not-enough-evidence"]
    assert rows(report)[0][2] == "unknown"


def test_without_the_nodes_there_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nodes\.json"):
        ask(tmp_path, cluster(), pod(), missing=["nodes"])


def test_where_versions_differ_an_unknown_one_claims_nothing(tmp_path: Path) -> None:
    objects = [*scheduler(image="example/hami:latest"), gpu_node()]
    picky = pod(annotations={"nvidia.com/use-gpuuuid": "GPU-other, GPU-gpu-1"})
    report = ask(tmp_path, objects, picky)
    assert codes(report) == ["not-enough-evidence"]
    assert rows(report)[0][2] == "unknown"
    assert "HAMi version" in [gap.source for gap in report.gaps]


def test_where_versions_agree_an_unknown_one_is_no_matter(tmp_path: Path) -> None:
    report = ask(tmp_path, [*scheduler(image="example/hami:latest"), gpu_node()], pod())
    assert (codes(report), cause(report).confidence) == (["fits"], "suspected")


def test_another_vendor_s_cards_are_not_promised(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod(limits={"huawei.com/Ascend910B3": "1"}))
    assert codes(report) == ["not-enough-evidence"]
    assert rows(report)[0][2] == "unknown"
    assert "huawei.com/Ascend910B3" in report.verdict


def test_one_pod_that_cannot_be_told_does_not_count_as_fitting(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod("a", {"huawei.com/Ascend910B3": "1"}), pod("b"))
    assert report.verdict.startswith("1 of 2 pods fit")


def test_a_pod_that_asks_for_nothing_passes_hami_s_filter_everywhere(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), node("cpu-1")), pod(limits={}))
    assert (codes(report), report.severity) == (["no-device-request"], "info")
    assert [row[2] for row in rows(report)] == ["fit", "fit"]


def test_an_amount_that_hami_does_not_read_as_a_request_is_told(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), pod(limits=gpu(memory="5Gi")))
    assert (codes(report), report.severity) == (["no-device-request"], "warning")
    assert "5Gi" in report.verdict


def test_a_cluster_without_nodes_fits_nothing(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, cluster(), pod())) == ["fits-nowhere"]


# ------------------------------------------------------------------------------------------------ the question


def test_no_file_is_a_wrong_command() -> None:
    with pytest.raises(UsageError, match="needs a number of GPUs or a manifest"):
        find("fit").request(file=())


ASKED = 16
"""Requests per recording, the same in every run."""
COUNTS = (1, 1, 1, 2, 4, 8, 9, 14, 16)
AMOUNTS = ("8Gi", "12Gi", "15Gi", "16Gi", "31Gi", "40Gi", "79Gi", "80Gi", "100Gi", "50%", "100%")
TYPES = ("", "", "T4", "V100", "a100,t4")
CORES = (None, None, 10, 60, 100)
NAMESPACES = ("ml", "quota-ns")
SURE: list[dict[str, Any]] = [
    {"cards": "2x100%", "cores": 100, "type": "V100", "namespace": "quota-ns"},
    {"cards": "4", "type": "T4", "namespace": "ml"},
    {"cards": "1x9000Mi", "namespace": "quota-ns"},
]
"""In every recording something is proposed for some of them."""


def some_requests(version: str) -> list[dict[str, Any]]:
    chance = random.Random(version)
    return SURE + [
        {
            "cards": f"{chance.choice(COUNTS)}x{chance.choice(AMOUNTS)}",
            "type": chance.choice(TYPES),
            "cores": chance.choice(CORES),
            "namespace": chance.choice(NAMESPACES),
        }
        for _ in range(ASKED)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_request_that_is_proposed_fits_as_it_is_proposed(version: str) -> None:
    cluster, proposed = opened(version), 0
    for asked in some_requests(version):
        for command in commands(ask_cluster(cluster, verb="fit", **asked)):
            if not command.startswith("fit "):
                continue
            words = shlex.split(command)
            again = understand(words).request
            values = {"cores": again.words.cores, "type": again.words.type, "namespace": again.namespace}
            answer = ask_cluster(cluster, verb="fit", cards=words[1], **values)
            assert cause(answer).code == "fits", (asked, command, answer.verdict)
            proposed += 1
    assert proposed >= 8


def without(seen: Any, left: list[Pod]) -> Any:
    """The same question where only those pods are left."""
    capacity = seen.scene.world.capacity._replace(pods=left, kept=None)
    world = structs.replace(seen.scene.world, capacity=capacity)
    return seen._replace(scene=seen.scene._replace(world=world, asked=asked_of(seen.request, world)))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_set_of_pods_that_would_have_to_end_lets_the_request_in_once_they_are_gone(version: str) -> None:
    cluster, fit, say, proposed = opened(version), find("fit"), Texts("en"), 0
    for asked in some_requests(version):
        seen: Any = asyncio.run(fit.gather(fit.request(**asked), Sources(cluster)))
        report = fit.report(seen, say)
        named = any(table.title == "pods to end" for table in report.tables)
        for row in table(report, "pods to end") if named else ():
            gone = row["pods to end"].split(", ")
            left = [pod for pod in seen.scene.world.capacity.pods if f"{pod.namespace}/{pod.name}" not in gone]
            after = fit.report(without(seen, left), say)
            assert (cause(after).code, row["node"] in cause(after).scope.nodes) == ("fits", True), (asked, row)
            proposed += 1
    assert proposed >= 3
