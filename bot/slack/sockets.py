"""Socket Mode over two connections, watched: each is replaced before it goes, and a deaf one is healed.

slack-sdk's client tries a dead ticket for ever once a handshake failed (python-slack-sdk#1379): without
`wss_uri` it asks for a new one.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from slack_bolt.app.async_app import AsyncApp

from bot.slack.connection import LONGEST_WAIT_S, Connection, Turn

CONNECTIONS = 2
PING_INTERVAL_S = 5.0
WATCH_S = 1.0
_BAD_BEFORE_NEW_TICKET = 3
_BAD_BEFORE_NEW_CLIENT = 60
_HANDOVER_S = 8.0
"""Slack closes a connection about ten seconds after it asked it to go; the next one should be up by then."""
_LINGER_S = 15.0
_CROWDED = "too_many_websockets"

log = logging.getLogger(__name__)


class Sockets:
    """The connections of one app. `up` says how many are connected. `ticket` is the address of the first, if known."""

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
        """How long no connection has been up."""
        return 0.0 if self.up else self._clock() - self._last_up

    async def connected(self) -> None:
        """Waits for the first connection."""
        await self._first.wait()

    async def close(self) -> None:
        """No envelope is taken after this; what was taken is acked first and goes on."""
        self._stopping.set()
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*self._retired)

    async def _keep(self, number: int, ticket: str) -> None:
        """One connection for as long as the bot runs, whichever client it is at the time."""
        held = [self._connection(ticket)]
        wait_s = 0.0
        try:
            while True:
                began = self._clock_of_loop()
                await self._watch(number, held[-1])
                leaving = held[-1].leaving
                log.info("Socket Mode connection %d is replaced: %s", number, leaving or "it did not heal")
                if leaving and leaving != _CROWDED:
                    held.append(self._connection())
                    await held[-1].is_up_within(_HANDOVER_S)
                    self._retire(held.pop(0), linger_s=_LINGER_S)
                else:
                    await asyncio.shield(self._retire(held.pop()))  # `close` waits for what it has begun
                    lasted_s = self._clock_of_loop() - began
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
            await connection.news_within(self._watch_s)
            if connection.leaving:
                return
            self._up[number] = await connection.is_up()
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
            ends = self._clock_of_loop() + linger_s
            while self._clock_of_loop() < ends and not self._stopping.is_set() and await connection.is_up():
                await _within(self._stopping, self._watch_s)
            await connection.close_when_acked()

        task = asyncio.create_task(close())
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)
        return task

    @staticmethod
    def _clock_of_loop() -> float:
        return asyncio.get_running_loop().time()


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
