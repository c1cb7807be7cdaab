"""An app of the real, unmodified slack-bolt that is connected to the sandbox's Slack, for the contract tests."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from sandbox.slack import SlackServer

QUIET = logging.getLogger("quiet")
QUIET.setLevel(logging.CRITICAL + 1)

GO = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, "value": "7"}
BUTTONS: list[dict[str, Any]] = [{"type": "actions", "block_id": "row", "elements": [GO]}]
INPUT = {"type": "plain_text_input", "action_id": "name"}
MODAL: dict[str, Any] = {
    "type": "modal",
    "callback_id": "ask",
    "title": {"type": "plain_text", "text": "Ask"},
    "submit": {"type": "plain_text", "text": "Send"},
    "blocks": [{"type": "input", "block_id": "pod", "label": {"type": "plain_text", "text": "Pod"}, "element": INPUT}],
}


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def web_client(slack: SlackServer, token: str | None = None, **options: Any) -> AsyncWebClient:
    """The SDK's client, with the bot's token and without retries unless told."""
    options = {"retry_handlers": [], "logger": QUIET, **options}
    return AsyncWebClient(token=slack.bot_token if token is None else token, base_url=slack.api_url, **options)


def new_app(slack: SlackServer) -> AsyncApp:
    return AsyncApp(name="test", client=web_client(slack), signing_secret=slack.signing_secret, logger=QUIET)


@contextlib.asynccontextmanager
async def socket_mode(slack: SlackServer, app: AsyncApp, ping_interval: float = 10) -> AsyncIterator[Any]:
    """The app connected over a websocket; gives the SDK's socket client."""
    handler = AsyncSocketModeHandler(app, slack.app_token, ping_interval=ping_interval, logger=QUIET)
    before = slack.connections
    await handler.connect_async()
    await slack.wait_for(lambda: slack.connections > before)
    try:
        yield handler.client
    finally:
        await handler.close_async()


@contextlib.asynccontextmanager
async def page(slack: SlackServer) -> AsyncIterator[Callable[..., Any]]:
    """What the page's script does: `await ask("GET", "/ui/workspace")` gives the status and the decoded body."""
    async with aiohttp.ClientSession(slack.url, headers={"X-Sandbox": "1"}) as session:

        async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            async with session.request(method, path, json=body) as answer:
                return answer.status, await answer.json()

        yield ask
