"""The bot's own port: is it alive, is it ready, and in HTTP mode what Slack sends."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.app.async_app import AsyncApp

from bot.errors import SourceError

SLACK_PATH = "/slack/events"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGEST_BODY = 1024 * 1024
_TIMESTAMP = "X-Slack-Request-Timestamp"


class Slack(NamedTuple):
    """What Slack's requests go to, and whether that takes no more: then Slack is asked to try again later."""

    app: AsyncApp
    stopping: Callable[[], bool]


@asynccontextmanager
async def serve_http(bind: str, ready: Callable[[], str], slack: Slack | None) -> AsyncGenerator[str]:
    """Serves on HOST:PORT while the context lasts; yields the address, with the real port where 0 was asked for.

    `ready` says why the bot is not ready, or nothing; `slack` takes what Slack sends, in HTTP mode. Raises SourceError
    when the port cannot be had.
    """
    host, _, port = bind.rpartition(":")
    application = web.Application(client_max_size=_LARGEST_BODY)
    application.router.add_get("/livez", _alive)
    application.router.add_get("/readyz", _readiness(ready))
    if slack is not None:
        application.router.add_post(SLACK_PATH, _slack_events(slack))
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


def _readiness(ready: Callable[[], str]) -> Handler:
    async def readiness(_: web.Request) -> web.Response:
        why_not = ready()
        return web.Response(status=503 if why_not else 200, text=f"{why_not or 'ok'}\n")

    return readiness


def _slack_events(slack: Slack) -> Handler:
    async def events(request: web.Request) -> web.StreamResponse:
        # bolt answers 500 to a timestamp that is no number (slack.md 1.4).
        if not request.headers.get(_TIMESTAMP, "").isdecimal():
            return web.Response(status=401, text="not signed by Slack\n")
        if slack.stopping():
            return web.Response(status=503, text="stopping\n")
        return await to_aiohttp_response(await slack.app.async_dispatch(await to_bolt_request(request)))

    return events
