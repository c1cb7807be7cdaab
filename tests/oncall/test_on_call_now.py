"""Who is called where PagerDuty knows who is on call, against a server of its shape; and when it does not answer."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from pydantic import SecretStr, ValidationError

from bot.settings.oncall import OncallSettings, PagerDutySettings
from handlers.oncall.calling import KEPT_S, LARGEST_PAGE, Rota
from sandbox.serving import Served
from tests.oncall.bot import GIVEN
from tests.oncall.pagers import entry, page
from tests.oncall.rig import TERMS, a_rig, pending
from tests.oncall.scenes import busy_cluster
from tests.stores import NewDatabase

TOKEN = "pd-7f3a-secret"
GRACE, LINUS, USUAL = "U0GRACE001", "U0LINUS001", "S0ONCALL01"
PEOPLE = {"Grace@Example.com": GRACE, "linus@example.com": LINUS}


Answer = Callable[[web.Request], web.Response]


@asynccontextmanager
async def a_pagerduty(answer: Answer) -> AsyncGenerator[tuple[PagerDutySettings, list[web.Request]]]:
    """The settings for a PagerDuty that answers so, and what it was asked."""
    asked: list[web.Request] = []

    async def answered(request: web.Request) -> web.Response:
        asked.append(request)
        return answer(request)

    app = web.Application()
    app.router.add_get("/oncalls", answered)
    async with asyncio.timeout(180), Served(app) as served:
        yield settings(served.url), asked


def settings(url: str) -> PagerDutySettings:
    return PagerDutySettings(token=SecretStr(TOKEN), schedules=("PFIRST", "PSECOND"), people=PEOPLE, url=url)


def rota(given: PagerDutySettings, clock: Callable[[], float] = lambda: 0.0) -> Rota:
    return Rota((USUAL,), given, clock)


async def test_who_is_on_call_is_called_in_the_order_of_the_schedules_and_then_the_rota_of_the_settings() -> None:
    def answer(request: web.Request) -> web.Response:
        del request
        second, first = entry("linus@example.com", "PSECOND"), entry("grace@example.com", "PFIRST", 2)
        return page(second, first, entry("grace@example.com", "PFIRST", 1), entry("linus@example.com", "POTHER"))

    async with a_pagerduty(answer) as (given, asked):
        assert await rota(given).now() == (GRACE, LINUS, USUAL)
        [request] = asked
        assert request.headers["Authorization"] == f"Token token={TOKEN}"
        assert request.headers["Accept"] == "application/vnd.pagerduty+json;version=2"
        assert request.query.getall("schedule_ids[]") == ["PFIRST", "PSECOND"]
        assert (request.query["include[]"], request.query["earliest"]) == ("users", "true")


async def test_every_page_is_read() -> None:
    def answer(request: web.Request) -> web.Response:
        if request.query["offset"] == "0":
            return page(entry("grace@example.com", "PSECOND"), more=True)
        return page(entry("linus@example.com", "PFIRST"))

    async with a_pagerduty(answer) as (given, _):
        assert await rota(given).now() == (LINUS, GRACE, USUAL)


async def test_an_answer_holds_for_a_minute() -> None:
    async with a_pagerduty(lambda _: page(entry("grace@example.com", "PFIRST"))) as (given, asked):
        now = [0.0]
        one = rota(given, lambda: now[0])
        assert one.known() is None
        for now[0] in (0.0, KEPT_S - 1):
            assert await one.now() == one.known() == (GRACE, USUAL)
        assert len(asked) == 1
        now[0] = KEPT_S
        assert one.known() is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda: web.json_response({"error": {"code": 2006}}, status=401), "does not know oncall.pagerduty.token"),
        (lambda: web.Response(status=403), "may not read who is on call"),
        (lambda: web.Response(status=429, headers={"Retry-After": "9"}), "asked too often"),
        (lambda: web.Response(status=503, text="<html>"), "HTTP 503"),
        (lambda: web.Response(status=302, headers={"Location": "http://example.com/"}), "HTTP 302"),
        (lambda: web.Response(text="<html>sign in</html>"), "none of PagerDuty's"),
        (lambda: web.Response(body=b"\xff\xfe{"), "none of PagerDuty's"),
        (lambda: web.json_response({"oncalls": [{"user": 7}]}), "none of PagerDuty's"),
        (lambda: web.Response(body=b" " * (LARGEST_PAGE + 1)), "more than"),
    ],
)
async def test_without_an_answer_the_rota_of_the_settings_is_called_and_the_log_says_why(
    answer: Callable[[], web.Response], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with a_pagerduty(lambda _: answer()) as (given, _):
            assert await rota(given).now() == (USUAL,)
    assert told in caplog.text
    assert TOKEN not in caplog.text


async def test_nobody_there_at_all_is_no_answer_either(caplog: pytest.LogCaptureFixture) -> None:
    async with Served(web.Application()) as served:
        url = served.url
    assert await rota(settings(url)).now() == (USUAL,)
    assert "the rota of the settings is called" in caplog.text


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "ftp://proxy.example", "http://127.0.0.1:port"])
def test_a_proxy_that_cannot_be_used_is_no_answer_either(
    proxy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    one = rota(settings("https://pagerduty.example"))
    assert asyncio.run(one.now()) == one.known() == (USUAL,)
    assert "not through the proxy of the environment" in caplog.text


def test_a_token_from_a_file_may_end_in_a_newline() -> None:
    given = PagerDutySettings(token=SecretStr(f"{TOKEN}\n"), schedules=("PFIRST",), people=PEOPLE)
    assert given.token.get_secret_value() == TOKEN


async def test_somebody_whom_the_settings_do_not_know_is_named_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entries = entry("stranger@example.com", "PFIRST"), entry(None, "PFIRST"), entry("linus@example.com", "PSECOND")
    async with a_pagerduty(lambda _: page(*entries)) as (given, asked):
        now = [0.0]
        one = rota(given, lambda: now[0])
        for now[0] in (0.0, KEPT_S):
            assert await one.now() == (LINUS, USUAL)
        assert len(asked) == 2
    assert caplog.text.count("stranger (PSTRANGER) is on call") == 1


@pytest.mark.parametrize(("status", "first"), [(200, GRACE), (500, TERMS.rota[0])])
async def test_in_the_thread_whoever_is_on_call_is_called_when_nobody_acknowledges(
    new_database: NewDatabase, tmp_path: Path, status: int, first: str
) -> None:
    def answer(request: web.Request) -> web.Response:
        del request
        return page(entry("grace@example.com", "PFIRST")) if status == 200 else web.Response(status=status)

    async with a_pagerduty(answer) as (given, asked), a_rig(new_database(), busy_cluster(tmp_path, 3)) as rig:
        keeper = rig.keeper(pagerduty=given)
        await keeper.take([pending(0)])
        await rig.passes(890, keeper, step_s=89)
        assert asked == []
        await rig.passes(1200, keeper, step_s=150)
        [head] = rig.heads()
        assert len([reply for reply in rig.replies(head) if "is called" in reply]) == 2
        [row] = await rig.store.incidents.opened()
        assert row.incident.called == tuple(dict.fromkeys((first, *TERMS.rota)))[:2]


async def test_once_everybody_was_called_pagerduty_is_asked_no_more_often_than_people_are_called(
    new_database: NewDatabase, tmp_path: Path
) -> None:
    on_call = ["grace@example.com"]
    async with (
        a_pagerduty(lambda _: page(*(entry(user, "PFIRST") for user in on_call))) as (given, asked),
        a_rig(new_database(), busy_cluster(tmp_path, 3)) as rig,
    ):
        keeper = rig.keeper(terms=msgspec.structs.replace(TERMS, rota=(USUAL,)), pagerduty=given)
        await keeper.take([pending(0)])
        await rig.passes(2 * TERMS.call_s + 150, keeper, step_s=75)
        [row] = await rig.store.incidents.opened()
        assert row.incident.called == (GRACE, USUAL)
        asked.clear()
        await rig.passes(2 * TERMS.call_s, keeper, step_s=75)
        assert len(asked) <= 2
        on_call[:] = ["linus@example.com"]
        await rig.passes(TERMS.call_s, keeper, step_s=75)
        [row] = await rig.store.incidents.opened()
        assert row.incident.called == (GRACE, USUAL, LINUS)


def test_settings_say_who_is_called_without_pagerduty() -> None:
    given = {"channel": GIVEN.channel, "token": GIVEN.token, "pagerduty": settings("http://127.0.0.1:1")}
    with pytest.raises(ValidationError, match="rota is missing"):
        OncallSettings(**given)
    assert OncallSettings(**given, rota=(USUAL,)).pagerduty


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"schedules": ()}, "schedules"),
        ({"schedules": ("on call",)}, "named by its id"),
        ({"people": {"grace": GRACE}}, "e-mail"),
        ({"people": {"grace@example.com": "grace"}}, "U0123ABCD"),
        ({"url": "http://pagerduty.example"}, "https://"),
        ({"url": "https://"}, "no address of a server"),
        ({"url": "https://pager duty.example"}, "no address of a server"),
        ({"url": "https://pagerduty.example:0"}, "no address of a server"),
        ({"url": "https://pagerduty.example:https"}, "is no address of a server"),
        ({"url": "https://pagerduty.example:99999"}, "is no address of a server"),
        ({"token": " \n"}, "a key is needed"),
        ({"token": "pd-\u00e9"}, "visible ASCII"),
        ({"token": "pd-7f3a\nX: y"}, "visible ASCII"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], told: str) -> None:
    right = {"token": TOKEN, "schedules": ("PFIRST",), "people": PEOPLE}
    assert PagerDutySettings(**right)
    with pytest.raises(ValidationError, match=told):
        PagerDutySettings(**right | wrong)
