"""`doctor` proves the links of on-call without paging anybody."""

from typing import Any

import pytest
from aiohttp import web

from bot.endpoint import ALERTS_PATH, alerts_route
from bot.http import serve_http
from sandbox.serving import Served
from tests.doctor.support import World, in_a_world
from tests.oncall.pagers import Pagers, entry, page

KEY = "pd-7f3a-secret"


@in_a_world()
async def test_without_a_running_bot_the_address_of_alerts_is_degraded(world: World) -> None:
    world.settings["oncall"] = {"channel": "C0GPUONC01", "token": "x"}
    link = await world.link("alert-endpoint")
    assert link.state == "degraded"
    assert link.seen == "no bot answers at http://127.0.0.1:1/alerts/alertmanager"


@pytest.mark.parametrize(("takes", "state"), [(True, "ok"), (False, "degraded")])
@in_a_world()
async def test_a_port_that_asks_for_credentials_takes_alerts(world: World, *, takes: bool, state: str) -> None:

    async def nothing(_: Any) -> None:
        raise AssertionError

    posts = {ALERTS_PATH: alerts_route(nothing, lambda: False, token="x")} if takes else {}
    async with serve_http("127.0.0.1:0", lambda: "", None, posts) as address:
        world.settings["http"] = {"bind": address.removeprefix("http://")}
        world.settings["oncall"] = {"channel": "C0GPUONC01", "token": "x"}
        assert (await world.link("alert-endpoint")).state == state


@in_a_world()
async def test_pagers_are_reached_and_nobody_is_paged_and_no_path_is_shown(world: World) -> None:
    pagers = Pagers()
    async with pagers.served:
        url = pagers.served.url
        paging = {
            "pagerduty": {"routing_key": "k", "url": url},
            "webhook": {"url": "http://127.0.0.1:1/secret-path", "secret": "s"},
        }
        world.settings["oncall"] = {"channel": "C0GPUONC01", "token": "x", "paging": paging}
        links = {link.about: link for link in await world.doctor() if link.name == "pager"}
    assert (links["PagerDuty"].state, links["webhook"].state) == ("ok", "degraded")
    assert "secret-path" not in str(links)
    assert "http://127.0.0.1:1" in links["webhook"].seen
    assert pagers.rung == []


@pytest.mark.parametrize(("token", "state", "seen"), [(KEY, "ok", "1 person"), ("wrong", "degraded", "HTTP 401")])
@in_a_world()
async def test_pagerdutys_token_and_schedules_are_asked(world: World, *, token: str, state: str, seen: str) -> None:

    async def answered(request: web.Request) -> web.StreamResponse:
        known = request.headers["Authorization"] == f"Token token={KEY}"
        return page(entry("ada@example.com", "PI7DH85")) if known else web.Response(status=401)

    app = web.Application()
    app.router.add_get("/oncalls", answered)
    async with Served(app) as served:
        people = {"ada@example.com": "U0ADA00001"}
        duty = {"token": token, "schedules": ["PI7DH85"], "people": people, "url": served.url}
        oncall = {"channel": "C0GPUONC01", "token": "x", "rota": ["U0ADA00001"], "pagerduty": duty}
        world.settings["oncall"] = oncall
        link = await world.link("on-call")
    assert link.state == state
    assert seen in link.seen
