"""An API server's answers: unpacked, decoded as `bot.kube.models`, one object or page by page, and their Date.

Only lists are requested with gzip, and zlib-ng unpacks them whole: 58 MB of nodes, the pages of 5,000, take it 0.04 s,
Python's own zlib 0.08 s to 0.19 s, and aiohttp, piece by piece, twice as long. So aiohttp's session is told to leave
bodies packed; any other packed answer is refused, not misread.
"""

import gc
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from zlib_ng import zlib_ng

from bot.errors import NotFound, Troubled
from bot.kube.client.requests import ApiRequest, quoted
from bot.kube.cluster import Clocks
from bot.kube.models import Kind, Resource
from bot.texts import Text

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

UNREADABLE = (ValueError, RecursionError)
"""The errors of msgspec for a bad body: its own and UnicodeDecodeError are ValueErrors; deep nesting is the other."""


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename={"next": "continue", "version": "resourceVersion"}):
    next: str = ""
    version: str = ""


class ListPage(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One page of a list. `items` has no default: a body without it is no list and must not pass for an empty one."""

    items: list[T] | None
    metadata: ListMeta = ListMeta()


def segment(name: str) -> str:
    """The name, quoted as a part of a path. Raises NotFound for a text that can be no object's name."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise NotFound(
            Text("error-kube.cannot-be-name-object", name=repr(name)), hint=Text("error-kube.check-spelling")
        )
    return quote(name, safe="")


def resource(kind: Kind[R]) -> str:
    """The name of the kind in access rules: `deployments.apps`."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def left_out(kind: Kind[Any], bad: Mapping[str, str]) -> list[str]:
    """The objects of a list that could not be read, as texts: `pods ml/trainer-0: why`."""
    return [f"{resource(kind)} {name}: {why}" for name, why in bad.items()]


def decoded(request: ApiRequest, body: bytes, shape: type[T]) -> T:
    """The answer's body as `shape`. Raises Troubled for a body that no API server sends."""
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE as error:
        start = quoted(body[:80].decode(errors="replace"))
        raise Troubled(
            Text(
                "error-kube.not-answer-kubernetes-api-server", request=str(request), why=str(error), start=repr(start)
            ),
            hint=Text("error-kube.check-it-is-the-api-server"),
        ) from error


def page_of(request: ApiRequest, body: bytes, kind: Kind[R], bad: dict[str, str]) -> ListPage[R]:
    """One page of a list; an object that does not decode is named in `bad`, and the others stay readable."""
    shape: type[ListPage[R]] = ListPage[kind.type]  # pyright: ignore[reportInvalidTypeArguments]  # known at run time only
    try:
        with _collector_paused():
            return msgspec.json.decode(body, type=shape)
    except UNREADABLE:
        page = decoded(request, body, ListPage[msgspec.Raw])
    items: list[R] = []
    for raw in page.items or ():
        try:
            items.append(msgspec.json.decode(raw, type=kind.type))
        except UNREADABLE as error:
            bad[_label(raw)] = quoted(str(error))
    return ListPage(items, page.metadata)


@contextmanager
def _collector_paused() -> Generator[None]:
    """Pauses garbage collection while many objects that stay are made: 50,000 pods decode in 0.6 s, else in 1.3 s."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _label(raw: msgspec.Raw) -> str:
    try:
        found = msgspec.json.decode(raw, type=Resource)
    except UNREADABLE:
        return "(its name cannot be read)"
    return f"{found.namespace}/{found.name}" if found.namespace else found.name


_zlib: Any = zlib_ng  # its stubs take the class of its errors for an error
_GZIP = 16 + zlib_ng.MAX_WBITS
MOST_BYTES = 128 * 2**20
"""The largest unpacked body: a page of 500 objects, each with the most annotations Kubernetes takes (256 KiB)."""


async def whole_body(answer: aiohttp.ClientResponse) -> bytes:
    """The unpacked body. Raises aiohttp.ClientError or OSError if it breaks off, is damaged or exceeds MOST_BYTES."""
    body = await answer.read()
    if not _is_packed(answer):
        return body
    # Its last field says so, or lies: no more is unpacked.
    size = int.from_bytes(body[-4:], "little")
    if size > MOST_BYTES:
        raise aiohttp.ClientPayloadError(f"unpacked it is larger than {MOST_BYTES >> 20} MiB, or it is cut short")
    gzip = _zlib.decompressobj(_GZIP)
    try:
        found = gzip.decompress(body, size + 1)
    except _zlib.error as error:
        raise aiohttp.ClientPayloadError(str(error)) from error
    if gzip.unused_data:  # RFC 1952 allows it, no API server sends it
        raise aiohttp.ClientPayloadError("more follows behind the end of its packing")
    if not gzip.eof:
        raise aiohttp.ClientPayloadError("its packing is cut short, or holds more than it says")
    return found


def as_it_comes(answer: aiohttp.ClientResponse, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a body, unchanged. Raises ClientPayloadError for a gzipped body, which was not asked for."""
    if _is_packed(answer):
        raise aiohttp.ClientPayloadError("it is packed, and was not asked for so")
    return pieces


def beginning(answer: aiohttp.ClientResponse, body: bytes, limit: int) -> bytes:
    """The first `limit` bytes, unpacked, of a refusal's partly read body; empty where it cannot be unpacked."""
    if not _is_packed(answer):
        return body[:limit]
    try:
        return _zlib.decompressobj(_GZIP).decompress(body, limit)
    except _zlib.error:
        return b""


def _is_packed(answer: aiohttp.ClientResponse) -> bool:
    return answer.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")


class ServerClock:
    """The API server's clock, which all replicas share: its last Date, carried on by this machine's monotonic clock.
    `steady` is monotonic, `here` is this machine's time since 1970, both in seconds.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic, here: Callable[[], float] = time.time) -> None:
        self._steady = steady
        self._here = here
        self._noted_at = 0.0
        self.clocks: Clocks | None = None

    def answered(self, resource: str, date: str) -> None:
        """Takes the Date of an answer about `resource` that came just now; not a pod's, which has another clock."""
        if resource == "pods/proxy":
            return
        try:
            served = parsedate_to_datetime(date).timestamp()
        except (ValueError, TypeError, OverflowError):  # no date changes nothing
            return
        self.clocks, self._noted_at = Clocks(date, served, self._here()), self._steady()

    def time(self) -> float | None:
        """Seconds since 1970 by the API server: its last Date plus the time since; None before the first answer."""
        return self.clocks and self.clocks.served + self._steady() - self._noted_at

    def now(self) -> float:
        """Seconds since 1970 by the API server; before its first answer by this machine's clock."""
        served = self.time()
        return self._here() if served is None else served
