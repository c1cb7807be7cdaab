"""POST /pager/pagerduty and /pager/opsgenie: what pagers post back. Nothing of a request is logged.

200  taken in, or nothing to take in; 400 nothing that the pager posts; 401 without its proof
408 too slow; 413 too large; 415 compressed; 503 not kept, to be sent again
"""

import hmac
from collections.abc import Awaitable, Callable

from aiohttp import web

from bot.endpoint import Endpoint, Handler, Refusal, endpoint_route
from bot.pager.inbound import LARGEST_BODY, NoWebhookError, PagerAction, is_signed, read_opsgenie, read_pagerduty
from bot.settings.paging import PagingSettings

PAGERDUTY_PATH, OPSGENIE_PATH = "/pager/pagerduty", "/pager/opsgenie"
Hear = Callable[[PagerAction], Awaitable[None]]
_UNPROVEN = "the proof is missing or wrong"


def pager_routes(paging: PagingSettings, hear: Hear, stopping: Callable[[], bool]) -> dict[str, Handler]:
    """What answers each path; none for a pager without a secret. `hear` raises BotError if it could not be kept."""
    found: dict[str, Handler] = {}
    signing = paging.pagerduty.webhook_secret.get_secret_value() if paging.pagerduty else ""
    token = paging.opsgenie.webhook_token.get_secret_value() if paging.opsgenie else ""
    if signing:

        async def signed(request: web.Request, body: bytes) -> None:
            if not is_signed(request.headers.get("X-PagerDuty-Signature", ""), body, signing):
                raise Refusal(401, _UNPROVEN)
            await _heard(read_pagerduty, body, hear)

        found[PAGERDUTY_PATH] = endpoint_route(Endpoint("what PagerDuty posted", LARGEST_BODY, stopping, signed))
    if token:
        bearer = f"Bearer {token}".encode()

        def check(request: web.Request) -> None:
            given = request.headers.get("Authorization", "").encode(errors="replace")
            if not hmac.compare_digest(given, bearer):
                raise Refusal(401, _UNPROVEN)

        async def named(_: web.Request, body: bytes) -> None:
            await _heard(read_opsgenie, body, hear)

        found[OPSGENIE_PATH] = endpoint_route(Endpoint("what Opsgenie posted", LARGEST_BODY, stopping, named, check))
    return found


async def _heard(read: Callable[[bytes], PagerAction | None], body: bytes, hear: Hear) -> None:
    try:
        heard = read(body)
    except NoWebhookError as error:
        raise Refusal(400, str(error)) from error
    if heard:
        await hear(heard)
