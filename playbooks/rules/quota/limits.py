"""Rules about namespaces' quotas: exceeded, nearly full, held by nobody, set twice, counted differently."""

from collections.abc import Iterator

from bot.hami.fit.quotas import QuotaLimit
from bot.kube.selectors import effective_request
from bot.report import Finding, NextAction, act, step
from bot.texts import Text, clauses, sentences
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.quota.effects import proof, quoted
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
    """At the pod that HAMi counts most memory of; else at the quota, beside what Kubernetes counts."""
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
        for resource in scene.measured(space):
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
        by_version = False
        if limit.by == "nobody":
            key = "quota-not-enforced.nobody"
        elif scene.rules.quota == "none" or not (
            scene.rules.modern or scene.is_first(scene.config.amounts[limit.resource][0])
        ):
            key = "quota-not-enforced.version"
            by_version = True
        claim = Text(key, **_names(limit), version=str(scene.version or "?"), value=limit.written)
        edit = _edit(limit.namespace, limit.quota)
        mend = act(Text("quota-not-enforced.correct", **_names(limit)), edit)
        mend = step(Text("quota-not-enforced.upgrade"), prose.command("status")) if by_version else mend
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
        for resource in scene.measured(space):
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
    """The pods whose two figures differ, by why they do; what is asked for as written is all that Kubernetes counts."""
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
    return clauses(parts) or Text("quota-differs.late")
