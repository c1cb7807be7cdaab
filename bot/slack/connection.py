"""One connection of Socket Mode: slack-sdk's client, with what a bot needs that must lose nothing."""

import asyncio
import contextlib
import json
import logging
import re
import time
from typing import Any, cast

import aiohttp
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app, send_async_response
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.app import BotApp
from bot.slack.calls import proxy_for
from bot.slack.failures import seconds_to_wait

LONGEST_WAIT_S = 60.0
_LONGEST_ACK_S = 3.5
"""Slack waits 3 s for an ack."""
_FORESEEN = (SlackClientError, aiohttp.ClientError, OSError, TimeoutError)
_SECRET = re.compile(r"((?:ticket|app_id)=)[^\s&'\")>]+|(?<=//)[^\s/'\"]+(?=@)")


class _Discreet(logging.Filter):
    """slack-sdk logs the address of a connection with its ticket, which is all that somebody else needs to take it, and
    of a proxy with its password.

    What a network does to a connection it logs with a traceback, as if it were a bug; its message says enough.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _SECRET.sub(r"\1…", record.getMessage()), ()
        if record.exc_info and isinstance(record.exc_info[1], _FORESEEN):
            record.exc_info = None
        if record.exc_info:
            record.exc_text = _SECRET.sub(r"\1…", logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


log = logging.getLogger(f"{__name__}.client")
log.addFilter(_Discreet())


class Turn:
    """When Slack may be asked for the address of a connection next: what it asked of one counts for all of the app."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, asyncio.get_running_loop().time() + seconds)

    async def come(self) -> None:
        """Waits as long as Slack asked to."""
        await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())


class Connection:
    """Connects when it is made, and again whenever the connection is lost, until it is closed.

    `ticket` is the address to begin with; without one, and later, Slack is asked for another.
    `leaving` is Slack's word for why it is about to close this connection, "" while it is not: from then on it is not
    connected again.
    """

    def __init__(  # noqa: PLR0917  # only `Sockets` makes one
        self, app: AsyncApp, app_token: str, api_url: str, ping_interval_s: float, turn: Turn, ticket: str = ""
    ) -> None:
        self._app = app
        self._news = asyncio.Event()
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.leaving = ""
        self._client = _Client(self, app_token, api_url, ping_interval_s, turn)
        if ticket:
            self._client.begin_with(ticket)
        self._client.socket_mode_request_listeners.append(self._handle)
        self._connecting = asyncio.create_task(self._client.connect())
        self._connecting.add_done_callback(lambda _: self._news.set())

    async def is_up(self) -> bool:
        return await self._client.is_connected()

    async def is_up_within(self, seconds: float) -> None:
        """Waits for the first connection, at most so long."""
        await asyncio.wait({self._connecting}, timeout=seconds)

    async def news_within(self, seconds: float) -> None:
        """Waits until it is connected or Slack asks it to go, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    def forget_ticket(self) -> bool:
        """Makes the next try ask for a new ticket; whether it had one."""
        had = self._client.wss_uri is not None
        self._client.wss_uri = None
        return had

    def took(self, frame: str) -> bool:
        """Notes what Slack sent as soon as it is read; whether it is for the client as well."""
        if '"envelope_id"' in frame:
            self._taken += 1
            self._idle.clear()
            return True
        if not frame.startswith("{"):
            return True
        envelope: dict[str, Any] = json.loads(frame)
        if envelope.get("type") == "hello" and isinstance(self._app, BotApp):
            info: dict[str, Any] = envelope.get("connection_info") or {}
            self._app.app_id = str(info.get("app_id") or self._app.app_id)
        if envelope.get("type") != "disconnect":
            return True
        self.leaving = str(envelope.get("reason") or "disconnect")
        self._client.auto_reconnect_enabled = False
        self._news.set()
        return False

    async def _handle(self, client: Any, request: SocketModeRequest) -> None:
        began = time.time()
        try:
            answer = await run_async_bolt_app(self._app, request)
            try:
                await send_async_response(client, request, answer, began)
            except ConnectionError as error:  # Slack delivers an event again, and tells a person to try again
                log.warning("an ack could not be sent: %s", error)
        finally:
            self._taken -= 1
            if self._taken <= 0:
                self._idle.set()

    async def close_when_acked(self) -> None:
        """Takes nothing more, and closes when all that was taken is acked: the ack would be lost otherwise."""
        self._connecting.cancel()
        await asyncio.gather(self._connecting, return_exceptions=True)
        receiver: asyncio.Future[None] | None = cast("Any", self._client).message_receiver
        if receiver:
            receiver.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_ACK_S):
                await self._idle.wait()
        with contextlib.suppress(SlackClientError, OSError, RuntimeError):
            await self._client.close()
        await self._client.aiohttp_client_session.close()


class _Client(SocketModeClient):
    """Waits longer after each refusal: apps.connections.open is Tier 1, and slack-sdk tries again at every ping.

    What Slack sends is shown to the connection first. slack-sdk answers a request to go by closing at once, with
    envelopes on their way: that is left to `Sockets`.
    """

    def __init__(
        self, connection: Connection, app_token: str, api_url: str, ping_interval_s: float, turn: Turn
    ) -> None:
        opener = AsyncWebClient(base_url=api_url, retry_handlers=[])
        opener.proxy = proxy_for(api_url)
        super().__init__(
            app_token=app_token,
            logger=log,
            web_client=opener,
            ping_interval=ping_interval_s,
        )
        self._connection = connection
        self._turn = turn
        self._wait_s = 0.0

    def begin_with(self, ticket: str) -> None:
        self.wss_uri = ticket
        self.proxy = proxy_for(ticket)

    async def issue_new_wss_url(self) -> str:
        await asyncio.sleep(self._wait_s)
        await self._turn.come()
        opener: Any = self.web_client  # its annotations are too loose to be of use
        try:
            answer = await opener.apps_connections_open(app_token=self.app_token)
        except (SlackClientError, OSError, TimeoutError) as error:
            self._wait_s = min(LONGEST_WAIT_S, max(1.0, self._wait_s * 2))
            self._turn.pause(_asked_to_wait(error))
            raise
        self._wait_s = 0.0
        url = str(answer["url"])
        self.proxy = proxy_for(url)
        return url

    async def enqueue_message(self, message: str) -> None:
        if self._connection.took(message):
            await super().enqueue_message(message)


def _asked_to_wait(error: Exception) -> float:
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    return seconds_to_wait(headers["Retry-After"]) if "Retry-After" in headers else 0.0
