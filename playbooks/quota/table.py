"""The table of `quota`: a row for each namespace and resource, with HAMi's count beside Kubernetes'."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from bot.hami.fit.quotas import QuotaLimit
from bot.report import Sheet
from bot.texts import Prose, Text
from playbooks.rules.common import prose
from playbooks.scenes.quota import QuotaScene, Space


class Use(NamedTuple):
    """What is counted against one limit, by `HAMi` or by `Kubernetes`."""

    by: str
    used: int
    limit: int


class QuotaRow(msgspec.Struct, frozen=True):
    """A row for a resource in a namespace. Memory in MiB. A count is None if not known, and empty if no limit counts.
    `uses` are the limits that hold, if the limit is one number and what is used is known.
    """

    namespace: str
    resource: str
    hami_limit: Prose
    hami_counts: int | None
    hami_share: str
    kubernetes_limit: Prose
    kubernetes_counts: int | Literal[""] | None
    pods_ask_for: int | Literal[""]
    most_used_by: Prose
    uses: tuple[Use, ...]


QUOTAS = Sheet(
    "quota",
    QuotaRow,
    names="hami_limit=HAMi_limit hami_counts=HAMi_counts hami_share=HAMi_%"
    " kubernetes_limit=Kubernetes_limit kubernetes_counts=Kubernetes_counts",
    beside=("uses",),
    brief="namespace resource hami_limit=HAMi_limit hami_counts=counted hami_share=used"
    " kubernetes_limit=Kubernetes_limit kubernetes_counts=counted pods_ask_for",
)


def rows_of(scene: QuotaScene, space: Space) -> list[QuotaRow]:
    """The rows of a namespace: memory and cores of the devices that its pods hold, and other resources in its quotas.
    Without holders, they are those of the first vendor's devices.
    """
    config, used = scene.config, space.used or {}
    named = {limit.resource for limit in space.limits}
    first = config.gpus.memory, config.gpus.cores
    held = [name for name in config.amounts if used.get(name) and name not in first]
    others = held or (space.holders and not any(map(used.get, first)))
    usual = () if others and not any(map(used.get, first)) else first[: 1 if space.limits else 2]
    order = [*config.amounts, *sorted(named.difference(config.amounts))]
    shown = [resource for resource in order if resource in named or resource in held or resource in usual]
    return [_row(scene, space, resource) for resource in shown]


def _row(scene: QuotaScene, space: Space, resource: str) -> QuotaRow:
    hami = [] if scene.rules.quota == "none" else space.of(resource, "HAMi")
    kube = space.of(resource, "Kubernetes")
    used = None if space.used is None else space.used.get(resource, 0 if resource in scene.config.amounts else None)
    holds = bool(hami) and scene.enforces(hami[-1])
    amount = hami[-1].amount if holds else None
    asked = space.asked(resource)
    return QuotaRow(
        namespace=space.namespace,
        resource=resource,
        hami_limit=_limits(hami),
        hami_counts=used,
        hami_share=f"{used / amount:.0%}" if used is not None and amount else "",
        kubernetes_limit=_limits(kube),
        kubernetes_counts=kube[0].used if kube else "",
        pods_ask_for="" if asked is None else asked,
        most_used_by=_top(scene, space, resource) if used else "",
        uses=(*_use("HAMi", hami if holds else (), used), *_use("Kubernetes", kube, kube[0].used if kube else None)),
    )


def _limits(limits: Iterable[QuotaLimit]) -> Prose:
    amounts = (limit.written if limit.amount is None else str(limit.amount) for limit in limits)
    return " or ".join(dict.fromkeys(amounts)) or Text("words.none")


def _use(by: str, limits: Sequence[QuotaLimit], used: int | None) -> list[Use]:
    amounts = {limit.amount for limit in limits}
    amount = amounts.pop() if len(amounts) == 1 else None
    return [Use(by, used, amount)] if used is not None and amount else []


def _top(scene: QuotaScene, space: Space, resource: str) -> Prose:
    amounts = ((scene.held(holder, resource), holder.name) for holder in space.holders)
    largest = sorted((amount for amount in amounts if amount[0]), key=lambda amount: (-amount[0], amount[1]))
    return prose.names([f"{name} {amount:,}" for amount, name in largest])
