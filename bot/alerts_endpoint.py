"""POST /alerts/alertmanager: who may post, how much, and what they are told. How many alerts came is logged, no more.

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
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

from bot import request_ids
from bot.endpoint import Endpoint, Handler, Refusal, endpoint_route, is_bearer
from bot.triage.webhook import LARGEST_BODY, Alert, WrongBody, read_alerts

ALERTS_PATH = "/alerts/alertmanager"
_ASKED_FOR = {"WWW-Authenticate": 'Bearer realm="alerts"'}

log = logging.getLogger(__name__)

Take = Callable[[list[Alert]], Awaitable[None]]


class AlertsEndpoint(NamedTuple):
    """Where alerts go. `take` returns once they are kept and raises BotError if they could not be.

    Credentials that are empty open nothing. `stopping`: no more is taken. `pager_routes` answer what pagers
    post, by path.
    """

    take: Take
    stopping: Callable[[], bool]
    token: str = ""
    user: str = ""
    password: str = ""
    pager_routes: Mapping[str, Handler] = {}


def alerts_route(endpoint: AlertsEndpoint) -> Handler:
    """What answers `ALERTS_PATH`."""

    def check(request: web.Request) -> None:
        if not is_known(request.headers.get("Authorization", ""), endpoint):
            raise Refusal(401, "the credentials are missing or wrong", _ASKED_FOR)

    async def take(_: web.Request, body: bytes) -> None:
        try:
            alerts = await asyncio.to_thread(read_alerts, body)
        except WrongBody as error:
            raise Refusal(400, str(error)) from error
        with request_ids.about(hashlib.sha256(body).hexdigest()):  # sent again it has the same
            await endpoint.take(alerts)
            log.info("%d alerts are kept", len(alerts))

    return endpoint_route(Endpoint("alerts", LARGEST_BODY, endpoint.stopping, take, check))


def is_known(authorization: str, endpoint: AlertsEndpoint) -> bool:
    """Whether the header proves who sends it; compared in constant time."""
    scheme, _, given = authorization.partition(" ")
    match scheme.casefold():
        case "bearer" if endpoint.token:
            return is_bearer(authorization, endpoint.token)
        case "basic" if endpoint.user:
            try:
                decoded = base64.b64decode(given.strip(), validate=True)
            except (binascii.Error, ValueError):
                return False
            return hmac.compare_digest(decoded, f"{endpoint.user}:{endpoint.password}".encode())
        case _:
            return False
