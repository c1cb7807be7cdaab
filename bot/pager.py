"""Pagers, which ring phones: the requests to them, their answers, and what they post back.

PagerDuty gets POST /v2/enqueue of the Events API v2. It posts v3 webhooks to `/pager/pagerduty`, one event each, signed
by `X-PagerDuty-Signature` (`v1=` and the hex of HMAC-SHA256 over the body, several with commas between them while a
secret is replaced). A signed post is not trusted further. The bot's own requests to PagerDuty come back as events too,
by no person: these are ignored. Nothing of a request is logged.

An operator's own webhook gets JSON: {"version": 1, "action": "trigger" | "acknowledge" | "resolve", "key", "incident",
"summary", "severity": "info" | "warning" | "critical", "cluster", "link", "affected", "by"}. `key` names the page and
stays equal when the page is sent again. `X-Hami-Bot-Timestamp` is seconds since 1970, and `X-Hami-Bot-Signature` is
`v1=` and the hex of HMAC-SHA256, with the secret, over the timestamp, a dot and the body. Any status 2xx means that the
page was taken.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from bot.endpoint import Endpoint, Handler, PostRefused, endpoint_route
from bot.kube.client.pod_http import bounded
from bot.report import Severity, one_line
from bot.settings.oncall import PagerDutyPaging, PagingSettings
from bot.slack.calls import proxy_for
from bot.slack.render.text import inert
from bot.triage.state import Action

PAGERDUTY, WEBHOOK = "PagerDuty", "webhook"
SENDER = "hami-bot"
_LONGEST_SUMMARY = 1024
WITHIN_S = 10.0
_LARGEST_ANSWER = 16 * 1024
_LONGEST_REASON = 200
_AGAIN = frozenset({408, 425, 429})
_DENIED = frozenset({401, 403, 404})
"""Statuses for which somebody has to correct the settings: until then the page waits."""
PAGERDUTY_PATH = "/pager/pagerduty"
LARGEST_BODY = 256 * 1024
"""The most bytes of a post from PagerDuty, which itself drops larger ones."""
_LONGEST_NAME = 40
_DEEDS: Mapping[str, Literal["ack", "close"]] = {"incident.acknowledged": "ack", "incident.resolved": "close"}


class PageEvent(msgspec.Struct, frozen=True):
    """One event of a page, for a pager. `affected` counts pods, or alerts where none names a pod. `link` leads to the
    thread, or is empty; `by` is who acknowledged or closed the page, or empty.
    """

    action: Action
    key: str
    incident: str
    summary: str
    severity: Severity
    cluster: str = ""
    link: str = ""
    affected: int = 0
    by: str = ""


class PagerRequest(NamedTuple):
    """A POST to a pager. `secret`, which it is made with, must be in no log."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    secret: str


def services_of(settings: PagingSettings) -> tuple[str, ...]:
    """The names of the pagers in the settings."""
    given = {PAGERDUTY: settings.pagerduty, WEBHOOK: settings.webhook}
    return tuple(name for name, field in given.items() if field is not None)


def request_of(service: str, settings: PagingSettings, event: PageEvent, now: float) -> PagerRequest | None:
    """The request that tells the pager `service` of the event; None for a pager that is no longer in the settings."""
    match service:
        case "PagerDuty" if settings.pagerduty:
            return _pagerduty(settings.pagerduty, event)
        case "webhook" if settings.webhook:
            body = msgspec.json.encode({"version": 1, **msgspec.structs.asdict(event)})
            secret, timestamp = settings.webhook.secret.get_secret_value(), f"{now:.0f}"
            signed = {"X-Hami-Bot-Timestamp": timestamp, "X-Hami-Bot-Signature": signature(secret, timestamp, body)}
            return PagerRequest(settings.webhook.url, {"Content-Type": "application/json", **signed}, body, secret)
        case _:
            return None


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of a body for an operator's own webhook, for the header `X-Hami-Bot-Signature`."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _pagerduty(given: PagerDutyPaging, page: PageEvent) -> PagerRequest:
    key = given.routing_key.get_secret_value()
    event: dict[str, object] = {"routing_key": key, "event_action": page.action, "dedup_key": page.key}
    if page.action == "trigger":
        event["client"] = SENDER
        if page.link:
            event |= {"client_url": page.link, "links": [{"href": page.link, "text": "Slack"}]}
        about = ("incident", page.incident), ("cluster", page.cluster), ("affected", str(page.affected))
        event["payload"] = {
            "summary": one_line(page.summary, _LONGEST_SUMMARY),
            "source": page.cluster or SENDER,
            "severity": page.severity,
            "custom_details": {name: value for name, value in (*about, ("thread", page.link)) if value},
        }
    headers = {"Content-Type": "application/json"}
    return PagerRequest(f"{given.url}/v2/enqueue", headers, msgspec.json.encode(event), key)


class Outcome(NamedTuple):
    """The result of a request to a pager. `denied`: the pager does not know the bot."""

    kind: Literal["taken", "again", "denied", "refused"]
    reason: str = ""


async def post(request: PagerRequest) -> Outcome:
    """Posts the request to the pager. Never raises; the outcome's reason does not have the secret."""
    import httpx  # noqa: PLC0415  # slow to import, and needed only once something is paged

    try:
        async with (
            asyncio.timeout(WITHIN_S),
            httpx.AsyncClient(proxy=proxy_for(request.url), trust_env=False, timeout=WITHIN_S) as client,
            client.stream("POST", request.url, headers=dict(request.headers), content=request.body) as answer,
        ):
            if answer.is_success:  # it was taken, whatever becomes of the body
                return Outcome("taken")
            body, _ = await bounded(answer.aiter_bytes(), _LARGEST_ANSWER)
            status, kind = answer.status_code, "refused"
            if status in _DENIED:
                kind = "denied"
            elif status in _AGAIN or answer.is_server_error:
                kind = "again"
            outcome = Outcome(kind, f"HTTP {status} {body.decode(errors='replace')}".rstrip())
    except TimeoutError:
        outcome = Outcome("again", f"no answer within {WITHIN_S:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        outcome = Outcome("again", f"{type(error).__name__}: {error}")
    reason = outcome.reason.replace("\\/", "/").replace(request.secret, "…")
    if len(path := urlsplit(request.url).path) > 1:  # it may be a secret, and servers repeat it
        reason = reason.replace(path, "…")
    return outcome._replace(reason=one_line(reason, _LONGEST_REASON))


class PagerAction(NamedTuple):
    """A deed that a pager reports: a person, named as the pager names them, acknowledged or closed the page `key`."""

    service: str
    key: str
    deed: Literal["ack", "close"]
    by: str


Hear = Callable[[PagerAction], Awaitable[None]]


class _Agent(msgspec.Struct):
    type: str = ""
    summary: str | None = ""


class _Incident(msgspec.Struct):
    incident_key: str | None = ""


class _PagerEvent(msgspec.Struct):
    event_type: str
    data: _Incident
    agent: _Agent | None = None


class _PagerDuty(msgspec.Struct):
    event: _PagerEvent


def is_signed(header: str, body: bytes, secret: str) -> bool:
    """Whether one of the header's signatures is PagerDuty's for that body; compared in constant time."""
    wanted = b"v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
    given = (signature.strip().encode(errors="replace") for signature in header.split(","))
    return bool(secret) and any(hmac.compare_digest(signature, wanted) for signature in given)


def read_pagerduty(body: bytes) -> PagerAction | None:
    """A person's deed on a page, from PagerDuty's post; None for any other event. Raises PostRefused."""
    try:
        event = msgspec.json.decode(body, type=_PagerDuty).event
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PostRefused(400, "nothing that this pager posts") from error
    deed = _DEEDS.get(event.event_type)
    person = event.agent if event.agent and event.agent.type == "user_reference" else None
    if deed is None or person is None or not event.data.incident_key:
        return None
    name = inert(person.summary or "somebody", _LONGEST_NAME)
    return PagerAction(PAGERDUTY, inert(event.data.incident_key, 64), deed, f"{name} ({PAGERDUTY})")


def pager_routes(paging: PagingSettings, hear: Hear, stopping: Callable[[], bool]) -> dict[str, Handler]:
    """HTTP handlers for pagers' posts, by path; none for a pager without a secret. `hear` raises BotError if not kept.

    200  taken in, or ignored; 400 nothing that the pager posts; 401 without its signature
    408 too slow; 413 too large; 415 compressed; 503 not kept, to be sent again
    """
    secret = paging.pagerduty.webhook_secret.get_secret_value() if paging.pagerduty else ""
    if not secret:
        return {}

    async def signed(request: web.Request, body: bytes) -> None:
        if not is_signed(request.headers.get("X-PagerDuty-Signature", ""), body, secret):
            raise PostRefused(401, "the proof is missing or wrong")
        if heard := read_pagerduty(body):
            await hear(heard)

    return {PAGERDUTY_PATH: endpoint_route(Endpoint("what PagerDuty posted", LARGEST_BODY, stopping, signed))}
