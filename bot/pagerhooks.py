"""POST /pager/pagerduty and /pager/opsgenie: what pagers post back. Nothing of a request is logged.

200  taken in, or nothing to take in; 400 nothing that the pager posts; 401 without its proof
408 too slow; 413 too large; 415 compressed; 503 not kept, to be sent again
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from bot.errors import BotError
from bot.intake import BODY_S, Handler, read_body
from bot.pager.inbound import LARGEST_BODY, Heard, NoWebhookError, is_signed, read_opsgenie, read_pagerduty
from bot.settings.paging import PagingSettings

PAGERDUTY_PATH, OPSGENIE_PATH = "/pager/pagerduty", "/pager/opsgenie"
Hear = Callable[[Heard], Awaitable[None]]

log = logging.getLogger(__name__)


class _Pager(NamedTuple):
    """What proves that a request with that body is the pager's, and what reads it."""

    is_known: Callable[[web.Request, bytes], bool]
    read: Callable[[bytes], Heard | None]


def hooks_of(paging: PagingSettings, hear: Hear, stopping: Callable[[], bool]) -> dict[str, Handler]:
    """What answers each path; none for a pager without a secret. `hear` raises BotError if it could not be kept."""
    found: dict[str, Handler] = {}
    signing = paging.pagerduty.webhook_secret.get_secret_value() if paging.pagerduty else ""
    token = paging.opsgenie.webhook_token.get_secret_value() if paging.opsgenie else ""
    if signing:

        def signed(request: web.Request, body: bytes) -> bool:
            return is_signed(request.headers.get("X-PagerDuty-Signature", ""), body, signing)

        found[PAGERDUTY_PATH] = _answering(_Pager(signed, read_pagerduty), hear, stopping)
    if token:
        bearer = f"Bearer {token}".encode()

        def named(request: web.Request, _: bytes) -> bool:
            return hmac.compare_digest(request.headers.get("Authorization", "").encode(errors="replace"), bearer)

        found[OPSGENIE_PATH] = _answering(_Pager(named, read_opsgenie), hear, stopping)
    return found


def _answering(pager: _Pager, hear: Hear, stopping: Callable[[], bool]) -> Handler:
    async def posted(request: web.Request) -> web.StreamResponse:
        if stopping():
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
        if not pager.is_known(request, body):
            return _refused(401, "the proof is missing or wrong")
        try:
            if heard := pager.read(body):
                await hear(heard)
        except NoWebhookError as error:
            return _refused(400, str(error))
        except BotError as error:
            log.warning("what a pager posted was not kept, it posts it again: %s", error.message)
            return _refused(503, "not kept, send it again")
        return web.Response(text="ok\n")

    return posted


def _refused(status: int, why: str) -> web.Response:
    log.warning("what a pager posted was refused with %d: %s", status, why)
    return web.Response(status=status, text=f"{why}\n")
