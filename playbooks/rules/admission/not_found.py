"""Rules about pods and namespaces that do not exist, or names of several pods: why, and what may be meant."""

from collections.abc import Iterator, Sequence

from bot.kube.models import Workload
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, step
from bot.texts import Text, sentences
from playbooks.gather.dra import QUEUE, Queued
from playbooks.gather.subject import AbsentPod, EmptyNamespace, SubjectRequest
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.admission.before_scheduling import kueue_says
from playbooks.rules.admission.webhook import Asked, faults, refused_call
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding, in_events, signed
from playbooks.scenes.placed_pod import AbsentScene

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
    broken = faults(Asked(scene, shown={call.code: call.evidence}))
    return broken if call.code in {finding.code for finding in broken} else [call, *broken]


@rule("not-found", reads=("absent",))
def no_such_pod(scene: AbsentScene) -> Iterator[Finding]:
    """The finding that no pod has the name, or more than one."""
    if isinstance(scene.absent, AbsentPod):
        yield not_found(scene.absent, scene.wanted, "why", scene.queued)


def not_found(absent: AbsentPod, wanted: SubjectRequest, verb: str, queued: Queued | Gap | None = None) -> Finding:
    """The finding that a name is unknown, or not of one pod; its steps ask `verb` about what may be meant."""
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
    """Who suspends a Job may be a person, or a queue that starts it when its turn comes."""
    of_job = ("-n", job.namespace, "get", "job", job.name, "-o")
    path, suspended = "jsonpath={.spec.suspend}", f"Job {job.namespace}/{job.name}"
    proofs = [Evidence("job", suspended, None, "true", kubectl(*of_job, path))]
    queue = job.metadata.label(QUEUE)
    if queue:
        said, more, look = kueue_says(job.namespace, queued)
        proofs += more
        label = f"jsonpath={{.metadata.labels.{QUEUE.replace('.', chr(92) + '.')}}}"
        proofs.append(Evidence("job", suspended, None, queue, kubectl(*of_job, label)))
        claim = sentences(Text("not-found.queued", name=f"{job.namespace}/{job.name}", queue=queue), *said)
    else:
        look = step(Text("not-found.resume"), kubectl("-n", job.namespace, "describe", "job", job.name))
        claim = Text("not-found.suspended", name=f"{job.namespace}/{job.name}")
    return finding("not-found", claim, proofs=proofs, actions=(look,))


def _elsewhere(namespace: str) -> tuple[NextAction, NextAction]:
    """Where a pod that nothing is called like may be found."""
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
    """The finding that a namespace does not exist, or is empty; `words` before a near namespace make the command."""
    key = "not-found.namespace-near" if deserted.near else "not-found.namespace"
    claim = Text(key, namespace=deserted.namespace, names=prose.names(deserted.near))
    actions = [step(Text("not-found.ask", name=name), prose.command(*words, name)) for name in deserted.near]
    actions = actions or [step(Text("not-found.namespaces"), kubectl("get", "namespaces"))]
    return finding("not-found", claim, actions=actions)
