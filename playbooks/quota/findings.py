"""What there is to say of one namespace's quotas: exceeded, nearly full, held by nobody, counted differently."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.hami.fit.allocated_totals import Holding, given_by
from bot.hami.fit.quotas import Limit, is_enforced, unknown_keys
from bot.hami.fit.version_differences import Rules
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors.vendor import Device
from bot.kube.models import Pod, ResourceQuota
from bot.kube.selectors import effective_request
from bot.report import Confidence, Finding, step
from bot.texts import Text, clauses
from playbooks.quota.rules import proof, quoted
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding

NEAR = 0.9
"""From this part of a limit on, the next pod may be refused."""


_DIFFERENCES = {
    "waiting": "quota-differs.waiting",
    "share": "quota-differs.share",
    "cards": "quota-differs.cards",
    "other": "quota-differs.other",
    "gone": "quota-differs.gone",
}


class Space(NamedTuple):
    """One namespace: its limits on HAMi's resources, who holds cards, and its unfinished pods (None: not read).

    `used` is what HAMi counts, by resource: memory in MiB and cores; None where the holders were not seen.
    """

    namespace: str
    limits: tuple[Limit, ...]
    holders: tuple[Holding, ...]
    used: dict[str, int] | None
    pods: Sequence[Pod] | None

    def of(self, resource: str, by: str) -> list[Limit]:
        return [limit for limit in self.limits if limit.resource == resource and limit.by == by]

    def asked(self, resource: str) -> int | None:
        """What the pods ask for as written: what Kubernetes counts."""
        return None if self.pods is None else sum(int(effective_request(pod, resource)) for pod in self.pods)


class QuotaContext(NamedTuple):
    """What is the same for all namespaces."""

    config: DeviceConfig
    rules: Rules
    version: str
    quotas: Sequence[ResourceQuota]
    confidence: Confidence

    def enforces(self, limit: Limit) -> bool:
        """Whether HAMi of this version holds pods against the limit."""
        return is_enforced(limit, self.config, self.rules)

    def held(self, holder: Holding, resource: str) -> int:
        """What a limit on the resource counts of the pod: MiB, or cores."""
        device, of_cores = self.config.amounts[resource]
        return holder.given_by(given_by(device))[of_cores]

    def measured(self, space: Space) -> list[str]:
        """The resources for memory and cores that the namespace's limits name, those of one device together."""
        named = {limit.resource for limit in space.limits}
        return [resource for resource in self.config.amounts if resource in named]


def findings(space: Space, around: QuotaContext) -> Iterator[Finding]:
    """The problems of one namespace, and how the two ways of counting differ there."""
    for limit in space.limits:
        if limit.by == "Kubernetes":
            yield from _full(space, limit, limit.used, around)
        elif around.enforces(limit):
            used = None if space.used is None else space.used.get(limit.resource, 0)
            yield from _full(space, limit, used, around)
        else:
            yield _not_enforced(limit, around)
    yield from _ambiguous(space, around)
    for resource in around.measured(space):
        yield from _differs(space, resource, around)


def misspelt(quotas: Sequence[ResourceQuota], around: QuotaContext) -> Iterator[Finding]:
    """Keys of a vendor's domain that name no resource: nobody counts them."""
    for found in unknown_keys(quotas, around.config):
        quota, values = f"{found.namespace}/{found.quota}", {"resource": found.key, "near": found.near}
        claim = (
            Text("quota-not-enforced.near", quota=quota, **values)
            if found.near
            else Text("quota-not-enforced.unknown", quota=quota, resource=found.key)
        )
        edit = kubectl("-n", found.namespace, "edit", "resourcequota", found.quota)
        fix = step(Text("quota-not-enforced.rename", quota=quota, **values), edit, changes_cluster=True)
        remove = step(Text("quota-not-enforced.remove", quota=quota, resource=found.key), edit, changes_cluster=True)
        proofs = quoted(found.namespace, found.quota, found.key)
        steps = [fix if found.near else remove]
        yield finding("quota-not-enforced", claim, "confirmed", (), proofs, severity="warning", actions=steps)


def _full(space: Space, limit: Limit, used: int | None, around: QuotaContext) -> Iterator[Finding]:
    if used is None or limit.amount is None or used < NEAR * limit.amount:
        return
    code = "quota-exceeded" if used > limit.amount else "quota-near-limit"
    key = "quota-exceeded.claim" if used > limit.amount else "quota-near-limit.claim"
    claim = Text(key, **_names(limit), by=limit.by, used=f"{used:,}", limit=f"{limit.amount:,}")
    result = finding(code, claim, around.confidence, (), proof(limit, around.quotas), severity="warning")
    memory = around.config.amounts[limit.resource][0].resources.memory if limit.by == "HAMi" else ""
    largest = max(space.holders, key=lambda holder: around.held(holder, memory), default=None) if memory else None
    if largest is None:
        yield result
        return
    held = prose.mib(around.held(largest, memory))
    label = Text("quota.largest", pod=f"{largest.namespace}/{largest.name}", memory=held)
    look = kubectl("-n", largest.namespace, "get", "pod", largest.name, "-o", "wide")
    yield structs.replace(result, next_actions=(step(label, look),))


def _names(limit: Limit) -> dict[str, object]:
    return {"quota": f"{limit.namespace}/{limit.quota}", "resource": limit.key}


def _not_enforced(limit: Limit, around: QuotaContext) -> Finding:
    """A limit that nobody holds pods against: of another resource or version, zero, or no whole number."""
    if limit.by == "nobody":
        key = "quota-not-enforced.nobody"
    elif around.rules.quota == "none" or not (
        around.rules.modern or _is_first(around.config.amounts[limit.resource][0], around)
    ):
        key = "quota-not-enforced.version"
    else:
        key = "quota-not-enforced.unread" if limit.amount is None else "quota-not-enforced.zero"
    claim = Text(key, **_names(limit), version=around.version or "?", value=limit.written)
    proofs = proof(limit, around.quotas)
    upgrade = step(Text("quota-not-enforced.upgrade"), prose.command("status"))
    actions = (upgrade,) if key == "quota-not-enforced.version" else ()
    return finding("quota-not-enforced", claim, around.confidence, (), proofs, severity="warning", actions=actions)


def _is_first(device: Device, around: QuotaContext) -> bool:
    return device.vendor is around.config.devices[0].vendor


def _ambiguous(space: Space, around: QuotaContext) -> Iterator[Finding]:
    """Of several quotas with one key HAMi keeps the one that it read last."""
    for resource in around.measured(space):
        limits = [limit for limit in space.of(resource, "HAMi") if around.enforces(limit)]
        if len({limit.amount for limit in limits}) > 1:
            names = prose.names([f"{limit.quota} ({limit.written})" for limit in limits])
            claim = Text("quota-ambiguous.claim", namespace=space.namespace, quotas=names, resource=limits[0].key)
            proofs = [quote for limit in limits for quote in proof(limit, around.quotas)]
            yield finding("quota-ambiguous", claim, around.confidence, (), proofs, severity="warning")


def _differs(space: Space, resource: str, around: QuotaContext) -> Iterator[Finding]:
    """HAMi's figure beside Kubernetes', and what makes the difference."""
    used = None if space.used is None else space.used.get(resource, 0)
    counted = next((quota for quota in space.of(resource, "Kubernetes") if quota.used is not None), None)
    limit = next(iter(space.of(resource, "HAMi")), None)
    device, of_cores = around.config.amounts[resource]
    if used is None or (device.resources.memory_factor > 1 and not of_cores and not _is_first(device, around)):
        return  # Kubernetes counts units of the resource
    if counted is not None and counted.used != used:
        claim = Text(
            "quota-differs.claim",
            namespace=space.namespace,
            resource=resource,
            hami=f"{used:,}",
            kubernetes=f"{counted.used:,}",
            why=_why_different(space, resource, around),
        )
        yield finding("quota-differs", claim, around.confidence, (), proof(counted, around.quotas), severity="info")
    elif counted is None and limit is not None and around.enforces(limit):
        claim = Text("quota-differs.unseen", **_names(limit), used=f"{used:,}", limit=limit.written)
        yield finding("quota-differs", claim, around.confidence, (), proof(limit, around.quotas), severity="info")


def _why_different(space: Space, resource: str, around: QuotaContext) -> Text:
    """The pods whose two figures differ, by why they do; what is asked for as written is all that Kubernetes counts."""
    if space.pods is None:
        return Text("quota-differs.unread")
    given = {holder.uid: holder for holder in space.holders}
    sums = dict[str, tuple[int, int]]()
    for pod in space.pods:
        holding = given.pop(pod.metadata.uid, None)
        asked = int(effective_request(pod, resource))
        held = 0 if holding is None else around.held(holding, resource)
        if asked == held:
            continue
        if holding is None:
            why = "waiting"
        elif not asked:
            why = "share"
        else:
            why = "cards" if effective_request(pod, around.config.amounts[resource][0].resources.count) > 1 else "other"
        count, amount = sums.get(why, (0, 0))
        sums[why] = count + 1, amount + held - asked
    if given:
        sums["gone"] = len(given), sum(around.held(pod, resource) for pod in given.values())
    parts = [Text(_DIFFERENCES[why], count=count, amount=f"{amount:+,}") for why, (count, amount) in sums.items()]
    return clauses(parts) or Text("quota-differs.late")
