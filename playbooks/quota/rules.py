"""What a namespace's quotas would make of one more pod: HAMi's own counting, and Kubernetes'."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from bot.hami.asked import PodRequest
from bot.hami.quotas import Limit, limits_of
from bot.hami.requests import DeviceConfig
from bot.hami.rules import Rules
from bot.kube.models import ResourceQuota
from bot.kube.nodefilter import effective_request
from bot.report import Evidence
from playbooks.quotes import kubectl
from playbooks.rules.case import Case

QuotaVerdict = Literal["fits", "refused", "not enforced", "unknown"]


class Effect(NamedTuple):
    """One limit with the pod in it. `used` and `asked` are in the limit's unit, None where they cannot be told."""

    of: Limit
    used: int | None
    asked: int | None
    verdict: QuotaVerdict

    @property
    def by(self) -> str:
        return self.of.by

    @property
    def key(self) -> str:
        return self.of.key

    @property
    def limit(self) -> int | str:
        return self.of.written if self.of.amount is None else self.of.amount


def effects(case: Case) -> list[Effect]:
    """The effect on every limit of the pod's namespace on a resource that HAMi hands out."""
    own = [quota for quota in case.quotas if quota.namespace == case.pod.namespace]
    return [_effect(case, limit) for limit in limits_of(own, case.config)]


def refusal(case: Case) -> Effect | None:
    """The first of Kubernetes' own limits that would refuse the pod when it is created."""
    return next(
        (effect for effect in effects(case) if effect.of.by == "Kubernetes" and effect.verdict == "refused"), None
    )


def _effect(case: Case, limit: Limit) -> Effect:
    if limit.by == "HAMi":
        ledger = case.view.ledger
        used = ledger.by_namespace.get(case.pod.namespace, (0, 0)) if ledger else None
        return effect_by_hami(limit, case.request, used, case.config, case.view.rules)
    asked = int(effective_request(case.pod, limit.resource))
    if limit.by == "nobody":
        return Effect(limit, None, asked, "not enforced")
    if not asked:
        return Effect(limit, limit.used, 0, "fits")
    return Effect(limit, limit.used, asked, _verdict(limit.amount, limit.used, asked))


def effect_by_hami(
    limit: Limit, request: PodRequest, used: tuple[int, int] | None, config: DeviceConfig, rules: Rules
) -> Effect:
    """The effect on a limit of HAMi's. `used` are the namespace's MiB and cores, None where they were not seen."""
    of_memory = limit.resource == config.gpus.memory
    memory, cores = used or (None, None)
    taken = memory if of_memory else cores
    asked = (
        asked_memory(request)
        if of_memory
        else sum(container.count * container.cores for container in request.containers)
    )
    if rules.quota == "none" or (limit.amount == 0 and not rules.modern):
        return Effect(limit, taken, asked, "not enforced")
    return Effect(limit, taken, asked, _verdict(limit.amount, taken, asked))


def asked_memory(request: PodRequest) -> int | None:
    """The MiB of all cards; None where a share of cards is asked for, whose memory depends on the card."""
    if any(not container.memory_mib for container in request.containers):
        return None
    return sum(container.count * container.memory_mib for container in request.containers)


def _verdict(limit: int | None, used: int | None, asked: int | None) -> QuotaVerdict:
    """Less than nothing cannot be used: a pod that is larger than the limit is refused whatever is used."""
    if limit is None or asked is None:
        return "unknown"
    if (used or 0) + asked > limit:
        return "refused"
    return "unknown" if used is None else "fits"


def proof(limit: Limit, quotas: Iterable[ResourceQuota]) -> list[Evidence]:
    """The limit as its quota has it."""
    return list(_quoted(limit, quotas))[:1]


def _quoted(limit: Limit, quotas: Iterable[ResourceQuota]) -> Iterator[Evidence]:
    for quota in quotas:
        if (quota.namespace, quota.name) == (limit.namespace, limit.quota):
            show = kubectl("-n", quota.namespace, "get", "resourcequota", quota.name, "-o", "jsonpath={.spec.hard}")
            yield Evidence("quota", f"ResourceQuota {quota.namespace}/{quota.name}", None, limit.written, show)
