"""`fit -f`: what a manifest asks for beside cards is told, and its proofs and proposals name its file."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.errors import UsageError
from bot.report import Report
from bot.texts import in_english
from handlers.shell_output import asked_there
from playbooks.fit.manifest import Manifest
from playbooks.fit.tables import RoleRow
from tests.playbooks.tables import table
from tests.playbooks.world import Object, answer, cause, cluster, codes, gpu, gpu_node, pod, record, running

MANIFESTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "inputs/fit.yaml").read_text())
TERM = [{"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}]
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": TERM}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM[0]}]}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def written(tmp_path: Path, wanted: Object, **spec: object) -> Path:
    changed = copy.deepcopy(wanted)
    changed["spec"] |= spec
    (path := tmp_path / "my pod.json").write_text(json.dumps(changed, indent=1))
    return path


def ask(tmp_path: Path, objects: list[Object], path: Path) -> Report:
    text = path.read_text()
    file = [Manifest(str(path), text, str(path))]
    return answer("fit", record(tmp_path, objects), {}, file=file, also=text)


def with_port(**port: int) -> list[Object]:
    (main,) = pod()["spec"]["containers"]
    return [main | {"ports": [port]}]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"affinity": {"podAntiAffinity": REQUIRED}}, "podAntiAffinity"),
        ({"affinity": {"podAffinity": REQUIRED}}, "podAffinity"),
        ({"containers": with_port(containerPort=80, hostPort=80)}, "hostPort"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentVolumeClaim"),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, "ephemeral volume"),
        ({"topologySpreadConstraints": [SPREAD]}, "topologySpreadConstraints"),
    ],
)
def test_what_depends_on_more_than_cards_and_the_node_is_a_gap_and_nothing_is_sure(
    tmp_path: Path, spec: Object, told: str
) -> None:
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, pod(), **spec))
    assert (codes(report), cause(report).confidence) == (["fits"], "suspected")
    assert [gap.source for gap in report.gaps] == [told]


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAntiAffinity": PREFERRED, "podAffinity": PREFERRED}},
        {"containers": with_port(containerPort=80)},
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}]},
        {"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": None, "volumes": None, "topologySpreadConstraints": None},
    ],
)
def test_what_rules_no_node_out_is_no_gap(tmp_path: Path, spec: Object) -> None:
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, pod(), **spec))
    assert (cause(report).confidence, report.gaps) == ("confirmed", ())


@pytest.mark.parametrize("case", MANIFESTS, ids=[case["name"] for case in MANIFESTS])
def test_manifests_as_people_have_them_are_told_by_role(tmp_path: Path, case: dict[str, Any]) -> None:
    (path := tmp_path / "m.yaml").write_text(case["text"])
    if "refused" in case:
        with pytest.raises(UsageError) as refused:
            ask(tmp_path, cluster(gpu_node()), path)
        assert case["refused"] in in_english(refused.value.message)
        return
    report = ask(tmp_path, cluster(gpu_node()), path)
    told = [(row.role, row.replicas, row.gpus_each) for row in report.typed(RoleRow)]
    if any(row.kind != "Pod" for row in report.typed(RoleRow)):
        assert told == [(name, None if count == "?" else count, gpus) for name, count, gpus in case["roles"]]
    for field, value in case.get("row", {}).items():
        assert in_english(getattr(report.typed(RoleRow)[0], field)) == value
    claims = " ".join(finding.claim for finding in report.findings)
    assert all(name in claims for name in case.get("names", ()))
    assert case.get("silent", "no such text") not in claims


def test_all_replicas_together_are_not_said_to_fit(tmp_path: Path) -> None:
    (path := tmp_path / "m.yaml").write_text(next(case["text"] for case in MANIFESTS if case["name"] == "deploy"))
    report = ask(tmp_path, cluster(gpu_node()), path)
    assert report.verdict.startswith("Deployment vllm-ocr (one of 2 pods) fits")
    assert any("one pod of each role was judged alone" in gap.why for gap in report.gaps)


def test_a_pod_that_names_its_node_is_refused_by_hami_s_webhook(tmp_path: Path) -> None:
    path = written(tmp_path, pod(), nodeName="gpu-9")
    report = ask(tmp_path, cluster(gpu_node()), path)
    assert (codes(report), report.severity) == (["admission-denied"], "warning")
    assert "spec.nodeName" in report.verdict
    assert [proof.quote for proof in cause(report).evidence] == ["gpu-9"]


def test_a_resource_that_no_node_offers_drops_every_node(tmp_path: Path) -> None:
    path = written(tmp_path, pod(limits=gpu() | {"nvidia.com/gpumemory": "1000"}))
    report = ask(tmp_path, cluster(gpu_node()), path)
    assert (codes(report), report.severity) == (["kubernetes-filter"], "warning")
    assert report.verdict.startswith("No node offers nvidia.com/gpumemory, which wl requests")
    assert "1000" in [proof.quote for proof in cause(report).evidence]
    (action,) = cause(report).next_actions
    assert "Did you mean nvidia.com/gpumem?" in action.label
    assert action.command == f"fit -f '{path}' -n ml"


def test_a_proposal_names_the_file_to_edit_and_the_command_that_tries_it(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), running("holder", "gpu-1", ("GPU-gpu-1", 10000, 0)))
    path = written(tmp_path, pod(limits=gpu(memory=9000)))
    action = cause(ask(tmp_path, objects, path)).next_actions[0]
    assert "at most 6,384 MiB" in action.label
    assert str(path) in action.label
    assert action.command == f"fit -f '{path}' -n ml"


def test_more_cpu_than_a_node_has_is_told_with_both_figures(tmp_path: Path) -> None:
    path = written(tmp_path, pod(limits=gpu() | {"cpu": "200"}))
    report = ask(tmp_path, cluster(gpu_node(allocatable={"cpu": "96"})), path)
    assert "Insufficient cpu (the pod requests 200, these nodes have at most 96)" in cause(report).claim
    assert report.verdict.endswith(
        "Kubernetes drops it: Insufficient cpu (the pod requests 200, these nodes have at most 96)."
    )
    assert {"200", "96"} <= {proof.quote for proof in cause(report).evidence}
    assert cause(report).next_actions[0].label.startswith("Set requests cpu to at most 96")


def test_a_resource_that_some_nodes_offer_drops_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, pod(limits=gpu() | {"rdma/hca": 2}))
    with_rdma = gpu_node("gpu-2")
    with_rdma["status"]["allocatable"]["rdma/hca"] = "2"
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), with_rdma), path)
    assert (codes(report), cause(report).scope.nodes) == (["fits"], ("gpu-2",))
    assert (cause(report).confidence, [gap.source for gap in report.gaps]) == ("suspected", ["free rdma/hca"])


@pytest.mark.parametrize("name", ["nvidia.com/priority", "example.kubernetes.io/x", "cpu"])
def test_what_hami_or_kubernetes_itself_reads_is_no_resource_that_a_node_must_offer(tmp_path: Path, name: str) -> None:
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, pod(limits=gpu() | {name: 1})))
    assert codes(report) == ["fits"]


def test_a_proof_from_the_manifest_is_shown_again_by_its_command(tmp_path: Path) -> None:
    objects = cluster(gpu_node(labels={"pool": "a100"}), running("holder", "gpu-1", ("GPU-gpu-1", 10000, 0)))
    for wanted in (pod(limits=gpu(memory=99999)), pod()):
        selector = None if wanted != pod() else {"pool": "t4"}
        report = ask(tmp_path, objects, written(tmp_path, wanted, nodeSelector=selector))
        proofs = [
            proof
            for proof in cause(asked_there(report, (), ("--recording", "r"))).evidence
            if proof.source == "manifest"
        ]
        assert proofs
        for proof in proofs:
            shown = subprocess.run(["bash", "-c", proof.command], capture_output=True, text=True, check=True).stdout
            assert proof.quote in shown


def asking(**limits: object) -> Object:
    made = pod()
    made["metadata"] = {"name": "p", "namespace": "ml"}
    made["spec"]["containers"][0]["resources"] = {
        "limits": {f"nvidia.com/{key}": amount for key, amount in limits.items()}
    }
    return made


def changed_limits(report: Report) -> list[tuple[str, ...]]:
    return [row[2:] for table in report.tables if table.title == "as admitted" for row in table.rows]


def test_memory_alone_is_judged_with_the_count_that_the_webhook_adds(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, asking(gpumem="2000")))
    assert codes(report) == ["fits"]
    assert changed_limits(report) == [("nvidia.com/gpu", "", "1")]


def test_a_count_alone_is_judged_with_all_cores(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, asking(gpu=1)))
    assert changed_limits(report) == [("nvidia.com/gpucores", "", "100")]


def test_a_pod_that_was_created_already_is_judged_as_it_is(tmp_path: Path) -> None:
    made = asking(gpumem="2000")
    made["metadata"]["uid"] = "u-1"
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, made))
    assert (codes(report), changed_limits(report)) == (["no-device-request"], [])


def test_a_pod_that_opts_out_of_the_webhook_is_judged_as_written(tmp_path: Path) -> None:
    made = asking(gpumem="2000")
    made["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert changed_limits(ask(tmp_path, cluster(gpu_node()), written(tmp_path, made))) == []


def test_a_pod_that_the_webhook_refuses_is_on_no_node_and_the_answer_says_its_words(tmp_path: Path) -> None:
    made = asking(gpu=1)
    (main,) = made["spec"]["containers"]
    path = written(tmp_path, made, containers=[main | {"securityContext": {"privileged": True}}])
    report = ask(tmp_path, cluster(gpu_node()), path)
    assert codes(report) == ["admission-denied"]
    assert f"container {main['name']} is privileged" in cause(report).claim
    assert [table.rows for table in report.tables if table.title == "nodes"] == [()]


def test_a_request_that_differs_from_its_limit_is_refused_by_the_api(tmp_path: Path) -> None:
    made = asking(gpu=1)
    made["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 2}
    report = ask(tmp_path, cluster(gpu_node()), written(tmp_path, made))
    assert codes(report) == ["admission-denied"]
    assert 'Invalid value: "2": must be equal to nvidia.com/gpu limit of 1' in cause(report).claim


def test_no_pod_of_the_same_owner_is_to_end_to_make_room_for_another(tmp_path: Path) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": "ml"},
        "spec": {"template": {"spec": pod(limits=gpu(1, memory=9000))["spec"]}},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "serve-7d9f", "uid": "rs"}}
    own = running("serve-7d9f-x", "gpu-1", ("GPU-gpu-1", 12000, 0), owner=owner)
    nodes = (gpu_node("gpu-1"), gpu_node("gpu-2"))
    other = running("holder", "gpu-2", ("GPU-gpu-2", 12000, 0), age=90000)
    (path := tmp_path / "serve.json").write_text(json.dumps(deployment))
    report = ask(tmp_path, cluster(*nodes, own, other), path)
    assert [row["pods to end"] for row in table(report, "pods to end")] == ["ml/holder"]
