"""A web application on a loopback port."""

import asyncio
import socket
import ssl
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from aiohttp import web

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_TURNS = 2
"""So many turns of the event loop make a connection that it has accepted one that the server knows."""


class Served:
    """Serves an application on 127.0.0.1 between `start` and `stop`, or as a context manager; port 0 is any free one.

    A client that opens a connection in the last moment and gives it up leaves no transport behind: asyncio's server
    (3.11, base_events.py, `_attach`) fails on a connection that it accepted just before it was closed.
    """

    def __init__(
        self, app: web.Application, port: int = 0, *, tls: ssl.SSLContext | None = None, **runner_options: Any
    ) -> None:
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, **runner_options)
        self._port = port
        self._tls = tls
        self._listening: socket.socket | None = None
        self.url = ""

    async def start(self) -> None:
        """Starts to serve, and sets the URL. Raises OSError if the port is taken."""
        await self._runner.setup()
        self._listening = socket.create_server(("127.0.0.1", self._port))
        await web.SockSite(self._runner, self._listening, ssl_context=self._tls).start()
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Ends every connection. It may be called again."""
        listening, self._listening = self._listening, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        await self._runner.cleanup()

    def cut(self) -> None:
        """Aborts every open connection; new ones are taken."""
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection.transport:
                connection.transport.abort()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def stranger(request: web.Request) -> str:
    """Why the request is of no client on this machine, or empty: by DNS rebinding a web page may reach loopback."""
    host = request.headers.get("Host", "")
    if _name_of(host) not in _LOOPBACK:
        return "the Host is not this machine"
    if request.headers.get("Origin", f"http://{host}") != f"http://{host}":
        return "the Origin is another site"
    return ""


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # a bracket too many
        return None
