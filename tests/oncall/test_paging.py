"""Phones ring with the first call, fall silent when somebody acknowledges, in Slack or at the pager, and nothing of it
is lost while a pager is down or the bot is killed.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from pydantic import SecretStr, ValidationError

from bot.endpoint import PostRefused
from bot.pager import Outcome, PagerAction, PagerRequest, is_signed, post, read_pagerduty, services_of
from bot.settings.oncall import PagerDutyPaging, PagingSettings, WebhookPaging
from bot.texts import in_english
from bot.triage.state import Act, act
from handlers.oncall.keeper import Keeper
from handlers.oncall.paging import LASTING_S, Paging
from tests.oncall.bot import GIVEN, played, webhook
from tests.oncall.pagers import ROUTING_KEY, SECRET, SIGNING, Pagers, pagerduty_posts, signed
from tests.oncall.rig import TERMS, Rig, a_rig, pending
from tests.oncall.scenes import busy_cluster

NAMES = {"pagerduty": "PagerDuty", "webhook": "webhook"}

each_pager = pytest.mark.parametrize("name", NAMES)


class Paged:
    """An incident in the rig, with pagers beside it."""

    def __init__(self, rig: Rig, pagers: Pagers, names: tuple[str, ...]) -> None:
        self.rig = rig
        self.pagers = pagers
        self.settings = pagers.settings(*names)
        self.terms = msgspec.structs.replace(TERMS, pagers=services_of(self.settings), lapse_s=7200.0)
        self.keeper: Keeper = rig.keeper(terms=self.terms)
        self.paging = self.a_sender()

    def a_sender(self, deps: Any = None) -> Paging:
        return Paging(deps or self.rig.deps(), self.settings, "one", 5.0, lambda: None)

    async def passes(self, seconds: float, step_s: float = 100.0) -> None:
        end = self.rig.now + seconds
        while True:
            await self.rig.passes(0, self.keeper)
            await self.send()
            if self.rig.now >= end:
                return
            await self.rig.bot.clock.advance(min(step_s, max(end - self.rig.now, 0.1)))

    async def send(self) -> None:
        for service in services_of(self.settings):
            while await self.paging.step(service) == 0.0:
                pass

    async def acts(self, deed: Any = "ack") -> None:
        done = Act(deed, "U0ADA00001", self.rig.now)
        await self.rig.store.incidents.change(await self.id(), lambda incident, _: act(incident, done))

    async def id(self) -> str:
        [row] = await self.rig.store.incidents.opened()
        return row.id

    async def state(self) -> tuple[str, str]:
        [row] = await self.rig.store.incidents.opened()
        return row.incident.state, row.incident.owner

    def replies(self) -> list[str]:
        [head] = self.rig.heads()
        return self.rig.replies(head)


@asynccontextmanager
async def paged(database: str, tmp_path: Path, *names: str) -> AsyncGenerator[Paged]:
    pagers = Pagers()
    async with a_rig(database, busy_cluster(tmp_path, 3)) as rig, pagers.served:
        one = Paged(rig, pagers, names)
        await one.keeper.take([pending(0)])
        await one.passes(950)
        yield one


@each_pager
async def test_a_phone_rings_with_the_first_call_and_hears_who_acknowledged_and_that_it_is_over(
    name: str, database: str, tmp_path: Path
) -> None:
    async with paged(database, tmp_path, name) as one:
        key = await one.id()
        assert one.pagers.actions() == [("trigger", key)]
        assert [reply for reply in one.replies() if f"Paged: {NAMES[name]}" in reply]
        await one.acts()
        await one.passes(0)
        assert one.pagers.actions() == [("trigger", key), ("acknowledge", key)]
        await one.keeper.take([pending(0, status="resolved")])
        await one.passes(400)
        assert one.pagers.actions()[2:] == [("resolve", key)]
        assert one.pagers.rung == [key]


async def test_the_page_says_what_it_is_about(tmp_path: Path) -> None:
    async with paged(f"sqlite:///{tmp_path}/one.db", tmp_path, *NAMES) as one:
        [row] = await one.rig.store.incidents.opened()
        claim = in_english(row.cause.text)
        duty, mine = (asked["body"] for asked in one.pagers.asked)
        assert duty["payload"]["summary"] == claim
        assert (duty["payload"]["severity"], duty["client"]) == ("warning", "hami-bot")
        assert duty["payload"]["custom_details"]["incident"] == row.id
        assert (mine["summary"], mine["affected"], mine["version"]) == (claim, 1, 1)


async def test_what_lapses_or_becomes_worse_rings_again_though_the_page_was_acknowledged(tmp_path: Path) -> None:
    async with paged(f"sqlite:///{tmp_path}/one.db", tmp_path, "pagerduty") as one:
        key = await one.id()
        await one.acts()
        await one.passes(7300, step_s=730)
        assert one.pagers.rung == [key, f"{key}.2"]
        assert one.pagers.status == {key: "resolved", f"{key}.2": "triggered"}


@pytest.mark.parametrize(
    ("service", "deed", "state"), [("PagerDuty", "ack", "acknowledged"), ("PagerDuty", "close", "closed")]
)
async def test_who_does_it_at_the_pager_has_done_it_in_slack_once_and_the_other_pager_hears_it(
    service: str, deed: Any, state: str, database: str, tmp_path: Path
) -> None:
    async with paged(database, tmp_path, "pagerduty", "webhook") as one:
        key = await one.id()
        one.pagers.asked.clear()
        for _ in range(2):
            await one.paging.hear(PagerAction(service, key, deed, f"Grace ({service})"))
        await one.passes(100)
        [row] = await one.rig.store.incidents.opened()
        assert row.incident.state == state
        assert len([reply for reply in one.replies() if f"Grace ({service})" in reply]) == 1
        assert one.pagers.actions() == [({"ack": "acknowledge", "close": "resolve"}[deed], key)]
        about = [line for line in await one.rig.store.audit.read(9) if line.target == f"incident:{key}"]
        assert {line.actor for line in about} == {f"Grace ({service})"}


@pytest.mark.parametrize("key", ["0badcafe", "{id}.2", "{id}.", "", "x" * 500])
async def test_what_is_heard_of_another_page_changes_nothing(key: str, tmp_path: Path) -> None:
    async with paged(f"sqlite:///{tmp_path}/one.db", tmp_path, "pagerduty") as one:
        await one.paging.hear(PagerAction("PagerDuty", key.format(id=await one.id()), "ack", "Grace (PagerDuty)"))
        assert await one.state() == ("open", "")


@each_pager
async def test_while_a_pager_is_down_the_page_waits_and_the_thread_is_told_once(
    name: str, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pagers = Pagers()
    async with a_rig(database, busy_cluster(tmp_path, 3)) as rig, pagers.served:
        one = Paged(rig, pagers, (name,))
        pagers.down = lambda: web.json_response({"message": "Service Unavailable"}, status=503)
        await one.keeper.take([pending(0)])
        await one.passes(900 + LASTING_S - 100, step_s=20)
        assert not [reply for reply in one.replies() if "was not delivered" in reply]
        await one.passes(300, step_s=20)
        told = [reply for reply in one.replies() if "was not delivered" in reply]
        assert len(told) == 1
        assert f"{NAMES[name]}: HTTP 503" in told[0]
        assert "Service Unavailable" in told[0]
        assert pagers.asked == []
        pagers.down = None
        await one.passes(120, step_s=20)
        assert pagers.rung == [await one.id()]
    assert all(secret not in caplog.text for secret in (ROUTING_KEY, SECRET))


async def test_what_was_acknowledged_before_the_pager_could_be_reached_rings_nobody(tmp_path: Path) -> None:
    async with paged(f"sqlite:///{tmp_path}/one.db", tmp_path, "pagerduty") as one:
        one.pagers.down = lambda: web.Response(status=500)
        await one.acts()
        await one.passes(7300, step_s=730)  # it lapses, and a second page is due
        await one.acts()
        one.pagers.down = None
        await one.passes(200, step_s=20)
        assert one.pagers.rung == [await one.id()]
        assert one.pagers.actions()[-1] == ("acknowledge", f"{await one.id()}.2")


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (422, 1), (401, 2), (403, 2), (429, 2), (500, 2), (302, 1)])
async def test_a_refusal_is_told_and_what_may_pass_is_tried_again(status: int, tries: int, tmp_path: Path) -> None:
    pagers, tried = Pagers(), list[int]()

    def answer() -> web.Response:
        tried.append(status)
        body = {"message": f"no, {ROUTING_KEY}", "errors": ["'summary' is missing"]}
        return web.json_response(body, status=status, headers={"Location": "http://127.0.0.1:1/"})

    async with a_rig(f"sqlite:///{tmp_path}/one.db", busy_cluster(tmp_path, 3)) as rig, pagers.served:
        one = Paged(rig, pagers, ("pagerduty",))
        pagers.down = answer
        await one.keeper.take([pending(0)])
        await one.passes(900, step_s=100)
        await one.passes(3, step_s=3)
        await one.passes(0)
        assert len(tried) == tries
        told = [reply for reply in one.replies() if f"HTTP {status}" in reply]
        assert len(told) == (0 if status in {429, 500} else 1)
        assert ROUTING_KEY not in "".join(told)


class _Forgetful:
    """A store whose process is killed after the pager took it, and before that is noted."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.pages = _Dying(store.pages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Dying:
    def __init__(self, pages: Any) -> None:
        self._pages = pages
        self.next, self.later, self.fail = pages.next, pages.later, pages.fail

    async def done(self, page: Any) -> None:
        raise KeyboardInterrupt


@each_pager
@pytest.mark.each_way
async def test_killed_between_sending_and_noting_it_is_sent_again_and_rings_once(
    name: str, database: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    pagers = Pagers()
    async with a_rig(database, busy_cluster(tmp_path, 3)) as rig, pagers.served:
        one = Paged(rig, pagers, (name,))
        await one.keeper.take([pending(0)])
        await rig.passes(950, one.keeper, step_s=100)
        dying = one.a_sender(rig.deps(_Forgetful(rig.store)))
        with pytest.raises(KeyboardInterrupt):
            await dying.step(NAMES[name])
        await one.passes(100)
        key = await one.id()
        assert pagers.actions() == [("trigger", key), ("trigger", key)]
        assert pagers.rung == [key]
    record_property("crash_points", 1)


@pytest.mark.each_way
async def test_while_another_replica_tells_the_pager_this_one_tells_nothing_and_an_idle_one_writes_nothing(
    database: str, tmp_path: Path
) -> None:
    pagers = Pagers()
    async with a_rig(database, busy_cluster(tmp_path, 3)) as rig, pagers.served:
        one = Paged(rig, pagers, ("pagerduty",))
        other = Paging(rig.deps(), one.settings, "two", 5.0, lambda: None)
        assert await other.step("PagerDuty") is None
        await one.keeper.take([pending(0)])
        await rig.passes(950, one.keeper, step_s=190)
        assert await rig.store.task_leases.hold("pages:PagerDuty", "three", 60.0)  # nobody had it before
        assert await other.step("PagerDuty") is None
        assert pagers.asked == []
        await rig.bot.clock.advance(60)
        assert await other.step("PagerDuty") == 0.0
        assert await one.paging.step("PagerDuty") is None
        assert pagers.actions() == [("trigger", await one.id())]


# ----------------------------------------------------------------------------------------------- what pagers post


def test_the_recorded_shapes_are_read() -> None:
    assert read_pagerduty(pagerduty_posts("3fa29c1b")) == PagerAction(
        "PagerDuty", "3fa29c1b", "ack", "Tenex Engineer (PagerDuty)"
    )
    resolved = read_pagerduty(pagerduty_posts("3fa29c1b", "incident.resolved"))
    assert resolved
    assert resolved.deed == "close"


@pytest.mark.parametrize(
    "body",
    [
        pagerduty_posts("3fa29c1b", agent=""),
        pagerduty_posts("3fa29c1b", agent="events_api_v2_inbound_integration_reference"),
        pagerduty_posts("3fa29c1b", "incident.triggered"),
        pagerduty_posts("", "incident.resolved"),
        b'{"event": {"event_type": "pagey.ping", "data": {"message": "Hello", "type": "ping"}, "agent": null}}',
    ],
)
def test_what_no_person_did_at_pagerduty_is_nothing(body: bytes) -> None:
    assert read_pagerduty(body) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 9999, b'{"event": 7}', b'{"action": 7}'])
def test_what_no_pager_posts_is_refused(body: bytes) -> None:
    with pytest.raises(PostRefused):
        read_pagerduty(body)


def test_only_the_secret_signs() -> None:
    body = pagerduty_posts("3fa29c1b")
    header = signed(body)["X-PagerDuty-Signature"]
    assert is_signed(header, body, SIGNING)
    for wrong in ("", "v1=", header.replace("v1=", "v2="), header.split(",")[0], "v1=é"):
        assert not is_signed(wrong, body, SIGNING)
    assert not is_signed(header, body + b" ", SIGNING)
    assert not is_signed(signed(body, "")["X-PagerDuty-Signature"], body, "")


# ------------------------------------------------------------------------------------------------ the running bot


async def test_the_running_bot_rings_and_takes_over_who_acknowledged_at_the_pager(tmp_path: Path) -> None:
    pagers = Pagers()

    async def scene(world: Any) -> None:
        async def posted(path: str, body: bytes, headers: dict[str, str]) -> int:
            async with world.session.post(f"{world.url}/pager/{path}", data=body, headers=headers) as answer:
                return answer.status

        assert await world.post(webhook("trainer-0", severity="critical")) == (200, "ok\n")
        head = await world.head("trainer-0")
        await world.reply(head, "Paged: PagerDuty, webhook")
        key = await world.slack.wait_for(lambda: next(iter(pagers.rung), None))
        body = pagerduty_posts(key)
        assert await posted("pagerduty", body, {}) == 401
        assert await posted("pagerduty", b"{}", signed(b"{}")) == 400
        assert await posted("pagerduty", b" " * 300_000, signed(b"")) == 413
        assert await posted("pagerduty", body, signed(body)) == 200
        await world.reply(head, "Tenex Engineer (PagerDuty)")
        close = pagerduty_posts(key, "incident.resolved")
        assert await posted("pagerduty", close, signed(close)) == 200
        await world.slack.wait_for(lambda: pagers.status.get(key) == "resolved" or None)

    async with pagers.served:
        paging = pagers.settings("pagerduty", "webhook")
        given = GIVEN.model_copy(update={"paging": paging, "critical_at_once": True})
        await asyncio.to_thread(played, tmp_path, busy_cluster(tmp_path / "c", 3), scene, given)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: PagerDutyPaging(routing_key=SecretStr("k"), url="http://events.example"), "https://"),
        (lambda: WebhookPaging(url="ftp://x", secret=SecretStr("k")), "https://"),
        (lambda: PagerDutyPaging(routing_key=SecretStr("k\nX: y")), "visible ASCII"),
        (lambda: WebhookPaging(url="https://x", secret=SecretStr(" \n")), "a key is needed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: Callable[[], Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        wrong()


def test_no_secret_is_shown() -> None:
    given = PagingSettings(
        pagerduty=PagerDutyPaging(routing_key=SecretStr(ROUTING_KEY), webhook_secret=SecretStr(SIGNING))
    )
    assert ROUTING_KEY not in repr(given)
    assert SIGNING not in repr(given)


async def answered(bytes_sent: bytes, path: str = "/hooks/T0/B1") -> Outcome:
    """What becomes of a page when the pager sends these bytes and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(bytes_sent)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        return await post(PagerRequest(f"http://127.0.0.1:{port}{path}", {}, b"", "s3cret"))


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 50\r\n\r\nno more",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone",
    ],
    ids=["cut short", "no gzip"],
)
async def test_a_page_that_was_taken_is_not_sent_again_whatever_becomes_of_the_answers_body(sent: bytes) -> None:
    assert (await answered(sent)).kind == "taken"


async def test_neither_the_key_nor_the_path_of_a_pager_is_told_again() -> None:
    body = b"Cannot POST /hooks/T0/B1 with s3cret"
    refused = await answered(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert refused.kind == "denied"
    assert refused.reason == "HTTP 404 Cannot POST \u2026 with \u2026"
