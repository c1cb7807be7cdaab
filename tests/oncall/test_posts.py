"""What alerts and pagers are refused for is one check for both, and does not flood the log."""

import asyncio
import logging

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from bot.endpoint import QUIET_S, Refusals
from bot.errors import SourceError
from bot.pager import LARGEST_BODY, PAGERDUTY_PATH, PagerAction, pager_routes
from bot.settings.oncall import PagerDutyPaging, PagingSettings
from sandbox.serving import Served
from tests.oncall.pagers import ROUTING_KEY, SIGNING, pagerduty_posts, signed

PAGING = PagingSettings(
    pagerduty=PagerDutyPaging(routing_key=SecretStr(ROUTING_KEY), webhook_secret=SecretStr(SIGNING))
)


async def refuse(_: PagerAction) -> None:
    raise SourceError("the disk is full")


def answers(body: bytes, headers: dict[str, str], *, stopping: bool = False, times: int = 1) -> int:
    """What the last of so many posts is answered, while nothing can be kept."""

    async def main() -> int:
        application = web.Application()
        for where, answer in pager_routes(PAGING, refuse, lambda: stopping).items():
            application.router.add_post(where, answer)
        async with asyncio.timeout(180), Served(application) as served, aiohttp.ClientSession() as session:
            status = 0
            for _ in range(times):
                async with session.post(f"{served.url}{PAGERDUTY_PATH}", data=body, headers=headers) as answer:
                    status = answer.status
            return status

    return asyncio.run(main())


def test_a_pager_is_refused_for_what_alerts_are_refused_for() -> None:
    body = pagerduty_posts("3fa29c1b")
    known = signed(body)
    assert answers(body, known) == 503
    assert answers(body, known, stopping=True) == 503
    assert answers(body, {**known, "Content-Encoding": "br"}) in {400, 415}
    assert answers(b"{", signed(b"{")) == 400
    assert answers(b"x" * (LARGEST_BODY + 1), known) == 413


def test_the_same_refusal_is_logged_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    now = 0.0
    refusals = Refusals("alerts", lambda: now)
    for _ in range(500):
        refusals.tell(503, "starting")
    refusals.tell(401, "the credentials are missing or wrong")
    refusals.tell(503, "the disk is full")
    now = QUIET_S
    for _ in range(3):
        refusals.tell(503, "the disk is full")
    assert [record.getMessage() for record in caplog.records] == [
        "alerts: refused with 503: starting",
        "alerts: refused with 401: the credentials are missing or wrong",
        *["alerts: refused with 503: the disk is full"] * 2,
    ]
