"""A list kept equal to the API's by what its watch tells. Pure: it is fed, and asked."""

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from bot.kube.models import Resource

R = TypeVar("R", bound=Resource)

MOST_REMOVED = 4096


class Change(NamedTuple, Generic[R]):
    """One event. `item` is None for what was deleted, and for what could not be read; then `bad` says why."""

    key: str
    version: int
    item: R | None
    bad: str = ""


class WentBackError(ValueError):
    """The server is at an older version than it was: it was restored from a backup. The list has to be read anew."""


class Mirror(Generic[R]):
    """The objects of one list, by `namespace/name`.

    What a stream says twice, or about one object too late, changes nothing: versions of one object only grow.
    `version` is the newest that was told, `settled` that of the last list or bookmark.
    """

    def __init__(self) -> None:
        self.version = self.settled = 0
        self._tells_in_order = True
        self._items: dict[str, R] = {}
        self._bad: dict[str, tuple[int, str]] = {}
        self._removed: dict[str, int] = {}
        self._in_order = True

    @property
    def goes_on_from(self) -> int:
        """Where the next watch begins: at what was told last, because an API server tells changes in order.

        Behind one that was seen not to, something older may have been on its way still when the stream broke off.
        """
        return self.version if self._tells_in_order else self.settled

    @property
    def bad(self) -> dict[str, str]:
        """The objects that could not be read, and why."""
        return {key: why for key, (_, why) in self._bad.items()}

    def items(self) -> list[R]:
        """The objects, in the API's order."""
        if not self._in_order:
            self._items = dict(sorted(self._items.items()))
            self._in_order = True
        return list(self._items.values())

    def get(self, key: str) -> R | None:
        """One object, None when it is not there."""
        return self._items.get(key)

    def replace(self, items: Iterable[R], bad: Mapping[str, str], version: int) -> None:
        """Takes over a whole list that was read at that version; objects that have not changed stay the same ones."""
        fresh: dict[str, R] = {}
        for item in items:
            key = key_of(item)
            known = self._items.get(key)
            fresh[key] = known if known is not None and _is_same(known, item) else item
        self._items, self._in_order = fresh, False
        self._bad = {key: (version, why) for key, why in bad.items()}
        self._removed.clear()
        self.version = self.settled = version

    def apply(self, change: Change[R]) -> None:
        """Takes over one change, unless a later one of the same object, or a list behind it, is known already."""
        key = change.key
        if change.version <= max(self.settled, self._known(key)):
            return
        self._tells_in_order &= change.version > self.version
        self.version = max(self.version, change.version)
        self._bad.pop(key, None)
        self._removed.pop(key, None)
        if change.item is not None:
            self._in_order = self._in_order and key in self._items
            self._items[key] = change.item
            return
        self._items.pop(key, None)
        if change.bad:
            self._bad[key] = change.version, change.bad
            return
        self._removed[key] = change.version
        if len(self._removed) > MOST_REMOVED:
            del self._removed[next(iter(self._removed))]

    def bookmark(self, version: int) -> None:
        """Everything up to that version has been told. Raises WentBackError when more than that has been."""
        if version < self.version:
            raise WentBackError(f"the server is at version {version} and was at {self.version}")
        self.version = self.settled = version
        self._removed.clear()

    def _known(self, key: str) -> int:
        item = self._items.get(key)
        if item is not None:
            return version_of(item.metadata.resource_version)
        return self._bad[key][0] if key in self._bad else self._removed.get(key, 0)


def key_of(item: Resource) -> str:
    """How the API orders objects: `namespace/name`, or the name alone where there are no namespaces."""
    return f"{item.namespace}/{item.name}" if item.namespace else item.name


def version_of(text: str) -> int:
    """A resourceVersion as a number, 0 for none. Raises ValueError for a server that counts in another way."""
    return int(text) if text else 0


def _is_same(resource: Resource, other: Resource) -> bool:
    version, uid = resource.metadata.resource_version, resource.metadata.uid
    return bool(version) and (version, uid) == (other.metadata.resource_version, other.metadata.uid)
