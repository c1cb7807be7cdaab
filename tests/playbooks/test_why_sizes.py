"""A request that is larger than the cards of the nodes that the pod chose: waiting is no advice then."""

from pathlib import Path

from bot.report import Report
from tests.playbooks.world import Object, ask, card, cause, cluster, codes, gpu, gpu_node, none_of, pod, quotes, refused

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
    assert labels_of(report)[0] == "Loosen the pod's nodeSelector (pool): gpu-2 would take the pod now"
    assert "at most 15,360 MiB per GPU" in labels_of(report)[1]


def test_a_node_affinity_is_loosened_as_well(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=20000), affinity=AFFINITY), small(), large())
    assert labels_of(report)[0] == "Loosen the pod's node affinity: gpu-2 would take the pod now"


def test_nodes_that_would_not_take_it_either_are_not_offered(tmp_path: Path) -> None:
    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"})
    report = asked(tmp_path, waiting, small(), large(taints=taints), small("gpu-3", taints=taints))
    assert "Waiting will not help" in report.verdict
    assert not any("Loosen" in label for label in labels_of(report))


def test_a_selection_that_is_too_narrow_in_two_ways_is_no_matter_of_one_of_them(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small", "zone": "a"})
    here = small()
    here["metadata"]["labels"]["zone"] = "a"
    assert labels_of(asked(tmp_path, waiting, here, large()))[0].startswith("Loosen the pod's nodeSelector")


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
