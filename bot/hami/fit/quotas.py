"""A namespace's quotas on HAMi's resources: who holds pods against which key, and what counts against the key.

HAMi reads `limits.<memory>` and `limits.<cores>` and counts what it gave: MiB and cores of every GPU of every pod that
was given GPUs and has not ended [HAMi pkg/device/quota.go]. HAMi's filter holds pods against quotas of NVIDIA's
resources, and from 2.10 on of MLU's; its webhook denies pods that would exceed a quota of any vendor from 2.10 on.
Kubernetes counts `requests.<resource>` of every pod that has not ended, as written, and for such resources no key under
`limits.` [k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go podComputeUsageHelper].
"""

import difflib
from collections.abc import Container, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST
from bot.hami.version import Rules
from bot.kube.models import Quantity, ResourceQuota
from bot.kube.quantities import parse_quantity, whole

_NEAR = 0.8
LIMITS, REQUESTS = "limits.", "requests."

By = Literal["HAMi", "Kubernetes", "nobody"]


class QuotaLimit(msgspec.Struct, frozen=True):
    """One key of a quota on a resource that HAMi hands out. `by` counts pods against it.

    `written` is the key's text; `amount` its MiB or percent of cores for HAMi, None where the text cannot be read.
    """

    by: By
    namespace: str
    quota: str
    key: str
    written: str
    amount: int | None
    used: int | None
    """What Kubernetes' quota controller says is used; None without such a figure."""
    scoped: bool = False

    @property
    def resource(self) -> str:
        return self.key.partition(".")[2]


def limits_of(quotas: Iterable[ResourceQuota], config: DeviceConfig) -> Iterator[QuotaLimit]:
    """Every key of the quotas that names a HAMi resource, in the order of the quotas and their keys."""
    for quota in quotas:
        for key, value in sorted((quota.spec.hard or {}).items()):
            prefix, _, resource = key.partition(".")
            if f"{prefix}." in (LIMITS, REQUESTS) and config.names(resource):
                counted = "HAMi" if resource in config.amounts else "nobody"
                by: By = "Kubernetes" if key.startswith(REQUESTS) else counted
                used = quota.status.used or {}
                yield QuotaLimit(
                    by,
                    quota.namespace,
                    quota.name,
                    key,
                    written=str(value),
                    amount=_amount(value, resource, config, by),
                    used=whole(used[key]) if key in used else None,
                    scoped=quota.is_scoped,
                )


class UnknownKey(NamedTuple):
    """A quota key like those of HAMi's resources that nobody counts; `near` is the nearest key that counts."""

    namespace: str
    quota: str
    key: str
    written: str
    near: str


def unknown_keys(
    quotas: Iterable[ResourceQuota], config: DeviceConfig, offered: Container[str]
) -> Iterator[UnknownKey]:
    """The quota keys that nobody counts: not HAMi's, not `offered` by a node, or without the prefix that counts."""
    known = sorted({resource for device in config.devices for resource in device.resources.all if resource})
    domains = {resource.partition("/")[0] for resource in known}
    for quota in quotas:
        for key, value in sorted((quota.spec.hard or {}).items()):
            prefix, _, resource = key.partition(".")
            if f"{prefix}." not in (LIMITS, REQUESTS):
                prefix, resource = "", key
            if resource.partition("/")[0] not in domains or (
                prefix and (config.names(resource) or resource in offered)
            ):
                continue
            alike = difflib.get_close_matches(resource, known, n=1, cutoff=_NEAR)
            near = resource if config.names(resource) else next(iter(alike), "")
            counted = LIMITS if near in config.amounts else REQUESTS
            yield UnknownKey(quota.namespace, quota.name, key, str(value), f"{counted}{near}" if near else "")


def is_enforced(limit: QuotaLimit, config: DeviceConfig, rules: Rules) -> bool:
    """Whether this version of HAMi refuses pods over the limit, when they are created or when it places them."""
    if limit.by != "HAMi" or limit.amount is None or (limit.scoped and rules.merges_quotas):
        return False
    if config.amounts[limit.resource][0].vendor is FIRST:
        return rules.quota != "none" and (limit.amount > 0 or rules.modern)
    return rules.modern


def holds_in_filter(limit: QuotaLimit, config: DeviceConfig) -> bool:
    return limit.by == "HAMi" and config.amounts[limit.resource][0].vendor.obeys_quota


def _amount(value: Quantity, resource: str, config: DeviceConfig, by: By) -> int | None:
    number = parse_quantity(value)
    if number is None or by != "HAMi":
        return whole(value)
    device, of_cores = config.amounts[resource]
    factor = 1 if of_cores else device.resources.memory_factor
    return int(number) * factor if number == number.to_integral_value() else None
