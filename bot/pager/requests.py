"""What a pager is sent. Pure.

PagerDuty: POST /v2/enqueue of the Events API v2. Opsgenie: POST /v2/alerts and /v2/alerts/{alias}/acknowledge, /close.

A webhook of one's own is posted JSON: {"version": 1, "action": "trigger" | "acknowledge" | "resolve", "key",
"incident", "summary", "severity": "info" | "warning" | "critical", "cluster", "link", "affected", "by"}. `key` names
the page and is the same when it is sent again. `X-Hami-Bot-Timestamp` is seconds since 1970, and
`X-Hami-Bot-Signature` is `v1=` and the hex of HMAC-SHA256, with the secret, over the timestamp, a dot and the body. Any
status 2xx means that it was taken.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import quote

import httpx
import msgspec

from bot.kube.client.pod_http import bounded
from bot.report import Severity, one_line
from bot.settings.oncall import OpsgeniePaging, PagerDutyPaging, PagingSettings, WebhookPaging
from bot.slack.calls import proxy_for
from bot.triage.state import Action

PAGERDUTY, OPSGENIE, WEBHOOK = "PagerDuty", "Opsgenie", "webhook"
SENDER = "hami-bot"
_LONGEST_SUMMARY = 1024
_LONGEST_MESSAGE = 130
_PRIORITIES: Mapping[Severity, str] = {"critical": "P1", "warning": "P3", "info": "P5"}


class PageEvent(NamedTuple):
    """What a pager is told of a page. `affected` counts pods, or alerts where none names a pod; `link` leads to the
    thread, or is empty; `by` is who acknowledged or closed it, or empty.
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


class Request(NamedTuple):
    """A POST. `secret` stands somewhere in it and nowhere in a log."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    secret: str


def services_of(settings: PagingSettings) -> tuple[str, ...]:
    """The pagers of the settings."""
    given = {PAGERDUTY: settings.pagerduty, OPSGENIE: settings.opsgenie, WEBHOOK: settings.webhook}
    return tuple(name for name, field in given.items() if field is not None)


def request_of(service: str, settings: PagingSettings, event: PageEvent, now: float) -> Request | None:
    """The request that tells it; None for a pager that the settings do not have any more."""
    match service:
        case "PagerDuty" if settings.pagerduty:
            return _pagerduty(settings.pagerduty, event)
        case "Opsgenie" if settings.opsgenie:
            return _opsgenie(settings.opsgenie, event)
        case "webhook" if settings.webhook:
            return _webhook(settings.webhook, event, now)
        case _:
            return None


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What signs a body of our webhook."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _pagerduty(given: PagerDutyPaging, page: PageEvent) -> Request:
    key = given.routing_key.get_secret_value()
    event: dict[str, object] = {"routing_key": key, "event_action": page.action, "dedup_key": page.key}
    if page.action == "trigger":
        event["client"] = SENDER
        if page.link:
            event |= {"client_url": page.link, "links": [{"href": page.link, "text": "Slack"}]}
        event["payload"] = {
            "summary": one_line(page.summary, _LONGEST_SUMMARY),
            "source": page.cluster or SENDER,
            "severity": page.severity,
            "custom_details": _details(page),
        }
    return _posted(f"{given.url}/v2/enqueue", event, key)


def _opsgenie(given: OpsgeniePaging, event: PageEvent) -> Request:
    key = given.api_key.get_secret_value()
    url, alert = f"{given.url}/v2/alerts", dict[str, object](source=SENDER)
    if event.action == "trigger":
        alert |= {"alias": event.key, "message": one_line(event.summary, _LONGEST_MESSAGE), "details": _details(event)}
        alert |= {"description": "\n".join(filter(None, (event.summary, event.link)))}
        alert |= {"priority": _PRIORITIES[event.severity], "entity": event.cluster}
    else:
        verb = "acknowledge" if event.action == "acknowledge" else "close"
        url = f"{url}/{quote(event.key, safe='')}/{verb}?identifierType=alias"
        alert |= {"note": f"{event.by} in Slack" if event.by else SENDER}
    return _posted(url, alert, key, {"Authorization": f"GenieKey {key}"})


def _webhook(given: WebhookPaging, event: PageEvent, now: float) -> Request:
    body = msgspec.json.encode({"version": 1, **event._asdict()})
    secret, timestamp = given.secret.get_secret_value(), f"{now:.0f}"
    signed = {"X-Hami-Bot-Timestamp": timestamp, "X-Hami-Bot-Signature": signature(secret, timestamp, body)}
    return Request(given.url, {"Content-Type": "application/json", **signed}, body, secret)


def _details(page: PageEvent) -> dict[str, str]:
    facts = {"incident": page.incident, "cluster": page.cluster, "affected": str(page.affected), "thread": page.link}
    return {name: value for name, value in facts.items() if value}


def _posted(url: str, content: object, secret: str, headers: Mapping[str, str] | None = None) -> Request:
    return Request(url, {"Content-Type": "application/json", **(headers or {})}, msgspec.json.encode(content), secret)


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
