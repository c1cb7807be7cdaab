"""What must be right before a scheduler looks at a pod: admission, gates, the scheduler's name, a request."""

from collections.abc import Sequence

from bot.finding_codes import Code
from bot.hami.installation.install import Install, is_anothers
from bot.hami.pods.request_parsing import asked_resources
from bot.kube.models import Pod
from bot.report import Confidence, Evidence, Finding, NextAction, one_line, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.subject import AbsentPod
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rules.admission.unread_request import unread, write_plainly
from playbooks.rules.admission.webhook_denials import BY_QUOTA, remedy
from playbooks.rules.common.findings import finding
from playbooks.rules.common.gaps import other_vendors
from playbooks.rules.waiting.waiting_pod import Case

_KUEUE = "kueue.x-k8s.io/admission"
_LONGEST_WORDS = 200
_DENIED = f'"{WEBHOOK_NAME}" denied the request'


def denied(absent: AbsentPod, name: str) -> Finding | None:
    """The pod was never created: its owner's FailedCreate says why."""
    if not absent.refusals:
        return None
    event = absent.refusals[0]
    owner = event.involved_object
    by_hami = _DENIED in event.message
    why = _last_part(event.message)
    claim = Text(
        "admission-denied.hami" if by_hami else "admission-denied.claim",
        pod=name,
        owner=f"{owner.kind} {owner.name}",
        why=why,
    )
    describe = kubectl("-n", event.namespace, "describe", owner.kind.lower(), owner.name)
    actions = [step(Text("admission-denied.check"), describe)]
    change = remedy(why)
    if by_hami and change:
        about = ("resourcequota",) if change == BY_QUOTA else (owner.kind.lower(), owner.name)
        look = kubectl("-n", event.namespace, "get", *about, "-o", "yaml")
        actions.insert(0, step(change, look))
    return finding(
        "admission-denied",
        claim,
        "confirmed",
        (),
        tuple(quotes.of_event(refusal) for refusal in absent.refusals),
        severity="warning",
        actions=tuple(actions),
    )


def _last_part(message: str) -> str:
    """What the webhook or the API said, without what the controller put before it."""
    for mark in (" denied the request: ", " failed error: ", "Error creating: "):
        if mark in message:
            return message.split(mark, 1)[1]
    return message


def gated(pod: Pod) -> Finding | None:
    """Scheduling gates keep every scheduler away."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    if not gates:
        return None
    proofs = [quotes.of_pod(pod, gate, "{.spec.schedulingGates[*].name}") for gate in gates]
    if gates == [_KUEUE]:
        workloads = kubectl("-n", pod.namespace, "get", "workloads.kueue.x-k8s.io")
        look = step(Text("scheduling-gated.workload"), workloads)
        return _finding("scheduling-gated", Text("scheduling-gated.kueue", gate=_KUEUE), proofs, look)
    return _finding(
        "scheduling-gated",
        Text("scheduling-gated.claim", gates=", ".join(gates)),
        proofs,
        step(
            Text("scheduling-gated.owner"),
            kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.managedFields[*].manager}"),
        ),
    )


def anothers(pod: Pod, install: Install, words: Sequence[Evidence]) -> Finding | None:
    """Somebody else's scheduler has the pod: its name and its words. There is nothing to advise."""
    scheduler = pod.spec.scheduler_name
    if not is_anothers(scheduler, install):
        return None
    said = one_line(words[0].quote, _LONGEST_WORDS).rstrip(".。") if words else ""
    claim = Text("other-scheduler.claim" if said else "other-scheduler.silent", scheduler=scheduler, words=said)
    proofs = [quotes.of_pod(pod, scheduler, "{.spec.schedulerName}"), *words]
    sure: Confidence = "confirmed" if install.seen else "suspected"  # else HAMi's scheduler may be called so
    return finding("other-scheduler", claim, sure, (), proofs, severity="info")


def nothing_asked(case: Case) -> Finding | None:
    """The pod asks for no resource that HAMi hands out, or in amounts that HAMi takes as no request."""
    pod, config = case.pod, case.config
    asked = asked_resources(pod, config)
    if not asked:
        return _finding(
            "no-device-request",
            Text("no-device-request.claim", resource=config.gpus.count),
            [
                quotes.of_pod(
                    pod, pod.spec.containers[0].name if pod.spec.containers else pod.name, "{.spec.containers[*].name}"
                )
            ],
            step(
                Text("no-device-request.add", resource=config.gpus.count),
                kubectl_pod(pod, "get", "-o", "jsonpath={.spec.containers[*].resources}"),
            ),
        )
    if any(request.containers for request in case.requests) or other_vendors(case):
        return None
    proofs = [quotes.of_resource(pod, name, value) for name, value in asked.items()]
    claim = unread(pod, config, case.version)
    return _finding("no-device-request", claim, proofs, write_plainly(pod, config, case.version))


def _finding(
    code: Code, claim: Prose, proofs: list[Evidence], *actions: NextAction, confidence: Confidence = "confirmed"
) -> Finding:
    return finding(code, claim, confidence, (), tuple(proofs), severity="warning", actions=actions)
