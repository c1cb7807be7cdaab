"""The bot's own port: is it alive, is it ready, in HTTP mode what Slack sends, and alerts."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier

from bot.errors import SourceError
from bot.intake import ALERTS_PATH, Intake, alerts_route

SLACK_PATH = "/slack/events"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGEST_BODY = 1024 * 1024
_TIMESTAMP, _SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
_LONGEST_TIMESTAMP = 12


class Slack(NamedTuple):
    """What Slack's requests go to, the secret that signs them, and whether no more is taken.

    Then Slack is asked to try again later.
    """

    app: AsyncApp
    signing_secret: str
    stopping: Callable[[], bool]


@asynccontextmanager
async def serve_http(
    bind: str,
    ready: Callable[[], str],
    slack: Slack | None,
    intake: Intake | None = None,
    *,
    notes: Callable[[], str] = str,
) -> AsyncGenerator[str]:
    """Serves on HOST:PORT while the context lasts; yields the address, with the real port where 0 was asked for.

    `ready` says why the bot is not ready, or nothing; `slack` takes what Slack sends, in HTTP mode; `intake` alerts.
    `notes` are lines that /readyz shows besides, whether it is ready or not. Raises SourceError when the port cannot be
    had.
    """
    host, _, port = bind.rpartition(":")
    application = web.Application(client_max_size=_LARGEST_BODY)
    application.router.add_get("/livez", _alive)
    application.router.add_get("/readyz", _readiness(ready, notes))
    if slack is not None:
        application.router.add_post(SLACK_PATH, _slack_events(slack))
    if intake is not None:
        application.router.add_post(ALERTS_PATH, alerts_route(intake))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=3)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        except OSError as error:
            raise SourceError(
                f"cannot listen on {bind}: {error.strerror}", hint="Set HAMI_BOT_HTTP__BIND to a free HOST:PORT."
            ) from error
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _readiness(ready: Callable[[], str], notes: Callable[[], str]) -> Handler:
    async def readiness(_: web.Request) -> web.Response:
        why_not = ready()
        return web.Response(status=503 if why_not else 200, text=f"{why_not or 'ok'}\n{notes()}")

    return readiness


def _slack_events(slack: Slack) -> Handler:
    verifier = SignatureVerifier(slack.signing_secret)

    async def events(request: web.Request) -> web.StreamResponse:
        if slack.stopping():
            return web.Response(status=503, text="stopping\n")
        raw = await request.read()
        if _is_ssl_check(raw):
            return web.Response()
        if not _is_signed(verifier, raw, request.headers):
            return web.Response(status=401, text="not signed by Slack\n")
        try:
            body = _body_of(raw.decode())
        except ValueError:
            return web.Response(status=400, text="nothing that Slack sends\n")
        # Bolt would verify once more, and read a command whose words contain "payload" as nothing at all.
        received = AsyncBoltRequest(mode="socket_mode", body=body, headers=dict(request.headers))
        return await to_aiohttp_response(await slack.app.async_dispatch(received))

    return events


def _is_ssl_check(raw: bytes) -> bool:
    """Whether Slack looks at the certificate: a form that is not signed. The same words in an event were typed."""
    return not raw.startswith(b"{") and b"ssl_check=1" in raw.split(b"&")


def _is_signed(verifier: SignatureVerifier, raw: bytes, headers: Mapping[str, str]) -> bool:
    """Whether Slack signed it within the last five minutes. The verifier raises errors for what is no time or text."""
    timestamp, signature = headers.get(_TIMESTAMP, ""), headers.get(_SIGNATURE, "")
    if not timestamp.isdecimal() or len(timestamp) > _LONGEST_TIMESTAMP or not signature.isascii():
        return False
    try:
        return verifier.is_valid(raw, timestamp, signature)
    except UnicodeDecodeError:
        return False


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
