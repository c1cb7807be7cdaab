"""Rules about a pod whose node refused its devices after Bind: in whose words, what is behind it, and who placed it."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.hami.installation.install import SchedulerConfig, find_scheduler_config, is_anothers, kube_scheduler_of
from bot.hami.pods.allocations import BIND_PHASE_KEY, NODE_KEY, reserved_node
from bot.hami.pods.request_parsing import asked_resources, device_asked, extended_resources
from bot.hami.signatures import find
from bot.hami.vendors import BY_WORD, FIRST, vendor_of_resource
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, Gap, act, step
from bot.texts import Text, unstopped
from playbooks import quotes
from playbooks.gather.node_side import is_monitor
from playbooks.gather.scheduling import InstallSeen
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.admission.webhook_bypassed import missed
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding, fix_of, log_line
from playbooks.rules.common.holders import recreate
from playbooks.rules.installation.extender import managed_proof, never_asked, to_managed
from playbooks.rules.nodes.gpu_faults import rivals
from playbooks.rules.nodes.node_causes import NODE_CODES, node_causes
from playbooks.rules.nodes.plugin_faults import crash_near
from playbooks.rules.placed.container_faults import fault
from playbooks.rules.waiting.volcano import is_of_volcano, scheduled_by_volcano
from playbooks.scenes.placed_pod import PlacedScene

_ALLOCATE_REASON = "UnexpectedAdmissionError"
_OUT_OF = "OutOf"
_BOUND = "BindingSucceed"
"""HAMi's event of a Bind; no other scheduler writes it. Events expire; HAMi also leaves a label with the node name."""
_ANSWERED = re.compile(r"rpc error: code = (?!Unavailable|DeadlineExceeded|Canceled)\w+ desc = ")
"""Matches a gRPC error that the plugin itself answered; the excluded codes mean that no plugin was there."""
_BEFORE_ITS_WORDS = (" desc = ", "Allocate failed due to ", "Pod was rejected: ")
"""What kubelet and gRPC put before the device plugin's own words."""
_OF_RESOURCE = re.compile(r"(?:unavailable for|unhealthy devices|unregistered device|resource:) ([\w.-]+/[\w.-]*\w)")
"""Matches the resource that kubelet names where it refuses by itself [Kubernetes 1.36 devicemanager, lifecycle]."""
_MOST_LINES = 3


class StartRefusal(NamedTuple):
    """How a node refused a pod: `words` of kubelet or the device plugin, `logged` those in the device plugin's log.
    `stripped` shows that HAMi bound the pod to its node although Bind's annotations are gone.
    """

    words: list[Evidence]
    stripped: list[Evidence]
    logged: list[Evidence]

    @property
    def proofs(self) -> tuple[Evidence, ...]:
        return (*self.words, *self.stripped, *self.logged)


def refusal(scene: PlacedScene) -> StartRefusal | None:
    """How the node refused the pod's devices; None where it did not."""
    pod, node, words = scene.pod, scene.pod.spec.node_name, _words(scene)
    if not words:
        return None
    bound = [event for event in scene.events if event.reason == _BOUND and f"[{node}]" in event.message][-1:]
    stripped = [quotes.of_event(event) for event in bound]
    if not bound and pod.metadata.label(NODE_KEY) == node:
        stripped = [quotes.of_pod(pod, node, f"{{.metadata.labels.{quotes.escape(NODE_KEY)}}}")]
    return StartRefusal(words, [] if reserved_node(pod.metadata) or not node else stripped, _logged(scene))


@rule("allocate-failed")
def refused(scene: PlacedScene) -> Iterator[Finding]:
    pod, node, said = scene.pod, scene.pod.spec.node_name, scene.once(refusal)
    if said is None:
        return
    placed, of_volcano = reserved_node(pod.metadata) != "", is_of_volcano(pod, scene.install)
    message = said.words[0].quote
    own = (message.split(mark, 1)[1] for mark in _BEFORE_ITS_WORDS if mark in message)
    own = (words.removesuffix(", which is unexpected") for words in own)
    why = Text("allocate-failed.no-words") if message == "failed" else next(own, message)
    known = (vendor_of_resource(name) for name in extended_resources(pod))  # by the usual names
    vendor = next((BY_WORD[of[0].word] for of in known if of), FIRST)
    actions = [step(Text("allocate-failed.plugin-log"), prose.plugin_pods_command(node, vendor))]
    if said.stripped:
        look = kubectl_pod(pod, "get", "--show-managed-fields", "-o", "yaml")
        actions = [step(Text("allocate-failed.who-removes"), look)]
    elif not placed and not of_volcano:
        look = kubectl_pod(pod, "get", "-o", "jsonpath={.spec.schedulerName}")
        actions.insert(0, step(Text("allocate-failed.scheduler"), look))
    actions.append(recreate(pod, Text("allocate-failed.recreate")))
    key = "allocate-failed.stripped" if said.stripped else "allocate-failed.unplaced"
    scheduler = pod.spec.scheduler_name or "?"
    values = {"node": node or "?", "why": why, "scheduler": scheduler}
    claim = Text("allocate-failed.claim" if placed or of_volcano else key, **values)
    if foreign := scene.once(_foreign):
        means = Text("allocate-failed.foreign", resource=foreign)
        claim = Text("allocate-failed.means", claim=unstopped(claim), means=means)
        actions[:-1] = [step(Text("allocate-failed.foreign-look", resource=foreign), kubectl("describe", "node", node))]
    # kubelet's words have a known meaning, except for pods of Volcano and devices that are not HAMi's.
    read = [evidence.quote for evidence in said.words] if scene.seen and not of_volcano and not foreign else []
    known = find("kubelet-message", read, scene.plugin_version)
    if known and not said.stripped:
        claim = Text("allocate-failed.means", claim=unstopped(claim), means=known[0].means)
        actions.insert(0, fix_of(known[0]))
    others = [] if known or said.stripped or of_volcano or scene.side is None else rivals(scene.side)
    if others and _ANSWERED.search(said.words[0].quote):
        names = prose.names([f"{other.namespace}/{other.name}" for other in others])
        claim = Text("allocate-failed.means", claim=unstopped(claim), means=Text("allocate-failed.rival", pods=names))
        actions.insert(0, act(Text("allocate-failed.rival-off", pods=names), quotes.kubectl_pod(others[0], "get")))
    yield fault(scene, "allocate-failed", claim, said.proofs, actions, sure="confirmed")


@rule(*NODE_CODES, reads=("install",))
def node_behind_refusal(scene: PlacedScene) -> list[Finding]:
    """The findings of what is wrong with the node; none where its device plugin answered with the refusal."""
    said, side = scene.once(refusal), scene.side
    if said is None or side is None or scene.seen is None or scene.once(_foreign):
        return []
    if any(_ANSWERED.search(evidence.quote) for evidence in said.words):
        return []
    times = [at for evidence in (*said.words, *said.stripped) if (at := parse_time(evidence.at))]
    vendor = device_asked(scene.pod, scene.config).vendor
    found = node_causes([side], scene.plugin_sets, scene.seen, scene.now, vendor)
    found = found or [cause.told(of=scene.install) for cause in crash_near(side, times, vendor)]
    return _then_recreated(found, scene.pod)


def _then_recreated(found: Sequence[Finding], pod: Pod) -> list[Finding]:
    """The findings behind a refusal; what mends the first one does not start the refused pod again."""
    first = found[0] if found else None
    if first is None or any(action.key in ("change.recreate", "change.in-owner") for action in first.next_actions):
        return list(found)
    last = recreate(pod, Text("allocate-failed.recreate"))
    return [structs.replace(first, next_actions=(*first.next_actions, last)), *found[1:]]


@rule(
    *("volcano-scheduled", "wrong-scheduler", "webhook-bypassed", "extender-misconfigured"),
    *("webhook-missing", "webhook-unreachable", "webhook-untrusted"),
    reads=("install",),
)
def placed_without_hami(scene: PlacedScene) -> list[Finding]:
    """The findings why the pod came to its node without a GPU from HAMi, where that was not meant."""
    pod, install, config, said = scene.pod, scene.install, scene.config, scene.once(refusal)
    if said is None or said.stripped or reserved_node(pod.metadata) or scene.seen is None:
        return []
    if scene.seen.presence == "absent" or is_anothers(pod.spec.scheduler_name, install):
        return []
    beside = scene.side.pods if scene.side and not isinstance(scene.side.pods, Gap) else ()
    logs = scene.volcano_plugins.logs
    if (of_volcano := scheduled_by_volcano(pod, install, config, said.proofs, logs=logs, beside=beside)) is not None:
        return [of_volcano]
    asked, owner = asked_resources(pod, config), None if isinstance(scene.owner, Gap) else scene.owner
    found = missed(scene, asked, said.proofs, owner) or _not_asked_about(pod, asked, scene.seen, said)
    return _then_recreated(found, pod)


def _not_asked_about(pod: Pod, asked: dict[str, str], seen: InstallSeen, said: StartRefusal) -> list[Finding]:
    """HAMi's kube-scheduler asks the extender only about pods with a resource that the extender manages."""
    if asked and (unnamed := never_asked(seen, ("kind",), said.proofs)):
        return unnamed
    config = find_scheduler_config(seen.config_maps, kube_scheduler_of(seen.install))
    extender = config.extender(seen.config.gpus.count) if isinstance(config, SchedulerConfig) else None
    managed = {resource.name for resource in extender.managed_resources or ()} if extender else set[str]()
    if not isinstance(config, SchedulerConfig) or not managed or not asked or managed & asked.keys():
        return []
    names = prose.names(sorted(asked))
    claim = Text("extender-misconfigured.unasked", resources=names, file=config.key)
    steps = to_managed(config, names, seen.install)
    path = "{.spec.containers[*].resources.limits}"
    proofs = [managed_proof(config), *(quotes.of_pod(pod, name, path) for name in asked), *said.proofs]
    return [finding("extender-misconfigured", claim, proofs=proofs, actions=steps)]


def _foreign(scene: PlacedScene) -> str:
    """The resource that kubelet lacks for a pod with a device of HAMi's, if HAMi does not hand it out; else empty."""
    said, config = scene.once(refusal), scene.config
    named = _OF_RESOURCE.search(said.words[0].quote) if said and reserved_node(scene.pod.metadata) else None
    return named[1] if named and asked_resources(scene.pod, config) and not config.manages(named[1]) else ""


def _words(scene: PlacedScene) -> list[Evidence]:
    proofs: list[Evidence] = []
    pod, reason, message = scene.pod, scene.pod.status.reason, scene.pod.status.message
    devices = reason.startswith(_OUT_OF) and "/" in reason
    if reason == _ALLOCATE_REASON or devices or "Allocate failed" in message:
        proofs.append(quotes.of_pod(pod, message if message.strip() else reason, "{.status.message}"))
    proofs += [quotes.of_event(event) for event in scene.events if event.reason == _ALLOCATE_REASON][-1:]
    if pod.metadata.annotation(BIND_PHASE_KEY) == "failed" and pod.status.phase != "Running":
        proofs.append(quotes.of_pod_annotation(pod, BIND_PHASE_KEY))
    return proofs


def _logged(scene: PlacedScene) -> list[Evidence]:
    """The newest lines of the device plugin's log that name this pod, the last of them first: its end tells most."""
    named = re.compile(rf"(?<![\w.-]){re.escape(f'{scene.pod.namespace}/{scene.pod.name}')}(?![\w.-])")
    for log in scene.side.logs if scene.side else ():
        if not is_monitor(log.container) and (lines := [line for line in log.lines if named.search(line)]):
            return [log_line(log, line) for line in reversed(lines[-_MOST_LINES:])]
    return []
