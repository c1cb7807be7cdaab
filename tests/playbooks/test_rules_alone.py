"""Every rule by itself, on every recorded pod, installation, node and GPU, with each thing that was read taken away in
turn.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.installation.install import Install
from bot.hami.metrics.gpu_usage import Usage
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import NEWEST_READ
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Evidence, Finding, gap
from playbooks.fit.rules import FIT
from playbooks.fit.scene import AskedScene
from playbooks.gather.dra import ClaimsSeen
from playbooks.gather.node_side import ContainerLogs, NodeSide, PluginPods, PluginSets
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.past_days import CoresSeen
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, LEASE_SOURCE, PODS_SOURCE, InstallSeen
from playbooks.gather.usage import UsageSeen
from playbooks.gather.webhook import WebhookSeen
from playbooks.judgement.installation import STATUS
from playbooks.judgement.nodes import NODES
from playbooks.judgement.placed import ABSENT, PLACED
from playbooks.judgement.quota import QUOTA
from playbooks.judgement.waiting import WAITING
from playbooks.latency.rules import LATENCY_RULES, LatencyScene
from playbooks.logs.rules import LOGS_RULES, LogsScene
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from playbooks.rule import Stage
from playbooks.rules.capacity.gpu_totals import GPUS, NOTHING
from playbooks.scenes.cluster import InstallScene, Messages
from playbooks.scenes.gpus import GpusScene
from playbooks.scenes.nodes import NodesScene
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.quota import QuotaScene
from playbooks.scenes.waiting_pod import PodScene
from playbooks.tune.playbook import TUNE
from playbooks.tune.scene import Throttled, TuneScene
from tests.cases_support import CASES, opened, scenarios
from tests.incidents_support import incidents, open_incident
from tests.tune.support import cases, open_case

UNREAD = gap("taken away", "it was not read")
NO_INSTALL = InstallSeen(
    Install(),
    DeviceConfig(),
    (gap(DEPLOYMENTS_SOURCE, "no"), gap(PODS_SOURCE, "no")),
    slices=UNREAD,
    presence="unknown",
)
ASKED: Mapping[str, Callable[[], tuple[RecordedCluster, str]]] = {
    **{f"{case.version} {case.pod}": lambda case=case: (opened(case.version), case.pod) for case in scenarios()},
    **{
        incident.name: lambda incident=incident: (open_incident(incident.name), incident.pod)
        for incident in incidents()
        if incident.verb == "why"
    },
}
AnyScene = PodScene | PlacedScene | AbsentScene
TABLES: Mapping[type, tuple[Stage[Any], ...]] = {PodScene: WAITING, PlacedScene: PLACED, AbsentScene: ABSENT}

RECORDED = sorted(path.parent.name for path in CASES.glob("*/recording.tar.gz"))
CLUSTERS: Mapping[str, Callable[[], RecordedCluster]] = {
    **{name: lambda name=name: opened(name) for name in RECORDED},
    **{incident.name: lambda incident=incident: open_incident(incident.name) for incident in incidents()},
}


def of_capacity(**fields: Any) -> Callable[[Any], Any]:
    def without(scene: Any) -> Any:
        capacity = scene.cluster.capacity._replace(kept=None, **fields)
        return structs.replace(scene, cluster=structs.replace(scene.cluster, capacity=capacity))

    return without


def of_cluster(**fields: Any) -> Callable[[Any], Any]:
    return lambda scene: structs.replace(scene, cluster=structs.replace(scene.cluster, **fields))


def owners_unread(scene: PodScene) -> PodScene:
    return of_cluster(lock_owners=dict.fromkeys(scene.cluster.lock_owners, UNREAD))(scene)


def but(**fields: Any) -> Callable[[Any], Any]:
    return lambda scene: structs.replace(scene, **fields)


def of_side(**fields: Any) -> Callable[[PlacedScene], PlacedScene]:
    return lambda scene: structs.replace(scene, side=scene.side and scene.side._replace(**fields))


# Without its log a device plugin that ends is still one that ends: the log only tells why.
OF_PLACED: Mapping[str, Callable[[PlacedScene], PlacedScene]] = {
    "events": but(events_read=UNREAD),
    "everything of its devices": but(seen=None, side=None, own_logs=None, plugin_sets=None, webhook=None, owner=None),
    "HAMi's install": but(seen=NO_INSTALL),
    "the node": of_side(node=UNREAD),
    "pods of the node": of_side(pods=UNREAD),
    "its own log": but(own_logs=None),
    "the plugin's sets": but(plugin_sets=PluginSets(UNREAD, UNREAD)),
    "the webhook": but(webhook=WebhookSeen(UNREAD, UNREAD, UNREAD)),
    "its owner": but(owner=UNREAD),
}
OF_ABSENT: Mapping[str, Callable[[AbsentScene], AbsentScene]] = {
    "whether it is there": but(absent=UNREAD),
    "events": but(events_read=UNREAD),
    "HAMi's install": but(seen=NO_INSTALL),
    "the webhook": but(webhook=WebhookSeen(UNREAD, UNREAD, UNREAD)),
}
OF_WAITING: Mapping[str, Callable[[PodScene], PodScene]] = {
    "nodes": of_capacity(nodes=UNREAD),
    "holders": of_capacity(pods=UNREAD),
    "quotas": of_capacity(quotas=UNREAD),
    "messages": of_cluster(messages=Messages(gaps=(UNREAD,))),
    "owners of locks": owners_unread,
    "nodes in question": of_cluster(questioned=NodesInQuestion({})),
    "the scheduler's process": of_cluster(process=SchedulerProcess(counted=UNREAD, gaps=(UNREAD,))),
    "HAMi's install": of_cluster(seen=NO_INSTALL),
    "the webhook": of_cluster(webhook=None),
    "claims": lambda scene: structs.replace(scene, claims=scene.claims and ClaimsSeen(UNREAD, UNREAD, UNREAD)),
    "the PodGroup": lambda scene: structs.replace(scene, group_events=UNREAD),
    "Volcano's plugin": lambda scene: structs.replace(scene, volcano_plugins=ContainerLogs()),
    "usage": lambda scene: structs.replace(scene, usage=None),
}


def of_components(source: str, **fields: Any) -> Callable[[InstallScene], InstallScene]:
    def without(scene: InstallScene) -> InstallScene:
        gaps = (*scene.components.gaps, gap(source, "it was not read"))
        return structs.replace(scene, components=structs.replace(scene.components, **fields, gaps=gaps))

    return without


def lease_unread(scene: InstallScene) -> InstallScene:
    install = scene.install._replace(lease=None)
    gaps = (*scene.seen.gaps, gap(LEASE_SOURCE, "it was not read"))
    return structs.replace(scene, seen=structs.replace(scene.seen, install=install, gaps=gaps))


INSTALL_WITHOUT: Mapping[str, Callable[[InstallScene], InstallScene]] = {
    "nodes": of_components("nodes", nodes=UNREAD),
    "daemon sets": of_components("daemon sets", plugins=UNREAD),
    "the plugin's pods": of_components("device plugin pods", plugin_pods=UNREAD),
    "slices": of_components("resource slices", slices=UNREAD),
    "the version": of_components("API server's version", server_version=UNREAD),
    "webhooks": of_components("webhooks", webhook=WebhookSeen(UNREAD, UNREAD, UNREAD)),
    "config maps": of_components("config maps", scheduler_config=None, resources_known=False),
    "the log": of_components("scheduler log", refused=()),
    "the lease": lease_unread,
    "HAMi's install": lambda scene: structs.replace(scene, seen=NO_INSTALL),
    "holders": lambda scene: structs.replace(scene, held=UNREAD),
    "nodes in question": lambda scene: structs.replace(
        scene, questioned=NodesInQuestion({}, PluginSets(UNREAD, UNREAD))
    ),
    "the scheduler's process": lambda scene: structs.replace(
        scene, process=SchedulerProcess(counted=UNREAD, gaps=(UNREAD,))
    ),
}


def sides_unread(scene: NodesScene) -> NodesScene:
    sides = {name: NodeSide(name, UNREAD, UNREAD) for name in scene.questioned.sides}
    return scene.with_questioned(NodesInQuestion(sides, PluginSets(UNREAD, UNREAD)), ())


NODES_WITHOUT: Mapping[str, Callable[[NodesScene], NodesScene]] = {
    "nodes in question": sides_unread,
    "device plugins": but(plugins=PluginPods(UNREAD, {})),
    "owners of locks": lambda scene: structs.replace(scene, owners=dict.fromkeys(scene.owners, UNREAD)),
    "slices": but(slices=UNREAD),
    "HAMi's install": but(seen=NO_INSTALL),
}
GPUS_WITHOUT: Mapping[str, Callable[[GpusScene], GpusScene]] = {
    "nodes": of_capacity(nodes=UNREAD),
    "holders": of_capacity(pods=UNREAD),
    "the scheduler's process": of_cluster(process=SchedulerProcess(counted=UNREAD, gaps=(UNREAD,))),
    "slices": of_cluster(slices=UNREAD),
    "HAMi's install": of_cluster(seen=NO_INSTALL),
}
QUOTA_WITHOUT: Mapping[str, Callable[[QuotaScene], QuotaScene]] = {
    "quotas": but(quotas_read=UNREAD),
    "holders": but(holders=UNREAD, ledger=None),
    "pods": but(pods={}),
    "pods that wait": but(waiting=UNREAD),
    "refusals": but(refusals=UNREAD),
    "whether the namespace is there": but(deserted=UNREAD),
    "HAMi's install": but(seen=NO_INSTALL),
}


def holders_unread(scene: TuneScene) -> TuneScene:
    return structs.replace(
        scene, holders=UNREAD, ledger=build_ledger((), NEWEST_READ), capacity=scene.capacity._replace(pods=UNREAD)
    )


TUNE_WITHOUT: Mapping[str, Callable[[TuneScene], TuneScene]] = {
    "nodes": lambda scene: structs.replace(scene, nodes=UNREAD, capacity=scene.capacity._replace(nodes=UNREAD)),
    "holders": holders_unread,
    "waiting pods": but(waiting=UNREAD, without_share=()),
    "quotas": lambda scene: structs.replace(scene, capacity=scene.capacity._replace(quotas=UNREAD)),
    "logs": but(throttled=Throttled(gaps=(UNREAD,)), locked=ExtenderLines((), (UNREAD,))),
    "usage": but(usage=UsageSeen(Usage())),
    "cores": but(cores=CoresSeen()),
    "HAMi's install": but(seen=NO_INSTALL),
}
LATENCY_WITHOUT: Mapping[str, Callable[[LatencyScene], LatencyScene]] = {
    "logs": lambda scene: structs.replace(
        scene, latency=structs.replace(scene.latency, waits=(), logs=(), gaps=(UNREAD,))
    ),
    "pods": lambda scene: structs.replace(
        scene, latency=structs.replace(scene.latency, lives=(), unread=True, gaps=(UNREAD,))
    ),
    "events": but(events=UNREAD),
    "HAMi's install": but(seen=NO_INSTALL),
}
LOGS_WITHOUT: Mapping[str, Callable[[LogsScene], LogsScene]] = {
    "the pod": but(subject=UNREAD),
    "logs": but(logs=()),
    "panics": but(panics=()),
    "nodes": but(nodes=UNREAD),
    "HAMi's install": but(seen=NO_INSTALL),
}
OF_CLUSTERS: Mapping[str, tuple[Sequence[Stage[Any]], Mapping[str, Callable[[Any], Any]]]] = {
    "status": (STATUS, INSTALL_WITHOUT),
    "nodes": (NODES, NODES_WITHOUT),
    "gpus": ((*GPUS, *NOTHING), GPUS_WITHOUT),
    "quota": (QUOTA, QUOTA_WITHOUT),
    "latency": (LATENCY_RULES, LATENCY_WITHOUT),
}

FIT_WITHOUT: Mapping[str, Callable[[AskedScene], AskedScene]] = {
    "nodes": of_capacity(nodes=UNREAD),
    "holders": of_capacity(pods=UNREAD),
    "quotas": of_capacity(quotas=UNREAD),
    "HAMi's install": of_cluster(seen=NO_INSTALL),
    "usage": but(usage=None),
}

WITHOUT: Mapping[type, Mapping[str, Callable[[Any], AnyScene]]] = {
    PodScene: OF_WAITING,
    PlacedScene: OF_PLACED,
    AbsentScene: OF_ABSENT,
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ASKED)
def test_a_rule_about_a_pod_tells_what_it_declares_and_concludes_nothing_from_what_was_not_read(name: str) -> None:
    cluster, pod = ASKED[name]()
    scene = gathered("why", cluster, pod)
    speak_alone(TABLES[type(scene)], scene, WITHOUT[type(scene)])
    scene = gathered("logs", cluster, pod)
    taken = {what: less for what, less in LOGS_WITHOUT.items() if scene.pod or what != "the pod"}
    speak_alone(LOGS_RULES, scene, taken, steps=False)  # the answer's first step is to ask why


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_rule_about_a_cluster_tells_what_it_declares_and_concludes_nothing_from_what_was_not_read(name: str) -> None:
    cluster = CLUSTERS[name]()
    for verb, (table, without) in OF_CLUSTERS.items():
        speak_alone(table, gathered(verb, cluster), without)
    for cards in ("1", "2x16Gi", "64x50%"):
        (scene,) = gathered("fit", cluster, cards=cards).asked
        speak_alone(FIT, scene, FIT_WITHOUT)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_advice_tells_what_it_declares_and_concludes_nothing_from_what_was_not_read(name: str) -> None:
    speak_alone(TUNE, gathered("tune", open_case(name)), TUNE_WITHOUT)


def gathered(verb: str, cluster: Any, *pod: str, **values: str) -> Any:
    """The scene of a question, whose rules have not spoken."""
    asked, sources = find(verb), Sources(cluster, ports=cluster if verb == "tune" else None)
    return asyncio.run(asked.gather(asked.request(*pod, **values), sources)).scene


def speak_alone(
    table: Sequence[Stage[Any]], scene: Any, without: Mapping[str, Callable[[Any], Any]], *, steps: bool = True
) -> None:
    """Each rule of the table, with all that was read and with less of it."""
    lesser = {what: taken_away(scene) for what, taken_away in without.items()}
    for rule in dict.fromkeys(rule for stage in table for rule in stage.rules):
        found = rule(scene)
        assert {finding.code for finding in found} <= set(rule.codes), rule.__name__
        assert all(finding.next_actions for finding in found if steps and finding.severity != "info"), rule.__name__
        for what, less in lesser.items():
            for finding in rule(less):
                assert not is_new(finding, found, less), (what, rule.__name__, finding.code)


def is_new(finding: Finding, found: list[Finding], less: object) -> bool:
    """Whether it is surer of a code than with all that was read, and quotes no scheduler's own words."""
    known = any((other.code, other.confidence) == (finding.code, "confirmed") for other in found)
    said = set[Evidence | None]()
    if isinstance(less, PodScene):
        said = {less.attempt.evidence, *(proof for _, proof in less.attempt.code_events)}
    return finding.confidence == "confirmed" and not known and not said & set(finding.evidence)
