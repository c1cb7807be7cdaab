"""A pod that asks for HAMi's resources and that another scheduler has: why HAMi never saw it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from bot.hami.installation.install import KUBERNETES_SCHEDULER, Install
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Version
from bot.hami.webhook.left_alone import LeftAlone, left_alone
from bot.kube.models import Pod, Workload
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.webhook import WebhookSeen
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.admission.webhook_calls import Rejection, WebhookFacts, of_rejection, rejections
from playbooks.rules.admission.webhook_configuration import KIND
from playbooks.rules.admission.webhook_health import faults
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import of_object
from playbooks.rules.waiting.unknown_resource import unknown_resources
from playbooks.scene import PodScene

_RESPECTS_FOREIGN = Version(2, 7, 0)
_OVERWRITE = "force-overwrite-default-scheduler"
_SAME_MOMENT_S = 3
_CLAIMS = {
    "claim": "webhook-bypassed.claim",
    "privileged": "webhook-bypassed.privileged",
    "opted-out": "webhook-bypassed.opted-out",
    "unselected": "webhook-bypassed.unselected",
    "namespace": "webhook-bypassed.namespace",
    "static": "webhook-bypassed.static",
    "older": "webhook-bypassed.older",
    "init": "webhook-bypassed.init",
    "node": "webhook-bypassed.node",
    "unanswered": "webhook-bypassed.unanswered",
}
_FIXES = {
    "claim": "webhook-bypassed.check",
    "privileged": "webhook-bypassed.fix-privileged",
    "opted-out": "webhook-bypassed.fix-opted-out",
    "unselected": "webhook-bypassed.fix-unselected",
    "namespace": "webhook-bypassed.fix-namespace",
    "static": "webhook-bypassed.fix-static",
    "older": "webhook-bypassed.fix-older",
    "init": "webhook-bypassed.fix-init",
    "node": "webhook-bypassed.fix-node",
    "unanswered": "webhook-bypassed.fix-unanswered",
}


class BypassFacts(NamedTuple):
    """What bears on it. `asked`: HAMi's resources by amount; `words`: what refused the pod afterwards."""

    pod: Pod
    asked: dict[str, str]
    install: Install
    config: DeviceConfig
    webhook: WebhookSeen | None
    words: tuple[Evidence, ...]
    now: datetime
    owner: Workload | None = None
    """What made the pod, where that was read."""

    @property
    def version(self) -> Version | None:
        return self.install.version.version if self.install.version else None

    @property
    def scheduler(self) -> str:
        return self.pod.spec.scheduler_name or KUBERNETES_SCHEDULER

    @property
    def reason(self) -> LeftAlone | None:
        """What the pod, its namespace or its age says."""
        return why_left_alone(self.pod, self.install, self.config, self.webhook)


def why_left_alone(pod: Pod, install: Install, config: DeviceConfig, webhook: WebhookSeen | None) -> LeftAlone | None:
    """Why HAMi's webhook left the pod alone, as far as the pod, its namespace and the webhook tell."""
    version = install.version.version if install.version else None
    labels = webhook.labels_of(pod.namespace) if webhook else None
    return left_alone(pod, config, version, webhook.hook if webhook else None, labels)


def missed(facts: BypassFacts) -> list[Finding]:
    """The causes, then that HAMi did not see the pod; nothing where HAMi's scheduler has it, or it asks for nothing."""
    if not facts.asked or facts.scheduler == facts.install.scheduler_name:
        return []
    if _left_in_place(facts):
        return [_wrong_scheduler(facts)]
    reason = facts.reason
    created = parse_time(facts.pod.metadata.creation_timestamp)
    asked = (
        WebhookFacts(facts.webhook, facts.install, facts.now, created) if facts.webhook and facts.install.seen else None
    )
    broken = faults(asked) if asked else []
    if facts.owner is not None and facts.owner.spec.template.spec.node_name:
        return [_bypassed(facts, "node", _own_node(facts.pod, facts.owner), None), *broken]
    if reason is not None:
        return [_bypassed(facts, reason.how, _shown(facts, reason), reason), *broken]
    if broken:
        at_creation = _at_creation(facts)
        if at_creation and broken[0].code == "webhook-untrusted":
            proofs = dict.fromkeys((*map(of_rejection, at_creation[:1]), *broken[0].evidence))
            broken[0] = structs.replace(broken[0], evidence=tuple(proofs), confidence="confirmed")
        return [*broken, _bypassed(facts, "claim", [], None)]
    if (late := _answered_late(facts)) is not None:
        return [_bypassed(facts, "unanswered", [late], None)]
    return [_bypassed(facts, "claim", [], None)]


@rule("webhook-bypassed", "wrong-scheduler", "webhook-missing", "webhook-unreachable", "webhook-untrusted")
def went_past(scene: PodScene) -> list[Finding]:
    """Why another scheduler has a waiting pod that asks for HAMi's resources."""
    unknown = unknown_resources(scene)
    asked = {name: amount for name, amount in scene.asked.items() if name not in unknown}
    words = tuple(scene.words)
    return missed(BypassFacts(scene.pod, asked, scene.install, scene.config, scene.cluster.webhook, words, scene.now))


def _left_in_place(facts: BypassFacts) -> bool:
    """Whether HAMi's webhook would leave the pod to the scheduler that it names."""
    if facts.scheduler != KUBERNETES_SCHEDULER:
        return facts.version is None or facts.version >= _RESPECTS_FOREIGN
    respects = facts.version is not None and facts.version >= _RESPECTS_FOREIGN
    return respects and facts.install.flags.get(_OVERWRITE) == "false"


def _at_creation(facts: BypassFacts) -> list[Rejection]:
    """The connections that the API server ended when the pod was created."""
    created = parse_time(facts.pod.metadata.creation_timestamp)
    lines = rejections(facts.webhook, facts.now) if facts.webhook and created else []
    return [
        line for line in lines if line.at and created and abs((line.at - created).total_seconds()) <= _SAME_MOMENT_S
    ]


def _answered_late(facts: BypassFacts) -> Evidence | None:
    """The condition of a scheduler pod that was there, and not ready yet, when the pod was created, as all of them."""
    created = parse_time(facts.pod.metadata.creation_timestamp)
    for pod in facts.install.ready_pods:
        ready, began = pod.condition("Ready"), parse_time(pod.metadata.creation_timestamp)
        since = parse_time(ready.last_transition_time) if ready else None
        if created is None or began is None or since is None or not began <= created < since:
            return None
    for pod in facts.install.ready_pods[:1]:
        ready = pod.condition("Ready")
        path = '{.status.conditions[?(@.type=="Ready")].lastTransitionTime}'
        return quotes.of_pod(pod, (ready.last_transition_time if ready else "") or "", path)
    return None


def _shown(facts: BypassFacts, reason: LeftAlone) -> list[Evidence]:
    """What shows the reason."""
    pod, hook = facts.pod, facts.webhook.hook if facts.webhook else None
    label = "{.metadata.labels." + reason.key.replace(".", "\\.") + "}"
    if reason.how == "opted-out":
        return [quotes.of_pod(pod, reason.value, label)]
    if reason.how == "namespace" and reason.value:
        name = f"Namespace {pod.namespace}"
        return [
            Evidence(
                "namespace",
                name,
                None,
                reason.value,
                kubectl("get", "namespace", pod.namespace, "-o", f"jsonpath={label}"),
            )
        ]
    if reason.how == "namespace":
        return [of_object(KIND, hook.config, reason.key, "{.webhooks[*].namespaceSelector}")] if hook else []
    if reason.how == "unselected":
        return [of_object(KIND, hook.config, reason.key, "{.webhooks[*].objectSelector}")] if hook else []
    if reason.how == "older" and hook:
        made = hook.config.metadata.creation_timestamp or ""
        return [of_object(KIND, hook.config, made, "{.metadata.creationTimestamp}"), quotes.of_pod_age(pod)]
    if reason.how == "privileged":
        return [quotes.of_pod(pod, reason.key, "{.spec.containers[?(@.securityContext.privileged==true)].name}")]
    return []


def _own_node(pod: Pod, owner: Workload) -> list[Evidence]:
    kind = next(
        (reference.kind for reference in pod.metadata.owner_references or () if reference.name == owner.name),
        "ReplicaSet",
    )
    return [of_object(kind, owner, owner.spec.template.spec.node_name, "{.spec.template.spec.nodeName}")]


def _bypassed(facts: BypassFacts, how: str, shown: Sequence[Evidence], reason: LeftAlone | None) -> Finding:
    resource = next(iter(facts.asked))
    label = f"{reason.key}={reason.value}" if reason and reason.value else reason.key if reason else ""
    claim = Text(
        _CLAIMS[how],
        scheduler=facts.scheduler,
        hami=facts.install.scheduler_name,
        resource=resource,
        label=label,
        namespace=facts.pod.namespace,
    )
    if how == "claim":
        look = f"kubectl get {KIND.lower()}s -o wide"
    elif how == "namespace":
        look = kubectl("get", "namespace", facts.pod.namespace, "--show-labels")
    else:
        look = kubectl_pod(facts.pod, "get", "-o", "yaml")
    proofs = [*shown, *_proofs(facts)]
    sure: Confidence = "confirmed" if facts.install.seen and how != "unanswered" else "suspected"
    steps = [step(Text(_FIXES[how]), look), _recreate(facts.pod)]
    return finding("webhook-bypassed", claim, sure, _nodes(facts), proofs, severity="warning", actions=steps)


def _wrong_scheduler(facts: BypassFacts) -> Finding:
    hami = facts.install.scheduler_name
    claim = Text("wrong-scheduler.claim", scheduler=facts.scheduler, hami=hami)
    key = "wrong-scheduler.name" if facts.scheduler == KUBERNETES_SCHEDULER else "wrong-scheduler.manifest"
    fix = step(Text(key, hami=hami), kubectl_pod(facts.pod, "get", "-o", "yaml"))
    sure: Confidence = "confirmed" if facts.install.seen else "suspected"
    steps = [fix, _recreate(facts.pod)]
    return finding("wrong-scheduler", claim, sure, _nodes(facts), [*_proofs(facts)], severity="warning", actions=steps)


def _proofs(facts: BypassFacts) -> Iterator[Evidence]:
    """That another scheduler has the pod, what it asks for, and what came of it."""
    named = facts.pod.spec.scheduler_name
    yield quotes.of_pod(facts.pod, named, "{.spec.schedulerName}") if named else quotes.of_pod_name(facts.pod)
    resource, amount = next(iter(facts.asked.items()))
    yield quotes.of_resource(facts.pod, resource, amount)
    yield from facts.words


def _recreate(pod: Pod) -> NextAction:
    return step(Text("webhook-bypassed.recreate"), kubectl_pod(pod, "delete"), changes_cluster=True)


def _nodes(facts: BypassFacts) -> tuple[str, ...]:
    return (facts.pod.spec.node_name,) if facts.pod.spec.node_name else ()
