"""Every rule by itself, on every recorded pod that waits and every recorded installation, with each thing that was read
taken away in turn.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from msgspec import structs

from bot.hami.installation.install import Install
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Evidence, Finding, gap
from playbooks.gather.dra import ClaimsSeen
from playbooks.gather.node_side import PluginSets
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, LEASE_SOURCE, PODS_SOURCE, InstallSeen
from playbooks.gather.volcano_plugins import VolcanoPluginsSeen
from playbooks.gather.webhook import WebhookSeen
from playbooks.judgement.installation import STATUS
from playbooks.judgement.waiting import WAITING
from playbooks.playbook import Sources, find
from playbooks.rule import Rule, Scene, Stage
from playbooks.scene import InstallScene, Messages, PodScene
from tests.cases_support import CASES, scenarios
from tests.incidents_support import incidents, open_incident

S = TypeVar("S", bound=Scene)

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
CLUSTERS: Mapping[str, Callable[[], RecordedCluster]] = {
    **{path.parent.name: lambda path=path: RecordedCluster.open(path) for path in CASES.glob("*/recording.tar.gz")},
    **{incident.name: lambda incident=incident: open_incident(incident.name) for incident in incidents()},
}


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


def of_components(source: str, **fields: Any) -> Callable[[InstallScene], InstallScene]:
    def without(scene: InstallScene) -> InstallScene:
        gaps = (*scene.components.gaps, gap(source, "it was not read"))
        return structs.replace(scene, components=scene.components._replace(**fields, gaps=gaps))

    return without


def lease_unread(scene: InstallScene) -> InstallScene:
    install = scene.install._replace(lease=None)
    gaps = (*scene.seen.gaps, gap(LEASE_SOURCE, "it was not read"))
    return structs.replace(scene, seen=scene.seen._replace(install=install, gaps=gaps))


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


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ASKED)
def test_a_rule_tells_what_it_declares_and_concludes_nothing_from_what_was_not_read(name: str) -> None:
    cluster, pod = ASKED[name]()
    why = find("why")
    scene = asyncio.run(why.gather(why.request(pod), Sources(cluster))).scene
    if scene is not None:
        own_words = {scene.attempt.evidence, scene.attempt.none_fit}
        speak_alone(WAITING, scene, WITHOUT, own_words - {None})


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_rule_about_the_installation_tells_what_it_declares_and_concludes_nothing_from_what_was_not_read(
    name: str,
) -> None:
    status = find("status")
    scene = asyncio.run(status.gather(status.request(), Sources(CLUSTERS[name]()))).scene
    speak_alone(STATUS, scene, INSTALL_WITHOUT)


def speak_alone(
    table: Sequence[Stage[S]], scene: S, without: Mapping[str, Callable[[S], S]], own_words: set[Evidence] | None = None
) -> None:
    """Each rule of the table, with all that was read and with less of it."""
    rules: tuple[Rule[S], ...] = tuple(dict.fromkeys(rule for stage in table for rule in stage.rules))
    for rule in rules:
        found = rule(scene)
        assert {finding.code for finding in found} <= set(rule.codes), rule.__name__
        assert all(finding.next_actions for finding in found if finding.severity != "info"), rule.__name__
        for what, taken_away in without.items():
            for finding in rule(taken_away(scene)):
                assert not is_new(finding, found, own_words or set()), (what, rule.__name__, finding.code)


def is_new(finding: Finding, found: list[Finding], own_words: set[Evidence]) -> bool:
    """Whether it is surer of a code than with all that was read, and quotes no scheduler's own words."""
    known = any((other.code, other.confidence) == (finding.code, "confirmed") for other in found)
    return finding.confidence == "confirmed" and not known and own_words.isdisjoint(finding.evidence)
