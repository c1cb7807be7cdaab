"""Rules about a pod that asks for HAMi's resources but has another scheduler: why HAMi never saw it."""

from collections.abc import Iterator, Mapping, Sequence

from bot.hami.installation.install import KUBERNETES_SCHEDULER
from bot.hami.version import Version
from bot.hami.webhook import LeftAlone, reason_left_alone
from bot.kube.models import Pod, Workload
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl, kubectl_pod, of_object
from playbooks.rule import rule
from playbooks.rules.admission.webhook import KIND, RejectionLine, WebhookQuestion, faults, of_rejection, rejections
from playbooks.rules.common.findings import finding
from playbooks.rules.common.holders import edit_owner, recreate
from playbooks.rules.waiting.refused_requests import unknown_resources
from playbooks.scenes.placed_pod import PlacedScene
from playbooks.scenes.waiting_pod import PodScene

_RESPECTS_FOREIGN = Version(2, 7, 0)
_OVERWRITE = "force-overwrite-default-scheduler"
_SAME_MOMENT_S = 3
_CLAIMS = {
    "claim": "webhook-bypassed.claim",
    "unexplained": "webhook-bypassed.unexplained",
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
    "unexplained": "webhook-bypassed.check",
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
_EDITED: Mapping[str, Mapping[str, object] | None] = {
    "privileged": None,
    "opted-out": None,
    "unselected": None,
    "init": None,
    "node": {"spec": {"nodeName": None}},
}
"""By the reason: what to change in the pod's owner, and the patch that does it, if it is the same for every pod."""


PodOfHami = PodScene | PlacedScene
"""A scene of a pod, pending or placed, and of what was read of HAMi."""


def why_left_alone(scene: PodOfHami) -> LeftAlone | None:
    """Why HAMi's webhook left the pod alone, by the pod, its namespace and the webhook; None where they do not tell."""
    pod, webhook = scene.pod, scene.webhook
    labels = webhook.labels_of(pod.namespace) if webhook else None
    return reason_left_alone(pod, scene.config, scene.version, webhook.hook if webhook else None, labels)


def missed(
    scene: PodOfHami, asked: Mapping[str, str], words: Sequence[Evidence], owner: Workload | None = None
) -> list[Finding]:
    """The findings why HAMi did not see the pod. `asked`: amounts; `words`: what refused it; `owner`: what made it."""
    pod, install = scene.pod, scene.install
    if not asked or _scheduler(pod) == install.scheduler_name:
        return []
    proofs = [*_proofs(pod, asked), *words]
    named, version = _scheduler(pod), scene.version
    foreign = named != KUBERNETES_SCHEDULER
    respects = foreign if version is None else version >= _RESPECTS_FOREIGN
    if respects and (foreign or install.flags.get(_OVERWRITE) == "false"):  # the webhook leaves it to that scheduler
        hami = install.scheduler_name
        key = "wrong-scheduler.manifest" if foreign else "wrong-scheduler.name"
        fix = edit_owner(pod, Text(key, hami=hami, now=named), {"spec": {"schedulerName": hami}})
        claim, sure = Text("wrong-scheduler.claim", scheduler=named, hami=hami), _sure(install.seen)
        return [finding("wrong-scheduler", claim, sure, [pod.spec.node_name], proofs, actions=[fix])]
    reason = why_left_alone(scene)
    by_owner = owner if owner is not None and owner.spec.template.spec.node_name else None
    broken = _broken(scene, alone=by_owner is None and reason is None) if install.seen else []
    if by_owner is not None:
        refs = pod.metadata.owner_references or ()
        kind = next((reference.kind for reference in refs if reference.name == by_owner.name), "ReplicaSet")
        path, name = "{.spec.template.spec.nodeName}", by_owner.spec.template.spec.node_name
        how, shown, reason = "node", [of_object(kind, by_owner, name, path)], None
    elif reason is not None:
        how, shown = reason.how, _shown(scene, reason)
    elif not broken and (late := _answered_late(scene)) is not None:
        how, shown = "unanswered", [late]
    else:
        how, shown = "claim" if broken else "unexplained", []
    bypassed = _bypassed(scene, next(iter(asked)), how, [*shown, *proofs], reason)
    return [*broken, bypassed] if broken and how == "claim" else [bypassed, *broken]


@rule("webhook-bypassed", "wrong-scheduler", "webhook-missing", "webhook-unreachable", "webhook-untrusted")
def went_past(scene: PodScene) -> list[Finding]:
    """The findings why another scheduler has a pending pod that asks for HAMi's resources."""
    unknown = unknown_resources(scene)
    return missed(scene, {name: amount for name, amount in scene.asked.items() if name not in unknown}, scene.words)


def _broken(scene: PodOfHami, *, alone: bool) -> list[Finding]:
    """What is wrong with the webhook; `alone`: nothing else explains that it did not see the pod."""
    shown = [of_rejection(line) for line in _at_creation(scene)[:1]] if alone else []
    created = parse_time(scene.pod.metadata.creation_timestamp)
    return faults(WebhookQuestion(scene, created, {"webhook-untrusted": shown}))


def _at_creation(scene: PodOfHami) -> list[RejectionLine]:
    """The connections that clients ended, rejecting the certificate, when the pod was created."""
    created = parse_time(scene.pod.metadata.creation_timestamp)
    timed = ((line, line.at) for line in rejections(scene))
    return [line for line, at in timed if at and created and abs((at - created).total_seconds()) <= _SAME_MOMENT_S]


def _answered_late(scene: PodOfHami) -> Evidence | None:
    """The condition of a scheduler pod, if every one of them existed but was not ready when the pod was created."""
    created = parse_time(scene.pod.metadata.creation_timestamp)
    for pod in scene.install.ready_pods:
        ready, began = pod.condition("Ready"), parse_time(pod.metadata.creation_timestamp)
        since = parse_time(ready.last_transition_time) if ready else None
        if created is None or began is None or since is None or not began <= created < since:
            return None
    for pod in scene.install.ready_pods[:1]:
        ready = pod.condition("Ready")
        path = '{.status.conditions[?(@.type=="Ready")].lastTransitionTime}'
        return quotes.of_pod(pod, (ready.last_transition_time if ready else "") or "", path)
    return None


def _shown(scene: PodOfHami, reason: LeftAlone) -> list[Evidence]:
    pod, hook = scene.pod, scene.webhook.hook if scene.webhook else None
    label = f"{{.metadata.labels.{quotes.escape(reason.key)}}}"
    if reason.how == "opted-out":
        return [quotes.of_pod(pod, reason.value, label)]
    if reason.how == "namespace" and reason.value:
        name, look = f"Namespace {pod.namespace}", kubectl("get", "namespace", pod.namespace, "-o", f"jsonpath={label}")
        return [Evidence("namespace", name, None, reason.value, look)]
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


def _bypassed(
    scene: PodOfHami, resource: str, how: str, proofs: Sequence[Evidence], reason: LeftAlone | None
) -> Finding:
    pod, install = scene.pod, scene.install
    label = f"{reason.key}={reason.value}" if reason and reason.value else reason.key if reason else ""
    names = {"scheduler": _scheduler(pod), "hami": install.scheduler_name, "namespace": pod.namespace}
    claim = Text(_CLAIMS[how], **names, resource=resource, label=label)
    fix = Text(_FIXES[how], label=label)
    if how in _EDITED:
        removed = {"metadata": {"labels": {reason.key: None}}} if reason and how == "opted-out" else _EDITED[how]
        steps = [edit_owner(pod, fix, removed)]
    else:
        look = kubectl_pod(pod, "get", "-o", "yaml")
        if how in ("claim", "unexplained"):
            hook = scene.webhook.hook if scene.webhook else None
            look = kubectl("get", KIND.lower(), *([hook.config.name] if hook else []), "-o", "yaml")
        elif how == "namespace":
            look = kubectl("get", "namespace", pod.namespace, "--show-labels")
            if reason and reason.may_go:  # what else the selector may want is the team's to say
                fix = Text("webhook-bypassed.unlabel", label=label, namespace=pod.namespace)
                look = kubectl("label", "namespace", pod.namespace, f"{reason.key}-")
        looks = how not in ("unselected", "namespace", "static")
        steps = [step(fix, look, changes_cluster=not looks), recreate(pod, Text("webhook-bypassed.recreate"))]
    sure = _sure(install.seen and how != "unanswered")
    return finding("webhook-bypassed", claim, sure, [pod.spec.node_name], proofs, actions=steps)


def _sure(seen: object) -> Confidence:
    return "confirmed" if seen else "suspected"


def _scheduler(pod: Pod) -> str:
    return pod.spec.scheduler_name or KUBERNETES_SCHEDULER


def _proofs(pod: Pod, asked: Mapping[str, str]) -> Iterator[Evidence]:
    named = pod.spec.scheduler_name
    yield quotes.of_pod(pod, named, "{.spec.schedulerName}") if named else quotes.of_pod_name(pod)
    resource, amount = next(iter(asked.items()))
    yield quotes.of_resource(pod, resource, amount)
