"""What a change brings with it, told from the Deployment and what stands around it."""

from typing import Any

import pytest
from msgspec import structs

from bot.changes.effects import blast_radius, needs_nodes
from bot.changes.kinds import PROFILING, VERBOSITY, DeploymentContext
from bot.changes.plan import Plan, Raise, plan_raise
from bot.hami.version import Version
from bot.kube.models import Node, ObjectMeta, Pod, PodSpec, Service, Webhook
from bot.kube.models.base import NodeSpec, Taint
from bot.kube.models.workloads import ServicePort, ServiceSpec
from bot.report import Impact
from bot.texts import LANGUAGES, Texts
from tests.cases_support import VERSIONS
from tests.changes.deployments import EXTENDER, KUBE_SCHEDULER, NOW, but, recorded, wants

LEVEL = wants(VERBOSITY, "5", EXTENDER, 600, "U1")
PROFILES = wants(PROFILING, "true", EXTENDER, 600, "U1")
RUNNING = wants(VERBOSITY, "5", KUBE_SCHEDULER, 600, "U1", means="debug-flags")
OLD = Pod(metadata=ObjectMeta(name="hami-scheduler-1", namespace="hami-system"), spec=PodSpec(node_name="a"))
AROUND = DeploymentContext(pods=[OLD], nodes=[], webhooks=[], services=[], version=Version(2, 10))


def node(name: str, *, unschedulable: bool = False, taint: str = "") -> Node:
    taints = [Taint(key=taint, effect="NoSchedule")] if taint else None
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(unschedulable=unschedulable, taints=taints))


def impacts(
    deployment: dict[str, Any], wanted: Raise = LEVEL, around: DeploymentContext = AROUND, language: Any = "en"
) -> dict[str, Impact]:
    plan = plan_raise(deployment, wanted, now=NOW, change_id="c1", version=Version(2, 10))
    assert isinstance(plan, Plan), plan
    say = Texts(language)
    found = [structs.replace(impact, text=say.words(impact.prose)) for impact in blast_radius(deployment, plan, around)]
    assert [finding.code for finding in found] == list(dict.fromkeys(finding.code for finding in found))
    return {finding.code: finding for finding in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_patch_names_the_pods_that_restart(version: str, language: str) -> None:
    found = impacts(recorded(version), language=language)
    assert "hami-scheduler-1" in found["pods-restart"].text
    assert {"leader-moves", "memory-lost", "helm"} <= found.keys()


def test_a_level_set_in_the_running_process_restarts_nothing() -> None:
    found = impacts(recorded("hami-2.10"), RUNNING)
    assert set(found) == {"no-restart", "loud-kube-scheduler"}
    assert "hami-scheduler-1" in found["no-restart"].text


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_charts_that_require_a_node_for_each_pod_need_nodes(version: str) -> None:
    assert needs_nodes(recorded(version)) == (version in ("hami-2.8.1", "hami-2.9.0"))


@pytest.mark.parametrize(
    ("nodes", "deadlock"),
    [
        ([node("a")], True),
        ([node("a"), node("b", unschedulable=True)], True),
        ([node("a"), node("b", taint="dedicated")], True),
        ([node("a"), node("b")], False),
    ],
)
def test_a_rollout_that_needs_a_free_node_and_has_none_hangs(nodes: list[Node], *, deadlock: bool) -> None:
    found = impacts(recorded("hami-2.9.0"), around=AROUND._replace(nodes=nodes))
    assert ("rollout-deadlock" in found) == deadlock
    if deadlock:
        assert next(iter(found)) == "rollout-deadlock"
        assert found["rollout-deadlock"].severity == "critical"


def test_a_rollout_that_ends_an_old_pod_first_does_not_hang() -> None:
    target = recorded("hami-2.9.0")
    target["spec"]["strategy"]["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0}
    assert "rollout-deadlock" not in impacts(target, around=AROUND._replace(nodes=[node("a")]))


def test_nodes_that_could_not_be_read_are_told_and_nothing_concluded() -> None:
    found = impacts(recorded("hami-2.9.0"), around=AROUND._replace(nodes=None))
    assert "rollout-may-wait" in found
    assert "rollout-deadlock" not in found


@pytest.mark.parametrize(("policy", "code"), [("Ignore", "webhook-bypassed"), ("Fail", "webhook-refuses")])
def test_what_becomes_of_new_pods_meanwhile_follows_from_the_webhooks_policy(policy: str, code: str) -> None:
    found = impacts(recorded("hami-2.10"), around=AROUND._replace(webhooks=[Webhook(failure_policy=policy)]))
    assert {entry for entry in found if entry.startswith("webhook")} == {code}


def test_without_a_webhook_there_is_no_gap() -> None:
    assert not [impact for impact in impacts(recorded("hami-2.10")) if impact.startswith("webhook")]


@pytest.mark.parametrize(
    ("part", "key", "code"),
    [
        ("annotations", "argocd.argoproj.io/tracking-id", "gitops-argocd"),
        ("labels", "kustomize.toolkit.fluxcd.io/name", "gitops-flux"),
    ],
)
def test_whoever_will_undo_it_is_named(part: str, key: str, code: str) -> None:
    target = recorded("hami-2.10")
    target["metadata"][part][key] = "gpu-apps"
    found = impacts(target)
    assert "gpu-apps" in found[code].text
    assert "helm" not in found


def service(kind: str, **selector: str) -> Service:
    ports = [ServicePort(name="http", port=443, target_port=443, node_port=31998), ServicePort(port=9, target_port=9)]
    meta = ObjectMeta(name="hami-scheduler", namespace="hami-system")
    return Service(metadata=meta, spec=ServiceSpec(type=kind, selector=selector, ports=ports))


CHART = {"app.kubernetes.io/component": "hami-scheduler", "hami.io/scheduler-role": "leader"}


@pytest.mark.parametrize(
    ("services", "code"),
    [
        ([service("NodePort", **CHART)], "profiles-outside"),
        ([service("ClusterIP", **CHART)], "profiles-inside"),
        ([service("NodePort", app="other")], "profiles-inside"),
        ([service("NodePort")], "profiles-inside"),
        (None, "profiles-unseen"),
    ],
)
def test_profiling_tells_who_can_fetch_profiles(services: list[Service] | None, code: str) -> None:
    found = impacts(recorded("hami-2.10"), PROFILES, AROUND._replace(services=services))
    assert [entry for entry in found if entry.startswith("profiles")] == [code]
    if code == "profiles-outside":
        assert "NodePort hami-system/hami-scheduler (31998)" in found[code].text
        assert "(9)" not in found[code].text


@pytest.mark.parametrize(("version", "served"), [((2, 6, 0), True), ((2, 9, 0), True), ((2, 10, 0), False)])
def test_a_version_that_serves_profiles_anyway_is_told(version: tuple[int, int, int], *, served: bool) -> None:
    around = AROUND._replace(version=Version(*version))
    assert ("profiles-served-already" in impacts(recorded("hami-2.9.0"), PROFILES, around)) == served


@pytest.mark.parametrize(("level", "code", "severity"), [("5", "loud", "info"), ("6", "louder-than-hami", "warning")])
def test_a_level_that_tells_nothing_more_of_hami_is_warned_of(level: str, code: str, severity: str) -> None:
    assert impacts(recorded("hami-2.10"), but(LEVEL, value=level))[code].severity == severity


def test_pods_that_could_not_be_read_are_told() -> None:
    found = impacts(recorded("hami-2.10"), around=AROUND._replace(pods=None))
    assert "pods-restart-unseen" in found
    assert "pods-restart" not in found


def test_the_worst_comes_first() -> None:
    found = impacts(recorded("hami-2.9.0"), around=AROUND._replace(nodes=[node("a")], webhooks=[Webhook()]))
    order = ["critical", "warning", "info"]
    severities = [order.index(value.severity) for value in found.values()]
    assert severities == sorted(severities)
