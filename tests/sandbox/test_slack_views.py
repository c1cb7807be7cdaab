"""Modals, Home tabs, and the elements that people use, with an unmodified slack-bolt app in Socket Mode."""

import asyncio
from typing import Any

import pytest
from slack_bolt.async_app import AsyncApp

from sandbox.slack import SlackServer, VirtualClock
from tests.sandbox.slack_support import BUTTONS, MODAL, new_app, socket_mode, web_client

ONCALL = "C0GPUONC01"
TYPED = {"pod": {"name": {"type": "plain_text_input", "value": "ml/x"}}}


def modal_app(slack: SlackServer, answer: Any) -> AsyncApp:
    """Opens a modal on the message shortcut; a submission is acknowledged with `answer(view)`."""
    app = new_app(slack)

    @app.shortcut("diagnose")
    async def diagnose(ack: Any, shortcut: Any, client: Any) -> None:
        await client.views_open(trigger_id=shortcut["trigger_id"], view=MODAL)
        await ack()

    @app.view("ask")
    async def ask(ack: Any, view: Any) -> None:
        await ack(**answer(view))

    return app


async def open_modal(slack: SlackServer) -> None:
    ts = slack.messages(ONCALL)[0]["ts"]
    await slack.shortcut("ada", "diagnose", channel=ONCALL, message_ts=ts)
    assert len(slack.views("ada")) == 1
    assert slack.views("grace") == []


async def test_a_modal_stays_open_with_errors_and_closes_when_it_is_taken() -> None:
    async with SlackServer() as slack:
        answers = [{"response_action": "errors", "errors": {"pod": "There is no such pod."}}, {}]

        async with socket_mode(slack, modal_app(slack, lambda _: answers.pop(0))):
            await open_modal(slack)
            empty = await slack.submit("ada", {})
            assert empty.payload["errors"] == {"pod": "Please complete this required field."}
            refused = await slack.submit("ada", TYPED)
            assert refused.payload["errors"] == {"pod": "There is no such pod."}
            assert len(slack.views("ada")) == 1
            await slack.submit("ada", TYPED)
            assert slack.views("ada") == []


@pytest.mark.parametrize(("action", "titles"), [("update", ["Second"]), ("push", ["Ask", "Second"]), ("clear", [])])
async def test_a_submission_is_answered_with_another_view(action: str, titles: list[str]) -> None:
    async with SlackServer() as slack:
        second = MODAL | {"title": {"type": "plain_text", "text": "Second"}}
        view = {} if action == "clear" else {"view": second}

        async with socket_mode(slack, modal_app(slack, lambda _: {"response_action": action, **view})):
            await open_modal(slack)
            assert (await slack.submit("ada", TYPED)).ok
        assert [view["title"]["text"] for view in slack.views("ada")] == titles


async def test_views_are_pushed_three_high_and_guarded_by_their_hash() -> None:
    async with SlackServer() as slack:
        app, client = new_app(slack), web_client(slack)
        triggers: list[str] = []

        @app.shortcut("diagnose")
        async def diagnose(ack: Any, shortcut: Any) -> None:
            triggers.append(shortcut["trigger_id"])
            await ack()

        async def error_of(call: Any) -> str:
            with pytest.raises(Exception, match="error") as caught:
                await call
            return caught.value.response["error"]

        async with socket_mode(slack, app):
            ts = slack.messages(ONCALL)[0]["ts"]
            for _ in range(4):
                await slack.shortcut("ada", "diagnose", channel=ONCALL, message_ts=ts)
            first = (await client.views_open(trigger_id=triggers[0], view=MODAL))["view"]
            used = client.views_push(trigger_id=triggers[0], view=MODAL)
            assert await error_of(used) == "exchanged_trigger_id"
            for trigger in triggers[1:3]:
                await client.views_push(trigger_id=trigger, view=MODAL)
            fourth = client.views_push(trigger_id=triggers[3], view=MODAL)
            assert await error_of(fourth) == "push_limit_reached"
            assert [view["root_view_id"] for view in slack.views("ada")] == [first["id"]] * 3
            updated = await client.views_update(view_id=first["id"], hash=first["hash"], view=MODAL)
            assert updated["view"]["hash"] != first["hash"]
            stale = client.views_update(view_id=first["id"], hash=first["hash"], view=MODAL)
            assert await error_of(stale) == "hash_conflict"


@pytest.mark.parametrize(("clears", "left"), [(False, 1), (True, 0)])
async def test_a_closed_view_is_told_to_an_app_that_asked_and_may_take_the_others_along(
    clears: bool, left: int
) -> None:
    async with SlackServer() as slack:
        second = MODAL | {"notify_on_close": True, "clear_on_close": clears}
        app = modal_app(slack, lambda _: {"response_action": "push", "view": second})

        @app.view_closed("ask")
        async def closed(ack: Any, body: Any) -> None:
            assert body["is_cleared"] is clears
            await ack()

        async with socket_mode(slack, app):
            await open_modal(slack)
            await slack.submit("ada", TYPED)
            assert (await slack.close_view("ada")).ok
        assert len(slack.views("ada")) == left
        assert slack.journal.of("delivery", "view_closed")


async def test_a_trigger_id_is_good_for_three_seconds() -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        app = new_app(slack)
        triggers: list[str] = []

        @app.command("/hami")
        async def hami(ack: Any, command: Any) -> None:
            triggers.append(command["trigger_id"])
            await ack()

        async with socket_mode(slack, app):
            await slack.command("ada", ONCALL)
            await slack.clock.advance(3)
            with pytest.raises(Exception, match="expired_trigger_id"):
                await web_client(slack).views_open(trigger_id=triggers[0], view=MODAL)


async def test_the_home_tab_is_published_per_person_and_its_elements_can_be_used() -> None:
    async with SlackServer() as slack:
        app = new_app(slack)
        clicked = asyncio.Event()

        @app.event("app_home_opened")
        async def opened(event: Any, client: Any) -> None:
            await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": BUTTONS})

        @app.action("go")
        async def go(ack: Any, body: Any) -> None:
            await ack()
            assert body["container"]["type"] == "view"
            clicked.set()

        async with socket_mode(slack, app):
            await slack.open_home("ada")
            home = await slack.wait_for(lambda: slack.home("ada"))
            assert slack.home("grace") is None
            await slack.click("ada", "go", view_id=home["id"])
            await clicked.wait()
