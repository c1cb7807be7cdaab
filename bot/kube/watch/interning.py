"""Objects that are kept for long, made small: equal texts are one text, and what nobody reads is left out.

5,000 nodes as decoded hold 150,000 labels, nearly all of which say the same as another node's.
"""

from typing import Any, TypeVar

from bot.kube.models import DaemonPod, Holder, Node, ObjectMeta, Quantity, Resource
from bot.kube.models.base import keep

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

MOST_PARTS = 30_000
LONGEST_TEXT = 100
"""What is longer is rarely said twice: registrations, allocations."""
_LONG = ("kubectl.kubernetes.io/last-applied-configuration", "nfd.node.kubernetes.io/", "csi.volume.kubernetes.io/")
"""Annotations of kilobytes that no rule reads, by the beginning of their keys."""


class Shared:
    """Gives equal parts of different objects the same memory."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def shrink(self, item: R, known: R | None = None) -> R:
        """The same object, smaller. Only for one that was just decoded and that nobody else holds: it is changed.

        `known` is what it was before: what has not changed is taken from there.
        """
        if len(self._known) > MOST_PARTS:
            self._known.clear()
        self._shrink_metadata(item.metadata, known.metadata if known else None)
        if isinstance(item, Node):
            status, before = item.status, known.status if isinstance(known, Node) else None
            keep(status, "allocatable", self._amounts(status.allocatable, before and before.allocatable))
            keep(status, "capacity", self._amounts(status.capacity, before and before.capacity))
            if status.conditions:
                keep(status, "conditions", [self._same(condition) for condition in status.conditions])
        elif isinstance(item, Holder | DaemonPod):
            keep(item.spec, "node_name", self._same(item.spec.node_name))
            keep(item.status, "phase", self._same(item.status.phase))
            if isinstance(item, Holder):
                keep(item.spec, "scheduler_name", self._same(item.spec.scheduler_name))
        return item

    def _shrink_metadata(self, metadata: ObjectMeta, known: ObjectMeta | None) -> None:
        keep(metadata, "namespace", self._same(metadata.namespace))
        keep(metadata, "creation_timestamp", self._same(metadata.creation_timestamp))
        if metadata.labels:
            keep(metadata, "labels", self._texts(metadata.labels, known and known.labels))
        if metadata.annotations:
            keep(metadata, "annotations", self._texts(metadata.annotations, known and known.annotations, _LONG))
        if metadata.owner_references:
            keep(metadata, "owner_references", [self._same(owner) for owner in metadata.owner_references])

    def _same(self, part: T) -> T:
        """The part, as first seen."""
        return self._known.setdefault(part, part)

    def _texts(
        self, texts: dict[str, str], known: dict[str, str] | None, left_out: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """The same, with what was known already in its place; that also keeps what is remembered about a long text."""
        if not known:
            return {self._same(key): self._text(text) for key, text in texts.items() if not key.startswith(left_out)}
        if texts == known:
            return known
        found = known.copy()
        for key in known.keys() - texts.keys():
            del found[key]
        for key, text in sorted(texts.items() - known.items()):
            if not key.startswith(left_out):
                found[self._same(key)] = self._text(text)
        # The API's order, so that an answer from memory says no other thing first than one that was read for it.
        return found if found.keys() <= known.keys() else dict(sorted(found.items()))

    def _text(self, text: str) -> str:
        return text if len(text) > LONGEST_TEXT else self._same(text)

    def _amounts(
        self, amounts: dict[str, Quantity] | None, known: dict[str, Quantity] | None
    ) -> dict[str, Quantity] | None:
        if not amounts or amounts == known:
            return known if amounts else amounts
        return {
            self._same(key): self._same(amount) if isinstance(amount, str) else amount
            for key, amount in amounts.items()
        }
