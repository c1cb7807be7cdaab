"""What alerts and pagers are refused for is one check for both, and does not flood the log."""

import asyncio
import logging
from collections.abc import AsyncGenerator

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from bot.endpoint import QUIET_S, Refusals
from bot.errors import SourceError
from bot.pager.inbound import LARGEST_BODY, OPSGENIE_PATH, PAGERDUTY_PATH, PagerAction, pager_routes
from bot.settings.oncall import OpsgeniePaging, PagerDutyPaging, PagingSettings
from sandbox.serving import Served
from tests.oncall.pagers import API_KEY, BEARER, ROUTING_KEY, SIGNING, opsgenie_posts, pagerduty_posts, signed

PAGING = PagingSettings(
    pagerduty=PagerDutyPaging(routing_key=SecretStr(ROUTING_KEY), webhook_secret=SecretStr(SIGNING)),
    opsgenie=OpsgeniePaging(api_key=SecretStr(API_KEY), webhook_token=SecretStr(BEARER)),
)
RIGHT, WRONG = {"Authorization": f"Bearer {BEARER}"}, {"Authorization": "Bearer wrong"}


async def refuse(_: PagerAction) -> None:
    raise SourceError("the disk is full")


def answers(path: str, body: object, headers: dict[str, str], *, stopping: bool = False, times: int = 1) -> int:
    """What the last of so many posts is answered, while nothing can be kept."""

    async def main() -> int:
        application = web.Application()
        for where, answer in pager_routes(PAGING, refuse, lambda: stopping).items():
            application.router.add_post(where, answer)
        async with asyncio.timeout(180), Served(application) as served, aiohttp.ClientSession() as session:
            status = 0
            for _ in range(times):
                async with session.post(f"{served.url}{path}", data=body, headers=headers) as answer:
                    status = answer.status
            return status

    return asyncio.run(main())


def test_opsgenies_token_is_checked_before_its_body_is_read() -> None:
    async def endless() -> AsyncGenerator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    assert answers(OPSGENIE_PATH, endless(), WRONG) == 401
    assert answers(OPSGENIE_PATH, b"x" * (LARGEST_BODY + 1), WRONG) == 401
    assert answers(OPSGENIE_PATH, b"x" * (LARGEST_BODY + 1), RIGHT) == 413


@pytest.mark.parametrize("path", [OPSGENIE_PATH, PAGERDUTY_PATH])
def test_a_pager_is_refused_for_what_alerts_are_refused_for(path: str) -> None:
    body = opsgenie_posts("3fa29c1b") if path == OPSGENIE_PATH else pagerduty_posts("3fa29c1b")
    known = {**RIGHT, **signed(body)}
    assert answers(path, body, known) == 503
    assert answers(path, body, known, stopping=True) == 503
    assert answers(path, body, {**known, "Content-Encoding": "br"}) in {400, 415}
    assert answers(path, b"{", {**RIGHT, **signed(b"{")}) == 400


def test_a_pager_that_posts_again_and_again_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert answers(OPSGENIE_PATH, opsgenie_posts("3fa29c1b"), RIGHT, times=20) == 503
    [line] = [record.getMessage() for record in caplog.records if record.name == "bot.endpoint"]
    assert "refused with 503" in line
    assert "the disk is full" in line


def test_a_refusal_is_logged_again_after_a_while_with_how_often_it_was_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
        "alerts: refused with 503: the disk is full (499 more since the last line)",
        "alerts: refused with 503: the disk is full",
    ]
