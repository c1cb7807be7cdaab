"""A pod that asks for HAMi's resources and that another scheduler has: why HAMi never saw it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from bot.hami.admission import LeftAlone, left_alone
from bot.hami.install import Install
from bot.hami.requests import DeviceConfig
from bot.hami.version import Version
from bot.kube.models import Pod, Workload
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, NextAction
from bot.texts import Texts
from playbooks import quotes
from playbooks.gather.webhook import WebhookSeen
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rules.findings import finding
from playbooks.rules.hook import KIND
from playbooks.rules.parts import of_object
from playbooks.rules.webhook import faults
from playbooks.rules.webhook_calls import Rejection, WebhookFacts, of_rejection, rejections

DEFAULT_SCHEDULER = "default-scheduler"
_RESPECTS_FOREIGN = Version(2, 7, 0)
_OVERWRITE = "force-overwrite-default-scheduler"
_SAME_MOMENT_S = 3


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
        return self.pod.spec.scheduler_name or DEFAULT_SCHEDULER

    @property
    def reason(self) -> LeftAlone | None:
        """What the pod, its namespace or its age says."""
        return why_left_alone(self.pod, self.install, self.config, self.webhook)


def why_left_alone(pod: Pod, install: Install, config: DeviceConfig, webhook: WebhookSeen | None) -> LeftAlone | None:
    """Why HAMi's webhook left the pod alone, as far as the pod, its namespace and the webhook tell."""
    version = install.version.version if install.version else None
    labels = webhook.labels_of(pod.namespace) if webhook else None
    return left_alone(pod, config, version, webhook.hook if webhook else None, labels)


def missed(one: BypassFacts, say: Texts) -> list[Finding]:
    """The causes, then that HAMi did not see the pod; nothing where HAMi's scheduler has it, or it asks for nothing."""
    if not one.asked or one.scheduler == one.install.scheduler_name:
        return []
    if _left_in_place(one):
        return [_wrong_scheduler(one, say)]
    reason = one.reason
    created = parse_time(one.pod.metadata.creation_timestamp)
    asked = WebhookFacts(one.webhook, one.install, one.now, created) if one.webhook and one.install.seen else None
    broken = faults(asked, say) if asked else []
    if one.owner is not None and one.owner.spec.template.spec.node_name:
        return [_bypassed(one, "node", _own_node(one.pod, one.owner), None, say), *broken]
    if reason is not None:
        return [_bypassed(one, reason.how, _shown(one, reason), reason, say), *broken]
    if broken:
        at_creation = _at_creation(one)
        if at_creation and broken[0].code == "webhook-untrusted":
            proofs = dict.fromkeys((*map(of_rejection, at_creation[:1]), *broken[0].evidence))
            broken[0] = structs.replace(broken[0], evidence=tuple(proofs), confidence="confirmed")
        return [*broken, _bypassed(one, "claim", [], None, say)]
    if (late := _answered_late(one)) is not None:
        return [_bypassed(one, "unanswered", [late], None, say)]
    return [_bypassed(one, "claim", [], None, say)]


def _left_in_place(one: BypassFacts) -> bool:
    """Whether HAMi's webhook would leave the pod to the scheduler that it names."""
    if one.scheduler != DEFAULT_SCHEDULER:
        return one.version is None or one.version >= _RESPECTS_FOREIGN
    respects = one.version is not None and one.version >= _RESPECTS_FOREIGN
    return respects and one.install.flags.get(_OVERWRITE) == "false"


def _at_creation(one: BypassFacts) -> list[Rejection]:
    """The connections that the API server ended when the pod was created."""
    created = parse_time(one.pod.metadata.creation_timestamp)
    lines = rejections(one.webhook, one.now) if one.webhook and created else []
    return [
        line for line in lines if line.at and created and abs((line.at - created).total_seconds()) <= _SAME_MOMENT_S
    ]


def _answered_late(one: BypassFacts) -> Evidence | None:
    """The condition of a scheduler pod that was there, and not ready yet, when the pod was created, as all of them."""
    created = parse_time(one.pod.metadata.creation_timestamp)
    for pod in one.install.ready_pods:
        ready, began = pod.condition("Ready"), parse_time(pod.metadata.creation_timestamp)
        since = parse_time(ready.last_transition_time) if ready else None
        if created is None or began is None or since is None or not began <= created < since:
            return None
    for pod in one.install.ready_pods[:1]:
        ready = pod.condition("Ready")
        path = '{.status.conditions[?(@.type=="Ready")].lastTransitionTime}'
        return quotes.of_pod(pod, (ready.last_transition_time if ready else "") or "", path)
    return None


def _shown(one: BypassFacts, reason: LeftAlone) -> list[Evidence]:
    """What shows the reason."""
    pod, hook = one.pod, one.webhook.hook if one.webhook else None
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


def _bypassed(one: BypassFacts, how: str, shown: Sequence[Evidence], reason: LeftAlone | None, say: Texts) -> Finding:
    resource = next(iter(one.asked))
    label = f"{reason.key}={reason.value}" if reason and reason.value else reason.key if reason else ""
    claim = say(
        f"webhook-bypassed.{how}",
        scheduler=one.scheduler,
        hami=one.install.scheduler_name,
        resource=resource,
        label=label,
        namespace=one.pod.namespace,
    )
    if how == "claim":
        fix = NextAction(say("webhook-bypassed.check"), f"kubectl get {KIND.lower()}s -o wide")
    elif how == "namespace":
        fix = NextAction(
            say("webhook-bypassed.fix-namespace"), kubectl("get", "namespace", one.pod.namespace, "--show-labels")
        )
    else:
        fix = NextAction(say(f"webhook-bypassed.fix-{how}"), kubectl_pod(one.pod, "get", "-o", "yaml"))
    proofs = [*shown, *_proofs(one)]
    sure: Confidence = "confirmed" if one.install.seen and how != "unanswered" else "suspected"
    steps = [fix, _recreate(one.pod, say)]
    return finding("webhook-bypassed", claim, sure, _nodes(one), proofs, severity="warning", actions=steps)


def _wrong_scheduler(one: BypassFacts, say: Texts) -> Finding:
    hami = one.install.scheduler_name
    claim = say("wrong-scheduler.claim", scheduler=one.scheduler, hami=hami)
    key = "name" if one.scheduler == DEFAULT_SCHEDULER else "fix"
    fix = NextAction(say(f"wrong-scheduler.{key}", hami=hami), kubectl_pod(one.pod, "get", "-o", "yaml"))
    sure: Confidence = "confirmed" if one.install.seen else "suspected"
    steps = [fix, _recreate(one.pod, say)]
    return finding("wrong-scheduler", claim, sure, _nodes(one), [*_proofs(one)], severity="warning", actions=steps)


def _proofs(one: BypassFacts) -> Iterator[Evidence]:
    """That another scheduler has the pod, what it asks for, and what came of it."""
    named = one.pod.spec.scheduler_name
    yield quotes.of_pod(one.pod, named, "{.spec.schedulerName}") if named else quotes.of_pod_name(one.pod)
    resource, amount = next(iter(one.asked.items()))
    yield quotes.of_resource(one.pod, resource, amount)
    yield from one.words


def _recreate(pod: Pod, say: Texts) -> NextAction:
    return NextAction(say("webhook-bypassed.recreate"), kubectl_pod(pod, "delete"), changes_cluster=True)


def _nodes(one: BypassFacts) -> tuple[str, ...]:
    return (one.pod.spec.node_name,) if one.pod.spec.node_name else ()
