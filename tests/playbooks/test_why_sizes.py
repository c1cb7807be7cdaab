"""A request that is larger than the cards of the nodes that the pod chose: waiting is no advice then."""

import json
import shlex
from pathlib import Path

import pytest

from bot.report import Report
from handlers.shell_output import asked_there
from tests.playbooks.world import (
    Object,
    ask,
    card,
    cause,
    cluster,
    codes,
    gpu,
    gpu_node,
    none_of,
    pod,
    quotes,
    refused,
    running,
)

SMALL = 15360
LARGE = 81920
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["small"]}]}]
        }
    }
}


def pool(name: str, memory: int, kind: str, **fields: object) -> Object:
    return gpu_node(name, card(f"GPU-{name}", memory, type=f"NVIDIA {kind}"), labels={"pool": kind}, **fields)


def small(name: str = "gpu-1", **fields: object) -> Object:
    return pool(name, SMALL, "small", **fields)


def large(name: str = "gpu-2", **fields: object) -> Object:
    return pool(name, LARGE, "large", **fields)


def asked(tmp_path: Path, waiting: Object, *nodes: Object) -> Report:
    waiting["status"]["conditions"] = [refused(none_of(len(nodes), "1 1/1 CardInsufficientMemory"))]
    return ask(tmp_path, cluster(waiting, *nodes))


def labels_of(report: Report) -> list[str]:
    return [action.label for action in cause(report).next_actions]


def test_more_than_the_chosen_nodes_cards_have_is_told_as_such_and_where_it_would_fit(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"}), small(), large())
    assert codes(report)[0] == "card-insufficient-memory"
    expected = "Waiting will not help: no GPU of gpu-1 has 20,000 MiB, even empty: at most 15,360 MiB (NVIDIA small)."
    assert report.verdict == expected
    assert any('"devmem": 15360' in quote for quote in quotes(report))
    assert "from the nodeSelector (gpu-2 would take the pod now); edit Pod" in labels_of(report)[0]
    assert "at most 15,360 MiB per GPU" in labels_of(report)[1]


def test_a_node_affinity_is_loosened_as_well(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=20000), affinity=AFFINITY), small(), large())
    assert labels_of(report)[0].startswith("Loosen the node affinity (gpu-2 would take the pod now); edit Pod")


def test_nodes_that_would_not_take_it_either_are_not_offered(tmp_path: Path) -> None:
    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"})
    report = asked(tmp_path, waiting, small(), large(taints=taints), small("gpu-3", taints=taints))
    assert "Waiting will not help" in report.verdict
    assert not any("nodeSelector" in label for label in labels_of(report))


def test_a_selection_that_is_too_narrow_in_two_ways_is_no_matter_of_one_of_them(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small", "zone": "a"})
    here = small()
    here["metadata"]["labels"]["zone"] = "a"
    assert labels_of(asked(tmp_path, waiting, here, large()))[0].startswith("Remove ")


def test_the_pods_own_type_annotation_chooses_too(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=20000), annotations={"nvidia.com/use-gputype": "small"})
    report = asked(tmp_path, waiting, small(), large())
    told = next(finding for finding in report.findings if finding.code == "card-insufficient-memory")
    assert told.claim.startswith("Waiting will not help: no GPU of gpu-1 has 20,000 MiB")


def test_where_a_card_is_large_enough_waiting_may_help(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=15000), nodeSelector={"pool": "small"}), small(), large())
    assert "Waiting will not help" not in report.verdict


def test_cards_that_cannot_be_read_might_be_larger(tmp_path: Path) -> None:
    unread = small("gpu-3")
    del unread["metadata"]["annotations"]["hami.io/node-nvidia-register"]
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"})
    report = asked(tmp_path, waiting, small(), large(), unread)
    assert not any("Waiting will not help" in finding.claim for finding in report.findings)


def steps_of(report: Report) -> list[tuple[str, str, bool]]:
    return [(action.label, action.command, action.changes_cluster) for action in cause(report).next_actions]


def owned(waiting: Object, kind: str, name: str) -> Object:
    waiting["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": "u-1", "controller": True}]
    return waiting


def test_a_smaller_request_is_written_where_it_is_set_with_the_value_now_and_the_command(tmp_path: Path) -> None:
    waiting = owned(pod(limits=gpu(memory=20000)), "StatefulSet", "trainer")
    label, command, changes = steps_of(asked(tmp_path, waiting, small()))[0]
    assert "in StatefulSet ml/trainer set limits nvidia.com/gpumem: 15360 (now 20000); its pods are created" in label
    wl = waiting["spec"]["containers"][0]["name"]
    amount = "nvidia.com/gpumem=15360"
    target = f"statefulset/trainer -c {wl}"
    assert command == f"kubectl -n ml set resources {target} --limits={amount} --requests={amount}"
    assert changes


def test_what_cannot_be_changed_in_place_is_said_to_be_made_anew(tmp_path: Path) -> None:
    alone = steps_of(asked(tmp_path / "alone", pod(limits=gpu(memory=20000)), small()))[0]
    assert "in Pod ml/wl set limits" in alone[0]
    assert alone[0].endswith("a pod's spec is fixed, so create it anew")
    replace = (
        "kubectl -n ml get pod wl -o yaml > pod.yaml && ${EDITOR:-vi} pod.yaml && kubectl replace --force -f pod.yaml"
    )
    assert alone[1:] == (replace, True)
    job = steps_of(asked(tmp_path / "job", owned(pod(limits=gpu(memory=20000)), "Job", "train"), small()))[0]
    assert "in Job ml/train set limits" in job[0]
    assert job[0].endswith("the pod template of Job may be fixed: then delete it and apply it anew")
    assert job[1:] == ("kubectl -n ml get job train -o yaml", False)


def test_the_job_of_an_operator_is_not_taken_for_one_of_kubernetes(tmp_path: Path) -> None:
    waiting = owned(pod(limits=gpu(memory=20000)), "Job", "train")
    waiting["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    label, command, _ = steps_of(asked(tmp_path, waiting, small()))[0]
    assert "in Job (batch.volcano.sh) ml/train set limits" in label
    assert command == "kubectl -n ml get job.batch.volcano.sh train -o yaml"


@pytest.mark.parametrize(
    ("waiting", "told", "patch"),
    [
        (
            pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"}),
            "Remove pool=small from the nodeSelector",
            {"spec": {"nodeSelector": {"pool": None}}},
        ),
        (
            pod(limits=gpu(memory=1000), annotations={"nvidia.com/use-gputype": "H20"}),
            "nvidia.com/use-gputype: H20; edit Deployment ml/web: its pods are created anew",
            {"metadata": {"annotations": {"nvidia.com/use-gputype": None}}},
        ),
    ],
    ids=["selector", "annotation"],
)
def test_what_has_to_go_goes_by_a_patch_of_the_template_that_makes_the_pods(
    tmp_path: Path, waiting: Object, told: str, patch: Object
) -> None:
    steps = steps_of(asked(tmp_path, owned(waiting, "Deployment", "web"), small(), large()))
    _, command, changes = next(one for one in steps if told in one[0])
    *kubectl, written = shlex.split(command)
    assert kubectl == ["kubectl", "-n", "ml", "patch", "deployment/web", "-p"]
    assert json.loads(written) == {"spec": {"template": patch}}
    assert changes


def test_every_part_of_a_command_that_replaces_a_pod_asks_the_cluster_that_was_asked(tmp_path: Path) -> None:
    report = asked_there(asked(tmp_path, pod(limits=gpu(memory=20000)), small()), ("--context", "lab"), ())
    command = steps_of(report)[0][1]
    assert command.startswith("kubectl --context lab -n ml get pod wl -o yaml > pod.yaml && ")
    assert command.endswith(" && kubectl --context lab replace --force -f pod.yaml")


def test_nobody_who_asked_for_a_whole_gpu_is_told_to_ask_for_99_percent_of_its_cores(tmp_path: Path) -> None:
    limits = gpu(memory=1000, cores=100)
    busy = running("holder", "gpu-1", ("GPU-gpu-1", 1000, 1))
    waiting = pod(limits=limits, said=refused(none_of(1, "1 1/1 ExclusiveDeviceAllocateConflict")))
    assert not any("cores" in label for label, *_ in steps_of(ask(tmp_path, cluster(waiting, small(), busy))))
