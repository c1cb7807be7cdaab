"""POST /alerts/alertmanager: who may post, how much, and what they are told. Nothing of a request is logged.

200  kept, whatever happens to this process now; also what was kept before
400  no webhook of version 4; 401 without the credentials; 413 too large; 415 compressed; 408 too slow
503  not kept, to be sent again: Alertmanager tries 5xx again, and 4xx never
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

from bot.posts import Handler, Refusal, Taking, posts_route
from bot.triage.webhook import LARGEST_BODY, Alert, WrongBody, read_alerts

ALERTS_PATH = "/alerts/alertmanager"
_ASKED_FOR = {"WWW-Authenticate": 'Bearer realm="alerts"'}

Take = Callable[[list[Alert]], Awaitable[None]]


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

    def check(request: web.Request) -> None:
        if not is_known(request.headers.get("Authorization", ""), intake):
            raise Refusal(401, "the credentials are missing or wrong", _ASKED_FOR)

    async def take(_: web.Request, body: bytes) -> None:
        try:
            alerts = await asyncio.to_thread(read_alerts, body)
        except WrongBody as error:
            raise Refusal(400, str(error)) from error
        await intake.take(alerts)

    return posts_route(Taking("alerts", LARGEST_BODY, intake.stopping, take, check))


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
