"""There is no such pod or namespace, or more than one pod: why, and what could have been meant."""

from collections.abc import Iterator, Sequence

from bot.kube.models import Workload
from bot.report import Evidence, Finding, Gap, NextAction, Subject, step
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
    """The pod was refused at its creation in words that a signature knows."""
    if refused := in_events(scene.refusals, None):
        hit, proofs = refused[0][0], [proof for _, proof in refused]
        claim = Text("admission-denied.signed", pod=scene.wanted.name, means=hit.means)
        yield signed(hit, proofs, claim, (), scene.install)


@rule("webhook-unreachable", "webhook-untrusted", "webhook-missing", reads=("absent",))
def webhook_unanswered(scene: AbsentScene) -> list[Finding]:
    """HAMi's webhook kept the pod from being created as nobody answered."""
    webhook = scene.webhook
    call = refused_call(scene.refusals, webhook.hook if webhook else None)
    if call is None or webhook is None:
        return [call] if call else []
    broken = faults(Asked(scene, shown={call.code: call.evidence}))
    return broken if call.code in {finding.code for finding in broken} else [call, *broken]


@rule("not-found", reads=("absent",))
def no_such_pod(scene: AbsentScene) -> Iterator[Finding]:
    """There is no such pod, or more than one."""
    if isinstance(scene.absent, AbsentPod):
        yield not_found(scene.absent, scene.wanted, "why", scene.queued)


def not_found(absent: AbsentPod, wanted: SubjectRequest, verb: str, queued: Queued | Gap | None = None) -> Finding:
    """Unknown, or not the only one of that name: what could have been meant is asked with the verb."""
    if absent.node:
        return _a_node(wanted.name)
    if absent.suspended:
        return _suspended(absent.suspended, queued)
    names = [f"{candidate.namespace}/{candidate.name}" for candidate in absent.candidates]
    return finding(
        "not-found",
        _claim(absent, wanted.kind, wanted.name, names),
        "suspected" if absent.gaps else "confirmed",
        proofs=tuple(
            Evidence(
                f"{candidate.kind.lower()}s",
                f"{candidate.kind} {full}",
                None,
                candidate.name,
                kubectl("-n", candidate.namespace, "get", f"{candidate.kind.lower()}s"),
            )
            for candidate, full in zip(absent.candidates[:_MAX_CANDIDATES], names, strict=False)
        ),
        severity="info" if absent.matches else "warning",
        actions=tuple(
            step(Text("not-found.ask", name=full), prose.command(verb, _typed(candidate)))
            for candidate, full in zip(absent.candidates[:_MAX_CANDIDATES], names, strict=False)
        )
        or _elsewhere(wanted.namespace),
    )


def _a_node(name: str) -> Finding:
    proof = Evidence("nodes", f"Node {name}", None, name, kubectl("get", "node", name))
    ask = step(Text("not-found.ask", name=name), prose.command("nodes", name))
    claim = Text("not-found.node", name=name)
    return finding("not-found", claim, proofs=(proof,), actions=(ask,))


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


def _typed(subject: Subject) -> str:
    kind = "" if subject.kind == "Pod" else f"{subject.kind.lower()}/"
    return f"{subject.namespace}/{kind}{subject.name}"


def no_such_namespace(deserted: EmptyNamespace, words: tuple[str, ...]) -> Finding:
    """It may as well be empty; the words in front of a namespace ask about a near one."""
    key = "not-found.namespace-near" if deserted.near else "not-found.namespace"
    claim = Text(key, namespace=deserted.namespace, names=prose.names(deserted.near))
    actions = [step(Text("not-found.ask", name=name), prose.command(*words, name)) for name in deserted.near]
    actions = actions or [step(Text("not-found.namespaces"), kubectl("get", "namespaces"))]
    return finding("not-found", claim, actions=actions)
