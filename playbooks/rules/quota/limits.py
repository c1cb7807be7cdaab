"""Rules about namespaces' quotas: exceeded, nearly full, without effect, set twice, counted differently; or all well.
Pods that a quota refuses at creation never exist: their controllers' events tell of it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby

from bot.hami.fit.quotas import QuotaLimit
from bot.kube.models import Event, ResourceQuota
from bot.kube.quantities import parse_quantity
from bot.kube.selectors import effective_request
from bot.kube.times import format_time, parse_time
from bot.report import Finding, NextAction, act, step
from bot.texts import Text, clauses, sentences
from playbooks import quotes
from playbooks.gather.subject import EmptyNamespace
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.admission.before_scheduling import no_such_namespace
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.quota.effects import proof, quoted
from playbooks.scenes.cluster import what_was_read
from playbooks.scenes.quota import QuotaScene, Space

NEAR = 0.9
"""The part of a limit from which on the next pod may be refused."""

_DIFFERENCES = {
    "waiting": "quota-differs.waiting",
    "share": "quota-differs.share",
    "cards": "quota-differs.cards",
    "other": "quota-differs.other",
    "gone": "quota-differs.gone",
}


@rule("quota-exceeded", reads=("quotas",))
def exceeded(scene: QuotaScene) -> Iterator[Finding]:
    """The findings that more counts against a limit than it allows."""
    for space, limit, used in _used(scene):
        if limit.amount is not None and used > limit.amount:
            claim = with_why(scene, space, limit.resource, Text("quota-exceeded.claim", **_figures(limit, used)))
            proofs, look = proof(limit, scene.quotas), _look(scene, space, limit)
            yield finding("quota-exceeded", claim, scene.confidence, proofs=proofs, actions=[look])


@rule("quota-near-limit", reads=("quotas",))
def nearly_full(scene: QuotaScene) -> Iterator[Finding]:
    """The findings that a limit is so nearly used up that the next pod may be refused."""
    for space, limit, used in _used(scene):
        if limit.amount is not None and NEAR * limit.amount <= used <= limit.amount:
            claim = with_why(scene, space, limit.resource, Text("quota-near-limit.claim", **_figures(limit, used)))
            proofs, look = proof(limit, scene.quotas), _look(scene, space, limit)
            yield finding("quota-near-limit", claim, scene.confidence, proofs=proofs, actions=[look])


def _used(scene: QuotaScene) -> Iterator[tuple[Space, QuotaLimit, int]]:
    """The limits of which it is known what counts against them."""
    for space in scene.spaces:
        for limit in space.limits:
            if (used := scene.used(space, limit)) is not None:
                yield space, limit, used


def _figures(limit: QuotaLimit, used: int) -> dict[str, object]:
    return {**_names(limit), "by": limit.by, "used": f"{used:,}", "limit": f"{limit.amount:,}"}


def _look(scene: QuotaScene, space: Space, limit: QuotaLimit) -> NextAction:
    """The step to look at the pod that HAMi counts most memory of; else at the quota, beside what Kubernetes counts."""
    memory = scene.config.amounts[limit.resource][0].resources.memory if limit.by == "HAMi" else ""
    largest = max(space.holders, key=lambda holder: scene.held(holder, memory), default=None) if memory else None
    if largest is None:
        label = Text("quota.describe", quota=f"{limit.namespace}/{limit.quota}")
        return step(label, kubectl("-n", limit.namespace, "describe", "resourcequota", limit.quota))
    held = prose.mib(scene.held(largest, memory))
    label = Text("quota.largest", pod=f"{largest.namespace}/{largest.name}", memory=held)
    return step(label, kubectl("-n", largest.namespace, "get", "pod", largest.name, "-o", "wide"))


def _names(limit: QuotaLimit) -> dict[str, object]:
    return {"quota": f"{limit.namespace}/{limit.quota}", "resource": limit.key}


@rule("quota-ambiguous", reads=("quotas",))
def set_twice(scene: QuotaScene) -> Iterator[Finding]:
    """The findings of keys in several quotas: HAMi keeps only the one that it read last, from 2.11 on the smallest."""
    for space in scene.spaces:
        for resource in scene.counted_resources(space):
            limits = [limit for limit in space.of(resource, "HAMi") if scene.enforces(limit)]
            if len({limit.amount for limit in limits}) > 1:
                names = prose.names([f"{limit.quota} ({limit.written})" for limit in limits])
                key = "quota-ambiguous.smallest" if scene.rules.merges_quotas else "quota-ambiguous.claim"
                claim = Text(key, namespace=space.namespace, quotas=names, resource=limits[0].key)
                proofs = [evidence for limit in limits for evidence in proof(limit, scene.quotas)]
                last = limits[-1]
                keep = Text("quota-ambiguous.remove", quota=f"{last.namespace}/{last.quota}", resource=last.key)
                edit = act(keep, _edit(last.namespace, last.quota))
                yield finding("quota-ambiguous", claim, scene.confidence, proofs=proofs, actions=[edit])


def _edit(namespace: str, quota: str) -> str:
    return kubectl("-n", namespace, "edit", "resourcequota", quota)


@rule("quota-not-enforced", reads=("quotas",))
def held_by_nobody(scene: QuotaScene) -> Iterator[Finding]:
    """The findings of limits without effect: for another resource or version, zero, or no whole number."""
    for limit in (limit for space in scene.spaces for limit in space.limits):
        if limit.by == "Kubernetes" or scene.enforces(limit) or (limit.scoped and scene.rules.merges_quotas):
            continue
        key = "quota-not-enforced.unread" if limit.amount is None else "quota-not-enforced.zero"
        since = ""
        if limit.by == "nobody":
            key = "quota-not-enforced.nobody"
        elif not scene.rules.modern and not scene.is_first(scene.config.amounts[limit.resource][0]):
            key = "quota-not-enforced.vendor"
            since = "2.10.0"
        elif scene.rules.quota == "none":
            key = "quota-not-enforced.version"
            since = "2.7.0"
        claim = Text(key, **_names(limit), version=str(scene.version or "?"), value=limit.written, since=since)
        edit = _edit(limit.namespace, limit.quota)
        mend = act(Text("quota-not-enforced.correct", **_names(limit)), edit)
        mend = step(Text("quota-not-enforced.upgrade", since=since), prose.command("status")) if since else mend
        proofs = proof(limit, scene.quotas)
        yield finding("quota-not-enforced", claim, scene.confidence, proofs=proofs, actions=[mend])


@rule("quota-not-enforced", reads=("quotas", "nodes"))
def misspelt(scene: QuotaScene) -> Iterator[Finding]:
    """The findings that nobody counts a key of a vendor's domain: it names no resource, or lacks its prefix."""
    for found in scene.unknown_keys:
        quota, values = f"{found.namespace}/{found.quota}", {"resource": found.key, "near": found.near}
        if found.near.endswith(f".{found.key}"):
            claim = Text("quota-not-enforced.bare", quota=quota, **values)
        else:
            key = "quota-not-enforced.near" if found.near else "quota-not-enforced.unknown"
            claim = Text(key, quota=quota, **values)
        label = Text("quota-not-enforced.rename" if found.near else "quota-not-enforced.remove", quota=quota, **values)
        fix = act(label, _edit(found.namespace, found.quota))
        proofs = quoted(found.namespace, found.quota, found.key)
        yield finding("quota-not-enforced", claim, proofs=proofs, actions=[fix])


@rule("quota-not-enforced", "quota-differs", reads=("quotas",), after=misspelt)
def scoped(scene: QuotaScene) -> Iterator[Finding]:
    """The findings of quotas with scopes, which HAMi ignores: up to 2.10 every pod counts, from 2.11 on none."""
    for limit in (limit for space in scene.spaces for limit in space.limits if limit.scoped and limit.by == "HAMi"):
        none = scene.rules.merges_quotas
        claim = Text("quota-not-enforced.scoped" if none else "quota-differs.scoped", **_names(limit))
        label = Text("quota-not-enforced.unscope", **_names(limit))
        fix = act(label, _edit(limit.namespace, limit.quota))
        proofs, code = proof(limit, scene.quotas), "quota-not-enforced" if none else "quota-differs"
        yield finding(code, claim, scene.confidence, proofs=proofs, actions=[fix])


@rule("quota-differs", reads=("quotas", "holders"))
def counted_differently(scene: QuotaScene) -> Iterator[Finding]:
    """The findings that HAMi's figure differs from Kubernetes', or Kubernetes shows none."""
    for space in scene.spaces:
        for resource in scene.counted_resources(space):
            yield from _differs(scene, space, resource)


def _differs(scene: QuotaScene, space: Space, resource: str) -> Iterator[Finding]:
    used = None if space.used is None else space.used.get(resource, 0)
    counted = next((quota for quota in space.of(resource, "Kubernetes") if quota.used is not None), None)
    limit = next(iter(space.of(resource, "HAMi")), None)
    device, of_cores = scene.config.amounts[resource]
    if used is None or (device.resources.memory_factor > 1 and not of_cores and not scene.is_first(device)):
        return  # Kubernetes counts units of the resource
    if counted is not None and counted.used != used:
        claim = Text(
            "quota-differs.claim",
            namespace=space.namespace,
            resource=resource,
            hami=f"{used:,}",
            kubernetes=f"{counted.used:,}",
            why=_why_different(scene, space, resource),
        )
        yield finding("quota-differs", claim, scene.confidence, proofs=proof(counted, scene.quotas), severity="info")
    elif counted is None and limit is not None and scene.enforces(limit):
        claim = Text("quota-differs.unseen", **_names(limit), used=f"{used:,}", limit=limit.written)
        yield finding("quota-differs", claim, scene.confidence, proofs=proof(limit, scene.quotas), severity="info")


def with_why(scene: QuotaScene, space: Space, resource: str, claim: Text) -> Text:
    """The claim, with the reason why HAMi counts more of the namespace than its pods ask for, where it does."""
    device, of_cores = scene.config.amounts.get(resource, (None, False))
    used, asked = None if space.used is None else space.used.get(resource), space.asked(resource)
    if used is None or asked is None or device is None:
        return claim
    asked *= 1 if of_cores else device.resources.memory_factor
    if used <= asked:
        return claim
    figures = {"hami": f"{used:,}", "asked": f"{asked:,}", "why": _why_different(scene, space, resource)}
    return sentences(claim, Text("quota.more", **figures))


def _why_different(scene: QuotaScene, space: Space, resource: str) -> Text:
    """The pods whose two figures differ, by why; Kubernetes counts only what they ask for as written."""
    if space.pods is None:
        return Text("quota-differs.unread")
    given = {holder.uid: holder for holder in space.holders}
    sums = dict[str, tuple[int, int]]()
    for pod in space.pods:
        holding = given.pop(pod.metadata.uid, None)
        asked = int(effective_request(pod, resource))
        held = 0 if holding is None else scene.held(holding, resource)
        if asked == held:
            continue
        if holding is None:
            why = "waiting"
        elif not asked:
            why = "share"
        else:
            why = "cards" if effective_request(pod, scene.config.amounts[resource][0].resources.count) > 1 else "other"
        count, amount = sums.get(why, (0, 0))
        sums[why] = count + 1, amount + held - asked
    if given:
        sums["gone"] = len(given), sum(scene.held(pod, resource) for pod in given.values())
    parts = [Text(_DIFFERENCES[why], count=count, amount=f"{amount:+,}") for why, (count, amount) in sums.items()]
    return clauses(parts) if parts else Text("quota-differs.late")


@rule("quota", "not-found", "not-enough-evidence")
def overview(scene: QuotaScene) -> Iterator[Finding]:
    """The finding of the fullest quota, or of what pods hold where no namespace has a quota."""
    limited = [space for space in scene.spaces if space.limits]
    if not scene.was_read("quotas"):
        look = step(Text("quota.try-again"), kubectl("auth", "can-i", "list", "resourcequotas", "--all-namespaces"))
        yield finding("not-enough-evidence", Text("quota.unseen"), "suspected", actions=[look])
    elif not scene.was_read("holders") and not limited:
        yield finding("quota", Text("quota.none-seen"), "suspected", severity="info")
    elif scene.namespace and not scene.spaces:
        if isinstance(scene.deserted, EmptyNamespace):
            yield no_such_namespace(scene.deserted, ("quota",))
        else:
            claim = Text("quota.nothing", namespace=scene.namespace)
            yield finding("not-found", claim, scene.confidence, severity="info")
    elif limited:
        yield _fullest(scene, limited)
    else:
        yield _without_limits(scene)


def _fullest(scene: QuotaScene, limited: Sequence[Space]) -> Finding:
    fullest = max(limited, key=lambda space: _part(scene, space))
    part, [resource, *_] = _part(scene, fullest), [*scene.counted_resources(fullest), ""]
    claim = Text(
        "quota.claim" if part >= 0 else "quota.unmeasured",
        count=len(limited),
        namespace=fullest.namespace,
        part=f"{part:.0%}",
        free=len(scene.spaces) - len(limited),
    )
    claim = with_why(scene, fullest, resource, claim)
    proofs = [evidence for limit in fullest.limits for evidence in proof(limit, scene.quotas)]
    steps = () if scene.namespace else prose.see_quota(fullest.namespace)
    return finding("quota", claim, scene.confidence, proofs=proofs, severity="info", actions=steps)


def _part(scene: QuotaScene, space: Space) -> float:
    """How full the fullest limit of the namespace is; -1 where none can be told."""
    counted = ((limit, scene.used(space, limit)) for limit in space.limits)
    return max(
        (used / limit.amount for limit, used in counted if used is not None and limit.amount),
        default=-1.0,
    )


def _without_limits(scene: QuotaScene) -> Finding:
    # The MiB that are given, over all vendors that hand out memory.
    of_memory = {name for name, (_, of_cores) in scene.config.amounts.items() if not of_cores}
    used = (item for space in scene.spaces for item in (space.used or {}).items())
    memory = sum(amount for name, amount in used if name in of_memory)
    if memory or not any(space.holders for space in scene.spaces):
        key = "quota.none-there" if scene.namespace else "quota.none"
    else:
        key = "quota.none-there-whole" if scene.namespace else "quota.none-whole"
    claim = Text(key, namespace=scene.namespace, count=len(scene.spaces), memory=prose.mib(memory))
    holding = [holder for space in scene.spaces for holder in space.holders]
    first = max(holding, key=lambda held: (held.memory_mib, held.amounts), default=None)
    named = (first.namespace, first.name) if first else None
    holders = what_was_read(scene.holders)
    proofs = [quotes.of_holder(holder) for holder in holders if (holder.namespace, holder.name) == named][:1]
    return finding("quota", claim, scene.confidence, proofs=proofs, severity="info")


_BY_HAMI = "exceeding resource quota"
"""The words of HAMi's webhook about a quota, since 2.9 (pkg/scheduler/webhook.go)."""
_BY_KUBERNETES = re.compile(
    r"exceeded quota: ([^,]{1,253}), requested: (.{1,2000}?)(?:, used: (?:.{1,2000}?, limited: (.{1,2000}))?|$)",
    re.DOTALL,
)
"""Matches k8s.io/apiserver's quota admission: the quota, its keys that the pod would exceed, and their figures then."""
_TRIES_AGAIN = timedelta(minutes=20)
"""The age up to which a refusal counts: a controller tries again at least every 1,000 s, and is refused anew."""
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
        yield _refusal(namespace, list(some), scene.quotas)


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
    """The amounts in `requests.nvidia.com/gpu=2,limits.cpu=1`."""
    return {key: value for key, _, value in (part.strip().partition("=") for part in text.split(","))}


def _stands(limit: QuotaLimit, then: str | None) -> bool:
    """Whether the limit is what it was when the pod was refused, as far as the refusal tells."""
    before, now = (None if text is None else parse_quantity(text) for text in (then, limit.written))
    return before is None or now is None or before == now


def _refusal(
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
    return finding("admission-denied", claim, proofs=proofs, actions=_see_owner(newest))


def _see_owner(event: Event) -> tuple[NextAction, ...]:
    owner = event.involved_object
    short = _ASKED_AS.get(owner.kind)
    if short is None:
        return ()
    words = prose.command("why", f"{short}/{owner.name}", "-n", event.namespace)
    return (step(Text("pending.why", pod=f"{owner.kind} {event.namespace}/{owner.name}"), words),)
