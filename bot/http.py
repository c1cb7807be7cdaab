"""The bot's own port: probes of life and readiness, in HTTP mode Slack's requests, and alerts.

No client can starve it without a login (`Clients`). There is always room for one connection more: the client that has
kept the bot waiting for longest is closed. So a probe, which sends its request at once, is answered however many
connections are open. A request that has come as a whole is worked on, and its connection is not closed to make room.
"""

import asyncio
import json
import logging
import re
import resource
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, cast
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier

from bot.endpoint import Handler, read_body
from bot.errors import SourceError, of_system
from bot.metrics import METRICS_PATH
from bot.texts import Text

SLACK_PATH = "/slack/events"
_LARGEST_BODY = 1024 * 1024
_LARGEST_UNSIGNED = 1024
_TIMESTAMP, _SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
_LONGEST_TIMESTAMP = 12
_FRESH_S = 300
_LINGERING_S = 2.0
"""Seconds for which the rest of a refused body is read and dropped; else its sender would not read the refusal."""
_IS_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


class ConnectionLimits(NamedTuple):
    """The limits of clients, in seconds: `header_s` for a whole header, `body_s` for a body without a login before,
    `idle_s` between two requests (longer than reverse proxies keep a connection, which is 60 s for most). `of_one`
    connections from one address: a reverse proxy is one address for all of Slack, and half of `of_all` leaves the other
    half to kubelet and Alertmanager. `most_bytes` are those of all requests that have not come as a whole.
    """

    header_s: float = 10.0
    body_s: float = 5.0  # Slack itself waits for 3 s
    idle_s: float = 75.0
    of_one: int = 128
    of_all: int = 256
    most_bytes: int = 16 * 1024 * 1024

    @classmethod
    def of_this_process(cls, files: int = 0) -> Self:
        """The limits with at most a quarter of the `files` that the process may open (0: the system's limit)."""
        files = files or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = cls().of_all if files == resource.RLIM_INFINITY else min(cls().of_all, files // 4)
        return cls(of_one=most // 2, of_all=most)


class Slack(NamedTuple):
    """Where Slack's requests go: the app (None: not yet), the secret that signs them, and whether the bot is stopping.
    While there is no app, or the bot stops, Slack is asked to try again later.
    """

    app: Callable[[], AsyncApp | None]
    signing_secret: str
    stopping: Callable[[], bool]


@asynccontextmanager
async def serve_http(
    bind: str,
    ready: Callable[[], str],
    slack: Slack | None,
    posts: Mapping[str, Handler] = {},
    *,
    notes: Callable[[], str] = str,
    limits: ConnectionLimits | None = None,
    metrics: Handler | None = None,
) -> AsyncGenerator[str]:
    """Serves on HOST:PORT while the context lasts; yields the address, with the real port where 0 was asked for.
    `ready` says why the bot is not ready, or nothing; `notes` gives lines that /readyz adds in any case. `slack` takes
    Slack's requests, in HTTP mode; `posts` are the handlers of alerts and of pagers' posts, by path; `metrics` answers
    /metrics. `limits` are by default `ConnectionLimits.of_this_process`. Raises SourceError when the port cannot be
    opened.
    """
    host, _, port = bind.rpartition(":")
    clients = Clients(limits or ConnectionLimits.of_this_process())
    application = web.Application(middlewares=[clients.middleware])
    application.router.add_get("/livez", _alive)

    async def readiness(_: web.Request) -> web.Response:
        why_not = ready()
        return web.Response(status=503 if why_not else 200, text=f"{why_not or 'ok'}\n{notes()}")

    application.router.add_get("/readyz", readiness)
    if metrics is not None:
        application.router.add_get(METRICS_PATH, metrics)
    if slack is not None:
        application.router.add_post(SLACK_PATH, _slack_events(slack, clients.limits.body_s))
    for path, answers in posts.items():
        application.router.add_post(path, answers)
    logging.getLogger("aiohttp.server").addFilter(_is_ours)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=3, lingering_time=_LINGERING_S)
    await runner.setup()
    assert runner.server
    handler = runner.server
    loop = asyncio.get_running_loop()
    try:
        try:
            listening = await loop.create_server(lambda: clients.greet(handler()), host.strip("[]"), int(port))
        except OSError as error:
            raise SourceError(
                Text("error-serve.cannot-listen", bind=bind, why=of_system(error)), hint=Text("error-serve.set-bind")
            ) from error
        try:
            yield f"http://{host}:{listening.sockets[0].getsockname()[1]}"
        finally:
            listening.close()
    finally:
        await runner.cleanup()


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether the fault is the bot's: of a request that is no HTTP, which anybody may send, no traceback is logged."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _slack_events(slack: Slack, body_s: float) -> Handler:
    verifier = SignatureVerifier(slack.signing_secret)

    async def events(request: web.Request) -> web.StreamResponse:
        app = slack.app()
        if app is None or slack.stopping():
            return web.Response(status=503, text="starting or stopping\n")
        may_be_signed = _may_be_signed(verifier, request.headers)
        try:
            async with asyncio.timeout(body_s):
                raw = await read_body(request, _LARGEST_BODY if may_be_signed else _LARGEST_UNSIGNED)
        except TimeoutError:
            return web.Response(status=408, text="the body did not come in time\n")
        if raw is None:
            status, why = (413, "too large") if may_be_signed else (401, "not signed by Slack")
            return web.Response(status=status, text=f"{why}\n")
        # Slack looks at the certificate with a form that is not signed. The same words in an event were typed.
        if not raw.startswith(b"{") and b"ssl_check=1" in raw.split(b"&"):
            return web.Response()
        text, headers = raw.decode(errors="replace"), request.headers
        if not may_be_signed or not verifier.is_valid(text, headers[_TIMESTAMP], headers[_SIGNATURE]):
            return web.Response(status=401, text="not signed by Slack\n")
        try:
            body = _body_of(text)
        except ValueError:
            return web.Response(status=400, text="nothing that Slack sends\n")
        # Bolt would verify once more, and read a command whose words contain "payload" as nothing at all.
        received = AsyncBoltRequest(mode="socket_mode", body=body, headers=dict(request.headers))
        return await to_aiohttp_response(await app.async_dispatch(received))

    return events


def _may_be_signed(verifier: SignatureVerifier, headers: Mapping[str, str]) -> bool:
    """Whether it is worth reading the body: the headers of a signature of the last five minutes are there."""
    timestamp, signature = headers.get(_TIMESTAMP, ""), headers.get(_SIGNATURE, "")
    if not timestamp.isdecimal() or len(timestamp) > _LONGEST_TIMESTAMP or not _IS_SIGNATURE.fullmatch(signature):
        return False
    return abs(verifier.clock.now() - int(timestamp)) <= _FRESH_S


def _body_of(text: str) -> dict[str, Any]:
    """An event is JSON, a command a form, an interaction JSON in a form. Raises ValueError for anything else."""
    if text.startswith("{"):
        body = json.loads(text)
    else:
        form = dict(parse_qsl(text, keep_blank_values=True))
        body = json.loads(form["payload"]) if "payload" in form else form
    if not isinstance(body, dict):
        raise ValueError("no object")  # noqa: TRY004  # its caller's word for what Slack does not send
    return cast("dict[str, Any]", body)


class Clients:
    """All connections of one port, the one that has waited longest first; closes some when there are too many."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: dict[asyncio.BaseTransport | None, _Client] = {}
        self._from: Counter[str] = Counter()

    def greet(self, protocol: asyncio.Protocol) -> asyncio.Protocol:
        """A protocol that counts a connection and puts the limits on it: for `loop.create_server`."""
        return _Client(self, protocol)

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Notes when a request's header has come and when it is answered. A client that leaves gets no answer."""
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
        """Adds a new connection, and closes another one where there are too many."""
        if self._from[client.address] >= self.limits.of_one:
            self._make_room(client.address)
        elif len(self._all) >= self.limits.of_all:
            self._make_room()
        self._all[client.transport] = client
        self._from[client.address] += 1

    def gone(self, client: "_Client") -> None:
        """Removes a connection that is closed, or is being closed."""
        if self._all.pop(client.transport, None):
            self._from[client.address] -= 1
            if not self._from[client.address]:
                del self._from[client.address]

    def is_last(self, client: "_Client") -> None:
        """Moves a connection to the end of the order: it has waited for the shortest time."""
        if found := self._all.pop(client.transport, None):
            self._all[client.transport] = found

    def weigh(self) -> None:
        """Closes connections, after data was received, while unfinished requests hold too many bytes."""
        while sum(client.held for client in self._all.values() if client.is_waited_for) > self.limits.most_bytes:
            self._make_room()

    def _make_room(self, address: str = "") -> None:
        for client in self._all.values():
            if client.is_waited_for and address in {"", client.address}:
                client.end()
                return


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
        self._ends_in(self._clients.limits.header_s)
        self._clients.come(self)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.held += len(data)
        if self._is_idle:
            self._is_idle = False
            self._ends_in(self._clients.limits.header_s)
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
        """Notes that a request's header has come: whoever answers sees to the time from now on."""
        self._request = request
        self._stop_timer()

    def is_answered(self) -> None:
        """Notes that the request is answered, and the connection idle."""
        self._request, self._is_idle, self.held = None, True, 0
        self._ends_in(self._clients.limits.idle_s)
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
