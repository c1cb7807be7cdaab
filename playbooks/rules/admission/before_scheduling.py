"""What must be right before a scheduler looks at a pod: admission, gates, the scheduler's name, a request."""

from collections.abc import Iterator

from bot.finding_codes import Code
from bot.hami.installation.install import is_anothers
from bot.report import Confidence, Evidence, Finding, NextAction, one_line, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.admission.unread_request import unread, unread_containers, write_plainly
from playbooks.rules.admission.webhook_denials import BY_QUOTA, remedy
from playbooks.rules.common.findings import finding
from playbooks.rules.common.gaps import other_vendors
from playbooks.rules.waiting.volcano import of_group
from playbooks.scenes.placed_pod import AbsentScene
from playbooks.scenes.waiting_pod import PodScene

_KUEUE = "kueue.x-k8s.io/admission"
_LONGEST_WORDS = 200
_DENIED = f'"{WEBHOOK_NAME}" denied the request'


@rule("admission-denied", reads=("absent",))
def refused_at_creation(scene: AbsentScene) -> Iterator[Finding]:
    """The pod was never created: its owner's FailedCreate says why."""
    if not scene.refusals:
        return
    event = scene.refusals[0]
    owner = event.involved_object
    by_hami = _DENIED in event.message
    why = _last_part(event.message)
    claim = Text(
        "admission-denied.hami" if by_hami else "admission-denied.claim",
        pod=scene.wanted.name,
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
    proofs = [quotes.of_event(refusal) for refusal in scene.refusals]
    yield finding("admission-denied", claim, "confirmed", (), proofs, severity="warning", actions=actions)


def _last_part(message: str) -> str:
    """What the webhook or the API said, without what the controller put before it."""
    for mark in (" denied the request: ", " failed error: ", "Error creating: "):
        if mark in message:
            return message.split(mark, 1)[1]
    return message


@rule("scheduling-gated")
def gated(scene: PodScene) -> Iterator[Finding]:
    """Scheduling gates keep every scheduler away."""
    pod = scene.pod
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    if not gates:
        return
    proofs = [quotes.of_pod(pod, gate, "{.spec.schedulingGates[*].name}") for gate in gates]
    if gates == [_KUEUE]:
        workloads = kubectl("-n", pod.namespace, "get", "workloads.kueue.x-k8s.io")
        look = step(Text("scheduling-gated.workload"), workloads)
        yield _finding("scheduling-gated", Text("scheduling-gated.kueue", gate=_KUEUE), proofs, look)
        return
    managers = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.managedFields[*].manager}")
    look = step(Text("scheduling-gated.owner"), managers)
    yield _finding("scheduling-gated", Text("scheduling-gated.claim", gates=", ".join(gates)), proofs, look)


@rule("other-scheduler")
def anothers(scene: PodScene) -> Iterator[Finding]:
    """Somebody else's scheduler has the pod: its name and its words. There is nothing to advise."""
    scheduler, words = scene.pod.spec.scheduler_name, [*scene.words, *of_group(scene.group_events)]
    if not is_anothers(scheduler, scene.install):
        return
    said = one_line(words[0].quote, _LONGEST_WORDS).rstrip(".。") if words else ""
    claim = Text("other-scheduler.claim" if said else "other-scheduler.silent", scheduler=scheduler, words=said)
    proofs = [quotes.of_pod(scene.pod, scheduler, "{.spec.schedulerName}"), *words]
    sure: Confidence = "confirmed" if scene.install.seen else "suspected"  # else HAMi's scheduler may be called so
    yield finding("other-scheduler", claim, sure, (), proofs, severity="info")


@rule("no-device-request")
def nothing_asked(scene: PodScene) -> Iterator[Finding]:
    """The pod asks for no resource that HAMi hands out, or in amounts that HAMi takes as no request."""
    pod, config = scene.pod, scene.config
    if not scene.asked:
        name = pod.spec.containers[0].name if pod.spec.containers else pod.name
        proofs = [quotes.of_pod(pod, name, "{.spec.containers[*].name}")]
        look = kubectl_pod(pod, "get", "-o", "jsonpath={.spec.containers[*].resources}")
        fix = step(Text("no-device-request.add", resource=config.gpus.count), look)
        yield _finding("no-device-request", Text("no-device-request.claim", resource=config.gpus.count), proofs, fix)
    elif not any(request.containers for request in scene.requests) and not other_vendors(scene):
        proofs = [quotes.of_resource(pod, name, value) for name, value in scene.asked.items()]
        claim = unread(pod, config, scene.version)
        yield _finding("no-device-request", claim, proofs, write_plainly(pod, config, scene.version))


@rule("no-device-request")
def amounts_unread(scene: PodScene) -> Iterator[Finding]:
    """Containers whose amounts HAMi takes as no request, beside others that it reads."""
    if scene.request.containers:
        yield from unread_containers(scene.pod, scene.config, scene.version)


def _finding(
    code: Code, claim: Prose, proofs: list[Evidence], *actions: NextAction, confidence: Confidence = "confirmed"
) -> Finding:
    return finding(code, claim, confidence, (), tuple(proofs), severity="warning", actions=actions)
