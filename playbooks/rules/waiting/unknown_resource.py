"""Resources that kube-scheduler looks for on the nodes and finds on none.

Either nobody offers them, or HAMi does and kube-scheduler was not told to leave them to HAMi's extender.
"""

import difflib
from collections.abc import Iterator, Sequence

from bot.hami.installation.install import kube_scheduler_of
from bot.hami.installation.kube_scheduler import SchedulerConfig, find_scheduler_config
from bot.hami.nodes.node_state import has_vendor, is_left, is_offered
from bot.hami.pods.request_parsing import extended_resources
from bot.kube.models import Pod
from bot.report import Confidence, Evidence, Finding, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.attempt import Attempt
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.extender import managed_proof, never_asked
from playbooks.scenes.waiting_pod import PodScene

_CLOSE = 0.5


@rule("resource-unknown", "extender-misconfigured", reads=("nodes",))
def offered_nowhere(scene: PodScene) -> Iterator[Finding]:
    """The resource that no node can give the pod; nothing where each can be had."""
    if not scene.nodes:
        return
    nodes, seen = scene.nodes.values(), scene.seen
    config = find_scheduler_config(seen.config_maps, kube_scheduler_of(seen.install))
    managed = config.ignored if isinstance(config, SchedulerConfig) else frozenset[str]()
    refused = _refused(scene.pod, scene.attempt)
    for name in extended_resources(scene.pod):
        ours = scene.config.names(name) or name in managed
        if (name in scene.config.gpus.all and name not in refused) or (is_left if ours else is_offered)(name, nodes):
            continue
        if not ours:
            yield _unknown(scene, name, managed)
            return
        if not has_vendor(name, nodes) and scene.attempt.stage == "filter":
            yield _without_vendor(scene, name)
            return
        if name in refused and scene.pod.spec.scheduler_name == scene.install.scheduler_name:
            yield from never_asked(seen, ("kind",), _proofs(scene, name)) or [_not_left_to_hami(scene, name, config)]
            return


def unknown_resources(scene: PodScene) -> set[str]:
    """The pod's resources that are neither HAMi's nor any node's."""
    if not scene.nodes_seen or not scene.nodes or not scene.config.names_all:
        return set()
    nodes = scene.nodes.values()
    return {
        name for name in extended_resources(scene.pod) if not scene.config.names(name) and not is_offered(name, nodes)
    }


def _refused(pod: Pod, attempt: Attempt) -> set[str]:
    """The resources that the pod's scheduler itself found too few of."""
    reasons = attempt.unschedulable.by_kubernetes if attempt.unschedulable else ()
    return {reason.text.removeprefix("Insufficient ") for reason in reasons} & set(extended_resources(pod))


def _unknown(scene: PodScene, name: str, managed: frozenset[str]) -> Finding:
    known = {resource for node in scene.nodes.values() for resource in node.status.allocatable or () if "/" in resource}
    known |= (
        managed
        | scene.config.other_resources
        | {resource for device in scene.config.devices for resource in device.resources.all}
    )
    near = _nearest(name, sorted(known))
    claim = Text("resource-unknown.near" if near else "resource-unknown.claim", resource=name, near=near)
    fix = Text("resource-unknown.rename", near=near) if near else Text("resource-unknown.remove", resource=name)
    steps = [step(fix, kubectl_pod(scene.pod, "get", "-o", "jsonpath={.spec.containers[*].resources}"))]
    sure: Confidence = "confirmed" if scene.config.names_all else "suspected"
    proofs = _proofs(scene, name)
    return finding("resource-unknown", claim, sure, (), proofs, severity="warning", actions=[*steps, _offers()])


def _nearest(name: str, known: Sequence[str]) -> str:
    """The name that was meant, it seems: of the same domain if there is a near one, else of any."""
    domain, _, local = name.partition("/")
    own = [resource.partition("/")[2] for resource in known if resource.partition("/")[0] == domain]
    if found := difflib.get_close_matches(local, own, n=1, cutoff=_CLOSE):
        return f"{domain}/{found[0]}"
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.8)), "")


def _without_vendor(scene: PodScene, name: str) -> Finding:
    claim = Text("resource-unknown.vendor", resource=name)
    steps = [step(Text("resource-unknown.install", resource=name), kubectl("get", "daemonsets", "-A"))]
    if siblings := _siblings(scene, name):
        claim = Text("resource-unknown.sibling", resource=name, siblings=siblings)
        look = kubectl_pod(scene.pod, "get", "-o", "jsonpath={.spec.containers[*].resources}")
        steps = [step(Text("resource-unknown.ask-sibling", resource=name, siblings=siblings), look)]
    proofs = _proofs(scene, name)
    steps.append(_offers())
    return finding("resource-unknown", claim, "confirmed", (), proofs, severity="warning", actions=steps)


def _siblings(scene: PodScene, name: str) -> list[str]:
    """The resources of the same vendor that nodes do offer."""
    domain = name.partition("/")[0]
    offered = {resource for node in scene.nodes.values() for resource in node.status.allocatable or ()}
    return sorted(resource for resource in offered if resource.partition("/")[0] == domain and resource != name)


def _not_left_to_hami(scene: PodScene, name: str, config: SchedulerConfig | str | None) -> Finding:
    """kube-scheduler counts on the nodes what only HAMi registers."""
    read = config if isinstance(config, SchedulerConfig) else None
    listed = read is not None and name in read.ignored
    key = "extender-misconfigured.unmanaged" if read else "extender-misconfigured.unread"
    claim = Text("extender-misconfigured.listed" if listed else key, resource=name, file=read.key if read else "")
    proofs = [*_proofs(scene, name), *([managed_proof(read)] if read else [])]
    namespace = scene.install.namespace
    deployment = scene.install.deployment
    if read and not listed:
        config_map = read.config_map
        label = Text("extender-misconfigured.add", resource=name)
        steps = [
            step(label, kubectl("-n", config_map.namespace, "edit", "configmap", config_map.name), changes_cluster=True)
        ]
    else:
        steps = [step(Text("extender-misconfigured.maps"), kubectl("-n", namespace, "get", "configmaps"))]
    if deployment:
        restart = kubectl("-n", namespace, "rollout", "restart", "deployment", deployment.name)
        steps.append(step(Text("extender-misconfigured.restart"), restart, changes_cluster=True))
    sure: Confidence = "confirmed" if read and not listed and scene.config.names_all else "suspected"
    return finding("extender-misconfigured", claim, sure, (), proofs, severity="warning", actions=steps)


def _proofs(scene: PodScene, name: str) -> list[Evidence]:
    asked = quotes.of_pod(scene.pod, name, "{.spec..resources}")
    return [*([scene.attempt.evidence] if scene.attempt.evidence else []), asked]


def _offers() -> NextAction:
    look = kubectl("get", "nodes", "-o", 'jsonpath={range .items[*]}{.metadata.name} {.status.allocatable}{"\\n"}{end}')
    return step(Text("resource-unknown.offers"), look)
