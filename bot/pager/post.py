"""Posts to a pager, and says what came of it: taken, to be tried again, or refused for good."""

import asyncio
from typing import Literal, NamedTuple

import httpx
import msgspec

from bot.kube.client.pod_http import bounded
from bot.pager.requests import Request
from bot.report import one_line
from bot.slack.calls import proxy_for

WITHIN_S = 10.0
_LARGEST_ANSWER = 16 * 1024
_LONGEST_REASON = 200
_LONGEST_WAIT = 900.0
_AGAIN = frozenset({408, 425, 429})
_DENIED = frozenset({401, 403, 404})
"""Somebody has to mend the settings: until then it waits."""


class Outcome(NamedTuple):
    """`denied`: the pager does not know us. `wait_s`: how long it asks us to wait, 0 where it does not say."""

    kind: Literal["taken", "again", "denied", "refused"]
    reason: str = ""
    wait_s: float = 0.0


async def post(request: Request) -> Outcome:
    """Never raises; a reason never has the secret."""
    try:
        async with asyncio.timeout(WITHIN_S):
            outcome = await _post(request)
    except TimeoutError:
        outcome = Outcome("again", f"no answer within {WITHIN_S:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        outcome = Outcome("again", f"{type(error).__name__}: {error}")
    reason = outcome.reason.replace(request.secret, "…")
    return outcome._replace(reason=one_line(reason, _LONGEST_REASON))


async def _post(request: Request) -> Outcome:
    async with (
        httpx.AsyncClient(proxy=proxy_for(request.url), trust_env=False, timeout=WITHIN_S) as client,
        client.stream("POST", request.url, headers=dict(request.headers), content=request.body) as answer,
    ):
        if answer.is_success:
            return Outcome("taken")
        body, _ = await bounded(answer.aiter_bytes(), _LARGEST_ANSWER)
        reason = f"HTTP {answer.status_code}{_errors_of(body)}"
        if answer.status_code in _DENIED:
            return Outcome("denied", reason)
        if answer.status_code in _AGAIN or answer.is_server_error:
            return Outcome("again", reason, _wait(answer.headers.get("Retry-After", "")))
        return Outcome("refused", reason)


class _Answer(msgspec.Struct):
    """What PagerDuty and Opsgenie explain a refusal with."""

    message: str = ""
    errors: list[str] | dict[str, str] = []


def _errors_of(body: bytes) -> str:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    errors = answer.errors if isinstance(answer.errors, list) else list(answer.errors.values())
    text = "; ".join(filter(None, (answer.message, *errors)))
    return f": {text}" if text else ""


def _wait(header: str) -> float:
    return min(float(header), _LONGEST_WAIT) if header.isdecimal() else 0.0
