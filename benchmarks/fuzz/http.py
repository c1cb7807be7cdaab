"""The bot's own port over a real socket: requests as bytes, most of them no HTTP that anybody would send."""

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from benchmarks.fuzz.targets import Target
from bot.endpoint import ALERTS_PATH, alerts_route
from bot.http import Slack, serve_http
from bot.pager import pager_routes
from bot.settings.oncall import PagingSettings
from bot.triage.webhook import Alert

_TOKEN = "fuzz"
_PATIENCE_S = 20.0
_FAULT = b"HTTP/1.1 500"


@contextmanager
def endpoints() -> Generator[Target]:
    """The port, with everything on it, in an event loop of its own."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    stopped, address = asyncio.Event(), list[str]()

    async def take(_: list[Alert]) -> None:
        pass

    async def hear(*_: object) -> None:
        pass

    async def serve() -> None:
        paging = PagingSettings.model_validate({"pagerduty": {"routing_key": "x", "webhook_secret": _TOKEN}})
        posts = {ALERTS_PATH: alerts_route(take, _no, token=_TOKEN), **pager_routes(paging, hear, _no)}
        async with serve_http("127.0.0.1:0", str, Slack(lambda: None, _TOKEN, _no), posts) as served:
            address.append(served)
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    if not ready.wait(_PATIENCE_S):
        raise RuntimeError("the port was not opened")
    port = urlsplit(address[0]).port or 0
    try:
        yield Target("HTTP endpoints", 2, _requests, partial(_send, port))
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()


def _no() -> bool:
    return False


def _requests() -> list[bytes]:
    alert = {"status": "firing", "labels": {"alertname": "x"}, "startsAt": "2026-11-21T05:00:00Z", "fingerprint": "1"}
    body = json.dumps({"version": "4", "status": "firing", "receiver": "x", "alerts": [alert]}).encode()
    secret = f"Authorization: Bearer {_TOKEN}\r\n".encode()
    signed = b"X-Slack-Signature: v0=00\r\nX-Slack-Request-Timestamp: 1795240800\r\n"
    posts = [
        b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (path.encode(), headers, len(sent), sent)
        for path, headers, sent in (
            (ALERTS_PATH, secret, body),
            (ALERTS_PATH, b"", body),
            ("/slack/events", signed, b"payload=%7B%22type%22%3A%22block_actions%22%7D"),
            (
                "/slack/events",
                signed + b"Content-Type: application/json\r\n",
                b'{"type":"url_verification","challenge":"x"}',
            ),
            ("/pager/pagerduty", b"X-PagerDuty-Signature: v1=00\r\n", b'{"event":{}}'),
        )
    ]
    chunked = b"POST %s HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" % (
        ALERTS_PATH.encode(),
        secret,
    )
    gets = [
        b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path
        for path in (b"/livez", b"/readyz", b"/metrics")
    ]
    return [*posts, chunked, *gets]


def _send(port: int, data: bytes) -> None:
    """No answer is a fault of the server's, and every connection ends once we have said all."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # it has said what it had to say
    assert _FAULT not in answer, answer[:300]
