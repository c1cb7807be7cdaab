"""What pagers post back: who acknowledged or resolved a page there. Whoever may post is not trusted further. Pure.

PagerDuty: v3 webhooks, one event each, signed by `X-PagerDuty-Signature` (`v1=` and the hex of HMAC-SHA256 over the
body, several with commas between them while a secret is replaced). Opsgenie: a webhook integration, not signed, with
a header of our choice. What the bot itself told a pager comes back as well, by no person: that is nothing to tell.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from bot.endpoint import Endpoint, Handler, Refusal, endpoint_route
from bot.pager.requests import OPSGENIE, PAGERDUTY, SENDER
from bot.settings.oncall import PagingSettings
from bot.slack.render.text import inert

T = TypeVar("T")

LARGEST_BODY = 256 * 1024
"""Bytes: PagerDuty drops what is larger itself."""
_LONGEST_NAME = 40
_PAGERDUTY_DEEDS = {"incident.acknowledged": "ack", "incident.resolved": "close"}
_OPSGENIE_DEEDS = {"Acknowledge": "ack", "Close": "close"}


class PagerAction(NamedTuple):
    """Somebody, named as the pager names them, acknowledged or closed the page that has this key."""

    service: str
    key: str
    deed: Literal["ack", "close"]
    by: str


class NoWebhookError(ValueError):
    """It is nothing that the pager posts. The message repeats nothing of what was sent."""


class _Agent(msgspec.Struct):
    type: str = ""
    summary: str | None = ""


class _Incident(msgspec.Struct):
    incident_key: str | None = ""


class _Event(msgspec.Struct):
    event_type: str
    data: _Incident
    agent: _Agent | None = None


class _PagerDuty(msgspec.Struct):
    event: _Event


class _Source(msgspec.Struct):
    name: str | None = ""
    type: str | None = ""


class _Alert(msgspec.Struct):
    alias: str | None = ""
    username: str | None = ""


class _Opsgenie(msgspec.Struct):
    action: str
    alert: _Alert
    source: _Source | None = None


def is_signed(header: str, body: bytes, secret: str) -> bool:
    """Whether one of the signatures is PagerDuty's for that body; compared in constant time."""
    wanted = b"v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
    given = (signature.strip().encode(errors="replace") for signature in header.split(","))
    return bool(secret) and any(hmac.compare_digest(signature, wanted) for signature in given)


def read_pagerduty(body: bytes) -> PagerAction | None:
    """What a person did to a page; None for all else that PagerDuty posts. Raises NoWebhookError."""
    event = _decoded(body, _PagerDuty).event
    deed = _PAGERDUTY_DEEDS.get(event.event_type)
    person = event.agent if event.agent and event.agent.type == "user_reference" else None
    if deed is None or person is None or not event.data.incident_key:
        return None
    return _heard(PAGERDUTY, event.data.incident_key, deed, person.summary)


def read_opsgenie(body: bytes) -> PagerAction | None:
    """What a person did to a page; None for all else that Opsgenie posts. Raises NoWebhookError."""
    payload = _decoded(body, _Opsgenie)
    deed = _OPSGENIE_DEEDS.get(payload.action)
    source = payload.source or _Source()
    ours = (source.type or "").casefold() == "api" or source.name == SENDER
    if deed is None or ours or not payload.alert.alias:
        return None
    return _heard(OPSGENIE, payload.alert.alias, deed, payload.alert.username)


def _heard(service: str, key: str, deed: str, by: str | None) -> PagerAction:
    name = inert(by or "somebody", _LONGEST_NAME)
    return PagerAction(service, inert(key, 64), "ack" if deed == "ack" else "close", f"{name} ({service})")


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoWebhookError("nothing that this pager posts") from error


PAGERDUTY_PATH, OPSGENIE_PATH = "/pager/pagerduty", "/pager/opsgenie"
Hear = Callable[[PagerAction], Awaitable[None]]
_UNPROVEN = "the proof is missing or wrong"


def pager_routes(paging: PagingSettings, hear: Hear, stopping: Callable[[], bool]) -> dict[str, Handler]:
    """What answers each path; none for a pager without a secret. `hear` raises BotError if it could not be kept."""
    found: dict[str, Handler] = {}
    signing = paging.pagerduty.webhook_secret.get_secret_value() if paging.pagerduty else ""
    token = paging.opsgenie.webhook_token.get_secret_value() if paging.opsgenie else ""
    if signing:

        async def signed(request: web.Request, body: bytes) -> None:
            if not is_signed(request.headers.get("X-PagerDuty-Signature", ""), body, signing):
                raise Refusal(401, _UNPROVEN)
            await _hear_read(read_pagerduty, body, hear)

        found[PAGERDUTY_PATH] = endpoint_route(Endpoint("what PagerDuty posted", LARGEST_BODY, stopping, signed))
    if token:
        bearer = f"Bearer {token}".encode()

        def check(request: web.Request) -> None:
            given = request.headers.get("Authorization", "").encode(errors="replace")
            if not hmac.compare_digest(given, bearer):
                raise Refusal(401, _UNPROVEN)

        async def named(_: web.Request, body: bytes) -> None:
            await _hear_read(read_opsgenie, body, hear)

        found[OPSGENIE_PATH] = endpoint_route(Endpoint("what Opsgenie posted", LARGEST_BODY, stopping, named, check))
    return found


async def _hear_read(read: Callable[[bytes], PagerAction | None], body: bytes, hear: Hear) -> None:
    try:
        heard = read(body)
    except NoWebhookError as error:
        raise Refusal(400, str(error)) from error
    if heard:
        await hear(heard)
