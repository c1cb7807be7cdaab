"""Watches: a stream of what changes in a list, one JSON object a line."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
from aiohttp import web

from sandbox.apiserver.collection import Collection, change_for, matcher
from sandbox.apiserver.entries import Entry, Object
from sandbox.apiserver.faults import Fault, closed
from sandbox.apiserver.statuses import ApiError, expired, watch_too_old

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_END_EARLY_S = 2  # a bookmark is sent that long before the end, as the watch cache does

_EMPTY_TEMPLATE: Object = {"metadata": {}, "spec": {"containers": None}}
# What the zero value of a kind looks like in JSON where it is more than its metadata; recorded.
_EMPTY: dict[str, Object] = {
    "Deployment": {
        "spec": {"replicas": 0, "selector": None, "template": _EMPTY_TEMPLATE, "strategy": {}},
        "status": {},
    },
    "Pod": {"spec": {"containers": None}, "status": {}},
}  # fmt: skip


class WatchQuery(NamedTuple):
    """The request for a watch: from after `version`, or with all that is there (`initial`) first."""

    namespace: str
    labels: str
    fields: str
    version: int
    initial: bool
    bookmarks: bool
    tell_initial_end: bool
    timeout_s: float


class Encoding(NamedTuple):
    """How a client wants objects: `entry` encodes one, `bookmark` a bookmark's."""

    entry: Callable[[Entry], bytes]
    bookmark: Callable[[Object], bytes]


def bookmark_object(collection: Collection, metadata: Object) -> Object:
    kind = collection.kind
    head = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata}
    return head | _EMPTY.get(kind.name, {})


class Watch:
    """One client's watch. Raises the server's 400 for selectors that it does not take."""

    def __init__(
        self,
        collection: Collection,
        query: WatchQuery,
        encoding: Encoding,
        *,
        bookmark_every_s: float,
        fault: Fault | None,
    ) -> None:
        self._collection = collection
        self._query = query
        self._encoding = encoding
        self._matches = matcher(collection.kind, query.namespace, query.labels, query.fields)
        self._every_s = bookmark_every_s
        self._fault = fault
        self._sent = 0
        self._version = query.version

    async def serve(self, request: web.Request, closing: asyncio.Event) -> web.StreamResponse:
        """Streams until the time is over, the past is gone, the client goes or the server closes."""
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = "application/json"
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async with asyncio.timeout(self._query.timeout_s):
                await self._stream(request, response, closing)
        except TimeoutError:
            if self._faulty == "silence":  # half-open: not even the end arrives
                await closing.wait()
        except ConnectionError:
            return response  # the client has gone
        return response

    @property
    def _faulty(self) -> str:
        """The kind of fault that holds from now on, empty while there is none."""
        return self._fault.kind if self._fault and self._sent >= self._fault.events else ""

    async def _stream(self, request: web.Request, response: web.StreamResponse, closing: asyncio.Event) -> None:
        started = time.monotonic()
        due, last = started + self._every_s, started + self._query.timeout_s - _END_EARLY_S
        if not self._query.initial and self._version < self._collection.forgotten:
            await response.write(_error(watch_too_old(self._version, self._collection.forgotten)))
            return
        lines = list(self._initial())
        while not closing.is_set():
            if not await self._send(request, response, lines, closing):
                return
            if self._version < self._collection.lost:
                await response.write(_error(watch_too_old(self._version, self._collection.forgotten)))
                return
            lines = self._news()
            now = time.monotonic()
            if lines:
                continue
            if self._query.bookmarks and now >= min(due, last):
                lines = [self._bookmark({})]
                due, last = now + self._every_s, (last if now < last else float("inf"))
                continue
            await self._collection.changed.wait(min(due, last) - now if self._query.bookmarks else None)

    async def _send(
        self, request: web.Request, response: web.StreamResponse, lines: list[bytes], closing: asyncio.Event
    ) -> bool:
        """Sends events; False when the stream ends with one of them."""
        for line in [*lines, b""]:
            match self._faulty:
                case "drop":
                    closed(request)
                    return False
                case "gone":
                    await response.write(_error(_expired()))
                    return False
                case "silence":
                    await closing.wait()
                    return False
                case "repeat" if line:
                    await response.write(line)
                case _:
                    pass
            if line:
                await response.write(line)
                self._sent += 1
        return True

    def _initial(self) -> Iterator[bytes]:
        query, collection = self._query, self._collection
        if query.initial:
            self._version = collection.versions.newest
            for entry in collection.select(query.namespace, query.labels, query.fields):
                yield _line(b"ADDED", self._encoding.entry(entry))
        if query.tell_initial_end:
            yield self._bookmark({"annotations": {_INITIAL_EVENTS_END: "true"}})

    def _news(self) -> list[bytes]:
        """The lines of every change since the last one."""
        unseen = self._collection.since(self._version)
        if unseen:
            self._version = unseen[-1].version
        events = (change_for(change, self._matches) for change in unseen)
        return [_line(event[0].encode(), self._encoding.entry(event[1])) for event in events if event]

    def _bookmark(self, metadata: Object) -> bytes:
        self._version = self._collection.versions.newest  # nothing is unsent: see the callers
        shown = {"resourceVersion": str(self._version), **metadata}
        return _line(b"BOOKMARK", self._encoding.bookmark(bookmark_object(self._collection, shown)))


def _expired() -> ApiError:
    error = expired()
    error.body["message"] = "The resourceVersion for the provided watch is too old."
    return error


def _error(error: ApiError) -> bytes:
    return _line(b"ERROR", msgspec.json.encode(error.body))


def _line(kind: bytes, body: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + body + b"}\n"
