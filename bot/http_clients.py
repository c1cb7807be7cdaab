"""Who is connected to the bot's port, and for how long: nobody can starve it without a login.

There is always room for one connection more: whoever has kept the bot waiting for longest makes it. So a probe, which
sends its request at once, is answered however many connections are open. A request that has come as a whole is worked
on, and its connection makes room for nobody.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

from aiohttp import web


class ConnectionLimits(NamedTuple):
    """What clients are granted: `header_s` for a whole header, `body_s` for the body that no login precedes, `idle_s`
    between two requests (longer than reverse proxies keep a connection, which is 60 s for most). In seconds.

    `of_one` connections from one address: a reverse proxy is one address for all of Slack, and half of `of_all` leaves
    the other half to kubelet and Alertmanager. `most_bytes` are those of all requests that have not come as a whole.
    """

    header_s: float = 10.0
    body_s: float = 5.0  # Slack itself waits for 3 s
    idle_s: float = 75.0
    of_one: int = 128
    of_all: int = 256
    most_bytes: int = 16 * 1024 * 1024

    @classmethod
    def of_this_process(cls, files: int = 0) -> Self:
        """No more connections than a quarter of the files that the process may open, which is `files` if given."""
        files = files or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = cls().of_all if files == resource.RLIM_INFINITY else min(cls().of_all, files // 4)
        return cls(of_one=most // 2, of_all=most)


class Clients:
    """Every connection of one port, the one that has waited longest first."""

    def __init__(self, terms: ConnectionLimits) -> None:
        self.terms = terms
        self._all: dict[asyncio.BaseTransport | None, _Client] = {}
        self._from: Counter[str] = Counter()

    def greet(self, protocol: asyncio.Protocol) -> asyncio.Protocol:
        """The protocol, on these terms: for `loop.create_server`."""
        return _Client(self, protocol)

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Notes that a header has come, and when its request is answered. Whoever goes meanwhile is told nothing."""
        client = self._all.get(request.transport)
        if client is None:
            return await handler(request)
        client.asks(request)
        try:
            return await handler(request)
        except ConnectionResetError as error:
            if request.transport is not None:
                raise
            error.__traceback__ = None  # the request keeps the error, which keeps through this what was received
            return web.Response(status=400)
        finally:
            client.is_answered()

    def come(self, client: "_Client") -> None:
        """There is a new connection, and room for it."""
        if self._from[client.address] >= self.terms.of_one:
            self._make_room(client.address)
        elif len(self._all) >= self.terms.of_all:
            self._make_room()
        self._all[client.transport] = client
        self._from[client.address] += 1

    def gone(self, client: "_Client") -> None:
        """The connection is closed, or is being."""
        if self._all.pop(client.transport, None):
            self._from[client.address] -= 1
            if not self._from[client.address]:
                del self._from[client.address]

    def is_last(self, client: "_Client") -> None:
        """It is this one that has waited for the shortest time."""
        if found := self._all.pop(client.transport, None):
            self._all[client.transport] = found

    def weigh(self) -> None:
        """Something was received: whether it is too much together."""
        while sum(client.held for client in self._all.values() if client.is_waited_for) > self.terms.most_bytes:
            self._make_room()

    def _make_room(self, address: str = "") -> None:
        waited_for = (
            client for client in self._all.values() if client.is_waited_for and address in {"", client.address}
        )
        if longest := next(waited_for, None):
            longest.end()


class _Client(asyncio.Protocol):
    """One connection: stands between its transport and the protocol that speaks HTTP."""

    def __init__(self, clients: Clients, protocol: asyncio.Protocol) -> None:
        self._clients = clients
        self._protocol = protocol
        self._request: web.Request | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_idle = False
        self.transport: asyncio.Transport | None = None
        self.address = ""
        self.held = 0
        """Bytes received since the last answer."""

    @property
    def is_waited_for(self) -> bool:
        """Whether nothing can be done for it until it sends more: it is idle, or its request has not come whole."""
        return self._request is None or not self._request.content.is_eof()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._ends_in(self._clients.terms.header_s)
        self._clients.come(self)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.held += len(data)
        if self._is_idle:
            self._is_idle = False
            self._ends_in(self._clients.terms.header_s)
            self._clients.is_last(self)
        self._protocol.data_received(data)
        self._clients.weigh()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._clients.gone(self)
        self.transport = None
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def asks(self, request: web.Request) -> None:
        """Its header has come: whoever answers sees to the time from now on."""
        self._request = request
        self._stop_timer()

    def is_answered(self) -> None:
        """It is idle."""
        self._request, self._is_idle, self.held = None, True, 0
        self._ends_in(self._clients.terms.idle_s)
        self._clients.is_last(self)

    def end(self) -> None:
        """Closes the connection, without waiting until what was written is taken."""
        self._clients.gone(self)
        if self.transport:
            self.transport.abort()

    def _ends_in(self, seconds: float) -> None:
        self._stop_timer()
        if self.transport:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
