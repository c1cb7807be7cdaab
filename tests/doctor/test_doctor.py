"""`hami-bot doctor` proves each link and says how to mend the one that is broken."""

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.endpoint import ALERTS_PATH, alerts_route
from bot.http import serve_http
from bot.slack.app import NEEDED_SCOPES, WISHED_SCOPES
from bot.store import open_store
from bot.texts import Texts
from handlers.cluster_choice import ClusterChoice
from handlers.doctor import checks
from handlers.doctor.checks import BLIND, HEARD, examine, run_doctor
from handlers.doctor.clusters import needed, spelled
from handlers.doctor.links import Link, has_failed, in_words
from sandbox.apiserver import Rule
from sandbox.serving import Served
from sandbox.slack import App, Seed
from tests.cases_support import newer_recording
from tests.chart import BOT, NAMESPACE, PROXYING, granted, manifests
from tests.doctor.support import World, a_world, in_a_world
from tests.incidents_support import INCIDENTS
from tests.oncall.pagers import Pagers, entry, page

HAMI = "hami-system"


@in_a_world()
async def test_where_everything_is_as_it_should_be_no_link_fails(world: World) -> None:
    links = await world.doctor()
    assert not has_failed(links), links
    states = {link.name: link.state for link in links}
    expected = ("settings", "slack-token", "slack-scopes", "socket-mode", "cluster", "clock", "rights", "hami")
    assert [name for name in expected if states.get(name) != "ok"] == []


@in_a_world()
async def test_nothing_is_written_and_no_channel_is_joined(world: World) -> None:
    world.settings["oncall"] = {"channel": "C0GPUONC01", "token": "x"}
    await world.doctor()
    called = {entry.title.split()[0] for entry in world.slack.journal.of("api")}
    assert called <= {"auth.test", "apps.connections.open", "conversations.history"}
    assert {request.method for request in world.server.requests} <= {"GET", "POST"}
    assert {request.path for request in world.server.requests if request.method == "POST"} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    }
    assert not (world.folder / "state.db").exists()


# ------------------------------------------------------------------------------------------------------- settings


@in_a_world()
async def test_settings_that_cannot_be_read_are_the_only_link(world: World) -> None:
    world.settings["colour"] = "blue"
    (link,) = await world.doctor()
    assert (link.name, link.state) == ("settings", "failed")
    assert "unknown settings" in link.seen


@in_a_world()
async def test_without_slack_the_rest_is_examined(world: World) -> None:
    del world.settings["slack"]
    links = await world.doctor()
    assert [link.state for link in links if link.name == "slack-token"] == ["degraded"]
    assert "cluster" in [link.name for link in links]


@pytest.mark.parametrize("allowed", [True, False])
@in_a_world()
async def test_whether_users_logs_are_read_is_told_with_the_role_that_allows_it(world: World, *, allowed: bool) -> None:
    world.settings["workload_logs"] = allowed
    link = await world.link("workload-logs")
    assert link.state == "ok"
    assert ("create rolebinding hami-bot-workload-logs" in link.fix) is not allowed


@pytest.mark.parametrize(("incident", "told"), [("a3-oom-at-hami-limit", "of 1 pod"), ("HAMi-960", "of 0 pods")])
def test_a_recording_says_whether_it_holds_users_logs(incident: str, told: str) -> None:
    recording = INCIDENTS / incident / "recording.tar.gz"
    links = asyncio.run(examine(ClusterChoice(recording=recording)))
    assert [told in link.seen for link in in_words(links, Texts("en")) if link.name == "cluster"] == [True]


# ---------------------------------------------------------------------------------------------------------- Slack


@pytest.mark.parametrize(
    ("key", "name", "fix"), [("bot_token", "slack-token", "xoxb-"), ("app_token", "socket-mode", "xapp-")]
)
@in_a_world()
async def test_a_wrong_token_is_named_and_never_shown(world: World, *, key: str, name: str, fix: str) -> None:
    world.settings["slack"][key] = wrong = "xoxb-no-such-token" if key == "bot_token" else "xapp-no-such-token"
    link = await world.link(name)
    assert link.state == "failed"
    assert fix in link.fix
    assert wrong not in str(await world.doctor())


async def test_a_scope_that_is_missing_is_named_with_what_it_is_for(tmp_path: Path) -> None:
    kept = tuple(scope for scope in App().scopes if scope != "files:write")
    async with a_world(tmp_path, seed=Seed(app=replace(App(), scopes=kept))) as world:
        link = await world.link("slack-scopes")
        assert link.state == "failed"
        assert "files:write (attaches" in link.seen
        assert "slack-manifest.json" in link.fix


async def test_only_seven_scopes_are_required_and_the_others_are_named_with_what_they_are_for(tmp_path: Path) -> None:
    assert len(NEEDED_SCOPES) == 7
    async with a_world(tmp_path, seed=Seed(app=replace(App(), scopes=tuple(NEEDED_SCOPES)))) as world:
        link = await world.link("slack-scopes")
        assert link.state == "ok"
        assert all(scope in link.seen for scope in WISHED_SCOPES)


@pytest.mark.parametrize("guests", [True, False])
async def test_the_optional_scope_is_named_and_is_missed_only_where_guests_are_refused(
    guests: bool, tmp_path: Path
) -> None:
    kept = tuple(scope for scope in App().scopes if scope != "users:read")
    async with a_world(tmp_path, seed=Seed(app=replace(App(), scopes=kept))) as world:
        world.settings["access"] = {"guests": guests}
        link = await world.link("slack-scopes")
        assert link.state == ("ok" if guests else "failed")
        assert "users:read" in link.seen


@pytest.mark.parametrize(("channel", "state"), [("C0GPUONC01", "ok"), ("C0NOSUCH01", "failed")])
@in_a_world()
async def test_each_channel_of_the_settings_is_asked_about(world: World, *, channel: str, state: str) -> None:
    world.settings["oncall"] = {"channel": channel, "token": "x"}
    link = await world.link("slack-channel")
    assert (link.about, link.state) == (channel, state)


# ---------------------------------------------------------------------------------------------------------- store


@in_a_world()
async def test_a_store_that_is_not_there_yet_is_made_by_the_first_start(world: World) -> None:
    link = await world.link("store")
    assert link.state == "degraded"
    assert "hami-bot serve" in link.fix


@in_a_world()
async def test_a_file_that_is_no_store_fails(world: World) -> None:
    (world.folder / "state.db").write_text("this is no database at all, and long enough to be taken for one" * 20)
    link = await world.link("store")
    assert link.state == "failed"
    assert link.fix


@pytest.mark.parametrize(
    ("ago_s", "state", "seen"),
    [(None, "degraded", "never"), (300, "ok", "5 min ago"), (7200, "failed", "120 min ago")],
)
@in_a_world()
async def test_the_last_watchdog_shows_whether_alerts_arrive(
    world: World, *, ago_s: float | None, state: str, seen: str
) -> None:
    world.settings["oncall"] = {"channel": "C0GPUONC01", "token": "x", "watchdog_minutes": 30}
    then = time.time() - (ago_s or 0)
    async with open_store(world.settings["store"]["url"], now=lambda: then) as store:
        if ago_s is not None:
            await store.marks.set(HEARD)
    assert (await world.link("store")).state == "ok"
    link = await world.link("alertmanager")
    assert link.state == state
    assert seen in link.seen


@in_a_world()
async def test_what_the_running_bot_found_out_about_itself_is_told_with_its_age(world: World) -> None:
    then = time.time() - 600
    async with open_store(world.settings["store"]["url"], now=lambda: then) as store:
        await store.marks.set(f"{BLIND}lab", "nodes is forbidden")
    tests = {link.about: link for link in await world.doctor() if link.name == "self-test"}
    told = tests["lab"]
    assert (tests[""].state, told.state) == ("ok", "failed")
    assert "10 min ago: nodes is forbidden" in told.seen


# -------------------------------------------------------------------------------------------------------- cluster


@pytest.mark.parametrize("proxying", [True, False])
def test_the_rights_are_those_of_the_chart(proxying: bool) -> None:
    values = PROXYING if proxying else {"changes": {"enabled": True}}
    by_chart = {
        (verb, f"{resource}.{group}" if group else resource, rule.namespace)
        for rule in granted(manifests(values), BOT)
        for verb in rule.verbs
        for resource in rule.resources
        for group in rule.groups
    }
    places: dict[str, str] = {"<everywhere>": "", "<hami>": HAMI, "<home>": NAMESPACE}
    entries = needed(a_settings(direct=not proxying))
    asked = {right[:3] for entry in entries for right in spelled(entry, places, "hami-scheduler")}
    without_a_restart = {("update", "pods/proxy", HAMI)}
    assert asked == by_chart - without_a_restart


def test_a_namespace_that_is_called_hami_is_asked_about_by_its_own_name() -> None:
    from bot.settings.schema import Settings  # the environment is read when it is made

    settings = Settings.model_validate({"profiles": {"namespaces": ["hami"]}})
    places = {"<everywhere>": "", "<hami>": HAMI, "<home>": NAMESPACE}
    asked = [right for entry in needed(settings) for right in spelled(entry, places, "hami-scheduler")]
    assert [right.namespace for right in asked if right.resource == "pods/proxy"] == [HAMI, "hami"]


def a_settings(*, direct: bool) -> Any:
    from bot.settings.schema import Settings  # the environment is read when it is made

    return Settings.model_validate({"profiles": {"direct": direct}, "access": {"operators": ["U0123ABCD"]}})


@pytest.mark.parametrize(
    ("taken", "state", "without"),
    [
        (Rule(["list"], ["pods"]), "failed", "answers nothing"),
        (Rule(["get"], ["pods/log"]), "degraded", "HAMi's own words"),
        (Rule(["patch"], ["deployments"]), "degraded", "no temporary changes"),
        (Rule(["update"], ["leases"]), "degraded", "no replica leads"),
        (Rule(["get"], ["pods/proxy"]), "degraded", "no profiles"),
        (Rule(["list"], ["events"]), "degraded", "less proof"),
    ],
)
@in_a_world()
async def test_a_right_that_is_missing_is_named_with_what_fails_without_it(
    world: World, *, taken: Rule, state: str, without: str
) -> None:
    world.server.access.refused.append(taken)
    (link,) = [link for link in await world.doctor() if link.name == "rights" and link.state != "ok"]
    assert link.state == state
    assert f"{taken.verbs[0]} {taken.resources[0]}" in link.seen
    assert without in link.seen
    assert f"kubectl auth can-i {taken.verbs[0]} {taken.resources[0].partition('/')[0]}" in link.fix


@in_a_world()
async def test_namespaces_whose_pods_may_be_profiled_are_asked_about_as_well(world: World) -> None:
    world.settings["profiles"] = {"namespaces": ["ml"]}
    (link,) = [link for link in await world.doctor() if link.name == "rights" and link.state != "ok"]
    assert link.state == "degraded"
    assert "get pods/proxy in namespace ml; without it there are no profiles of pods in that namespace" in link.seen


@in_a_world()
async def test_a_cluster_that_cannot_be_reached_hides_no_other_link(world: World) -> None:
    world.settings["clusters"]["gone"] = {"kubeconfig": str(world.folder / "none")}
    links = await world.doctor()
    assert [(link.about, link.state) for link in links if link.name == "cluster"] == [
        ("lab", "ok"),
        ("gone", "failed"),
    ]


@pytest.mark.parametrize(("hours", "seen"), [(3, "3h behind"), (-3, "3h ahead")])
async def test_a_clock_that_is_off_is_told(hours: int, seen: str, tmp_path: Path) -> None:
    def served() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)  # noqa: TID251  # a server's clock

    async with a_world(tmp_path, clock=served) as world:
        link = await world.link("clock")
        assert link.state == "degraded"
        assert seen in link.seen


async def test_a_hami_that_is_newer_than_any_the_bot_knows_is_named(tmp_path: Path) -> None:
    async with a_world(tmp_path, recording=newer_recording(tmp_path)) as world:
        link = await world.link("hami")
        assert link.state == "degraded"
        assert "HAMi 2.11.0 is newer than 2.10.0" in link.seen
        assert "suspected" in link.fix


@in_a_world()
async def test_a_cluster_without_hami_fails_and_says_what_to_set(world: World) -> None:
    world.settings["clusters"]["lab"]["hami_namespace"] = "elsewhere"
    link = await world.link("hami")
    assert link.state == "failed"
    assert "hami_namespace" in link.fix


# ---------------------------------------------------------------------------------------------------- the command


def lately(monkeypatch: pytest.MonkeyPatch, *answers: list[Link]) -> None:
    """The examinations, one after the other; the last one for ever."""
    left = list(answers)

    async def examine(where: ClusterChoice) -> list[Link]:
        del where
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(checks, "examine", examine)
    monkeypatch.setattr(checks, "_PAUSE_S", 0.0)


BAD, GOOD = [Link("store", "failed", "locked", "end the other")], [Link("store", "ok", "opens")]


@pytest.mark.parametrize(
    ("wait", "answers", "code"),
    [("", (GOOD,), 0), ("", (BAD, GOOD), 3), ("1h", (BAD, BAD, GOOD), 0), ("1s", (BAD,), 3)],
)
def test_the_exit_code_is_3_where_a_link_failed_and_waiting_tries_again(
    wait: str, answers: tuple[list[Link], ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lately(monkeypatch, *answers)
    _, found = asyncio.run(run_doctor(wait, "text", ClusterChoice(), "en"))
    assert found == code


def test_a_fix_stands_under_its_link_and_json_has_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    lately(monkeypatch, BAD)
    text, _ = asyncio.run(run_doctor("", "text", ClusterChoice(), "en"))
    assert text.splitlines() == ["failed    store  locked", "                 Fix: end the other"]
    shown, _ = asyncio.run(run_doctor("", "json", ClusterChoice(), "en"))
    assert json.loads(shown) == {
        "links": [{"name": "store", "state": "failed", "seen": "locked", "fix": "end the other", "about": ""}]
    }


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
