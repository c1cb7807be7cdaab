"""What must be right before a scheduler looks at a pod: admission, gates, the scheduler's name, a request."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.installation.install import is_anothers
from bot.hami.pods.allocations import given
from bot.hami.pods.request_parsing import DeviceConfig, UnknownPolicy, asked_resources, pod_request, unknown_policies
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.hami.webhook import DEFAULT_SCHEDULERS, LEAVES_OWN_ALONE
from bot.kube.models import Pod
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, one_line, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.dra import KUEUE, Queued
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.admission.webhook import BY_QUOTA, remedy
from playbooks.rules.common.findings import finding, other_vendors
from playbooks.rules.common.holders import edit_owner
from playbooks.rules.waiting.volcano import of_group
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene

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
    yield finding("admission-denied", claim, proofs=proofs, actions=actions)


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
    if all(gate.startswith(KUEUE) for gate in gates):
        said, more, look = kueue_says(pod.namespace, scene.queued)
        claim = sentences(Text("scheduling-gated.kueue", gate=", ".join(gates)), *said)
        yield _finding("scheduling-gated", claim, [*proofs, *more], look)
        return
    managers = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.managedFields[*].manager}")
    look = step(Text("scheduling-gated.owner"), managers)
    yield _finding("scheduling-gated", Text("scheduling-gated.claim", gates=", ".join(gates)), proofs, look)


def kueue_says(namespace: str, queued: Queued | Gap | None) -> tuple[list[Text], list[Evidence], NextAction]:
    """The place in the queue and Kueue's own words with their proof, as far as they were read, and what to look at."""
    if queued is None or isinstance(queued, Gap):
        workloads = kubectl("-n", namespace, "get", "workloads.kueue.x-k8s.io")
        return [], [], step(Text("scheduling-gated.workload"), workloads)
    workload, says = queued.workload, queued.condition
    show = kubectl("-n", namespace, "describe", "workloads.kueue.x-k8s.io", workload.name)
    place = {"place": queued.place, "count": queued.waiting, "queue": workload.spec.queue_name}
    claims = [Text("scheduling-gated.place", **place)] if queued.place else []
    proofs: list[Evidence] = []
    if says:
        words = one_line(says.message, _LONGEST_WORDS).rstrip(".")
        claims.append(Text("scheduling-gated.words", reason=says.reason, words=words))
        proofs.append(
            Evidence("workload", f"Workload {namespace}/{workload.name}", says.last_transition_time, words, show)
        )
    return claims, proofs, step(Text("scheduling-gated.workload"), show)


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
    yield finding("other-scheduler", claim, sure, proofs=proofs, severity="info")


@rule("no-device-request")
def nothing_asked(scene: PodScene) -> Iterator[Finding]:
    """The pod asks for no resource that HAMi hands out, or in amounts that HAMi takes as no request."""
    pod, config = scene.pod, scene.config
    if not scene.asked:
        name = pod.spec.containers[0].name if pod.spec.containers else pod.name
        proofs = [quotes.of_pod(pod, name, "{.spec.containers[*].name}")]
        fix = edit_owner(pod, Text("no-device-request.add", resource=config.gpus.count))
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


@rule("unknown-policy")
def policies_unread(scene: PodScene | PlacedScene) -> Iterator[Finding]:
    """HAMi knows no such policy, says nothing of it and takes its own."""
    for strange in unknown_policies(scene.pod, scene.version):
        proof = quotes.of_pod_annotation(scene.pod, strange.key)
        yield policy_finding(strange, proof, step(remedied(strange), proof.command))


def policy_finding(strange: UnknownPolicy, proof: Evidence, fix: NextAction) -> Finding:
    """The finding about a policy that HAMi does not know."""
    values = {"key": strange.key, "value": one_line(strange.value, _LONGEST), "instead": strange.instead}
    claim = Text("unknown-policy.claim", **values, known=", ".join(strange.known))
    return _finding("unknown-policy", claim, [proof], fix)


def remedied(strange: UnknownPolicy) -> Text:
    """What to write instead."""
    return Text("unknown-policy.set", key=strange.key, known=", ".join(strange.known))


def _finding(
    code: Code, claim: Prose, proofs: list[Evidence], *actions: NextAction, confidence: Confidence = "confirmed"
) -> Finding:
    return finding(code, claim, confidence, proofs=tuple(proofs), actions=actions)


_LONGEST = 80
_ASKS_NOTHING = "does not request any resource"
"""HAMi's event of a pod that its extender lets pass; 2.10 logs it only."""


def unread(pod: Pod, config: DeviceConfig, version: Version | None) -> Text:
    """The claim about amounts that HAMi takes as no request: a quantity in bytes, or no count."""
    asked = asked_resources(pod, config)
    amounts = one_line(", ".join(f"{name}: {value}" for name, value in asked.items()), _LONGEST)
    device = next((found for name in asked if (found := config.by_resource.get(name))), None)
    text = str(version or "")
    if passed_over(pod, config, version):
        scheduler, count = pod.spec.scheduler_name or "?", config.gpus.count
        return Text("no-device-request.own-name", version=text, asked=amounts, resource=count, scheduler=scheduler)
    if device is None or device.vendor is FIRST:
        return Text("no-device-request.unread", version=text, asked=amounts)
    return Text("no-device-request.unread-of", version=text, asked=amounts, resource=device.resources.count)


def passed_over(pod: Pod, config: DeviceConfig, version: Version | None) -> bool:
    """Whether the pod asks for a part of a GPU without a count, and this version's webhook adds none to it.

    2.7 and 2.8 leave a pod as it is that names any scheduler but the default one, HAMi's own among them.
    """
    asked, gpus = asked_resources(pod, config), config.gpus
    since, until = LEAVES_OWN_ALONE
    named = pod.spec.scheduler_name not in (None, *DEFAULT_SCHEDULERS)
    partly = gpus.count not in asked and not {gpus.memory, gpus.percentage, gpus.cores}.isdisjoint(asked)
    return version is not None and since <= version < until and named and partly


def write_plainly(pod: Pod, config: DeviceConfig, version: Version | None) -> NextAction:
    """To give a count and plain numbers, with the unit of the device's memory."""
    asked = asked_resources(pod, config)
    device = next((found for name in asked if (found := config.by_resource.get(name))), config.devices[0])
    resources = device.resources
    if passed_over(pod, config, version):
        return edit_owner(pod, Text("no-device-request.add-count", resource=config.gpus.count))
    if device.vendor is FIRST:
        return edit_owner(pod, Text("no-device-request.whole", resource=resources.memory))
    if resources.count not in asked or not resources.memory:
        return edit_owner(pod, Text("no-device-request.add", resource=resources.count))
    unit = resources.memory_factor
    return edit_owner(pod, Text("no-device-request.units", resource=resources.memory, unit=f"{unit:,}"))


@rule("no-device-request", reads=("install",))
def given_nothing(scene: PlacedScene) -> Iterable[Finding]:
    """HAMi's scheduler placed the pod and gave it nothing, as it read no request in what the pod asks for."""
    pod = scene.pod
    if given(pod.metadata) or pod.spec.scheduler_name != scene.install.scheduler_name:
        return []
    said = [quotes.of_event(event) for event in scene.events if _ASKS_NOTHING in event.message][-1:]
    return unread_containers(pod, scene.config, scene.version, said)


def unread_containers(
    pod: Pod, config: DeviceConfig, version: Version | None, said: Sequence[Evidence] = ()
) -> list[Finding]:
    """The containers of whose amounts HAMi reads no request: they get no device, wherever the pod goes.

    `said`: HAMi's words about it.
    """
    if version is None:
        return []
    found: list[Finding] = []
    for container in pod.spec.containers:
        alone = structs.replace(pod, spec=structs.replace(pod.spec, containers=[container], init_containers=None))
        names = (config.by_resource.get(name) for name in asked_resources(alone, config))
        known = [device for device in names if device and version >= device.vendor.since]
        if known and not pod_request(alone, config, version).containers:
            claim = unread(alone, config, version)
            if len(pod.spec.containers) > 1:
                claim = Text("no-device-request.container", container=container.name, claim=claim)
            asked = asked_resources(alone, config)
            proofs = [*(quotes.of_resource(pod, name, value) for name, value in asked.items()), *said]
            step = write_plainly(alone, config, version)
            found.append(finding("no-device-request", claim, proofs=proofs, actions=[step]))
    return found
