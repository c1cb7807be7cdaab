"""Rules about a pod that Volcano places, without HAMi's scheduler and webhook. Signs and texts: volcano v1.9 to v1.16
(pkg/scheduler/plugins/deviceshare), volcano-vgpu-device-plugin v1.9 to v1.12.
"""

import re
from collections.abc import Iterator, Sequence

from bot.hami.installation.install import KUBERNETES_SCHEDULER, VOLCANO_SCHEDULERS, Install
from bot.hami.nodes.cards import Card
from bot.hami.pods.allocations import Allocation, decode_allocations
from bot.hami.pods.request_parsing import DeviceConfig, asked_resources, extended_resources
from bot.hami.version import NEWEST_READ
from bot.kube.models import Container, Event, Node, Pod
from bot.report import Evidence, Finding, Gap, NextAction, act, one_line, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import LogSeen
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.containers import last_of, statuses
from playbooks.rules.common.findings import Part, finding, fix_of, log_line
from playbooks.rules.common.holders import edit_owner
from playbooks.rules.nodes.plugin_faults import in_plugin_log
from playbooks.rules.waiting.unregistered_nodes import plugin_log
from playbooks.scenes.waiting_pod import PodScene

_DOMAIN = "volcano.sh/"
_VGPU = "volcano.sh/vgpu-"
_NUMBER, _MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
_REGISTER = "volcano.sh/node-vgpu-register"
_MODE = "volcano.sh/vgpu-mode"
_FIELDS, _MODES = 4, ("hami-core", "mig", "mps")
_OLD_MODE = ("volcano.sh/gpu-memory", "volcano.sh/gpu-number")
"""Resources of Volcano's gpushare, which cannot be mixed with vGPUs (volcano#3624)."""
_HELD = re.compile(r"requested number of devices unavailable for volcano\.sh/")
_OF_KUBELET = re.compile(r"^(?:Pod was rejected: )?(?:Allocate failed|requested number of devices unavailable)")
_DELETED = "{.metadata.deletionTimestamp}"
_GROUP_KEYS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GIVEN_KEY = "volcano.sh/vgpu-ids-new"
_GIVEN_KEYS = ("volcano.sh/vgpu-node", "volcano.sh/bind-phase")


_ENDED = r"error reading from server: EOF"
_QUEUE = r"queue resource quota insufficient|resource in cluster is overused"
_LOCKED = r"locked for .*hamivgpu|hamivgpu.* lock"
_GANG = r"in gang unschedulable|pod group is not ready"
_REFUSED = r"hami-vgpuDeviceSharing|not enough gpu fitted on this node"
_NEW = r"node not initialized with device ?hamivgpu"
_SETTINGS = "volcano-scheduler-configmap"
_SWITCH_ON = Text("volcano-scheduled.switch-on")
_LOOKS = {
    "volcano-scheduled.fix-uninitialised",
    "volcano-scheduled.fix-refused",
    "volcano-scheduled.fix-insufficient",
    "volcano-scheduled.fix-gang",
}
_MEANINGS = (
    (_ENDED, Text("volcano-scheduled.ended"), _SWITCH_ON),
    (r"n(?:o|ot) enough gpu cards", Text("volcano-scheduled.cards"), Text("volcano-scheduled.fix-cards")),
    (_QUEUE, Text("volcano-scheduled.queue"), Text("volcano-scheduled.fix-queue")),
    (_NEW, Text("volcano-scheduled.uninitialised"), Text("volcano-scheduled.fix-uninitialised")),
    (_REFUSED, Text("volcano-scheduled.refused"), Text("volcano-scheduled.fix-refused")),
    (r"no pending pod found on node", Text("volcano-scheduled.unannotated"), _SWITCH_ON),
    (_LOCKED, Text("volcano-scheduled.locked"), Text("volcano-scheduled.fix-locked")),
    (r"Insufficient volcano\.sh/", Text("volcano-scheduled.insufficient"), Text("volcano-scheduled.fix-insufficient")),
    (_GANG, Text("volcano-scheduled.gang"), Text("volcano-scheduled.fix-gang")),
)
"""What Volcano or its device plugin says, what that means and what to do, the most telling first."""


def limited_containers(pod: Pod) -> list[Container]:
    """The containers that get a part of a GPU as Volcano's vGPU: HAMi-core keeps their limits too."""
    parts = {f"{_VGPU}{name}" for name in ("memory", "memory-percentage", "cores")}
    return [
        container
        for container in pod.spec.containers
        if container.resources and not parts.isdisjoint(container.resources.limits or ())
    ]


def pod_group(pod: Pod) -> str:
    """The name of the pod's PodGroup; empty where no annotation names one."""
    return next(filter(None, map(pod.metadata.annotation, _GROUP_KEYS)), "")


def is_of_volcano(pod: Pod, install: Install) -> bool:
    """Whether Volcano places the pod, or is meant to: by its scheduler's name, its resources, or a PodGroup of its own.
    A PodGroup does not count where HAMi's or Kubernetes' own scheduler is named: other tools use the annotation too.
    """
    named = pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    if named in VOLCANO_SCHEDULERS or any(name.startswith(_DOMAIN) for name in extended_resources(pod)):
        return True
    return bool(pod_group(pod)) and named not in (KUBERNETES_SCHEDULER, install.scheduler_name)


def scheduled_by_volcano(
    pod: Pod,
    install: Install,
    config: DeviceConfig,
    quoted: Sequence[Evidence],
    *,
    logs: Sequence[LogSeen] = (),
    lacking: Part | None = None,
    beside: Sequence[Pod] = (),
) -> Finding | None:
    """The finding of what Volcano says of its pod. `lacking`: what no node has; `beside`: its node's pods."""
    if not is_of_volcano(pod, install):
        return None
    named = pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    asked = extended_resources(pod)
    ours = [name for name in asked_resources(pod, config) if name.startswith(f"{config.gpus.count.split('/')[0]}/")]
    theirs = [name for name in asked if name.startswith(_DOMAIN)]
    if theirs and named in (KUBERNETES_SCHEDULER, install.scheduler_name):
        claim = Text("volcano-scheduled.elsewhere", resource=theirs[0], scheduler=named)
        steps = [edit_owner(pod, Text("volcano-scheduled.fix-elsewhere"), {"spec": {"schedulerName": "volcano"}})]
    elif old := [name for name in theirs if name in _OLD_MODE and any(their.startswith(_VGPU) for their in theirs)]:
        claim = Text("volcano-scheduled.modes", resource=old[0])
        steps = [edit_owner(pod, Text("volcano-scheduled.fix-modes"))]
    elif ours:
        claim = Text("volcano-scheduled.mixed", resource=ours[0], scheduler=named, hami=install.scheduler_name)
        steps = [edit_owner(pod, Text("volcano-scheduled.fix-mixed"))]
    else:
        claim, steps = _by_its_words(pod, named, quoted)
    proofs = [*quoted, *_signs(pod, [*theirs, *ours], asked)]
    if any(_HELD.search(evidence.quote) for evidence in quoted):
        leaving = (one for one in beside if one.metadata.deletion_timestamp)
        ending = [one for one in leaving if any(name.startswith(_VGPU) for name in extended_resources(one))]
        held = Text("volcano-scheduled.held", pod=f"{ending[0].namespace}/{ending[0].name}") if ending else None
        claim = sentences(held or Text("volcano-scheduled.held-unseen"), claim)
        proofs += [quotes.of_pod(ending[0], ending[0].metadata.deletion_timestamp or "", _DELETED)] if ending else []
        holders = quotes.kubectl_pods_on(pod.spec.node_name)
        fix = Text("volcano-scheduled.fix-held") if ending else Text("volcano-scheduled.fix-held-unseen")
        steps = [act(fix, holders)]
    if lacking:
        claim, steps = sentences(lacking.text, Text("volcano-scheduled.places", scheduler=named)), lacking.steps
        proofs = [*quoted, *lacking.proofs, *proofs[len(quoted) :]]
    if (group := pod_group(pod)) and not pod.spec.node_name:
        describe = kubectl("-n", pod.namespace, "describe", "podgroups.scheduling.volcano.sh", group)
        steps = [*steps, step(Text("volcano-scheduled.group"), describe)]
    for broken, proof, fix, known in _broken_plugin(logs):  # a known cause comes before Volcano's words
        claim = sentences(broken, claim) if known else sentences(claim, broken)
        proofs, steps = [proof, *proofs], [fix, *steps] if known else [*steps, fix]
    return finding("volcano-scheduled", claim, nodes=[pod.spec.node_name], proofs=proofs, actions=steps)


@rule("volcano-scheduled")
def placed_by_volcano(scene: PodScene) -> Iterator[Finding]:
    """The findings of what Volcano says of its pod, and of what its device plugin's log says is wrong."""
    said, logs = [*scene.words, *of_group(scene.group_events)], scene.volcano_plugins.logs
    if told := scheduled_by_volcano(scene.pod, scene.install, scene.config, said, logs=logs, lacking=_lacks(scene)):
        yield told


def _lacks(scene: PodScene) -> Part | None:
    """More GPUs for one container than any node registers, a mode that none has, or a resource offered at 0 where GPUs
    are registered.
    """
    registered = {node.name: cards(node) for node in scene.nodes.values()}
    node = max(registered, key=lambda name: len(registered[name]), default="")
    most = len(registered[node]) if node else 0
    if not most:
        return None
    asked = extended_resources(scene.pod)
    number = asked.get(_NUMBER, "")
    if number.isdecimal() and int(number) > most:
        claim = Text("volcano-scheduled.too-many", resource=_NUMBER, asked=number, most=most, node=node)
        fewer = edit_owner(scene.pod, Text("volcano-scheduled.fewer", resource=_NUMBER, most=most))
        asks = quotes.of_resource(scene.pod, _NUMBER, number)
        register = scene.nodes[node].metadata.annotation(_REGISTER) or ""
        return Part(claim, [asks, quotes.of_node_annotation(scene.nodes[node], _REGISTER, register)], [fewer])
    modes = {card.mode for found in registered.values() for card in found}
    wanted = scene.pod.metadata.annotation(_MODE) or ""
    if wanted and "" not in modes and wanted not in modes:
        mode = registered[node][0].mode
        claim = Text("volcano-scheduled.other-mode", wanted=wanted, mode=mode, node=node)
        proofs = [
            quotes.of_pod_annotation(scene.pod, _MODE),
            quotes.of_node_annotation(scene.nodes[node], _REGISTER, mode),
        ]
        patch = {"metadata": {"annotations": {_MODE: mode}}}
        return Part(claim, proofs, [edit_owner(scene.pod, Text("volcano-scheduled.fix-mode", wanted=wanted), patch)])
    for name, found in registered.items():
        offered = scene.nodes[name].status.allocatable or {}
        none = next((resource for resource in asked if found and str(offered.get(resource)) == "0"), "")
        if none and none != _MEMORY:
            claim = Text("volcano-scheduled.offers-none", node=name, resource=none, count=len(found))
            look = step(Text("volcano-scheduled.see-plugin", node=name), quotes.kubectl_pods_on(name))
            return Part(claim, [quotes.of_allocatable(scene.nodes[name], none)], [look])
        if none:
            claim = Text("volcano-scheduled.offered-none", node=name, resource=none, count=len(found))
            where = kubectl("get", "daemonsets", "-A", "-l", "app.kubernetes.io/component=device-plugin")
            factor = act(Text("volcano-scheduled.factor", node=name), where)
            return Part(claim, [quotes.of_allocatable(scene.nodes[name], none)], [factor])
    return None


def cards(node: Node) -> list[Card]:
    """The GPUs that Volcano's device plugin registers on the node. `UUID,slots,MiB,type,health,mode`
    (volcano-vgpu-device-plugin pkg/util/util.go), newer ones with cores before type.
    """
    found: list[Card] = []
    for entry in (text.split(",") for text in (node.metadata.annotation(_REGISTER) or "").split(":")):
        if len(entry) > _FIELDS and entry[1].isdecimal() and entry[2].isdecimal():
            cores, kind = (int(entry[3]), entry[4]) if entry[3].isdecimal() else (100, entry[3])
            mode = entry[-1] if entry[-1] in _MODES else ""
            found.append(Card(entry[0], int(entry[1]), int(entry[2]), cores, type=kind, mode=mode))
    return found


def shares(pod: Pod) -> list[Allocation]:
    """The shares of GPUs that Volcano gave the pod, in an annotation written as HAMi's."""
    given = decode_allocations(pod.metadata.annotation(GIVEN_KEY) or "", NEWEST_READ) or ()
    return [share for shares in given for share in shares if share.uuid]


def _broken_plugin(logs: Sequence[LogSeen]) -> list[tuple[Text, Evidence, NextAction, bool]]:
    """The first node whose device plugin does not work, the proof, what to do, and whether that is a known cause."""
    for log in logs:
        node = log.pod.spec.node_name or log.pod.name
        status = next((status for status in statuses(log.pod) if status.name == log.container), None)
        for hit, proof in in_plugin_log(log, status) if status else ():
            runtime = hit.signature.code == "gpu-runtime-missing"
            fix = act(Text("volcano-scheduled.fix-plugin", node=node)) if runtime else fix_of(hit)
            broken = Text("volcano-scheduled.plugin", node=node, means=hit.means)
            return [(broken, proof, fix, True)]
        end = status.last_state.terminated if status and not status.state.running else None
        words = last_of([log], end, running=False) if end else None
        if words and words.error:
            broken = Text("volcano-scheduled.plugin", node=node, means=words.text)
            return [(broken, log_line(log, words.line), plugin_log(log.pod), False)]
    return []


def _by_its_words(pod: Pod, named: str, quoted: Sequence[Evidence]) -> tuple[Prose, list[NextAction]]:
    """The first of Volcano's words whose meaning is known, else the first of all."""
    known = (
        (_part(evidence.quote, pattern), means, fix)
        for pattern, means, fix in _MEANINGS
        for evidence in quoted
        if re.search(pattern, evidence.quote)
    )
    words, means, fix = next(known, (quoted[0].quote if quoted else "", None, None))
    if not words:
        look = kubectl("get", "pods", "-A", "-l", "app=volcano-scheduler")
        silent = Text("volcano-scheduled.silent", scheduler=named)
        return silent, [step(Text("volcano-scheduled.running"), look)]
    values, by_kubelet = {"scheduler": named, "words": one_line(words, 160).rstrip(".")}, _OF_KUBELET.search(words)
    if by_kubelet and means:
        claim = Text("volcano-scheduled.kubelet", scheduler=named)
    else:
        claim = Text("volcano-scheduled.by-kubelet" if by_kubelet else "volcano-scheduled.claim", **values)
    if means is None or fix is None:
        return claim, [step(Text("blocked-after-filter.look"), kubectl_pod(pod, "describe"))]
    look = kubectl_pod(pod, "get", "-o", "jsonpath={.spec.containers[*].resources.limits}")
    if fix is _SWITCH_ON:
        look = kubectl("get", "configmaps", "-A", "--field-selector", f"metadata.name={_SETTINGS}", "-o", "yaml")
    return sentences(means, claim), [step(fix, look, changes_cluster=fix.key not in _LOOKS)]


def _part(words: str, pattern: str) -> str:
    reasons = words.partition("available: ")[2]
    return next((reason for reason in reasons.split(", ") if re.search(pattern, reason)), words)


def _signs(pod: Pod, resources: Sequence[str], asked: dict[str, str]) -> Iterator[Evidence]:
    if pod.spec.scheduler_name:
        yield quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}")
    for key in (*_GROUP_KEYS, *_GIVEN_KEYS):
        if pod.metadata.annotation(key):
            yield quotes.of_pod_annotation(pod, key)
    for name in resources:
        yield quotes.of_resource(pod, name, asked[name])


def of_group(events: Sequence[Event] | Gap) -> list[Evidence]:
    """The evidence of the newest two complaints about a PodGroup."""
    if isinstance(events, Gap):
        return []
    newest = sorted((event for event in events if event.message.strip()), key=lambda event: event.seen_at, reverse=True)
    return [quotes.of_event(event) for event in newest if event.type != "Normal"][:2]
