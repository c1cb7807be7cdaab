"""Rules about what must be right before a scheduler looks at a pod: name, admission, gates, scheduler, request."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from bot.hami.installation.install import is_anothers
from bot.hami.pods.allocations import given
from bot.hami.pods.request_parsing import DeviceConfig, UnknownPolicy, asked_resources, pod_request, unknown_policies
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.hami.webhook import DEFAULT_SCHEDULERS, LEAVES_OWN_ALONE
from bot.kube.models import Pod, Workload
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Subject, act, one_line, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.dra import KUEUE, QUEUE, Queued
from playbooks.gather.subject import AbsentPod, EmptyNamespace
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.admission.webhook import BY_QUOTA, WebhookQuestion, faults, refused_call, remedy
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding, in_events, other_vendors, signed
from playbooks.rules.common.holders import annotate, edit_owner
from playbooks.rules.waiting.volcano import of_group
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene

_LONGEST_WORDS = 200
_DENIED = f'"{WEBHOOK_NAME}" denied the request'


@rule("admission-denied", reads=("absent",))
def refused_at_creation(scene: AbsentScene) -> Iterator[Finding]:
    """The finding that the pod was never created: the FailedCreate event of its owner says why."""
    if not scene.refusals:
        return
    event = scene.refusals[0]
    owner = event.involved_object
    by_hami = _DENIED in event.message
    # What the webhook or the API said, without what the controller put before it.
    marks = (" denied the request: ", " failed error: ", "Error creating: ")
    why = next((event.message.split(mark, 1)[1] for mark in marks if mark in event.message), event.message)
    key = "admission-denied.hami" if by_hami else "admission-denied.claim"
    if scene.wanted.kind != "Pod":
        key = "admission-denied.hami-of" if by_hami else "admission-denied.of"
    claim = Text(key, pod=scene.wanted.name, owner=f"{owner.kind} {owner.name}", why=why)
    describe = kubectl("-n", event.namespace, "describe", owner.kind.lower(), owner.name)
    actions = [step(Text("admission-denied.check"), describe)]
    change = remedy(why)
    if by_hami and change:
        actions.clear()
        about = ("resourcequota",) if change == BY_QUOTA else (owner.kind.lower(), owner.name)
        look = kubectl("-n", event.namespace, "get", *about, "-o", "yaml")
        if scene.wanted.kind == "Deployment" and change != BY_QUOTA:  # its ReplicaSet follows it
            change = Text(
                "admission-denied.in", change=change, owner=f"Deployment {event.namespace}/{scene.wanted.name}"
            )
            look = kubectl("-n", event.namespace, "edit", f"deployment/{scene.wanted.name}")
        actions.insert(0, act(change, look))
    proofs = [quotes.of_event(refusal) for refusal in scene.refusals]
    yield finding("admission-denied", claim, proofs=proofs, actions=actions)


@rule("scheduling-gated")
def gated(scene: PodScene) -> Iterator[Finding]:
    """The finding that scheduling gates keep every scheduler away from the pod."""
    pod = scene.pod
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    if not gates:
        return
    proofs = [quotes.of_pod(pod, gate, "{.spec.schedulingGates[*].name}") for gate in gates]
    if all(gate.startswith(KUEUE) for gate in gates):
        said, more, look = kueue_says(pod.namespace, scene.queued)
        claim, proofs = sentences(Text("scheduling-gated.kueue", gate=", ".join(gates)), *said), [*proofs, *more]
    else:
        managers = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.managedFields[*].manager}")
        claim, look = (
            Text("scheduling-gated.claim", gates=", ".join(gates)),
            step(Text("scheduling-gated.owner"), managers),
        )
    yield finding("scheduling-gated", claim, proofs=proofs, actions=[look])


def kueue_says(namespace: str, queued: Queued | Gap | None) -> tuple[list[Text], list[Evidence], NextAction]:
    """What to say of a pod in a Kueue queue: its place and Kueue's words, their evidence, and the step to look."""
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
        name = f"Workload {namespace}/{workload.name}"
        proofs.append(Evidence("workload", name, says.last_transition_time, words, show))
    return claims, proofs, step(Text("scheduling-gated.workload"), show)


@rule("other-scheduler")
def anothers(scene: PodScene) -> Iterator[Finding]:
    """The finding that another scheduler has the pod, in that scheduler's words and without advice."""
    scheduler, words = scene.pod.spec.scheduler_name, [*scene.words, *of_group(scene.group_events)]
    if not is_anothers(scheduler, scene.install):
        return
    if not words:  # its events may have reasons of its own
        events = scene.cluster.messages.events.get((scene.pod.namespace, scene.pod.name), ())
        own = [event for event in events if event.component == scheduler and event.message.strip()]
        own = [event for event in own if event.is_about(scene.pod.metadata.uid)]
        words = [quotes.of_event(event) for event in sorted(own, key=lambda event: event.seen_at)[-1:]]
    said = one_line(words[0].quote, _LONGEST_WORDS).rstrip(".。") if words else ""
    claim = Text("other-scheduler.claim" if said else "other-scheduler.silent", scheduler=scheduler, words=said)
    proofs = [quotes.of_pod(scene.pod, scheduler, "{.spec.schedulerName}"), *words]
    sure: Confidence = "confirmed" if scene.install.seen else "suspected"  # else HAMi's scheduler may be called so
    yield finding("other-scheduler", claim, sure, proofs=proofs, severity="info")


@rule("no-device-request")
def nothing_asked(scene: PodScene) -> Iterator[Finding]:
    """The finding that the pod asks for none of HAMi's resources, or for amounts that HAMi takes as no request."""
    pod, config = scene.pod, scene.config
    if not scene.asked:
        name = pod.spec.containers[0].name if pod.spec.containers else pod.name
        proofs = [quotes.of_pod(pod, name, "{.spec.containers[*].name}")]
        fix = edit_owner(pod, Text("no-device-request.add", resource=config.gpus.count))
        claim = Text("no-device-request.claim", resource=config.gpus.count)
        yield finding("no-device-request", claim, proofs=proofs, actions=[fix])
    elif not any(request.containers for request in scene.requests) and not other_vendors(scene):
        proofs = [quotes.of_resource(pod, name, value) for name, value in scene.asked.items()]
        claim, fix = unread(pod, config, scene.version), write_plainly(pod, config, scene.version)
        yield finding("no-device-request", claim, proofs=proofs, actions=[fix])


@rule("no-device-request")
def amounts_unread(scene: PodScene) -> Iterator[Finding]:
    """The findings about containers whose amounts HAMi takes as no request, next to containers that it reads."""
    if scene.request.containers:
        yield from unread_containers(scene.pod, scene.config, scene.version)


@rule("unknown-policy")
def policies_unread(scene: PodScene | PlacedScene) -> Iterator[Finding]:
    """The findings about policies in the pod that HAMi does not know, and silently replaces by its own."""
    for strange in unknown_policies(scene.pod, scene.version):
        proof = quotes.of_pod_annotation(scene.pod, strange.key)
        yield policy_finding(strange, proof, annotate(scene.pod, remedied(strange), {strange.key: None}))


def policy_finding(strange: UnknownPolicy, proof: Evidence, fix: NextAction) -> Finding:
    values = {"key": strange.key, "value": one_line(strange.value, _LONGEST), "instead": strange.instead}
    claim = Text("unknown-policy.claim", **values, known=", ".join(strange.known))
    return finding("unknown-policy", claim, proofs=[proof], actions=[fix])


def remedied(strange: UnknownPolicy) -> Text:
    """The advice which policy to write instead of the unknown one."""
    return Text("unknown-policy.set", key=strange.key, known=", ".join(strange.known))


_LONGEST = 80
_ASKS_NOTHING = "does not request any resource"
"""The words of HAMi's event for a pod that its extender lets pass; 2.10 only logs them."""


def unread(pod: Pod, config: DeviceConfig, version: Version | None) -> Text:
    """The claim about an amount that HAMi takes as no request: a quantity in bytes, or a missing count."""
    asked = asked_resources(pod, config)
    amounts = one_line(", ".join(f"{name}: {value}" for name, value in asked.items()), _LONGEST)
    device = next((found for name in asked if (found := config.by_resource.get(name))), None)
    text = str(version or "")
    if _in_init_alone(pod, config, version):
        return Text("no-device-request.init", version=text, asked=amounts)
    if passed_over(pod, config, version):
        scheduler, count = pod.spec.scheduler_name or "?", config.gpus.count
        return Text("no-device-request.own-name", version=text, asked=amounts, resource=count, scheduler=scheduler)
    if device is None or device.vendor is FIRST:
        return Text("no-device-request.unread", version=text, asked=amounts)
    return Text("no-device-request.unread-of", version=text, asked=amounts, resource=device.resources.count)


def _in_init_alone(pod: Pod, config: DeviceConfig, version: Version | None) -> bool:
    """Whether only init containers ask, and HAMi's filter does not read what they ask for, as it does from 2.9 on."""
    apps = structs.replace(pod, spec=structs.replace(pod.spec, init_containers=None))
    return version is not None and version < (2, 9) and not asked_resources(apps, config)


def passed_over(pod: Pod, config: DeviceConfig, version: Version | None) -> bool:
    """Whether the pod asks for a part of a GPU without a count, and this version's webhook adds none. HAMi 2.7 and 2.8
    change no pod that names a scheduler other than the default one, even HAMi's own.
    """
    asked, gpus = asked_resources(pod, config), config.gpus
    since, until = LEAVES_OWN_ALONE
    named = pod.spec.scheduler_name not in (None, *DEFAULT_SCHEDULERS)
    partly = gpus.count not in asked and not {gpus.memory, gpus.percentage, gpus.cores}.isdisjoint(asked)
    return version is not None and since <= version < until and named and partly


def write_plainly(pod: Pod, config: DeviceConfig, version: Version | None) -> NextAction:
    """The step to write a count and plain numbers, in the unit of the device's memory."""
    asked = asked_resources(pod, config)
    device = next((found for name in asked if (found := config.by_resource.get(name))), config.devices[0])
    resources = device.resources
    if _in_init_alone(pod, config, version):
        return edit_owner(pod, Text("webhook-bypassed.fix-init"))
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
    """The findings that HAMi's scheduler placed the pod without a device, because it read no request in its amounts."""
    pod = scene.pod
    if given(pod.metadata) or pod.spec.scheduler_name != scene.install.scheduler_name:
        return []
    said = [quotes.of_event(event) for event in scene.events if _ASKS_NOTHING in event.message][-1:]
    return unread_containers(pod, scene.config, scene.version, said)


def unread_containers(
    pod: Pod, config: DeviceConfig, version: Version | None, said: Sequence[Evidence] = ()
) -> list[Finding]:
    """The findings about containers whose amounts HAMi reads as no request; `said`: HAMi's words about the pod."""
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


_MAX_CANDIDATES = 3


@rule("gpu-start-failure", "gpu-runtime-missing", "driver-not-loaded", "card-fault", reads=("absent",))
def refused_by_known_words(scene: AbsentScene) -> Iterator[Finding]:
    """The finding that the pod was refused at its creation in words that a signature knows."""
    if refused := in_events(scene.refusals, None):
        hit, proofs = refused[0][0], [proof for _, proof in refused]
        claim = Text("admission-denied.signed", pod=scene.wanted.name, means=hit.means)
        yield signed(hit, proofs, claim, (), scene.install)


@rule("webhook-unreachable", "webhook-untrusted", "webhook-missing", reads=("absent",))
def webhook_unanswered(scene: AbsentScene) -> list[Finding]:
    """The findings that the pod was not created because HAMi's webhook did not answer."""
    webhook = scene.webhook
    call = refused_call(scene.refusals, webhook.hook if webhook else None)
    if call is None or webhook is None:
        return [call] if call else []
    broken = faults(WebhookQuestion(scene, shown={call.code: call.evidence}))
    return broken if call.code in {finding.code for finding in broken} else [call, *broken]


@rule("not-found", reads=("absent",))
def no_such_pod(scene: AbsentScene) -> Iterator[Finding]:
    """The finding that no pod has the name, or more than one."""
    if isinstance(scene.absent, AbsentPod):
        yield not_found(scene.absent, scene.wanted, "why", scene.queued)


def not_found(absent: AbsentPod, wanted: Subject, verb: str, queued: Queued | Gap | None = None) -> Finding:
    """The finding that no pod, or more than one, has this name; its steps ask `verb` about what may be meant."""
    if absent.node:
        name = wanted.name
        proof = Evidence("nodes", f"Node {name}", None, name, kubectl("get", "node", name))
        ask = step(Text("not-found.ask", name=name), prose.command("nodes", name))
        return finding("not-found", Text("not-found.node", name=name), proofs=[proof], actions=[ask])
    if absent.suspended:
        return _suspended(absent.suspended, queued)
    names = [f"{candidate.namespace}/{candidate.name}" for candidate in absent.candidates]
    proofs, asks = list[Evidence](), list[NextAction]()
    for near, full in zip(absent.candidates[:_MAX_CANDIDATES], names, strict=False):
        kind = near.kind.lower()
        look = kubectl("-n", near.namespace, "get", f"{kind}s")
        proofs.append(Evidence(f"{kind}s", f"{near.kind} {full}", None, near.name, look))
        typed = f"{near.namespace}/{'' if kind == 'pod' else f'{kind}/'}{near.name}"
        asks.append(step(Text("not-found.ask", name=full), prose.command(verb, typed)))
    sure: Confidence = "suspected" if absent.gaps else "confirmed"
    severity, actions = "info" if absent.matches else "warning", asks or _elsewhere(wanted.namespace)
    claim = _claim(absent, wanted.kind, wanted.name, names)
    return finding("not-found", claim, sure, proofs=proofs, severity=severity, actions=actions)


def _suspended(job: Workload, queued: Queued | Gap | None) -> Finding:
    """A Job may be suspended by a person, or by a queue that starts it when its turn comes."""
    of_job = ("-n", job.namespace, "get", "job", job.name, "-o")
    path, suspended = "jsonpath={.spec.suspend}", f"Job {job.namespace}/{job.name}"
    proofs = [Evidence("job", suspended, None, "true", kubectl(*of_job, path))]
    queue = job.metadata.label(QUEUE)
    if queue:
        said, more, look = kueue_says(job.namespace, queued)
        proofs += more
        label = f"jsonpath={{.metadata.labels.{quotes.escape(QUEUE)}}}"
        proofs.append(Evidence("job", suspended, None, queue, kubectl(*of_job, label)))
        claim = sentences(Text("not-found.queued", name=f"{job.namespace}/{job.name}", queue=queue), *said)
    else:
        look = step(Text("not-found.resume"), kubectl("-n", job.namespace, "describe", "job", job.name))
        claim = Text("not-found.suspended", name=f"{job.namespace}/{job.name}")
    return finding("not-found", claim, proofs=proofs, actions=(look,))


def _elsewhere(namespace: str) -> tuple[NextAction, NextAction]:
    waiting = prose.command("pending", *(("-n", namespace) if namespace else ()))
    where = ("-n", namespace) if namespace else ()
    owners = kubectl(*where, "get", "deployments,statefulsets,daemonsets,jobs", *(() if namespace else ("-A",)))
    return step(Text("not-found.waiting"), waiting), step(Text("not-found.owners"), owners)


def _claim(absent: AbsentPod, kind: str, name: str, candidates: Sequence[str]) -> Text:
    names = prose.names(candidates)
    if absent.matches:
        same = all(candidate.name == name for candidate in absent.candidates)
        key = "not-found.several" if same else "not-found.begin"
        return Text(key, count=absent.matches, what=f"{kind.lower()}s", name=name, names=names)
    if names:
        return Text("not-found.candidates", answer=absent.answer, names=names)
    return Text("not-found.claim" if kind == "Pod" else "not-found.owner", answer=absent.answer)


def no_such_namespace(deserted: EmptyNamespace, words: tuple[str, ...]) -> Finding:
    """The finding that a namespace does not exist or is empty; `words` and a similar namespace make the command."""
    key = "not-found.namespace-near" if deserted.near else "not-found.namespace"
    claim = Text(key, namespace=deserted.namespace, names=prose.names(deserted.near))
    actions = [step(Text("not-found.ask", name=name), prose.command(*words, name)) for name in deserted.near]
    actions = actions or [step(Text("not-found.namespaces"), kubectl("get", "namespaces"))]
    return finding("not-found", claim, actions=actions)
