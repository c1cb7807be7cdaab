"""POST /alerts/alertmanager: who may post, how much, and what they are told. Nothing of a request is logged.

200  kept, whatever happens to this process now; also what was kept before
400  no webhook of version 4; 401 without the credentials; 413 too large; 415 compressed; 408 too slow
503  not kept, to be sent again: Alertmanager tries 5xx again, and 4xx never
"""

import asyncio
import base64
import binascii
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

from bot.errors import BotError
from bot.triage.webhook import LARGEST_BODY, Alert, WrongBody, read_alerts

ALERTS_PATH = "/alerts/alertmanager"
BODY_S = 30.0
_ASKED_FOR = {"WWW-Authenticate": 'Bearer realm="alerts"'}

Take = Callable[[list[Alert]], Awaitable[None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__)


class Intake(NamedTuple):
    """Where alerts go. `take` returns once they are kept and raises BotError if they could not be.

    Credentials that are empty open nothing. `stopping`: no more is taken. `hooks` answer what pagers post, by path.
    """

    take: Take
    stopping: Callable[[], bool]
    token: str = ""
    user: str = ""
    password: str = ""
    hooks: Mapping[str, Handler] = {}


def alerts_route(intake: Intake) -> Handler:
    """What answers `ALERTS_PATH`."""

    async def posted(request: web.Request) -> web.StreamResponse:
        if not is_known(request.headers.get("Authorization", ""), intake):
            return _refused(401, "the credentials are missing or wrong", _ASKED_FOR)
        if intake.stopping():
            return _refused(503, "stopping")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return _refused(415, "a compressed body is not taken")
        try:
            async with asyncio.timeout(BODY_S):
                body = await read_body(request, LARGEST_BODY)
        except TimeoutError:
            return _refused(408, "the body did not come in time")
        if body is None:
            return _refused(413, f"more than {LARGEST_BODY:,} bytes")
        try:
            alerts = await asyncio.to_thread(read_alerts, body)
        except WrongBody as error:
            return _refused(400, str(error))
        try:
            await intake.take(alerts)
        except BotError as error:
            log.warning("%d alerts were not kept, Alertmanager sends them again: %s", len(alerts), error.message)
            return _refused(503, "not kept, send it again")
        return web.Response(text="ok\n")

    return posted


def is_known(authorization: str, intake: Intake) -> bool:
    """Whether the header proves who sends it; compared in constant time."""
    scheme, _, given = authorization.partition(" ")
    match scheme.casefold():
        case "bearer" if intake.token:
            return _same(given.strip().encode(errors="replace"), intake.token)
        case "basic" if intake.user:
            try:
                decoded = base64.b64decode(given.strip(), validate=True)
            except (binascii.Error, ValueError):
                return False
            return _same(decoded, f"{intake.user}:{intake.password}")
        case _:
            return False


def _same(given: bytes, wanted: str) -> bool:
    return hmac.compare_digest(given, wanted.encode())


async def read_body(request: web.Request, largest: int) -> bytes | None:
    """The body, or None if it has more than so many bytes; no more of it is read then."""
    if (request.content_length or 0) > largest:
        return None
    body = bytearray()
    async for chunk in request.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > largest:
            return None
    return bytes(body)


def _refused(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
    log.warning("alerts were refused with %d: %s", status, why)
    return web.Response(status=status, text=f"{why}\n", headers=headers)
