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


class Told(NamedTuple):
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
    return tuple(name for name, one in given.items() if one is not None)


def request_of(service: str, settings: PagingSettings, told: Told, now: float) -> Request | None:
    """The request that tells it; None for a pager that the settings do not have any more."""
    match service:
        case "PagerDuty" if settings.pagerduty:
            return _pagerduty(settings.pagerduty, told)
        case "Opsgenie" if settings.opsgenie:
            return _opsgenie(settings.opsgenie, told)
        case "webhook" if settings.webhook:
            return _webhook(settings.webhook, told, now)
        case _:
            return None


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What signs a body of our webhook."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _pagerduty(given: PagerDutyPaging, told: Told) -> Request:
    key = given.routing_key.get_secret_value()
    event: dict[str, object] = {"routing_key": key, "event_action": told.action, "dedup_key": told.key}
    if told.action == "trigger":
        event["client"] = SENDER
        if told.link:
            event |= {"client_url": told.link, "links": [{"href": told.link, "text": "Slack"}]}
        event["payload"] = {
            "summary": one_line(told.summary, _LONGEST_SUMMARY),
            "source": told.cluster or SENDER,
            "severity": told.severity,
            "custom_details": _details(told),
        }
    return _posted(f"{given.url}/v2/enqueue", event, key)


def _opsgenie(given: OpsgeniePaging, told: Told) -> Request:
    key = given.api_key.get_secret_value()
    url, alert = f"{given.url}/v2/alerts", dict[str, object](source=SENDER)
    if told.action == "trigger":
        alert |= {"alias": told.key, "message": one_line(told.summary, _LONGEST_MESSAGE), "details": _details(told)}
        alert |= {"description": "\n".join(filter(None, (told.summary, told.link)))}
        alert |= {"priority": _PRIORITIES[told.severity], "entity": told.cluster}
    else:
        verb = "acknowledge" if told.action == "acknowledge" else "close"
        url = f"{url}/{quote(told.key, safe='')}/{verb}?identifierType=alias"
        alert |= {"note": f"{told.by} in Slack" if told.by else SENDER}
    return _posted(url, alert, key, {"Authorization": f"GenieKey {key}"})


def _webhook(given: WebhookPaging, told: Told, now: float) -> Request:
    body = msgspec.json.encode({"version": 1, **told._asdict()})
    secret, timestamp = given.secret.get_secret_value(), f"{now:.0f}"
    signed = {"X-Hami-Bot-Timestamp": timestamp, "X-Hami-Bot-Signature": signature(secret, timestamp, body)}
    return Request(given.url, {"Content-Type": "application/json", **signed}, body, secret)


def _details(told: Told) -> dict[str, str]:
    facts = {"incident": told.incident, "cluster": told.cluster, "affected": str(told.affected), "thread": told.link}
    return {name: value for name, value in facts.items() if value}


def _posted(url: str, content: object, secret: str, headers: Mapping[str, str] | None = None) -> Request:
    return Request(url, {"Content-Type": "application/json", **(headers or {})}, msgspec.json.encode(content), secret)
