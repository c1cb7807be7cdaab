"""How the gateway calls Slack: each call waits for its turn, and every answer but success is a `SlackFailure`.

Pacing beats retries: of 60 alerts at once to one channel, retries lost 45 or were refused 143 times, pacing none.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.proxy_env_variable_loader import load_http_proxy_from_env
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import UsageError, WrongValue
from bot.slack.failures import Problem, SlackFailure, answered, broken
from bot.texts import Text

Json = dict[str, Any]
Headers = Mapping[str, str]

TIMEOUT = aiohttp.ClientTimeout(total=15, sock_connect=5)
UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=120, sock_connect=5)
INTERACTIVE = 3.0
"""Seconds that a person's answer may wait for its turn; callers that can try again later pass `patience=0`."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BREATH = 0.2
_REPEATABLE = frozenset(
    {
        *("auth.test", "apps.connections.open", "chat.update", "views.update", "views.publish", "reactions.add"),
        *("reactions.remove", "conversations.history", "conversations.replies", "conversations.open"),
        "conversations.join",
        *("files.getUploadURLExternal", "usergroups.users.list", "users.info"),
    }
)
"""Methods of Slack that may be called twice: the result is the same as of one call."""


def is_safe(url: str) -> bool:
    """Whether data sent to the address is encrypted on its way, or stays on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))


def proxy_for(url: str) -> str | None:
    """The environment's proxy for an address. None where the address is reached directly: one in NO_PROXY, which
    slack-sdk never reads, or on this machine. Raises WrongValue, which repeats nothing, for a proxy's address that
    cannot be read: it may hold a password.
    """
    host = urlsplit(url).hostname or ""
    proxy = None if host in LOOPBACK or proxy_bypass(host) else load_http_proxy_from_env()
    try:
        is_address = proxy is None or (bool(urlsplit(proxy).hostname) and urlsplit(proxy).port != 0)
    except ValueError:
        is_address = False
    if not is_address:
        raise WrongValue(Text("error-slack.proxy-is-no-address"))
    return proxy


@contextlib.asynccontextmanager
async def open_client(api_url: str, bot_token: str) -> AsyncGenerator[tuple[AsyncWebClient, aiohttp.ClientSession]]:
    """Slack's client and the session that a `Gateway` shares with it; proxies are used as `proxy_for` says. Raises
    UsageError for an address where the token would not be safe, and for an environment's proxy that is no address.
    """
    if not is_safe(api_url):
        raise UsageError(
            Text("error-slack.api-address", api_url=repr(api_url)),
            hint=Text("error-slack.address-must-begin-with-https"),
        )
    try:
        proxy = proxy_for(api_url)
    except WrongValue as error:
        raise UsageError(error.text, hint=Text("error-slack.such-as-proxy")) from None
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        client = AsyncWebClient(bot_token, base_url=api_url, session=session, retry_handlers=[])
        client.proxy = proxy
        yield client, session


async def is_set_within(event: asyncio.Event, within_s: float) -> bool:
    """Waits for the event for `within_s` seconds at most; True if it was set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            return await event.wait()
    return False


class Calls:
    """Calls Slack's methods, and posts to addresses that Slack gives. Raises only SlackFailure."""

    def __init__(
        self,
        client: AsyncWebClient,
        session: aiohttp.ClientSession,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._session = session
        self._clock = clock
        self._sleep = sleep
        self._pacer = Pacer()

    async def call(
        self,
        method: str,
        params: Json | None = None,
        *,
        body: Json | None = None,
        verb: str = "POST",
        channel: str = "",
        patience: float = INTERACTIVE,
    ) -> tuple[Json, Headers]:
        """Calls a method of Slack, paced by `channel`, after at most `patience` seconds; gives the answer and its
        headers. A call that was certainly not carried out, or may be repeated, gets one second try.
        """
        deadline, fresh = self._clock() + patience, patience > 0
        while True:
            now = self._clock()
            left = max(deadline - now, 0.0)
            wait = self._pacer.reserve(method, channel, now, left)
            if wait > left:
                called = Text("error-slack.call-to", method=method, channel=channel) if channel else method
                text = Text("error-slack.next-turn-in", method=called, wait=f"{wait:.1f}")
                raise SlackFailure(text, Problem.RATE_LIMITED, error="ratelimited", retry_after=wait)
            if wait:
                await self._sleep(wait)
            try:
                return await self._ask(method, params, body, verb)
            except SlackFailure as failure:
                if failure.problem is Problem.RATE_LIMITED:
                    self._pacer.pause(method, channel, self._clock() + failure.retry_after)
                elif failure.problem is Problem.TRANSIENT and fresh and self._clock() < deadline:
                    fresh = False
                    await self._sleep(_BREATH)
                else:
                    raise

    async def _ask(self, method: str, params: Json | None, body: Json | None, verb: str) -> tuple[Json, Headers]:
        repeatable = method in _REPEATABLE
        client: Any = self._client  # its annotations are too loose to be of use
        answer: Any
        try:
            response = await client.api_call(method, http_verb=verb, params=params and dict(params), json=body)
        except SlackClientError as error:
            # An AsyncSlackResponse, or aiohttp's own response where the body was not JSON.
            answer = getattr(error, "response", None)
            status = int(getattr(answer, "status_code", 0) or getattr(answer, "status", 0))
            headers = cast("Headers", getattr(answer, "headers", {}))
            raise answered(method, status, headers, getattr(answer, "data", None), repeatable=repeatable) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise broken(method, error, repeatable=repeatable) from None
        except (AttributeError, ValueError, RecursionError) as error:
            # What the SDK stumbles over when the answer is a JSON list, a text, no UTF-8 or nested without end.
            raise answered(method, 200, {}, None, repeatable=repeatable) from error
        answer = response.data
        if not isinstance(answer, dict):
            raise answered(method, 200, {}, None, repeatable=repeatable)
        return cast("Json", answer), response.headers

    async def send(
        self,
        url: str,
        content: bytes,
        content_type: str,
        what: str,
        limits: aiohttp.ClientTimeout,
        *,
        repeatable: bool = False,
    ) -> tuple[int, Headers, Any]:
        """Posts to an address that Slack gave: gives status, headers, and the body, decoded where it is JSON."""
        if not is_safe(url):
            raise SlackFailure(Text("error-slack.address-without-https", what=what), Problem.BAD_REQUEST)
        request = self._session.post(
            url,
            data=content,
            headers={"Content-Type": content_type},
            timeout=limits,
            proxy=proxy_for(url),
            allow_redirects=False,
        )
        try:
            async with request as response:
                text = (await response.read()).decode(errors="replace").strip()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise broken(what, error, repeatable=repeatable) from None
        try:
            return response.status, response.headers, json.loads(text)
        except (ValueError, RecursionError):
            return response.status, response.headers, text


class Rate(NamedTuple):
    """A limit of calls: `per_second` on average, and `burst` of them at once after a quiet time."""

    per_second: float
    burst: int


CHANNEL = Rate(1.0, 3)
"""The limit of chat.* to one channel. Slack: "1 message per second per channel", short bursts are not promised."""

TIERS = {1: Rate(1 / 60, 2), 2: Rate(20 / 60, 5), 3: Rate(50 / 60, 10), 4: Rate(100 / 60, 20)}
"""Slack's tiers of limits: at least so many calls a minute, for each method and workspace. The bursts are ours."""

_TIER_OF = {
    "chat.postEphemeral": 4,
    "chat.update": 3,
    "conversations.history": 3,
    "conversations.open": 3,
    "conversations.replies": 3,
    "files.completeUploadExternal": 4,
    "files.getUploadURLExternal": 4,
    "reactions.add": 3,
    "reactions.remove": 2,
    "users.info": 4,
    "views.open": 4,
    "views.publish": 4,
    "views.update": 4,
}
"""The tier of each method, from slack's java-slack-sdk, MethodsRateLimits. chat.postMessage is limited by channel,
auth.test hardly at all; apps.connections.open is called by the socket's client, which backs off by itself."""

_MANY = 2000


class Pacer:
    """Tells when the next call of a method, and to a channel, may be made under Slack's limits."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        """When each bucket is full again (the "theoretical arrival time" of the leaky bucket as a meter)."""
        self._paused: dict[tuple[str, str], float] = {}

    def reserve(self, method: str, channel: str, now: float, patience: float) -> float:
        """Seconds to wait before the call. The call is booked for then, unless the wait is more than `patience`."""
        tier = _TIER_OF.get(method)
        buckets = [(method, TIERS[tier])] if tier else []
        buckets += [(f"chat.* {channel}", CHANNEL)] if channel and method.startswith("chat.") else []
        start = max(now, self._paused.get((method, channel), now))
        for name, rate in buckets:
            start = max(start, self._spent.get(name, now) - (rate.burst - 1) / rate.per_second)
        if start - now > patience:
            return start - now
        for name, rate in buckets:
            self._spent[name] = max(start, self._spent.get(name, start)) + 1 / rate.per_second
        if len(self._spent) + len(self._paused) > _MANY:
            # A bucket that is full again, and a pause that is over, are as good as unknown.
            self._spent = {name: full for name, full in self._spent.items() if full > now}
            self._paused = {call: until for call, until in self._paused.items() if until > now}
        return start - now

    def pause(self, method: str, channel: str, until: float) -> None:
        """Lets no call of the method to the channel pass before `until`, as Slack asked. Other calls go on."""
        self._paused[method, channel] = max(until, self._paused.get((method, channel), until))
