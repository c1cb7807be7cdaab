"""The slack-bolt app of the bot, made so that no listener asks Slack who the bot is and no request goes unanswered."""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot import process_counters
from bot.errors import BotError
from bot.slack.failures import SlackFailure
from bot.slack.gateway import Identity
from bot.texts import Prose, Text

NEEDED_SCOPES = {
    "app_mentions:read": "hears @hami-bot in channels and threads",
    "channels:history": "looks an answer up whose outcome is unknown, and reads the head of a thread where it is asked",
    "chat:write": "answers",
    "commands": "/hami and the message shortcut",
    "files:write": "attaches what is too long for a message, and pictures",
    "im:history": "hears messages sent to the bot directly, and looks its own up there",
    "im:write": "finds its direct messages with a person again, to look its own up there",
}
"""Every bot scope that is needed, and why. `deploy/slack-manifest.json` is made from the two tables of scopes."""
WISHED_SCOPES = {
    "groups:history": "the same as channels:history, in private channels",
    "reactions:write": "marks a question as seen, done or failed",
    "usergroups:read": "knows who is in the user groups that may change something",
    "users:read": "knows who is of another organisation where a shared channel does not say it, and who is a guest",
}
"""Bot scopes that the bot can do without where they are not granted, and what each adds."""

App = Any
"""An AsyncApp to register listeners with; of type Any because its decorators carry no annotations."""

log = logging.getLogger(__name__)


class WrongInstall(BotError):  # noqa: N818  # what the person is told
    """The Slack app is not installed as the bot needs it, or Slack cannot be asked: `failure` is what Slack said."""

    exit_code = 3

    def __init__(self, message: Prose, *, hint: Prose = "", failure: SlackFailure | None = None) -> None:
        super().__init__(message, hint=hint)
        self.failure = failure


def check_scopes(granted: frozenset[str], *, guests: bool = True) -> None:
    """Raises WrongInstall that names each missing scope. Unless `guests` may ask, users:read is needed to tell them."""
    told = "users:read"
    needed = NEEDED_SCOPES if guests else NEEDED_SCOPES | {told: WISHED_SCOPES[told]}
    missing = sorted(needed.keys() - granted)
    if missing:
        reasons = "; ".join(f"{scope} ({needed[scope]})" for scope in missing)
        raise WrongInstall(
            Text("error-slack.bot-token-lacks-scopes", scopes=reasons),
            hint=Text("error-slack.update-app"),
        )


class BotApp(AsyncApp):
    """The bot's slack-bolt app: it awaits `kept` before each answer to Slack, and its listeners get text that can be
    stored and sent again. A listener acks, begins work and ends: Slack is answered when it has. `app_id` is this app's,
    empty while not known.
    """

    def __init__(self, kept: Callable[[], Awaitable[None]], app_id: str, **options: Any) -> None:
        super().__init__(**options)
        self._kept = kept
        self.app_id = app_id

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        began = time.monotonic()
        req.body = _writable(req.body)
        response = await super().async_dispatch(req)
        await self._kept()
        process_counters.ACKS.observe(time.monotonic() - began)
        return response


def build_app(
    api_url: str,
    bot_token: str,
    identity: Identity,
    kept: Callable[[], Awaitable[None]],
    *,
    lets_in: Callable[[dict[str, Any]], Awaitable[bool]],
    app_id: str = "",
) -> AsyncApp:
    """An app without listeners. Slack is answered when `kept` returns, which waits until what was accepted is safe. A
    listener gets no payload that `lets_in` refuses, nor one that Slack sent to another app than `app_id`, which Socket
    Mode tells as it connects. The app believes all it is given: `bot.http` verifies signatures, Socket Mode has none.
    It has no token of its own: bolt would call auth.test for every first request, and tell a person that the app is not
    installed when that fails once.
    """

    async def authorize(**_: Any) -> AuthorizeResult:
        return AuthorizeResult(
            enterprise_id=None,
            team_id=identity.team_id,
            bot_token=bot_token,
            bot_user_id=identity.user_id,
            bot_id=identity.bot_id,
        )

    app = BotApp(
        kept,
        app_id,
        name="hami-bot",  # bolt would read the source of every caller for one, 40 ms
        client=AsyncWebClient(base_url=api_url, retry_handlers=[]),
        authorize=authorize,
        request_verification_enabled=False,
        process_before_response=True,  # else bolt looks every 10 ms whether the listener has acked
        logger=logging.getLogger("slack_bolt"),
    )

    async def gate(body: dict[str, Any], next: Callable[[], Awaitable[None]]) -> BoltResponse | None:  # noqa: A002  # bolt's name
        sent_to = body.get("api_app_id")
        if sent_to and app.app_id and sent_to != app.app_id:
            log.warning("dropped what Slack sent to the app %s: this is %s", sent_to, app.app_id)
        elif await lets_in(body):
            return await next()
        return BoltResponse(status=200, body="")

    async def last_net(error: Exception, request: AsyncBoltRequest) -> BoltResponse:
        """Acks for a listener that failed: without an ack Slack would show operation_timeout."""
        log.error("a listener failed on %s", request.body.get("type") or request.body.get("command"), exc_info=error)
        return BoltResponse(status=200, body="")

    cast("App", app).middleware(gate)
    app.error(last_net)
    return app


def _writable(value: Any) -> Any:
    """The value without halves of surrogate pairs: Slack cuts long text in the middle of one, and no UTF-8 has it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_writable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value
