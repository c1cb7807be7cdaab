"""The stream of a watch: pieces of bytes in, changes out."""

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bot.errors import SourceError
from bot.kube.client.failures import StaleListError, quoted
from bot.kube.models import Resource
from bot.kube.watch.mirror import Change, key_of, version_of
from bot.texts import Text

R = TypeVar("R", bound=Resource)

LONGEST_EVENT = 16 * 1024 * 1024
"""etcd takes no object over 1.5 MB, in JSON a few times that: what is longer is no watch."""
_EXPIRED = 410
# Not DecodeError alone: text that is no UTF-8 and nesting without end are reported by Python's own classes.
_UNREADABLE = (ValueError, RecursionError)


class Bookmark(NamedTuple):
    """Everything up to `version` has been told."""

    version: int


class _Event(msgspec.Struct, Generic[R], frozen=True, gc=False):
    type: str
    object: R


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


_decode_status = msgspec.json.Decoder(_Event[_Status]).decode  # pyright: ignore[reportInvalidTypeArguments]
_decode_head = msgspec.json.Decoder(_Event[Resource]).decode


class EventReader(Generic[R]):
    """Reads the events of one watch, whose objects are decoded as `model`.

    Raises StaleListError where the server says that the list has to be read anew, SourceError for any other error of
    its, and for a stream that is no watch.
    """

    def __init__(self, model: type[R]) -> None:
        shape: Any = _Event[model]  # pyright: ignore[reportInvalidTypeArguments]  # known at run time only
        self._decode = msgspec.json.Decoder(shape).decode
        self._rest = bytearray()

    def feed(self, piece: bytes) -> Iterator[Change[R] | Bookmark]:
        """What is complete with this piece. Exhaust it before feeding more."""
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

    def _read(self, line: memoryview) -> Change[R] | Bookmark:
        try:
            event: _Event[R] = self._decode(line)
        except _UNREADABLE as error:
            return _read_head(line, error)
        if event.type in ("ADDED", "MODIFIED"):
            return Change(key_of(event.object), _version(event.object), event.object)
        return _other(event, line)


def _read_head(line: memoryview, error: Exception) -> Change[Any] | Bookmark:
    """The event of an object that does not have its model's types: its metadata say which one."""
    try:
        event = _decode_head(line)
    except _UNREADABLE:
        start = quoted(bytes(line[:80]).decode(errors="replace"))
        raise SourceError(Text("error-kube.watch-sent-no-event", why=str(error), start=repr(start))) from error
    if event.type in ("ADDED", "MODIFIED"):
        return Change(key_of(event.object), _version(event.object), None, bad=quoted(str(error)))
    return _other(event, line)


def _other(event: _Event[Any], line: memoryview) -> Change[Any] | Bookmark:
    match event.type:
        case "DELETED":
            return Change(key_of(event.object), _version(event.object), None)
        case "BOOKMARK":
            return Bookmark(_version(event.object))
        case "ERROR":
            raise _told(line)
        case _:
            raise SourceError(Text("error-kube.watch-sent-type", type=repr(quoted(event.type))))


def _told(line: memoryview) -> SourceError:
    try:
        status = _decode_status(line).object
    except _UNREADABLE:
        return SourceError(Text("error-kube.watch-ended-unreadable"))
    text = Text("error-kube.watch-ended-with", code=status.code, message=quoted(status.message))
    return StaleListError(text) if status.code == _EXPIRED else SourceError(text)


def _version(item: Resource) -> int:
    try:
        version = version_of(item.metadata.resource_version)
    except ValueError as error:
        raise SourceError(Text("error-kube.watch-sent-bad-version", why=str(error))) from error
    if not version:
        raise SourceError(Text("error-kube.watch-sent-no-version"))
    return version
