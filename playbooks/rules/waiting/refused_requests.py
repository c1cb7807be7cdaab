"""Rules about requests that fail for what they are: too large for the extender, offered nowhere, or met by a bug.

The extender takes 1 MiB (HAMi 2.9 on), by its log. kube-scheduler finds a resource on no node where nobody offers it,
or where HAMi does and kube-scheduler was not told to leave it to HAMi's extender.
"""

import difflib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.installation.install import SchedulerConfig, find_scheduler_config, kube_scheduler_of
from bot.hami.nodes.node_state import has_vendor, is_left, is_offered
from bot.hami.pods.request_parsing import extended_resources
from bot.hami.scheduler_logs.log_lines import may_be_refused_request, parse_line
from bot.hami.scheduler_logs.scheduling_events import finding_code
from bot.hami.signatures import find
from bot.hami.version import KnownBug, bug_behind
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.report import Confidence, Evidence, Finding, NextAction, act, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.holders import edit_owner
from playbooks.rules.installation.extender import managed_proof, never_asked, restarted, to_managed
from playbooks.scenes.waiting_pod import PodScene

_NEAR = timedelta(seconds=10)
"""The time within which kube-scheduler logs how a call ended."""


@rule("scheduler-degraded", "admission-denied")
def request_refused(scene: PodScene) -> Iterator[Finding]:
    """The finding that a call about the pod broke when the extender logged that it could not read a request."""
    said, broke = scene.attempt.evidence, scene.attempt.at
    if said is None or broke is None or not may_be_refused_request(said.quote):
        return
    lines = ((scheduler, raw, parse_line(raw, scene.now)) for scheduler, raw in scene.cluster.process.refused)
    # Only lines near the call's end count: many pods may wait, and one request is too large.
    near = [
        (parsed.at, scheduler, raw, hit)
        for scheduler, raw, parsed in lines
        if parsed and parsed.at and abs(broke - parsed.at) <= _NEAR
        for hit in find("extender-log", [raw], scene.version)
    ]
    if near:
        at, scheduler, raw, hit = max(near, key=lambda line: line[0])
        proofs = [said, quotes.of_logged(scheduler, EXTENDER_CONTAINER, raw, at)]
        claim, fix = Text("scheduler-degraded.unread", means=hit.means), act(hit.fix)
        yield finding(hit.signature.code, claim, proofs=proofs, severity="critical", actions=[fix])


_CLOSE = 0.5


@rule("resource-unknown", "extender-misconfigured", reads=("nodes",))
def offered_nowhere(scene: PodScene) -> Iterator[Finding]:
    """The finding of a resource that no node can give the pod."""
    if not scene.nodes:
        return
    nodes, seen = scene.nodes.values(), scene.seen
    config = find_scheduler_config(seen.config_maps, kube_scheduler_of(seen.install))
    managed = config.ignored if isinstance(config, SchedulerConfig) else frozenset[str]()
    # What the pod's scheduler itself found too few of.
    refused = {reason.text.removeprefix("Insufficient ") for reason in scene.attempt.by_kubernetes}
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
    """The pod's extended resources that are neither HAMi's nor any node's; empty where nodes were not read."""
    if not scene.nodes_seen or not scene.nodes or not scene.config.names_all:
        return set()
    nodes = scene.nodes.values()
    return {
        name for name in extended_resources(scene.pod) if not scene.config.names(name) and not is_offered(name, nodes)
    }


_PROJECTS = {
    "4pd.io/": "HAMi's predecessor (k8s-vgpu-scheduler)",
    "aliyun.com/gpu-": "gpushare (Alibaba Cloud)",
    "tencent.com/vcuda-": "gpu-manager (Tencent)",
    "tke.cloud.tencent.com/qgpu-": "qGPU (Tencent)",
    "nvidia.com/gpu.shared": "k8s-device-plugin (NVIDIA, time-slicing)",
    "nvidia.com/mig-": "k8s-device-plugin (NVIDIA, MIG)",
    "koordinator.sh/gpu": "Koordinator",
    "nvshare.com/": "nvshare",
    "run.ai/": "Run:ai",
}
"""Other projects that share GPUs, by the prefix of their resources."""


def _unknown(scene: PodScene, name: str, managed: frozenset[str]) -> Finding:
    known = {resource for resource in _offered(scene) if "/" in resource} | managed | scene.config.other_resources
    known |= {resource for device in scene.config.devices for resource in device.resources.all}
    domain, _, local = name.partition("/")
    # A similar name of the same domain is probably what was meant, else one of any domain.
    own = [resource.partition("/")[2] for resource in sorted(known) if resource.partition("/")[0] == domain]
    found = [f"{domain}/{close}" for close in difflib.get_close_matches(local, own, n=1, cutoff=_CLOSE)]
    near = next(iter(found or difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)), "")
    claim = Text("resource-unknown.near" if near else "resource-unknown.claim", resource=name, near=near)
    fix = Text("resource-unknown.rename" if near else "resource-unknown.remove", resource=name, near=near)
    sure: Confidence = "confirmed" if scene.config.names_all else "suspected"
    proofs, ours = _proofs(scene, name), {"count": scene.config.gpus.count, "memory": scene.config.gpus.memory}
    begins = next((begins for begins in _PROJECTS if name.startswith(begins)), "")
    if begins and not near.startswith(begins):
        project = _PROJECTS[begins]
        claim = Text("resource-unknown.other", resource=name, project=project)
        fix = Text("resource-unknown.ask-hami", project=project, **ours)
    steps = [edit_owner(scene.pod, fix), _offers()]
    return finding("resource-unknown", claim, sure, proofs=proofs, actions=steps)


def _without_vendor(scene: PodScene, name: str) -> Finding:
    domain, device = name.partition("/")[0], scene.config.by_resource.get(name)
    values = {"resource": name, "vendor": device.vendor.names.word if device else domain}
    claim, look = Text("resource-unknown.vendor", **values), kubectl("get", "daemonsets", "-A")
    steps = [step(Text("resource-unknown.installed", **values), look), act(Text("resource-unknown.install", **values))]
    if siblings := sorted(one for one in _offered(scene) if one.partition("/")[0] == domain and one != name):
        claim = Text("resource-unknown.sibling", resource=name, siblings=siblings)
        steps = [edit_owner(scene.pod, Text("resource-unknown.ask-sibling", resource=name, siblings=siblings))]
    return finding("resource-unknown", claim, proofs=_proofs(scene, name), actions=[*steps, _offers()])


def _offered(scene: PodScene) -> set[str]:
    return {resource for node in scene.nodes.values() for resource in node.status.allocatable or ()}


def _not_left_to_hami(scene: PodScene, name: str, config: SchedulerConfig | str | None) -> Finding:
    """kube-scheduler counts on the nodes what only HAMi registers."""
    read = config if isinstance(config, SchedulerConfig) else None
    listed = read is not None and name in read.ignored
    key = "extender-misconfigured.unmanaged" if read else "extender-misconfigured.unread"
    claim = Text("extender-misconfigured.listed" if listed else key, resource=name, file=read.key if read else "")
    proofs = [*([managed_proof(read)] if read else []), *_proofs(scene, name)]
    if read and not listed:
        steps = to_managed(read, name, scene.install)
    else:
        look = step(Text("extender-misconfigured.maps"), kubectl("-n", scene.install.namespace, "get", "configmaps"))
        steps = [look, *restarted(scene.install)]
    sure: Confidence = "confirmed" if read and not listed and scene.config.names_all else "suspected"
    return finding("extender-misconfigured", claim, sure, proofs=proofs, actions=steps)


def _proofs(scene: PodScene, name: str) -> list[Evidence]:
    return [*scene.words, quotes.of_resource(scene.pod, name, extended_resources(scene.pod)[name])]


def _offers() -> NextAction:
    look = kubectl("get", "nodes", "-o", 'jsonpath={range .items[*]}{.metadata.name} {.status.allocatable}{"\\n"}{end}')
    return step(Text("resource-unknown.offers"), look)


_CONTAINERS = "HAMi#798"
_MIG_DEVICES = "HAMi#2403"


class MetBug(NamedTuple):
    """A bug of this version that may be why HAMi refuses the pod, and the evidence that the pod meets it."""

    code: Code
    bug: KnownBug
    signs: Sequence[Evidence]


def bug_of_containers(scene: PodScene) -> MetBug | None:
    """The bug by which HAMi refuses several containers without a reason, where objects allow them; None without one."""
    if set(map(finding_code, scene.attempt.codes)) != {"node-unfit-pod"} or len(scene.request.containers) < 2:
        return None
    asking = [quotes.of_pod(scene.pod, container.container, "{.spec..name}") for container in scene.request.containers]
    return _met(scene, "node-unfit-pod", _CONTAINERS, asking)


def bug_of_slices(scene: PodScene, code: Code) -> MetBug | None:
    """The bug by which HAMi refuses a container with several devices though enough are idle; `code` is the refusal."""
    signs = _several(scene) if code == "custom-filter-rule" else []
    return _met(scene, "custom-filter-rule", _MIG_DEVICES, signs) if signs else None


def _met(scene: PodScene, code: Code, thread: str, signs: Sequence[Evidence]) -> MetBug | None:
    bug = bug_behind(code, [thread], scene.version)
    return MetBug(code, bug, signs) if bug else None


def refused_by_bug(scene: PodScene, met: MetBug, refusal: Finding, steps: Sequence[NextAction]) -> Finding:
    """The finding that the bug may be why HAMi refuses the pod; `steps`: what else to do about the refusal."""
    nodes, threads = refusal.scope.nodes or tuple(scene.candidates), ", ".join(met.bug.threads)
    claim = Text("known-bug.refused", version=scene.version, nodes=prose.names(nodes), why=met.bug.why, threads=threads)
    shown = [*refusal.evidence, *met.signs]
    return finding(met.code, claim, "suspected", nodes, shown, actions=steps[:1], of=scene.install)


def _several(scene: PodScene) -> list[Evidence]:
    """The evidence that a container asks for several devices, and of as many idle GPUs in MIG mode; else empty."""
    asked = next((container for container in scene.request.containers if container.count > 1), None)
    if asked is None or scene.request.constraints.mode == "hami-core":
        return []
    for name in scene.candidates:
        idle = [card.card for card in scene.view.cards(name) if card.card.mode == "mig" and not card.slots]
        if len(idle) >= asked.count:
            count = quotes.of_resource(scene.pod, scene.config.of(asked.word).count, str(asked.count))
            return [count, *(quotes.of_card(scene.nodes[name], card.uuid) for card in idle[: asked.count])]
    return []
