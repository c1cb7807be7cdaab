"""Objects that are kept for long, made small: equal texts are one text, and what nobody reads is left out.

5,000 nodes as decoded hold 150,000 labels, nearly all of which say the same as another node's.
"""

from typing import TypeVar

from msgspec import structs

from bot.kube.models import DaemonPod, Holder, Model, Node, ObjectMeta, Quantity, Resource

R = TypeVar("R", bound=Resource)

MOST_TEXTS = 50_000
LONGEST_TEXT = 100
"""What is longer is rarely said twice: registrations, allocations."""
_LONG = ("kubectl.kubernetes.io/last-applied-configuration", "nfd.node.kubernetes.io/", "csi.volume.kubernetes.io/")
"""Annotations of kilobytes that no rule reads, by the beginning of their keys."""


class Shared:
    """Gives equal parts of different objects the same memory."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def text(self, text: str) -> str:
        """The text, as first seen."""
        if len(text) > LONGEST_TEXT:
            return text
        if len(self._texts) > MOST_TEXTS:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def shrink(self, item: R, known: R | None = None) -> R:
        """The same object, smaller. Only for one that was just decoded and that nobody else holds: it is changed.

        `known` is what it was before: what has not changed is taken from there.
        """
        self._shrink_metadata(item.metadata, known.metadata if known else None)
        if isinstance(item, Node):
            status, before = item.status, known.status if isinstance(known, Node) else None
            _put(status, "allocatable", self._amounts(status.allocatable, before and before.allocatable))
            _put(status, "capacity", self._amounts(status.capacity, before and before.capacity))
            for condition in status.conditions or ():
                for name in ("type", "status", "last_heartbeat_time"):
                    _put(condition, name, self._optional(getattr(condition, name)))
        elif isinstance(item, Holder | DaemonPod):
            _put(item.spec, "node_name", self.text(item.spec.node_name))
            _put(item.status, "phase", self.text(item.status.phase))
            if isinstance(item, Holder):
                _put(item.spec, "scheduler_name", self.text(item.spec.scheduler_name))
        return item

    def _shrink_metadata(self, metadata: ObjectMeta, known: ObjectMeta | None) -> None:
        _put(metadata, "namespace", self.text(metadata.namespace))
        _put(metadata, "creation_timestamp", self._optional(metadata.creation_timestamp))
        labels, annotations = (known.labels, known.annotations) if known else (None, None)
        if metadata.labels:
            same = labels == metadata.labels
            _put(metadata, "labels", labels if same else self._texts_of(metadata.labels, {}))
        if metadata.annotations:
            kept = {key: text for key, text in metadata.annotations.items() if not key.startswith(_LONG)}
            _put(metadata, "annotations", self._texts_of(kept, annotations or {}))
        for owner in metadata.owner_references or ():
            _put(owner, "kind", self.text(owner.kind))
            _put(owner, "name", self.text(owner.name))
            _put(owner, "uid", self.text(owner.uid))

    def _texts_of(self, texts: dict[str, str], known: dict[str, str]) -> dict[str, str]:
        """The same, with what was known already in its place; that also keeps what is remembered about a long text."""
        return {
            self.text(key): before if (before := known.get(key)) == text and before is not None else self.text(text)
            for key, text in texts.items()
        }

    def _optional(self, text: str | None) -> str | None:
        return self.text(text) if text else text

    def _amounts(
        self, amounts: dict[str, Quantity] | None, known: dict[str, Quantity] | None
    ) -> dict[str, Quantity] | None:
        if not amounts or amounts == known:
            return known if amounts else amounts
        return {self.text(key): self.text(one) if isinstance(one, str) else one for key, one in amounts.items()}


def _put(part: Model, name: str, value: object) -> None:
    structs.force_setattr(part, name, value)
