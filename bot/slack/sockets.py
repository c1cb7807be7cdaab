"""Socket Mode over two connections, watched: one is up while the other is refreshed, and a deaf one is healed.

slack-sdk's client tries a dead ticket for ever once a handshake failed (python-slack-sdk#1379; slack.md 0.1): without
`wss_uri` it asks for a new one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from aiohttp import WSMessage
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackClientError
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

CONNECTIONS = 2
_PING_INTERVAL_S = 5.0
_WATCH_S = 1.0
_BAD_BEFORE_NEW_TICKET = 3
_BAD_BEFORE_NEW_CLIENT = 60
_LONGEST_WAIT_S = 60.0
_LONGEST_ACK_S = 3.5
"""Bolt gives a listener 3 s to ack, and Slack waits no longer."""

log = logging.getLogger(__name__)


class Sockets:
    """The connections of one app. `up` says how many are connected; after 30 s without any the bot is not ready."""

    def __init__(
        self,
        app: AsyncApp,
        app_token: str,
        api_url: str,
        *,
        connections: int = CONNECTIONS,
        ping_interval_s: float = _PING_INTERVAL_S,
        watch_s: float = _WATCH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._app_token = app_token
        self._api_url = api_url
        self._ping_interval_s = ping_interval_s
        self._watch_s = watch_s
        self._clock = clock
        self._last_up = clock()
        self._tasks = [asyncio.create_task(self._keep(number)) for number in range(connections)]
        self._up = [False] * connections
        self._first = asyncio.Event()
        self.healed = 0

    @property
    def up(self) -> int:
        return sum(self._up)

    def down_for_s(self) -> float:
        """How long no connection has been up."""
        return 0.0 if self.up else self._clock() - self._last_up

    async def connected(self) -> None:
        """Waits for the first connection."""
        await self._first.wait()

    async def close(self) -> None:
        """No envelope is taken after this; what was taken is acked first and goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, number: int) -> None:
        """One connection for as long as the bot runs; its client is replaced when nothing else helps."""
        while True:
            handler = self._handler()
            connecting = asyncio.create_task(handler.connect_async())
            try:
                await self._watch(number, handler, connecting)
            finally:
                self._up[number] = False
                connecting.cancel()
                await handler.close_when_acked()
            log.warning("Socket Mode connection %d was replaced", number)

    async def _watch(self, number: int, handler: "_Handler", connecting: asyncio.Task[None]) -> None:
        """Returns when the client should be replaced."""
        bad = 0
        while bad < _BAD_BEFORE_NEW_CLIENT:
            if connecting.done():
                await asyncio.sleep(self._watch_s)
            else:
                await asyncio.wait({connecting}, timeout=self._watch_s)
            self._up[number] = await handler.client.is_connected()
            if self._up[number]:
                bad, self._last_up = 0, self._clock()
                self._first.set()
                continue
            bad += 1
            if bad % _BAD_BEFORE_NEW_TICKET == 0 and handler.client.wss_uri is not None:
                handler.client.wss_uri = None
                self.healed += 1
                log.warning("Socket Mode connection %d: asking for a new ticket", number)

    def _handler(self) -> "_Handler":
        opener = _PatientClient(base_url=self._api_url, retry_handlers=[])
        return _Handler(self._app, self._app_token, web_client=opener, ping_interval=self._ping_interval_s)


class _Handler(AsyncSocketModeHandler):
    """Knows whether every envelope that it took was acked: a connection that is closed before loses the ack."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.client.on_message_listeners.append(self._count)

    async def _count(self, message: WSMessage) -> None:
        """slack-sdk calls this as soon as the message is read, and `handle` some turns of the loop later."""
        if '"envelope_id"' in message.data:
            self._taken += 1
            self._idle.clear()

    async def handle(self, client: Any, req: SocketModeRequest) -> None:
        try:
            await super().handle(client, req)
        finally:
            self._taken -= 1
            if self._taken <= 0:
                self._idle.set()

    async def close_when_acked(self) -> None:
        """Takes nothing more, and closes when all that was taken is acked."""
        client: Any = self.client
        if client.message_receiver:
            client.message_receiver.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_ACK_S):
                await self._idle.wait()
        with contextlib.suppress(SlackClientError, OSError, RuntimeError):
            await self.close_async()
        await self.client.aiohttp_client_session.close()


class _PatientClient(AsyncWebClient):
    """Waits longer after each refusal: apps.connections.open is Tier 1, and slack-sdk tries again at every ping."""

    _wait_s = 0.0

    async def apps_connections_open(self, *, app_token: str, **kwargs: Any) -> AsyncSlackResponse:
        await asyncio.sleep(self._wait_s)
        try:
            answer: AsyncSlackResponse = await super().apps_connections_open(app_token=app_token, **kwargs)  # pyright: ignore[reportUnknownMemberType]  # its **kwargs carry no type
        except (SlackClientError, OSError, TimeoutError):
            self._wait_s = min(_LONGEST_WAIT_S, max(1.0, self._wait_s * 2))
            raise
        self._wait_s = 0.0
        return answer
