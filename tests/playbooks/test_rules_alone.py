"""Every rule by itself, on every recorded pod that waits and on the nodes and GPUs of every recorded cluster, with each
thing that was read taken away in turn.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from bot.hami.installation.install import Install
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Finding, gap
from playbooks.gather.dra import ClaimsSeen
from playbooks.gather.node_side import NodeSide, PluginSets
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.plugin_pods import PluginPods
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, PODS_SOURCE, InstallSeen
from playbooks.gather.volcano_plugins import VolcanoPluginsSeen
from playbooks.gpu_scene import GpusScene
from playbooks.judgement.gpus import GPUS
from playbooks.judgement.nodes import NODES
from playbooks.judgement.waiting import WAITING
from playbooks.node_scene import NodesScene
from playbooks.playbook import Sources, find
from playbooks.rule import Rule, Stage
from playbooks.scene import Messages, PodScene
from tests.cases_support import CASES, VERSIONS, scenarios
from tests.incidents_support import incidents, open_incident

UNREAD = gap("taken away", "it was not read")
NO_INSTALL = InstallSeen(
    Install(),
    DeviceConfig(),
    (gap(DEPLOYMENTS_SOURCE, "no"), gap(PODS_SOURCE, "no")),
    slices=UNREAD,
    presence="unknown",
)
ASKED: Mapping[str, Callable[[], tuple[RecordedCluster, str]]] = {
    **{
        f"{case.version} {case.pod}": lambda case=case: (
            RecordedCluster.open(CASES / case.version / "recording.tar.gz"),
            case.pod,
        )
        for case in scenarios()
    },
    **{
        incident.name: lambda incident=incident: (open_incident(incident.name), incident.pod)
        for incident in incidents()
        if incident.verb == "why"
    },
}
RULES: tuple[Rule[PodScene], ...] = tuple(dict.fromkeys(rule for stage in WAITING for rule in stage.rules))


def of_capacity(**fields: Any) -> Callable[[PodScene], PodScene]:
    def without(scene: PodScene) -> PodScene:
        capacity = scene.cluster.capacity._replace(kept=None, **fields)
        return structs.replace(scene, cluster=structs.replace(scene.cluster, capacity=capacity))

    return without


def of_cluster(**fields: Any) -> Callable[[PodScene], PodScene]:
    return lambda scene: structs.replace(scene, cluster=structs.replace(scene.cluster, **fields))


def owners_unread(scene: PodScene) -> PodScene:
    return of_cluster(lock_owners=dict.fromkeys(scene.cluster.lock_owners, UNREAD))(scene)


WITHOUT: Mapping[str, Callable[[PodScene], PodScene]] = {
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
    "Volcano's plugin": lambda scene: structs.replace(scene, volcano_plugins=VolcanoPluginsSeen()),
    "usage": lambda scene: structs.replace(scene, usage=None),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ASKED)
def test_a_rule_tells_what_it_declares_and_concludes_nothing_from_what_was_not_read(name: str) -> None:
    cluster, pod = ASKED[name]()
    why = find("why")
    scene = asyncio.run(why.gather(why.request(pod), Sources(cluster))).scene
    for rule in RULES if scene is not None else ():
        found = rule(scene)
        assert {finding.code for finding in found} <= set(rule.codes), rule.__name__
        assert all(finding.next_actions for finding in found if finding.severity != "info"), rule.__name__
        for what, taken_away in WITHOUT.items():
            less = taken_away(scene)
            for finding in rule(less):
                assert not is_new(finding, found, less), (what, rule.__name__, finding.code)


def is_new(finding: Finding, found: list[Finding], less: PodScene) -> bool:
    """Whether it is surer of a code than with all that was read, and quotes no scheduler's own words."""
    known = any((other.code, other.confidence) == (finding.code, "confirmed") for other in found)
    own_words = {less.attempt.evidence, less.attempt.none_fit} & set(finding.evidence)
    return finding.confidence == "confirmed" and not known and not own_words


def side_unread(scene: NodesScene) -> NodesScene:
    sides = {name: NodeSide(name, UNREAD, UNREAD) for name in scene.questioned.sides}
    return scene.questioning(NodesInQuestion(sides, PluginSets(UNREAD, UNREAD)), ())


def of_nodes(**fields: Any) -> Callable[[NodesScene], NodesScene]:
    return lambda scene: structs.replace(scene, **fields)


def of_gpus(**fields: Any) -> Callable[[GpusScene], GpusScene]:
    return lambda scene: structs.replace(scene, cluster=structs.replace(scene.cluster, **fields))


NODES_WITHOUT: Mapping[str, Callable[[NodesScene], NodesScene]] = {
    "nodes in question": side_unread,
    "device plugins": of_nodes(plugins=PluginPods(UNREAD, {})),
    "owners of locks": lambda scene: structs.replace(scene, owners=dict.fromkeys(scene.owners, UNREAD)),
    "slices": of_nodes(slices=UNREAD),
    "HAMi's install": of_nodes(seen=NO_INSTALL),
}
GPUS_WITHOUT: Mapping[str, Callable[[GpusScene], GpusScene]] = {
    "nodes": lambda scene: of_gpus(capacity=scene.cluster.capacity._replace(kept=None, nodes=UNREAD))(scene),
    "holders": lambda scene: of_gpus(capacity=scene.cluster.capacity._replace(kept=None, pods=UNREAD))(scene),
    "the scheduler's process": of_gpus(process=SchedulerProcess(counted=UNREAD, gaps=(UNREAD,))),
    "slices": lambda scene: structs.replace(scene, slices=UNREAD),
    "HAMi's install": of_gpus(seen=NO_INSTALL),
}
TABLES: Mapping[str, tuple[Sequence[Stage[Any]], Mapping[str, Callable[[Any], Any]]]] = {
    "nodes": (NODES, NODES_WITHOUT),
    "gpus": (GPUS, GPUS_WITHOUT),
}
CLUSTERS: Mapping[str, Callable[[], RecordedCluster]] = {
    **{name: lambda name=name: RecordedCluster.open(CASES / name / "recording.tar.gz") for name in VERSIONS},
    **{incident.name: lambda incident=incident: open_incident(incident.name) for incident in incidents()},
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("verb", TABLES)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_rule_of_nodes_or_gpus_tells_what_it_declares_and_nothing_from_what_was_not_read(
    name: str, verb: str
) -> None:
    stages, without = TABLES[verb]
    scene = asyncio.run(find(verb).gather(find(verb).request(), Sources(CLUSTERS[name]()))).scene
    for rule in (rule for stage in stages for rule in stage.rules):
        found = rule(scene)
        assert {finding.code for finding in found} <= set(rule.codes), rule.__name__
        assert all(finding.next_actions for finding in found if finding.severity != "info"), rule.__name__
        sure = {finding.code for finding in found if finding.confidence == "confirmed"}
        for what, taken_away in without.items():
            less = {finding.code for finding in rule(taken_away(scene)) if finding.confidence == "confirmed"}
            assert less <= sure, (what, rule.__name__)
