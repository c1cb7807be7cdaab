"""POST /alerts/alertmanager, as a client sees it: what is taken, what is refused, what nobody reads in the log.

Pagers are refused by the same check, and neither floods the log.
"""

import asyncio
import base64
import io
import json
import logging
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from bot import pager
from bot.endpoint import ALERTS_PATH, QUIET_S, Refusals, alerts_route
from bot.errors import BotError, SourceError
from bot.pager import PAGERDUTY_PATH, PagerAction, pager_routes
from bot.settings.oncall import PagerDutyPaging, PagingSettings
from bot.triage.webhook import LARGEST_BODY
from sandbox.serving import Served
from tests.oncall.alerts import Taken
from tests.oncall.bot import webhook
from tests.oncall.pagers import ROUTING_KEY, SIGNING, pagerduty_posts, signed

pytestmark = pytest.mark.few(4)

SECRET = "s3cret-of-alerts"
BODY = json.dumps(webhook("trainer-0")).encode()


def posted(
    taken: Taken, body: Any = BODY, headers: dict[str, str] | None = None, method: str = "POST", user: str = ""
) -> int:
    async def main() -> int:
        application = web.Application(client_max_size=1024)
        known = {"user": user, "password": SECRET} if user else {"token": SECRET}
        application.router.add_post(ALERTS_PATH, alerts_route(taken.take, lambda: taken.stopping, **known))
        async with Served(application) as served, aiohttp.ClientSession() as session:
            given = {"Authorization": f"Bearer {SECRET}"} if headers is None else headers
            async with session.request(method, f"{served.url}{ALERTS_PATH}", data=body, headers=given) as answer:
                assert SECRET not in await answer.text()
                return answer.status

    return asyncio.run(main())


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_alerts_with_the_right_token_are_taken() -> None:
    taken = Taken()
    assert posted(taken) == 200
    assert [alert.pod for alert in taken.alerts] == ["trainer-0"]


def test_basic_authentication_does_as_well() -> None:
    assert posted(Taken(), headers=basic("alertmanager", SECRET), user="alertmanager") == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {SECRET}x"},
        {"Authorization": f"Token {SECRET}"},
        basic("alertmanager", SECRET),
        basic("", ""),
        {"Authorization": "Basic !!!"},
    ],
)
def test_without_the_credentials_nothing_is_read(headers: dict[str, str]) -> None:
    taken = Taken()
    assert posted(taken, headers=headers) == 401
    assert taken.alerts == []


@pytest.mark.parametrize("headers", [basic("alertmanager", "wrong"), basic("x", SECRET), {"Authorization": "Bearer "}])
def test_basic_authentication_with_anything_else_is_refused(headers: dict[str, str]) -> None:
    assert posted(Taken(), headers=headers, user="alertmanager") == 401


def test_what_is_no_webhook_is_refused_for_good() -> None:
    assert posted(Taken(), body=b"{") == 400
    assert posted(Taken(), body=b'{"version":"3"}') == 400


def test_what_is_too_large_is_refused_with_and_without_a_length() -> None:
    assert posted(Taken(), body=io.BytesIO(b"x" * (LARGEST_BODY + 1))) == 413

    async def chunks():
        for _ in range(LARGEST_BODY // 65536 + 2):
            yield b"x" * 65536

    assert posted(Taken(), body=chunks()) == 413


def test_what_the_port_takes_otherwise_is_no_limit_here() -> None:
    body = json.dumps(webhook(*(f"trainer-{number}" for number in range(1000)))).encode()
    taken = Taken()
    assert posted(taken, body=body) == 200
    assert len(taken.alerts) == 1000


def test_a_compressed_body_is_refused() -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Encoding": "gzip"}
    assert posted(Taken(), headers=headers, body=b"\x1f\x8b") in {400, 415}


def test_only_post_is_answered() -> None:
    assert posted(Taken(), method="GET") == 405


@pytest.mark.parametrize("taken", [Taken(BotError("the disk is full")), Taken(stopping=True)], ids=["store", "ending"])
def test_what_cannot_be_kept_is_to_be_sent_again(taken: Taken) -> None:
    assert posted(taken) == 503


def test_the_log_says_why_and_nothing_that_is_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    labels = json.dumps(webhook("trainer-0", api_key="AKIA-LABEL")).encode()
    assert posted(Taken(), body=labels.replace(b'"4"', b'"5"')) == 400
    assert posted(Taken(), headers={"Authorization": "Bearer guess-1234"}) == 401
    assert posted(Taken(BotError("the disk is full")), body=labels) == 503
    logged = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith(("bot", "handlers", "aiohttp"))
    )
    assert "refused with 401" in logged
    assert not [secret for secret in (SECRET, "guess-1234", "AKIA-LABEL") if secret in logged]


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
    assert answers(b"x" * (pager.LARGEST_BODY + 1), known) == 413


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
