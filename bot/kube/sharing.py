"""Objects that are kept for long, made small: equal texts are one text, and what nobody reads is left out.

5,000 nodes as decoded hold 150,000 labels, nearly all of which say the same as another node's.
"""

from typing import TypeVar

from msgspec import structs

from bot.kube.models import DaemonPod, Holder, Model, Node, ObjectMeta, Resource

R = TypeVar("R", bound=Resource)

MOST_TEXTS = 50_000
LONGEST_TEXT = 100
"""What is longer is rarely said twice: registrations, allocations."""
_FOREIGN = ("kubeadm.", "volumes.", "node.alpha.", "kubectl.", "csi.volume.", "nfd.node.", "projectcalico.", "cilium.")
"""Annotations that no rule reads, by the beginning of their keys."""


class Shared:
    """Gives equal parts of different objects the same memory."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._amounts: dict[tuple[tuple[str, object], ...], dict[str, object]] = {}

    def text(self, text: str) -> str:
        """The text, as first seen."""
        if len(text) > LONGEST_TEXT:
            return text
        if len(self._texts) > MOST_TEXTS:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def shrink(self, item: R) -> R:
        """The same object, smaller. Only for one that was just decoded and that nobody else holds: it is changed."""
        self._shrink_metadata(item.metadata)
        if isinstance(item, Node):
            status = item.status
            for name in ("allocatable", "capacity"):
                _put(status, name, self._amount(getattr(status, name)))
            for condition in status.conditions or ():
                for name in ("type", "status", "last_heartbeat_time"):
                    _put(condition, name, self._optional(getattr(condition, name)))
        elif isinstance(item, Holder | DaemonPod):
            _put(item.spec, "node_name", self.text(item.spec.node_name))
            _put(item.status, "phase", self.text(item.status.phase))
            if isinstance(item, Holder):
                _put(item.spec, "scheduler_name", self.text(item.spec.scheduler_name))
        return item

    def _shrink_metadata(self, metadata: ObjectMeta) -> None:
        _put(metadata, "namespace", self.text(metadata.namespace))
        _put(metadata, "creation_timestamp", self._optional(metadata.creation_timestamp))
        _put(metadata, "labels", self._texts_of(metadata.labels))
        kept = {key: text for key, text in (metadata.annotations or {}).items() if not key.startswith(_FOREIGN)}
        _put(metadata, "annotations", self._texts_of(kept) if metadata.annotations else None)
        for owner in metadata.owner_references or ():
            _put(owner, "kind", self.text(owner.kind))
            _put(owner, "name", self.text(owner.name))
            _put(owner, "uid", self.text(owner.uid))

    def _texts_of(self, texts: dict[str, str] | None) -> dict[str, str] | None:
        return {self.text(key): self.text(text) for key, text in texts.items()} if texts else texts

    def _optional(self, text: str | None) -> str | None:
        return self.text(text) if text else text

    def _amount(self, amounts: dict[str, object] | None) -> dict[str, object] | None:
        if not amounts:
            return amounts
        if len(self._amounts) > MOST_TEXTS:
            self._amounts.clear()
        return self._amounts.setdefault(tuple(amounts.items()), amounts)


def _put(part: Model, name: str, value: object) -> None:
    structs.force_setattr(part, name, value)
