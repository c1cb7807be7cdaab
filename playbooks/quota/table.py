"""The table of `quota`: a row for each namespace and resource, what HAMi counts beside what Kubernetes does."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from bot.hami.quotas import Limit
from bot.report import Sheet
from bot.texts import Texts
from playbooks.quota.findings import Around, Space, enforced
from playbooks.rules import prose


class Use(NamedTuple):
    """What is counted against one limit, by `HAMi` or by `Kubernetes`."""

    by: str
    used: int
    limit: int


class QuotaRow(NamedTuple):
    """A resource in a namespace. Memory in MiB; a count of None is not known, an empty one is of no limit.

    `uses` are the limits that hold, where the limit is one number and what is used is known.
    """

    namespace: str
    resource: str
    hami_limit: str
    hami_counts: int | None
    hami_share: str
    kubernetes_limit: str
    kubernetes_counts: int | Literal[""] | None
    pods_ask_for: int | Literal[""]
    most_used_by: str
    uses: tuple[Use, ...]


QUOTAS = Sheet(
    "quota",
    QuotaRow,
    names={
        "hami_limit": "HAMi limit",
        "hami_counts": "HAMi counts",
        "hami_share": "HAMi %",
        "kubernetes_limit": "Kubernetes limit",
        "kubernetes_counts": "Kubernetes counts",
    },
    fields=QuotaRow._fields[:-1],
    brief={
        "namespace": "namespace",
        "resource": "resource",
        "hami_limit": "HAMi limit",
        "hami_counts": "counted",
        "hami_share": "used",
        "kubernetes_limit": "Kubernetes limit",
        "kubernetes_counts": "counted",
        "pods_ask_for": "pods ask for",
    },
)


def rows_of(space: Space, around: Around, say: Texts) -> list[QuotaRow]:
    """Memory and cores always, for HAMi counts them; other resources where a quota names them."""
    config = around.config
    named = {limit.resource for limit in space.limits}
    order = [config.gpus.memory, config.gpus.cores, *sorted(named - {config.gpus.memory, config.gpus.cores})]
    return [
        _row(space, resource, around, say)
        for resource in order
        if resource in named or not space.limits or resource == config.gpus.memory
    ]


def _row(space: Space, resource: str, around: Around, say: Texts) -> QuotaRow:
    hami = [] if around.rules.quota == "none" else space.of(resource, "HAMi")
    kube = space.of(resource, "Kubernetes")
    used = None if space.used is None else space.used.get(resource)
    holds = bool(hami) and enforced(hami[-1], around.rules)
    amount = hami[-1].amount if holds else None
    asked = space.asked(resource)
    return QuotaRow(
        namespace=space.namespace,
        resource=resource,
        hami_limit=_limits(hami, say),
        hami_counts=used,
        hami_share=f"{used / amount:.0%}" if used is not None and amount else "",
        kubernetes_limit=_limits(kube, say),
        kubernetes_counts=kube[0].used if kube else "",
        pods_ask_for="" if asked is None else asked,
        most_used_by=_top(space, cores=resource == around.config.gpus.cores, say=say) if used else "",
        uses=(*_use("HAMi", hami if holds else (), used), *_use("Kubernetes", kube, kube[0].used if kube else None)),
    )


def _limits(limits: Iterable[Limit], say: Texts) -> str:
    amounts = (limit.written if limit.amount is None else str(limit.amount) for limit in limits)
    return " or ".join(dict.fromkeys(amounts)) or say("words.none")


def _use(by: str, limits: Sequence[Limit], used: int | None) -> list[Use]:
    amounts = {limit.amount for limit in limits}
    amount = amounts.pop() if len(amounts) == 1 else None
    return [Use(by, used, amount)] if used is not None and amount else []


def _top(space: Space, *, cores: bool, say: Texts) -> str:
    largest = sorted(space.holders, key=lambda holder: (-holder.amounts[cores], holder.name))
    return prose.names(
        say, [f"{holding.name} {holding.amounts[cores]}" for holding in largest if holding.amounts[cores]]
    )
