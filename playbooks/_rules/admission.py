"""What must be right before a scheduler looks at a pod: admission, gates, the scheduler's name, a request."""

from bot.hami.install import Install
from bot.hami.requests import DeviceConfig, asked_resources
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.report import Confidence, Evidence, Finding, NextAction, Scope
from bot.texts import Texts
from playbooks import _evidence
from playbooks._subject import Absent

DEFAULT_SCHEDULER = "default-scheduler"
_RESPECTS_FOREIGN = Version(2, 7, 0)
WEBHOOK = "vgpu.hami.io"


def denied(absent: Absent, name: str, say: Texts) -> Finding | None:
    """The pod was never created: its owner's FailedCreate says why."""
    if not absent.refusals:
        return None
    event = absent.refusals[0]
    owner = event.involved_object
    by_hami = WEBHOOK in event.message
    return Finding(
        code="admission-denied",
        claim=say(
            "admission-denied.hami" if by_hami else "admission-denied.claim",
            pod=name,
            owner=f"{owner.kind} {owner.name}",
        ),
        severity="warning",
        confidence="confirmed",
        scope=Scope(),
        evidence=tuple(_evidence.of_event(one) for one in absent.refusals),
        next_actions=(
            NextAction(
                say("admission-denied.fix"),
                f"kubectl -n {event.namespace} describe {owner.kind.lower()} {owner.name}",
            ),
        ),
    )


def gated(pod: Pod, say: Texts) -> Finding | None:
    """Scheduling gates keep every scheduler away."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    if not gates:
        return None
    return _finding(
        "scheduling-gated",
        say("scheduling-gated.claim", gates=", ".join(gates)),
        [_evidence.of_pod(pod, gate, "{.spec.schedulingGates[*].name}") for gate in gates],
        NextAction(
            say("scheduling-gated.owner"),
            f"kubectl -n {pod.namespace} get pod {pod.name} -o jsonpath='{{.metadata.managedFields[*].manager}}'",
        ),
    )


def other_scheduler(pod: Pod, install: Install, config: DeviceConfig, say: Texts) -> Finding | None:
    """The pod asks for HAMi's resources and another scheduler was named, or left in place, to handle it."""
    asked = asked_resources(pod, config)
    named = pod.spec.scheduler_name or DEFAULT_SCHEDULER
    if not asked or named == install.scheduler_name:
        return None
    resource, value = next(iter(asked.items()))
    proofs = [_evidence.of_pod(pod, named, "{.spec.schedulerName}"), _evidence.of_resource(pod, resource, value)]
    confidence: Confidence = "confirmed" if install.seen else "suspected"
    version = install.version.version if install.version else None
    recreate = NextAction(
        say("webhook-bypassed.recreate"), f"kubectl -n {pod.namespace} delete pod {pod.name}", changes_cluster=True
    )
    check = NextAction(say("webhook-bypassed.check"), "kubectl get mutatingwebhookconfigurations -o wide")
    if named == DEFAULT_SCHEDULER or (version is not None and version < _RESPECTS_FOREIGN):
        key = (
            "webhook-bypassed.privileged"
            if _privileged(pod) and version and version < Version(2, 10)
            else "webhook-bypassed.claim"
        )
        claim = say(key, scheduler=named, hami=install.scheduler_name, resource=resource)
        return _finding("webhook-bypassed", claim, proofs, check, recreate, confidence=confidence)
    claim = say("wrong-scheduler.claim", scheduler=named, hami=install.scheduler_name)
    fix = NextAction(
        say("wrong-scheduler.fix", hami=install.scheduler_name),
        f"kubectl -n {pod.namespace} get pod {pod.name} -o yaml",
    )
    return _finding("wrong-scheduler", claim, proofs, fix, recreate, confidence=confidence)


def nothing_asked(pod: Pod, config: DeviceConfig, say: Texts) -> Finding | None:
    """The pod asks for no resource that HAMi hands out."""
    if asked_resources(pod, config):
        return None
    return _finding(
        "no-device-request",
        say("no-device-request.claim", resource=config.count),
        [
            _evidence.of_pod(
                pod, pod.spec.containers[0].name if pod.spec.containers else pod.name, "{.spec.containers[*].name}"
            )
        ],
        NextAction(
            say("no-device-request.fix", resource=config.count),
            f"kubectl -n {pod.namespace} get pod {pod.name} -o jsonpath='{{.spec.containers[*].resources}}'",
        ),
    )


def _privileged(pod: Pod) -> bool:
    return any(one.security_context and one.security_context.privileged for one in pod.spec.containers)


def _finding(
    code: str, claim: str, proofs: list[Evidence], *actions: NextAction, confidence: Confidence = "confirmed"
) -> Finding:
    return Finding(
        code=code,
        claim=claim,
        severity="warning",
        confidence=confidence,
        scope=Scope(),
        evidence=tuple(proofs),
        next_actions=actions,
    )
