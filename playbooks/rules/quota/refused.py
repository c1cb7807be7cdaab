"""The rule about pods that a quota refuses at creation: they never exist, and their controllers' events tell of it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby

from bot.hami.fit.quotas import QuotaLimit
from bot.kube.models import Event, ResourceQuota
from bot.kube.quantities import parse_quantity
from bot.kube.times import format_time, parse_time
from bot.report import Finding, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.quota.effects import proof
from playbooks.scenes.cluster import what_was_read
from playbooks.scenes.quota import QuotaScene

_BY_HAMI = "exceeding resource quota"
"""The words of HAMi's webhook about a quota, since 2.9 (pkg/scheduler/webhook.go)."""
_BY_KUBERNETES = re.compile(
    r"exceeded quota: ([^,]{1,253}), requested: (.{1,2000}?)(?:, used: (?:.{1,2000}?, limited: (.{1,2000}))?|$)",
    re.DOTALL,
)
"""k8s.io/apiserver's quota admission: the quota, the keys of it that the pod would exceed, and what they were then."""
_TRIES_AGAIN = timedelta(minutes=20)
"""The age up to which a refusal counts: a controller tries again, at last every 1,000 s, and is refused anew."""
_ASKED_AS = {"ReplicaSet": "rs", "StatefulSet": "sts", "DaemonSet": "ds", "Job": "job", "Deployment": "deploy"}
_MOST_QUOTED = 3


@rule("admission-denied")
def refused(scene: QuotaScene) -> Iterator[Finding]:
    """The findings that a quota refuses new pods at creation, one per namespace, with its newest refusals."""
    by_namespace: dict[str, list[QuotaLimit]] = {}
    for limit in scene.limits:
        by_namespace.setdefault(limit.namespace, []).append(limit)
    times = ((event, parse_time(event.seen_at)) for event in what_was_read(scene.refusals))
    recent = (event for event, at in times if at is not None and scene.now - at <= _TRIES_AGAIN)
    exceeded = ((event, _exceeded(event, by_namespace.get(event.namespace, ()))) for event in recent)
    refusals = [(event, limits) for event, limits in exceeded if limits]
    refusals.sort(key=lambda refusal: refusal[0].seen_at, reverse=True)
    refusals.sort(key=lambda refusal: refusal[0].namespace)
    for namespace, some in groupby(refusals, lambda refusal: refusal[0].namespace):
        yield _finding(namespace, list(some), scene.quotas)


def _exceeded(event: Event, own: Iterable[QuotaLimit]) -> list[QuotaLimit]:
    """The namespace's limits on HAMi's resources that the refusal is about: HAMi does not say which of its two."""
    if WEBHOOK_NAME in event.message and _BY_HAMI in event.message:
        return [limit for limit in own if limit.by == "HAMi"]
    if (match := _BY_KUBERNETES.search(event.message)) is None:
        return []
    asked, limited = _amounts(match[2]), _amounts(match[3] or "")
    return [
        limit
        for limit in own
        if limit.quota == match[1] and limit.key in asked and _stands(limit, limited.get(limit.key))
    ]


def _amounts(text: str) -> dict[str, str]:
    """Of `requests.nvidia.com/gpu=2,limits.cpu=1`."""
    return {key: value for key, _, value in (part.strip().partition("=") for part in text.split(","))}


def _stands(limit: QuotaLimit, then: str | None) -> bool:
    """Whether the limit is what it was when the pod was refused, as far as the refusal tells."""
    before, now = (None if text is None else parse_quantity(text) for text in (then, limit.written))
    return before is None or now is None or before == now


def _finding(
    namespace: str, refusals: Sequence[tuple[Event, list[QuotaLimit]]], quotas: Sequence[ResourceQuota]
) -> Finding:
    newest, limits = refusals[0]
    owners = list(dict.fromkeys(f"{event.involved_object.kind} {event.involved_object.name}" for event, _ in refusals))
    at = parse_time(newest.seen_at)
    values = {"namespace": namespace, "owners": prose.names(owners), "by": limits[0].by}
    claim = Text("quota.refuses", **values, at=format_time(at) if at else "?")
    latest: dict[str, Event] = {}
    for event, _ in refusals:
        latest.setdefault(event.involved_object.uid or event.metadata.uid, event)
    proofs = [quotes.of_event(event) for event in list(latest.values())[:_MOST_QUOTED]]
    proofs += [evidence for limit in limits for evidence in proof(limit, quotas)]
    return finding("admission-denied", claim, proofs=proofs, actions=_look(newest))


def _look(event: Event) -> tuple[NextAction, ...]:
    owner = event.involved_object
    short = _ASKED_AS.get(owner.kind)
    if short is None:
        return ()
    words = prose.command("why", f"{short}/{owner.name}", "-n", event.namespace)
    return (step(Text("pending.why", pod=f"{owner.kind} {event.namespace}/{owner.name}"), words),)
