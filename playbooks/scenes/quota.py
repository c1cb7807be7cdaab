"""The scene of the quotas on HAMi's resources, of one namespace, or of all."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from bot.hami.fit.allocated_totals import Holding, Ledger, ledger_key
from bot.hami.fit.quotas import QuotaLimit, UnknownKey, is_enforced, limits_of, unknown_keys
from bot.hami.vendors.vendor import Device
from bot.hami.version import NEWEST_READ, Rules, rules_of
from bot.kube.models import Event, Holder, Node, Pod, ResourceQuota
from bot.kube.selectors import effective_request
from bot.report import Confidence, Gap
from playbooks.gather.subject import EmptyNamespace
from playbooks.scenes.cluster import ClusterScene, OfInstall, what_was_read


class Space(NamedTuple):
    """One namespace: its limits on HAMi's resources, who holds GPUs, and its unfinished pods (None: not read). `used`
    is what HAMi counts, by resource: memory in MiB and cores; None if the holders were not read.
    """

    namespace: str
    limits: Sequence[QuotaLimit]
    holders: Sequence[Holding]
    used: dict[str, int] | None
    pods: Sequence[Pod] | None

    def of(self, resource: str, by: str) -> list[QuotaLimit]:
        return [limit for limit in self.limits if limit.resource == resource and limit.by == by]

    def asked(self, resource: str) -> int | None:
        """The sum of the resource that the namespace's pods ask for as written, as Kubernetes counts it."""
        return None if self.pods is None else sum(int(effective_request(pod, resource)) for pod in self.pods)


class QuotaScene(OfInstall, frozen=True, dict=True, eq=False):
    """Quotas, who holds GPUs (`ledger` is their sum), and the unfinished pods of namespaces that have a quota.

    `waiting` are pods whose namespace's quota may refuse them, the oldest first, and `cluster` where they wait; None if
    there are none. `refusals` are events of controllers that were refused a pod. `deserted`: the namespace that was
    asked about has no pod and no quota.
    """

    namespace: str
    now: datetime
    quotas_read: list[ResourceQuota] | Gap
    holders: list[Holder] | Gap
    ledger: Ledger | None
    pods: Mapping[str, list[Pod] | Gap] = {}
    waiting: Sequence[Pod] | Gap = ()
    cluster: ClusterScene | None = None
    refusals: Sequence[Event] | Gap = ()
    deserted: EmptyNamespace | Gap | None = None
    undecodable: tuple[str, ...] = ()
    nodes: Sequence[Node] | Gap = ()
    """The nodes, read only if a key of a quota names a resource that HAMi does not have."""

    def was_read(self, source: str) -> bool:
        """Whether the quotas, the holders, or the nodes were read: rules conclude nothing from unread ones."""
        read = {"quotas": self.quotas_read, "holders": self.holders, "nodes": self.nodes}
        return not isinstance(read.get(source), Gap)

    @property
    def quotas(self) -> Sequence[ResourceQuota]:
        return what_was_read(self.quotas_read)

    @property
    def rules(self) -> Rules:
        """How this version of HAMi treats quotas."""
        return rules_of(self.version or NEWEST_READ)

    @property
    def confidence(self) -> Confidence:
        unread = not (self.was_read("quotas") and self.was_read("holders")) or self.undecodable or self.seen.gaps
        return "suspected" if unread or self.version is None else "confirmed"

    @cached_property
    def unknown_keys(self) -> list[UnknownKey]:
        """The quotas' keys that nobody counts, as far as nodes were read."""
        offered = {name for node in what_was_read(self.nodes) for name in node.status.capacity or ()}
        found = unknown_keys(self.quotas, self.config, offered)
        return [key for key in found if self.namespace in ("", key.namespace)]

    @cached_property
    def limits(self) -> list[QuotaLimit]:
        """Every limit on a resource of HAMi, in all namespaces that were read."""
        return list(limits_of(self.quotas, self.config))

    @cached_property
    def spaces(self) -> list[Space]:
        """The namespaces that have a quota on HAMi's resources, then those whose pods hold GPUs without one."""
        limited, holding = defaultdict[str, list[QuotaLimit]](list), defaultdict[str, list[Holding]](list)
        for limit in self.limits:
            limited[limit.namespace].append(limit)
        for held in (held for some in self.ledger.by_node.values() for held in some) if self.ledger else ():
            holding[held.namespace].append(held)
        names = (name for name in {*limited, *holding} if self.namespace in ("", name))
        return [
            Space(
                name,
                limited.get(name, ()),
                holding.get(name, ()),
                None if self.ledger is None else self._used(self.ledger, name),
                None if isinstance(pods := self.pods.get(name), Gap) else pods,
            )
            for name in sorted(names, key=lambda name: (name not in limited, name))
        ]

    def _used(self, ledger: Ledger, namespace: str) -> dict[str, int]:
        """What HAMi counts of the namespace, by resource: nothing of another vendor's is left out."""
        config = self.config
        of = {device.word: ledger.used_in(namespace, ledger_key(device)) for device in config.devices}
        counted = {name: of[device.word][of_cores] for name, (device, of_cores) in config.amounts.items()}
        first = (config.gpus.memory, config.gpus.cores)
        return {name: amount for name, amount in counted.items() if amount or name in first}

    def used(self, space: Space, limit: QuotaLimit) -> int | None:
        """What counts against a limit, by Kubernetes or by HAMi; None if not known, or if nobody enforces it."""
        if limit.by == "Kubernetes":
            return limit.used
        return space.used.get(limit.resource, 0) if space.used is not None and self.enforces(limit) else None

    def enforces(self, limit: QuotaLimit) -> bool:
        """Whether this version of HAMi holds pods against the limit."""
        return is_enforced(limit, self.config, self.rules)

    def held(self, holder: Holding, resource: str) -> int:
        """How much of a pod's holding counts against a limit on the resource: MiB, or cores."""
        device, of_cores = self.config.amounts[resource]
        return holder.given_by(ledger_key(device))[of_cores]

    def counted_resources(self, space: Space) -> list[str]:
        """The memory and cores resources in the namespace's limits, those of one device together."""
        named = {limit.resource for limit in space.limits}
        return [resource for resource in self.config.amounts if resource in named]

    def is_first(self, device: Device) -> bool:
        """Whether the device is of the vendor whose resources HAMi reads first."""
        return device.vendor is self.config.devices[0].vendor
