"""Failures on demand: what networks, proxies and loaded API servers do to a client."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from sandbox.apiserver.statuses import Target, failure

_TRICKLE_S = 0.02  # one byte each: quick enough to keep a read timeout quiet, far too slow to finish
_GARBAGE = "<html><head><title>Sign in</title></head><body>Please sign in to continue.</body></html>"

FaultKind = Literal["status", "refuse", "hang", "cut", "slow", "garbage", "drop", "silence", "gone", "repeat"]
WATCH_FAULTS = frozenset({"drop", "silence", "gone", "repeat"})


@dataclass
class Fault:
    """Makes requests whose path matches `path` (a regular expression, searched) fail.

    `kind`: "status" answers with `status` (401, 403, 404, 409, 410, 429, 500 or 503) and a real Status body, "refuse"
    closes the connection at once, "hang" never answers, "cut" closes it after half the body, "slow" sends a byte at a
    time, "garbage" answers 200 with a web page.

    Of watches alone, after `events` events have been sent: "drop" closes the connection in the middle of the stream,
    "silence" keeps it open and sends nothing more, not even its end, "gone" ends it with a 410 as an event; "repeat"
    sends every later event twice.

    `verb` (get, list, watch, create, update, patch, delete) restricts it to such requests. `skip` lets that many
    matching requests pass first, then it fires `times` times (None: always). `retry_after`: seconds in the Retry-After
    header of 429 (1 unless given) and 503.
    """

    path: str
    kind: FaultKind
    status: int = 500
    times: int | None = None
    skip: int = 0
    retry_after: int | None = None
    verb: str = ""
    events: int = 0
    _seen: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind == "status":
            failure(self.status, Target(), self.retry_after)

    def fires(self, path: str, verb: str) -> bool:
        """Whether this request fails; counts it if the fault is about such requests."""
        if self._verb not in {"", verb} or not re.search(self.path, path):
            return False
        self._seen += 1
        return self.skip < self._seen and (self.times is None or self._seen <= self.skip + self.times)

    @property
    def _verb(self) -> str:
        return "watch" if self.kind in WATCH_FAULTS else self.verb


async def spoil(
    fault: Fault,
    request: web.Request,
    target: Target,
    verb: str,
    *,
    answer: Callable[[], Awaitable[web.StreamResponse]],
    closing: asyncio.Event,
) -> web.StreamResponse:
    """Answers a request as a fault says that is not only for watches. `answer` gives what the server would have said;
    `closing` ends a wait.
    """
    match fault.kind:
        case "status":
            return failure(fault.status, target, fault.retry_after, verb).response()
        case "garbage":
            return web.Response(text=_GARBAGE, content_type="text/html")
        case "refuse":
            return closed(request)
        case "hang":
            await closing.wait()
            return closed(request)
        case "cut":
            return await _cut(request, await answer())
        case "slow":
            return await _trickle(request, await answer(), closing)
    return await answer()


def closed(request: web.Request) -> web.Response:
    """A response that nobody gets, because the connection is closed."""
    if request.transport:
        request.transport.close()
    return web.Response()


async def _begin(request: web.Request, answer: web.StreamResponse) -> tuple[web.StreamResponse, bytes]:
    body = bytes(answer.body or b"") if isinstance(answer, web.Response) else b""  # ours are bytes
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.content_length = len(body)
    await response.prepare(request)
    return response, body


async def _cut(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    response, body = await _begin(request, answer)
    await response.write(body[: len(body) // 2])
    closed(request)
    return response


async def _trickle(request: web.Request, answer: web.StreamResponse, closing: asyncio.Event) -> web.StreamResponse:
    response, body = await _begin(request, answer)
    with contextlib.suppress(ConnectionError):  # the client gave up
        for byte in range(len(body)):
            await response.write(body[byte : byte + 1])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), _TRICKLE_S)
                closed(request)
                break
    return response
