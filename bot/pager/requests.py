"""What a pager is sent. Pure.

PagerDuty: POST /v2/enqueue of the Events API v2. Opsgenie: POST /v2/alerts and /v2/alerts/{alias}/acknowledge, /close.

A webhook of one's own is posted JSON: {"version": 1, "action": "trigger" | "acknowledge" | "resolve", "key",
"incident", "summary", "severity": "info" | "warning" | "critical", "cluster", "link", "affected", "by"}. `key` names
the page and is the same when it is sent again. `X-Hami-Bot-Timestamp` is seconds since 1970, and
`X-Hami-Bot-Signature` is `v1=` and the hex of HMAC-SHA256, with the secret, over the timestamp, a dot and the body. Any
status 2xx means that it was taken.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from bot.report import Severity, one_line
from bot.settings.paging import OpsgeniePaging, PagerDutyPaging, PagingSettings, WebhookPaging
from bot.triage.pages import Action

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
