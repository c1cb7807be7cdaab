"""HTTP endpoints that others post to: their common part (who may, how much, how long, what is logged), and the endpoint
for alerts, POST /alerts/alertmanager. Nothing of a request is logged; of alerts, how many came.

200  kept, whatever happens to this process now; also what was kept before
400  no webhook of version 4; 401 without the credentials; 413 too large; 415 compressed; 408 too slow
503  not kept, to be sent again: Alertmanager tries 5xx again, and 4xx never
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

from bot.errors import BotError, about_request
from bot.texts import in_english
from bot.triage.webhook import LARGEST_BODY, Alert, WrongBody, read_alerts

BODY_S = 30.0
QUIET_S = 60.0
"""Seconds until an equal refusal is logged again: a refused client may post again at once."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__)


def is_bearer(authorization: str, token: str) -> bool:
    """Whether the header has this token, which must not be empty; compared in constant time."""
    scheme, _, given = authorization.partition(" ")
    return scheme.casefold() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())


class PostRefused(Exception):  # noqa: N818  # an answer
    """The refusal of a post: status, reason and headers for its sender, and for the log."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] = {}) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers


class Endpoint(NamedTuple):
    """One address that takes posts: its name in the log, its limits, and the function that keeps a body. `take` gets
    the body, of at most `largest` bytes, and returns once it is kept. `check`, where the headers prove something, sees
    them before the body is read. Both raise PostRefused; `take` raises BotError for a body that could not be kept and
    has to be sent again. `stopping`: nothing more is taken.
    """

    what: str
    largest: int
    stopping: Callable[[], bool]
    take: Callable[[web.Request, bytes], Awaitable[None]]
    check: Callable[[web.Request], None] | None = None


def endpoint_route(endpoint: Endpoint) -> Handler:
    """The HTTP handler of that endpoint: 200 once the body is kept, 503 when it has to be sent again."""
    refusals = Refusals(endpoint.what)

    async def posted(request: web.Request) -> web.StreamResponse:
        try:
            await endpoint.take(request, await _checked(request, endpoint))
        except PostRefused as refusal:
            if request.content_length != 0:  # with no body at all `doctor` asks whether anybody listens
                refusals.tell(refusal.status, refusal.why)
            return web.Response(status=refusal.status, text=f"{refusal.why}\n", headers=refusal.headers)
        except BotError as error:
            refusals.tell(503, f"not kept, to be sent again: {in_english(error.message)}")
            return web.Response(status=503, text="not kept, send it again\n")
        return web.Response(text="ok\n")

    return posted


async def _checked(request: web.Request, endpoint: Endpoint) -> bytes:
    if endpoint.check:
        endpoint.check(request)
    if endpoint.stopping():
        raise PostRefused(503, "stopping")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise PostRefused(415, "a compressed body is not taken")
    try:
        async with asyncio.timeout(BODY_S):
            body = await read_body(request, endpoint.largest)
    except TimeoutError as error:
        raise PostRefused(408, "the body did not come in time") from error
    if body is None:
        raise PostRefused(413, f"more than {endpoint.largest:,} bytes")
    return body


async def read_body(request: web.Request, largest: int) -> bytes | None:
    """The request's body, or None if it has more than `largest` bytes; the rest is not read then."""
    if (request.content_length or 0) > largest:
        return None
    body = bytearray()
    async for chunk in request.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > largest:
            return None
    return bytes(body)


class Refusals:
    """Logs refusals: each new one, and an equal one only after `QUIET_S`."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._logged: dict[int, tuple[str, float]] = {}

    def tell(self, status: int, why: str) -> None:
        last, at = self._logged.get(status, ("", 0.0))
        if last != why or self._clock() - at >= QUIET_S:
            log.warning("%s: refused with %d: %s", self._what, status, why)
            self._logged[status] = why, self._clock()


ALERTS_PATH = "/alerts/alertmanager"
_ASKED_FOR = {"WWW-Authenticate": 'Bearer realm="alerts"'}


Take = Callable[[list[Alert]], Awaitable[None]]


def alerts_route(
    take: Take, stopping: Callable[[], bool], *, token: str = "", user: str = "", password: str = ""
) -> Handler:
    """The HTTP handler of `ALERTS_PATH`, which lets nobody in with empty credentials. `take` returns once alerts are
    kept and raises BotError if they could not be. `stopping`: nothing more is taken.
    """

    def check(request: web.Request) -> None:
        if not _is_known(request.headers.get("Authorization", ""), token, user, password):
            raise PostRefused(401, "the credentials are missing or wrong", _ASKED_FOR)

    async def taken(_: web.Request, body: bytes) -> None:
        try:
            alerts = await asyncio.to_thread(read_alerts, body)
        except WrongBody as error:
            raise PostRefused(400, str(error)) from error
        with about_request(hashlib.sha256(body).hexdigest()):  # sent again it has the same
            await take(alerts)
            log.info("%d alerts are kept", len(alerts))

    return endpoint_route(Endpoint("alerts", LARGEST_BODY, stopping, taken, check))


def _is_known(authorization: str, token: str, user: str, password: str) -> bool:
    """Whether the header `Authorization` has the credentials; compared in constant time."""
    scheme, _, given = authorization.partition(" ")
    match scheme.casefold():
        case "bearer" if token:
            return is_bearer(authorization, token)
        case "basic" if user:
            try:
                decoded = base64.b64decode(given.strip(), validate=True)
            except (binascii.Error, ValueError):
                return False
            return hmac.compare_digest(decoded, f"{user}:{password}".encode())
        case _:
            return False
