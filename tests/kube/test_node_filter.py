"""kube-scheduler's own filters, as far as a pod and a node alone decide them."""

from typing import Any

import msgspec
import pytest

from bot.kube.models import Node, Pod
from bot.kube.selectors import SELECTOR_TEXT, TAINT_TEXT, UNSCHEDULABLE_TEXT, NodeFilter, Obstacle, obstacle

GPU_TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


def pod(*requests: dict[str, Any], **spec: Any) -> Pod:
    containers = [{"name": f"c{i}", "resources": {"requests": amounts}} for i, amounts in enumerate(requests)]
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}, Pod)


def node(
    labels: dict[str, str] | None = None, taints: Any = None, *, unschedulable: bool = False, **offered: Any
) -> Node:
    return msgspec.convert(
        {
            "metadata": {"name": "n1", "labels": labels},
            "spec": {"taints": taints, "unschedulable": unschedulable},
            "status": {"allocatable": {key.replace("_", "-"): value for key, value in offered.items()}},
        },
        Node,
    )


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_plain_pod_meets_no_obstacle_on_a_plain_node():
    assert obstacle(pod({}), node()) is None


def test_an_unschedulable_node_takes_only_pods_that_tolerate_it():
    cordoned = node(unschedulable=True)
    assert obstacle(pod({}), cordoned) == Obstacle(UNSCHEDULABLE_TEXT, "spec.unschedulable")
    tolerant = pod({}, tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert obstacle(tolerant, cordoned) is None
    assert obstacle(pod({}, tolerations=[{"operator": "Exists"}]), cordoned) is None


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "true"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "", "value": "true"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "false"}, False),
        ({"key": "gpu", "operator": "Equal"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Strange", "value": "true"}, False),
    ],
)
def test_a_taint_has_to_be_tolerated(toleration, tolerated):
    assert obstacle(pod({}), node(taints=[GPU_TAINT])) == Obstacle(TAINT_TEXT, "gpu")
    found = obstacle(pod({}, tolerations=[toleration]), node(taints=[GPU_TAINT]))
    assert found == (None if tolerated else Obstacle(TAINT_TEXT, "gpu"))


def test_every_hard_taint_counts_and_a_preference_does_not():
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    hard = {"key": "hard", "effect": "NoExecute"}
    assert obstacle(pod({}), node(taints=[soft])) is None
    tolerant = pod({}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert obstacle(tolerant, node(taints=[GPU_TAINT, soft, hard])) == Obstacle(TAINT_TEXT, "hard")


def test_the_node_selector_wants_every_label():
    choosy = pod({}, nodeSelector={"pool": "gpu", "zone": "a"})
    assert obstacle(choosy, node({"pool": "gpu", "zone": "a", "x": "y"})) is None
    assert obstacle(choosy, node({"pool": "gpu", "zone": "b"})) == Obstacle(SELECTOR_TEXT, "zone")
    assert obstacle(choosy, node({"zone": "a"})) == Obstacle(SELECTOR_TEXT, "pool")
    assert obstacle(choosy, node()) == Obstacle(SELECTOR_TEXT, "pool")


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("pool", "In", "cpu", "gpu"), True),
        (expression("pool", "In", "cpu"), False),
        (expression("none", "In", "gpu"), False),
        (expression("pool", "NotIn", "cpu"), True),
        (expression("pool", "NotIn", "gpu"), False),
        (expression("none", "NotIn", "gpu"), True),
        (expression("pool", "Exists"), True),
        (expression("none", "Exists"), False),
        (expression("none", "DoesNotExist"), True),
        (expression("pool", "DoesNotExist"), False),
        (expression("cards", "Gt", "7"), True),
        (expression("cards", "Gt", "8"), False),
        (expression("cards", "Lt", "9"), True),
        (expression("cards", "Lt", "8"), False),
        (expression("none", "Gt", "0"), False),
        (expression("pool", "Gt", "0"), False),
        (expression("cards", "Gt", "x"), False),
        (expression("cards", "Gt"), False),
        (expression("size", "Gt", "1"), False),
        (expression("half", "Gt", "0"), False),
        (expression("pool", "Near", "gpu"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}, False),
        ({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n1"]}]}, False),
        (
            {
                **expression("pool", "Exists"),
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}],
            },
            False,
        ),
        ({}, False),
    ],
)
def test_a_term_of_required_affinity(term, matches):
    found = obstacle(
        pod({}, affinity=affinity(term)), node({"pool": "gpu", "cards": "8", "size": "2k", "half": "500m"})
    )
    assert found == (None if matches else Obstacle(SELECTOR_TEXT, "nodeAffinity"))


def test_one_matching_term_is_enough_and_none_at_all_matches_nothing():
    either = affinity(expression("pool", "In", "cpu"), expression("pool", "In", "gpu"))
    assert obstacle(pod({}, affinity=either), node({"pool": "gpu"})) is None
    assert obstacle(pod({}, affinity=affinity()), node({"pool": "gpu"})) == Obstacle(SELECTOR_TEXT, "nodeAffinity")


def test_all_expressions_of_a_term_have_to_hold():
    both = {
        "matchExpressions": [
            *expression("a", "Exists")["matchExpressions"],
            *expression("b", "Exists")["matchExpressions"],
        ]
    }
    assert obstacle(pod({}, affinity=affinity(both)), node({"a": "", "b": ""})) is None
    assert obstacle(pod({}, affinity=affinity(both)), node({"a": ""})) is not None


def test_preferred_affinity_is_no_obstacle():
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}
    assert obstacle(pod({}, affinity=preferred), node()) is None


@pytest.mark.parametrize(
    ("resource", "fits", "too_much"),
    [("cpu", "3900m", "3901m"), ("memory", "8Gi", "8589934593"), ("ephemeral_storage", "1e9", "1000000001")],
)
def test_a_pod_larger_than_the_whole_node_is_dropped(resource, fits, too_much):
    small = node(cpu="3900m", memory="8Gi", ephemeral_storage="1G")
    name = resource.replace("_", "-")
    assert obstacle(pod({name: fits}), small) is None
    assert obstacle(pod({name: too_much}), small) == Obstacle(f"Insufficient {name}", name)


def test_what_the_node_does_not_offer_at_all_is_not_judged():
    assert obstacle(pod({"cpu": "100", "rdma/hca": "1"}), node()) is None


def test_containers_add_up_with_the_overhead():
    assert obstacle(pod({"cpu": "2"}, {"cpu": "2"}), node(cpu="4")) is None
    assert obstacle(pod({"cpu": "2"}, {"cpu": "2"}, overhead={"cpu": "1m"}), node(cpu="4")) is not None


def test_init_containers_count_one_by_one():
    inits = [{"name": "i", "resources": {"requests": {"cpu": amount}}} for amount in ("4", "3")]
    assert obstacle(pod({"cpu": "2"}, initContainers=inits), node(cpu="4")) is None
    assert obstacle(pod({"cpu": "2"}, initContainers=inits), node(cpu="3")) is not None


def test_sidecars_run_beside_what_comes_after_them():
    def init(amount, *, stays=False):
        policy = {"restartPolicy": "Always"} if stays else {}
        return {"name": "i", "resources": {"requests": {"cpu": amount}}, **policy}

    beside_the_apps = pod({"cpu": "2"}, initContainers=[init("3", stays=True)])
    assert obstacle(beside_the_apps, node(cpu="5")) is None
    assert obstacle(beside_the_apps, node(cpu="4")) is not None
    beside_a_later_init = pod({"cpu": "1"}, initContainers=[init("1", stays=True), init("4")])
    assert obstacle(beside_a_later_init, node(cpu="5")) is None
    assert obstacle(beside_a_later_init, node(cpu="4")) is not None
    after_an_init = pod({"cpu": "1"}, initContainers=[init("4"), init("1", stays=True)])
    assert obstacle(after_an_init, node(cpu="4")) is None


def test_a_limit_without_a_request_is_the_request():
    limited = pod(containers=[{"name": "c", "resources": {"limits": {"cpu": "5"}}}])
    assert obstacle(limited, node(cpu="4")) == Obstacle("Insufficient cpu", "cpu")
    both = pod(containers=[{"name": "c", "resources": {"limits": {"cpu": "5"}, "requests": {"cpu": "1"}}}])
    assert obstacle(both, node(cpu="4")) is None


def test_the_first_filter_speaks():
    everything = node({"a": "b"}, [GPU_TAINT], unschedulable=True, cpu="1")
    picky = pod({"cpu": "2"}, nodeSelector={"a": "c"})
    assert obstacle(picky, everything) == Obstacle(UNSCHEDULABLE_TEXT, "spec.unschedulable")
    tolerant = pod({"cpu": "2"}, nodeSelector={"a": "b"}, tolerations=[{"operator": "Exists"}])
    assert obstacle(tolerant, everything) == Obstacle("Insufficient cpu", "cpu")


def test_one_filter_answers_for_many_nodes():
    asked = NodeFilter(pod({"cpu": "2"}, nodeSelector={"a": "b"}))
    assert [asked.obstacle(other) for other in (node({"a": "b"}), node(), node({"a": "b"}, cpu="1"))] == [
        None,
        Obstacle(SELECTOR_TEXT, "a"),
        Obstacle("Insufficient cpu", "cpu"),
    ]
