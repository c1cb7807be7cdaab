"""Socket Mode: tickets, websockets, and envelopes that are acknowledged over any of them."""

import asyncio
import contextlib
import itertools
import json
from typing import Any

from aiohttp import WSMsgType, web

from sandbox.slack.clock import Clock, within
from sandbox.slack.faults import FaultPlan
from sandbox.slack.journal import Journal
from sandbox.slack.tokens import ExpiredError, Tokens, UnknownError, UsedError

MOST_SOCKETS = 10  # per app; the eleventh makes the oldest go
TICKET_SECONDS = 30
_CLOSES_AFTER_S = 10  # seconds that a socket lives on after its disconnect frame
_HOST = "sandbox-link"


class NoSocketError(Exception):
    """The app has no connection that takes envelopes."""


class _Socket:
    def __init__(self, number: int, web_socket: web.WebSocketResponse, request: web.Request, *, silent: bool) -> None:
        self.number = number
        self.web_socket = web_socket
        self.request = request
        self.silent = silent
        self.asked_to_go = False
        self.leaving = False
        """It is sent nothing more."""

    async def send(self, frame: dict[str, Any]) -> None:
        if not self.silent:
            await self.web_socket.send_str(json.dumps(frame))

    def cut(self) -> None:
        if self.request.transport:
            self.request.transport.abort()


class Sockets:
    """The websockets of the app. Envelopes go round robin; an acknowledgement may come over another socket."""

    def __init__(self, app_id: str, clock: Clock, journal: Journal, faults: FaultPlan) -> None:
        self.tickets: Tokens[None] = Tokens(clock, TICKET_SECONDS)
        self.link_enabled = True
        self.on_count = lambda: None
        self._app_id = app_id
        self._clock = clock
        self._journal = journal
        self._faults = faults
        self._sockets: list[_Socket] = []
        self._numbers = itertools.count(1)
        self._turn = itertools.count()
        self._pending: dict[str, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._sockets)

    async def request(self, envelope: dict[str, Any], seconds: float) -> Any:
        """Sends an envelope; returns the acknowledgement's payload, {} if it has none. Raises NoSocketError, and
        TimeoutError after `seconds`.
        """
        open_ones = [socket for socket in self._sockets if not socket.leaving]
        if not open_ones:
            raise NoSocketError
        socket = open_ones[next(self._turn) % len(open_ones)]
        acknowledged = asyncio.get_running_loop().create_future()
        self._pending[envelope["envelope_id"]] = acknowledged
        try:
            with contextlib.suppress(ConnectionError):  # it died under our hands: nobody acknowledges
                await socket.send(envelope)
            return await within(self._clock, seconds, acknowledged)
        finally:
            del self._pending[envelope["envelope_id"]]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers GET /link: a websocket for a fresh ticket, else 401, 408 or 503."""
        refused = self._refusal(request)
        if refused:
            self._journal.write("socket", "handshake", ok=False, status=refused, error=f"refused with {refused}")
            return web.Response(status=refused, text="The ticket is not accepted")
        web_socket = web.WebSocketResponse(autoping=False, heartbeat=None)
        await web_socket.prepare(request)
        silent = self._faults.fired("silent", "link") is not None
        socket = _Socket(next(self._numbers), web_socket, request, silent=silent)
        await self._join(socket)
        try:
            await self._listen(socket)
        finally:
            self._sockets.remove(socket)
            self._journal.write("socket", f"closed {socket.number}", status=web_socket.close_code or 1006)
            self.on_count()
        return web_socket

    def _refusal(self, request: web.Request) -> int:
        try:
            self.tickets.redeem(request.query.get("ticket", ""))
        except UnknownError:
            return 401
        except (ExpiredError, UsedError):
            return 408
        if self._faults.fired("dead_ticket", "link"):
            return 408
        return 503 if self._faults.fired("refuse", "link") else 0

    async def _join(self, socket: _Socket) -> None:
        self._sockets.append(socket)
        staying = [socket for socket in self._sockets if not socket.leaving]
        if len(staying) > MOST_SOCKETS:
            await self._dismiss(staying[0], "too_many_websockets")
        self._journal.write("socket", f"connected {socket.number}", status=101)
        await socket.send(
            {
                "type": "hello",
                "num_connections": len(self._sockets),
                "connection_info": {"app_id": self._app_id},
                "debug_info": {"host": _HOST, "approximate_connection_time": 18000},
            }
        )
        self.on_count()

    async def _listen(self, socket: _Socket) -> None:
        async for frame in socket.web_socket:
            if not socket.silent and self._faults.fired("silent", "link"):
                socket.silent = True
            if socket.silent:
                continue
            if frame.type == WSMsgType.PING:
                await socket.web_socket.pong(frame.data)
            elif frame.type == WSMsgType.TEXT:
                self._acknowledge(frame.data)

    def _acknowledge(self, text: str) -> None:
        try:
            frame = json.loads(text)
            pending = self._pending.get(frame["envelope_id"])
        except (ValueError, KeyError, TypeError):
            self._journal.write("socket", "frame", ok=False, request=text[:500], error="not an acknowledgement")
            return
        if pending is None or pending.done():
            self._journal.write("socket", "late ack", ok=False, request=frame, error="nothing waits for it")
            return
        pending.set_result(frame.get("payload") or {})

    async def disconnect(self, reason: str, *, oldest_only: bool = False) -> None:
        """Asks every socket to go: "warning", "refresh_requested", "link_disabled" (no new ones then) or another."""
        if reason == "link_disabled":
            self.link_enabled = False
        staying = [socket for socket in self._sockets if not socket.asked_to_go]
        for socket in staying[:1] if oldest_only else list(self._sockets):
            await self._dismiss(socket, reason)

    async def _dismiss(self, socket: _Socket, reason: str) -> None:
        socket.asked_to_go, socket.leaving = True, reason != "warning"
        self._journal.write("socket", f"disconnect {socket.number}", response={"reason": reason})
        with contextlib.suppress(ConnectionError):
            await socket.send({"type": "disconnect", "reason": reason, "debug_info": {"host": _HOST}})
        self._clock.call_later(_CLOSES_AFTER_S, socket.cut)

    def cut(self) -> None:
        """Loses every connection, as when a cable is pulled that resets."""
        for socket in list(self._sockets):
            socket.cut()

    async def close(self) -> None:
        """Ends all sockets; for the end of the server."""
        for socket in list(self._sockets):
            await socket.web_socket.close(code=1001)
