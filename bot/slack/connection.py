"""Socket Mode: two connections of slack-sdk's client, with additions for a bot that must lose nothing.

Each is watched, replaced before Slack closes it, and healed when it gets nothing: slack-sdk's client tries a dead
ticket for ever once a handshake failed (python-slack-sdk#1379); without `wss_uri` it asks for a new one.
"""

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any, cast

import aiohttp
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app, send_async_response
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.app import BotApp
from bot.slack.calls import is_set_within, proxy_for
from bot.slack.failures import seconds_to_wait

LONGEST_WAIT_S = 60.0
_LONGEST_ACK_S = 3.5
"""Seconds that acks under way may take when a connection is closed: Slack waits 3 s for one."""
_FORESEEN = (SlackClientError, aiohttp.ClientError, OSError, TimeoutError)
_SECRET = re.compile(r"((?:ticket|app_id)=)[^\s&'\")>]+|(?<=//)[^\s/'\"]+(?=@)")


class _Discreet(logging.Filter):
    """Masks what slack-sdk logs: a connection's ticket, which is all that somebody else needs to take the connection,
    and a proxy's password. It drops tracebacks of what a network does to a connection: that is no bug.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _SECRET.sub(r"\1…", record.getMessage()), ()
        if record.exc_info and isinstance(record.exc_info[1], _FORESEEN):
            record.exc_info = None
        if record.exc_info:
            record.exc_text = _SECRET.sub(r"\1…", logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


log = logging.getLogger(__name__)
client_log = logging.getLogger(f"{__name__}.client")
client_log.addFilter(_Discreet())


class Turn:
    """When Slack may next be asked for the address of a connection: Slack's request to wait is for the whole app."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, asyncio.get_running_loop().time() + seconds)

    async def come(self) -> None:
        """Waits until Slack may be asked for an address again."""
        await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())


class Connection(SocketModeClient):
    """One Socket Mode connection, made at once, and again whenever it is lost, until it is closed. `ticket` is the
    address to begin with; without one, and later, Slack is asked for another. `leaving` is Slack's word for why it is
    about to close this connection, empty while it is not; the connection is then not made again. After each refusal the
    next try waits longer: apps.connections.open is Tier 1, and slack-sdk tries again at every ping. What Slack sends is
    looked at first: slack-sdk obeys a request to go by closing at once, with envelopes on their way; here `Sockets`
    closes.
    """

    def __init__(  # noqa: PLR0917  # only `Sockets` makes one
        self, app: AsyncApp, app_token: str, api_url: str, ping_interval_s: float, turn: Turn, ticket: str = ""
    ) -> None:
        self._app = app
        self._turn = turn
        self._wait_s = 0.0
        self.news = asyncio.Event()
        """Set when the connection is made, or Slack asks it to go."""
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.leaving = ""
        opener = AsyncWebClient(base_url=api_url, retry_handlers=[])
        opener.proxy = proxy_for(api_url)
        super().__init__(app_token=app_token, logger=client_log, web_client=opener, ping_interval=ping_interval_s)
        if ticket:
            self.wss_uri, self.proxy = ticket, proxy_for(ticket)
        self.socket_mode_request_listeners.append(self._handle)
        self.connecting = asyncio.create_task(self.connect())
        """Ends with the first connection."""
        self.connecting.add_done_callback(lambda _: self.news.set())

    async def issue_new_wss_url(self) -> str:
        await asyncio.sleep(self._wait_s)
        await self._turn.come()
        opener: Any = self.web_client  # its annotations are too loose to be of use
        try:
            answer = await opener.apps_connections_open(app_token=self.app_token)
        except (SlackClientError, OSError, TimeoutError) as error:
            self._wait_s = min(LONGEST_WAIT_S, max(1.0, self._wait_s * 2))
            headers: Any = getattr(getattr(error, "response", None), "headers", {})
            if "Retry-After" in headers:
                self._turn.pause(seconds_to_wait(headers["Retry-After"]))
            raise
        self._wait_s = 0.0
        url = str(answer["url"])
        self.proxy = proxy_for(url)
        return url

    def forget_ticket(self) -> bool:
        """Drops the connection's ticket, so that the next try asks for a new one; True if it had one."""
        had = self.wss_uri is not None
        self.wss_uri = None
        return had

    async def enqueue_message(self, message: str) -> None:
        if self._took(message):
            await super().enqueue_message(message)

    def _took(self, frame: str) -> bool:
        """Notes what Slack sent as soon as it is read; True if slack-sdk has to get the frame as well."""
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
        self.auto_reconnect_enabled = False
        self.news.set()
        return False

    async def _handle(self, client: Any, request: SocketModeRequest) -> None:
        began = time.time()
        try:
            answer = await run_async_bolt_app(self._app, request)
            try:
                await send_async_response(client, request, answer, began)
            except ConnectionError as error:  # Slack delivers an event again, and tells a person to try again
                client_log.warning("an ack could not be sent: %s", error)
        finally:
            self._taken -= 1
            if self._taken <= 0:
                self._idle.set()

    async def close_when_acked(self) -> None:
        """Takes no more envelopes, and closes when all taken ones are acked: their acks would be lost otherwise."""
        self.connecting.cancel()
        await asyncio.gather(self.connecting, return_exceptions=True)
        receiver: asyncio.Future[None] | None = cast("Any", self).message_receiver
        if receiver:
            receiver.cancel()
        await is_set_within(self._idle, _LONGEST_ACK_S)
        with contextlib.suppress(SlackClientError, OSError, RuntimeError):
            await self.close()
        await self.aiohttp_client_session.close()


CONNECTIONS = 2
PING_INTERVAL_S = 5.0
WATCH_S = 1.0
_BAD_BEFORE_NEW_TICKET = 3
_BAD_BEFORE_NEW_CLIENT = 60
_HANDOVER_S = 8.0
"""Seconds in which the next connection should be up: Slack closes one about 10 s after it asked it to go."""
_LINGER_S = 15.0
_CROWDED = "too_many_websockets"


class Sockets:
    """The Socket Mode connections of one app, `up` of them connected; `ticket` is the first one's address, or empty."""

    def __init__(
        self,
        app: AsyncApp,
        app_token: str,
        api_url: str,
        *,
        ticket: str = "",
        ping_interval_s: float = PING_INTERVAL_S,
        watch_s: float = WATCH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._app_token = app_token
        self._api_url = api_url
        self._ping_interval_s = ping_interval_s
        self._watch_s = watch_s
        self._clock = clock
        self._turn = Turn()
        self._last_up = clock()
        self._up = [False] * CONNECTIONS
        self._first = asyncio.Event()
        self._stopping = asyncio.Event()
        self._retired: set[asyncio.Task[None]] = set()
        tickets = [ticket, *[""] * (CONNECTIONS - 1)]
        self._keepers = [asyncio.create_task(self._keep(number, ticket)) for number, ticket in enumerate(tickets)]

    @property
    def up(self) -> int:
        return sum(self._up)

    def down_for_s(self) -> float:
        """Seconds for which no connection has been up; 0 while one is."""
        return 0.0 if self.up else self._clock() - self._last_up

    async def connected(self) -> None:
        """Waits until a connection was up for the first time."""
        await self._first.wait()

    async def close(self) -> None:
        """Closes the connections: no further envelope is taken, and those that were taken are acked first."""
        self._stopping.set()
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*self._retired)

    async def _keep(self, number: int, ticket: str) -> None:
        """Keeps one of the connections while the bot runs, with one client after another."""
        held = [self._connection(ticket)]
        wait_s = 0.0
        try:
            while True:
                began = asyncio.get_running_loop().time()
                await self._watch(number, held[-1])
                leaving = held[-1].leaving
                log.info("Socket Mode connection %d is replaced: %s", number, leaving or "it did not heal")
                if leaving and leaving != _CROWDED:
                    held.append(self._connection())
                    await asyncio.wait({held[-1].connecting}, timeout=_HANDOVER_S)
                    self._retire(held.pop(0), linger_s=_LINGER_S)
                else:
                    await asyncio.shield(self._retire(held.pop()))  # `close` waits for what it has begun
                    lasted_s = asyncio.get_running_loop().time() - began
                    wait_s = wait_s if lasted_s < LONGEST_WAIT_S else 0.0
                    await asyncio.sleep(wait_s)  # else one that is sent away at once is made again and again
                    wait_s = min(LONGEST_WAIT_S, max(1.0, 2 * wait_s))
                    held.append(self._connection())
        finally:
            self._up[number] = False
            for connection in held:
                self._retire(connection)

    async def _watch(self, number: int, connection: Connection) -> None:
        """Returns when the connection should be replaced: Slack asks for it, or nothing else helps."""
        bad = 0
        while bad < _BAD_BEFORE_NEW_CLIENT:
            await is_set_within(connection.news, self._watch_s)
            connection.news.clear()
            if connection.leaving:
                return
            self._up[number] = await connection.is_connected()
            if self._up[number]:
                bad, self._last_up = 0, self._clock()
                self._first.set()
                continue
            bad += 1
            if bad % _BAD_BEFORE_NEW_TICKET == 0 and connection.forget_ticket():
                log.warning("Socket Mode connection %d: asking for a new ticket", number)

    def _connection(self, ticket: str = "") -> Connection:
        return Connection(self._app, self._app_token, self._api_url, self._ping_interval_s, self._turn, ticket)

    def _retire(self, connection: Connection, *, linger_s: float = 0.0) -> asyncio.Task[None]:
        """Closes the connection, after Slack has: until then it may send more, which nobody would read."""

        async def close() -> None:
            loop = asyncio.get_running_loop()
            ends = loop.time() + linger_s
            while loop.time() < ends and not self._stopping.is_set() and await connection.is_connected():
                await is_set_within(self._stopping, self._watch_s)
            await connection.close_when_acked()

        task = asyncio.create_task(close())
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)
        return task
