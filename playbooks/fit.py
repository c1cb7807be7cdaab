"""Would these pods fit now, and where? HAMi's filter alone, per pod and node; kubernetes' own filters beside it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import click
from msgspec import structs

from bot.errors import SourceError, UsageError
from bot.hami.advice import smallest_changes
from bot.hami.requests import asked_resources
from bot.hami.vendors import NVIDIA
from bot.kube.models import Pod
from bot.kube.times import format_time
from bot.report import (
    SCHEMA,
    Confidence,
    Evidence,
    Finding,
    Gap,
    NextAction,
    Report,
    Scope,
    Severity,
    Subject,
    Table,
    one_line,
    worst,
)
from bot.texts import Texts
from playbooks import _evidence
from playbooks._evidence import kubectl
from playbooks._gather import Capacity, InstallSeen, gather_capacity, gather_install, times_shown
from playbooks._manifest import Manifest, ManifestFile, read_pods
from playbooks._playbook import Playbook, Sources
from playbooks._rules import prose
from playbooks._rules.case import Case, World
from playbooks._rules.gaps import capacity_gaps, fit_gaps, other_vendors

_MAX_FINDINGS = 20
COLUMNS = ("pod", "node", "verdict", "reason", "kubernetes")


class Request(NamedTuple):
    """The pods to try, as a webhook would have admitted them."""

    pods: tuple[Pod, ...]


class Snapshot(NamedTuple):
    """The cluster's cards and what is used of them."""

    request: Request
    cluster: str
    taken_at: datetime
    as_of: datetime
    install: InstallSeen
    capacity: Capacity
    undecodable: tuple[str, ...]


def request(file: Sequence[Manifest], namespace: str = "") -> Request:
    """The pods of the files; `namespace` is for those that name none."""
    if not file:
        raise UsageError("fit needs a manifest", hint="For example: fit -f pod.yaml")
    pods = read_pods(file)
    return Request(tuple(_named(pod, number, namespace) for number, pod in enumerate(pods, 1)))


def _named(pod: Pod, number: int, namespace: str) -> Pod:
    meta = pod.metadata
    fields = {one: getattr(meta, one) for one in meta.__struct_fields__}
    fields["name"] = meta.name or (f"{meta.generate_name}{number}" if meta.generate_name else f"pod-{number}")
    fields["namespace"] = meta.namespace or namespace or "default"
    return Pod(metadata=type(meta)(**fields), spec=pod.spec, status=pod.status)


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read the install and the cards. Raises SourceError when the nodes cannot be read: there is nothing to fit on."""
    install = await gather_install(sources)
    capacity = await gather_capacity(sources.cluster, install.install, "")
    cluster = sources.cluster
    if isinstance(capacity.nodes, Gap):
        raise SourceError(capacity.nodes.why, hint=capacity.nodes.hint)
    as_of = cluster.as_of(times_shown(capacity.nodes, install.install))
    return Snapshot(wanted, cluster.name, cluster.now(), as_of, install, capacity, tuple(cluster.undecodable))


def diagnose(snapshot: Snapshot, say: Texts) -> Report:
    """One row per pod and node; a finding per pod."""
    install, config = snapshot.install.install, snapshot.install.config
    world = World(_quotas_or_none(snapshot.capacity), install, config, snapshot.as_of)
    cases = [Case(pod, world) for pod in snapshot.request.pods]
    named = _names(snapshot.request.pods)
    rows = [row for case, name in zip(cases, named, strict=True) for row in _rows(case, name, say)]
    findings = _findings(cases, named, _confidence(snapshot), say)
    gaps = [*capacity_gaps(snapshot.install, snapshot.capacity, snapshot.undecodable, say)]
    gaps += [gap for case in cases for gap in fit_gaps(case, say)]
    first = snapshot.request.pods[0]
    return Report(
        schema=SCHEMA,
        playbook="fit",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Pod", first.namespace, first.name),
        verdict=one_line(findings[0].claim if len(cases) == 1 and findings else _summary(cases, say)),
        severity=worst(tuple(findings)),
        findings=tuple(prose.few_actions(findings)),
        tables=(Table("nodes", COLUMNS, tuple(rows)),),
        gaps=tuple(dict.fromkeys(gaps)),
    )


def _quotas_or_none(capacity: Capacity) -> Capacity:
    """Where quotas could not be read the question is answered without them: the gap says so, and nothing is sure."""
    return capacity._replace(quotas=[]) if isinstance(capacity.quotas, Gap) else capacity


def _names(pods: Sequence[Pod]) -> list[str]:
    """The pods' names; with their namespace where a name alone would not tell them apart."""
    plain = [pod.name for pod in pods]
    return plain if len(set(plain)) == len(plain) else [f"{pod.namespace}/{pod.name}" for pod in pods]


def _rows(case: Case, pod: str, say: Texts) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    vendors = other_vendors(case)
    for name in sorted(case.nodes):
        verdict = case.judge(name)
        lost = case.obstacles.get(name)
        word = "fit" if verdict.fits else "unfit" if verdict.fits is False else "unknown"
        reason = "" if verdict.fits else verdict.text() or verdict.unknown
        if verdict.fits and vendors:
            word, reason = "unknown", say("gap.vendor", resource=vendors[0])
        rows.append((pod, name, word, reason, lost.text if lost else ""))
    return rows


def _summary(cases: Sequence[Case], say: Texts) -> str:
    return say("fit.summary", fitting=sum(1 for case in cases if _free(case)), pods=len(cases))


def _free(case: Case) -> list[str]:
    """The nodes that would take the pod now, kubernetes' own filters included as far as objects alone tell."""
    return [] if other_vendors(case) else [one for one in case.takers if one not in case.obstacles]


def _confidence(snapshot: Snapshot) -> Confidence:
    """Sure only when everything that decides was read."""
    return "suspected" if snapshot.capacity.gaps or snapshot.install.install.version is None else "confirmed"


def _findings(cases: Sequence[Case], names: Sequence[str], confidence: Confidence, say: Texts) -> list[Finding]:
    """The pods that fit nowhere first; beyond a few, the table has the rest."""
    found = [
        _finding(case, name, confidence, say) for case, name in list(zip(cases, names, strict=True))[:_MAX_FINDINGS]
    ]
    return sorted(found, key=lambda one: one.severity == "info")


def _finding(case: Case, name: str, confidence: Confidence, say: Texts) -> Finding:
    if (unknown := _unknown(case, say)) is not None:
        claim = say("fits.unknown", pod=name, why=unknown)
        return _told("not-enough-evidence", claim, "warning", "suspected", proofs=_asked(case))
    if not case.request.containers:
        return _no_request(case, name, confidence, say)
    takers, free = case.takers, _free(case)
    if free:
        claim = say("fits.claim", pod=name, count=len(free), nodes=prose.names(say, free))
        return _told("fits", claim, "info", confidence, nodes=takers, proofs=(_card(case, free[0]),))
    if takers:
        claim = say("fits.lost", pod=name, count=len(takers), nodes=prose.names(say, takers))
        return _told("kubernetes-filter", claim, "warning", confidence, nodes=takers, proofs=(_card(case, takers[0]),))
    changes = (
        smallest_changes(case.view, sorted(case.nodes), case.request)
        if len(case.views) == 1 and case.view.ledger
        else []
    )
    key = "never" if case.too_large else "claim"
    code = "impossible-anywhere" if case.too_large else "fits-nowhere"
    claim = say(f"fits-nowhere.{key}", pod=name, count=len(case.nodes))
    actions = [
        NextAction(
            say(f"change.{one.what}", node=one.node, amount=f"{one.amount:,}", pod=one.pod),
            kubectl("get", "node", one.node, "-o", "jsonpath={.metadata.annotations.hami\\.io/node-nvidia-register}"),
        )
        for one in changes
    ]
    return structs.replace(_told(code, claim, "warning", confidence, proofs=_asked(case)), next_actions=tuple(actions))


def _unknown(case: Case, say: Texts) -> str | None:
    """Why it cannot be told whether the pod fits anywhere; None when it can."""
    if vendors := other_vendors(case):
        return say("gap.vendor", resource=vendors[0])
    if case.takers:
        return None
    verdicts = (case.judge(name) for name in sorted(case.nodes))
    return next((one.unknown for one in verdicts if one.fits is None), None)


def _no_request(case: Case, name: str, confidence: Confidence, say: Texts) -> Finding:
    """HAMi's filter lets a pod pass that asks for nothing, or for it in a way that HAMi does not read."""
    asked = asked_resources(case.pod, case.config)
    if not asked:
        proofs = tuple(_card(case, one) for one in sorted(case.nodes)[:1])
        return _told("no-device-request", say("fits.anywhere", pod=name), "info", confidence, proofs=proofs)
    amounts = one_line(", ".join(f"{key}: {value}" for key, value in asked.items()), 80)
    claim = say("no-device-request.unread", version=str(case.version or ""), asked=amounts)
    return _told("no-device-request", claim, "warning", confidence, proofs=_asked(case))


def _told(
    code: str,
    claim: str,
    severity: Severity,
    confidence: Confidence,
    *,
    nodes: Sequence[str] = (),
    proofs: tuple[Evidence, ...],
) -> Finding:
    return Finding(
        code=code,
        claim=one_line(claim, 400),
        severity=severity,
        confidence=confidence,
        scope=Scope(nodes=tuple(nodes)),
        evidence=proofs,
    )


def _card(case: Case, name: str) -> Evidence:
    cards = case.view.cards(name)
    node = case.nodes[name]
    if cards:
        return _evidence.of_node_annotation(node, NVIDIA.register, cards[0].card.uuid)
    return _evidence.of_node(node, node.name, "{.metadata.name}")


def _asked(case: Case) -> tuple[Evidence, ...]:
    """What the manifest asks for, as written."""
    asked = asked_resources(case.pod, case.config)
    return tuple(
        Evidence("manifest", f"Pod {case.pod.namespace}/{case.pod.name}", None, value, f"grep {name} MANIFEST")
        for name, value in asked.items()
    )


PLAYBOOK = Playbook(
    verb="fit",
    summary="Would these pods fit now, and on which nodes?",
    example="fit -f pod.yaml",
    parameters=(
        click.Option(
            ["-f", "--file"],
            type=ManifestFile(),
            multiple=True,
            metavar="FILE",
            help="A Pod or List as YAML or JSON; - for standard input. May be repeated.",
        ),
        click.Option(["-n", "--namespace"], default="", metavar="NS", help="For pods that name no namespace."),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
