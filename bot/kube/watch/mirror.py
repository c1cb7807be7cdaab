"""A watch's bytes read as changes, and a list kept equal to the API's by these. Nothing in this module does I/O."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bot.errors import SourceError
from bot.kube.client.requests import ApiStatus, StaleListError, quoted
from bot.kube.models import Resource
from bot.texts import Text

R = TypeVar("R", bound=Resource)


class WatchEvent(NamedTuple, Generic[R]):
    """One change of an object. `item` is None for a deleted one, and for an unreadable one; then `bad` says why."""

    key: str
    version: int
    item: R | None
    bad: str = ""


class Mirror(Generic[R]):
    """The objects of one list, by `namespace/name`, kept equal to the API's. `version` is the newest that was reported,
    from which the next watch goes on. An API server tells changes in the order of their versions: what is no newer is
    in the list already.
    """

    def __init__(self) -> None:
        self.version = 0
        self.bad: dict[str, str] = {}
        """The objects of the list that could not be read, by key, and why."""
        self._items: dict[str, R] = {}
        self._in_order = True

    def items(self) -> list[R]:
        """The objects of the list, in the API's order."""
        if not self._in_order:
            self._items = dict(sorted(self._items.items()))
            self._in_order = True
        return list(self._items.values())

    def get(self, key: str) -> R | None:
        return self._items.get(key)

    def replace(self, items: Iterable[R], bad: Mapping[str, str], version: int) -> None:
        """Takes over a whole list that was read at `version`; unchanged objects stay the same Python objects."""
        fresh: dict[str, R] = {}
        for item in items:
            key, meta = key_of(item), item.metadata
            known = self._items.get(key)
            was = (known.metadata.resource_version, known.metadata.uid) if known else None
            fresh[key] = known if known and meta.resource_version and was == (meta.resource_version, meta.uid) else item
        self._items, self._in_order = fresh, False
        self.bad, self.version = dict(bad), version

    def apply(self, change: WatchEvent[R]) -> None:
        """Takes over one change of an object, unless a later list has it already."""
        key = change.key
        if change.version <= self.version:
            return
        self.version = change.version
        self.bad.pop(key, None)
        if change.item is not None:
            self._in_order = self._in_order and key in self._items
            self._items[key] = change.item
            return
        self._items.pop(key, None)
        if change.bad:
            self.bad[key] = change.bad

    def bookmark(self, version: int) -> None:
        """Notes that all up to `version` was reported. Raises StaleListError if it fell: the server was restored."""
        if version < self.version:
            raise StaleListError(Text("error-kube.server-went-back", now=version, was=self.version))
        self.version = version


def key_of(item: Resource) -> str:
    """An object's key, by which the API sorts: `namespace/name`, or the name alone without a namespace."""
    return f"{item.namespace}/{item.name}" if item.namespace else item.name


def version_of(text: str) -> int:
    """A resourceVersion as a number, 0 for an empty text. Raises ValueError for any other text."""
    return int(text) if text else 0


LONGEST_EVENT = 16 * 1024 * 1024
"""The most bytes of one event. etcd takes no object over 1.5 MB, in JSON a few times that."""
_EXPIRED = 410
# Not DecodeError alone: text that is no UTF-8 and nesting without end are reported by Python's own classes.
_UNREADABLE = (ValueError, RecursionError)


class Bookmark(NamedTuple):
    """A watch's statement that everything up to `version` was reported."""

    version: int


class _WatchedEvent(msgspec.Struct, Generic[R], frozen=True, gc=False):
    type: str
    object: R


_decode_status = msgspec.json.Decoder(_WatchedEvent[ApiStatus]).decode  # pyright: ignore[reportInvalidTypeArguments]
_decode_head = msgspec.json.Decoder(_WatchedEvent[Resource]).decode


class EventReader(Generic[R]):
    """Reads the events of one watch, whose objects are decoded as `model`. Raises StaleListError where the server says
    that the list has to be read anew, SourceError for its other errors and for a stream that is no watch.
    """

    def __init__(self, model: type[R]) -> None:
        shape: Any = _WatchedEvent[model]  # pyright: ignore[reportInvalidTypeArguments]  # known at run time only
        self._decode = msgspec.json.Decoder(shape).decode
        self._rest = bytearray()

    def feed(self, piece: bytes) -> Iterator[WatchEvent[R] | Bookmark]:
        """The events that are complete with this piece of bytes. Exhaust the iterator before feeding more."""
        end = piece.find(b"\n")
        if end < 0:
            self._rest += piece
            if len(self._rest) > LONGEST_EVENT:
                raise SourceError(Text("error-kube.watch-sent-no-line", count=len(self._rest)))
            return
        lines, start = memoryview(piece), 0  # a copy of each line would take as long as reading it
        while end >= 0:
            line = lines[start:end]
            if self._rest:
                line, self._rest = memoryview(bytes(self._rest + line)), bytearray()
            if len(line) > 1:  # not empty, and no lone carriage return
                yield self._read(line)
            start = end + 1
            end = piece.find(b"\n", start)
        self._rest = bytearray(lines[start:])

    def _read(self, line: memoryview) -> WatchEvent[R] | Bookmark:
        try:
            event: _WatchedEvent[R] = self._decode(line)
        except _UNREADABLE as error:
            return _read_head(line, error)
        if event.type in ("ADDED", "MODIFIED"):
            return WatchEvent(key_of(event.object), _version(event.object), event.object)
        return _other(event, line)


def _read_head(line: memoryview, error: Exception) -> WatchEvent[Any] | Bookmark:
    """The event of an object that does not have its model's types: its metadata say which one."""
    try:
        event = _decode_head(line)
    except _UNREADABLE:
        start = quoted(bytes(line[:80]).decode(errors="replace"))
        raise SourceError(Text("error-kube.watch-sent-no-event", why=str(error), start=repr(start))) from error
    if event.type in ("ADDED", "MODIFIED"):
        return WatchEvent(key_of(event.object), _version(event.object), None, bad=quoted(str(error)))
    return _other(event, line)


def _other(event: _WatchedEvent[Any], line: memoryview) -> WatchEvent[Any] | Bookmark:
    match event.type:
        case "DELETED":
            return WatchEvent(key_of(event.object), _version(event.object), None)
        case "BOOKMARK":
            return Bookmark(_version(event.object))
        case "ERROR":
            try:
                status = _decode_status(line).object
            except _UNREADABLE:
                raise SourceError(Text("error-kube.watch-ended-unreadable")) from None
            text = Text("error-kube.watch-ended-with", code=status.code, message=quoted(status.message))
            raise StaleListError(text) if status.code == _EXPIRED else SourceError(text)
        case _:
            raise SourceError(Text("error-kube.watch-sent-type", type=repr(quoted(event.type))))


def _version(item: Resource) -> int:
    try:
        version = version_of(item.metadata.resource_version)
    except ValueError as error:
        raise SourceError(Text("error-kube.watch-sent-bad-version", why=str(error))) from error
    if not version:
        raise SourceError(Text("error-kube.watch-sent-no-version"))
    return version
