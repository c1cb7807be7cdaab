"""Pagers on loopback that answer as PagerDuty and a server of our own do, and what PagerDuty posts back.

The shapes are the vendors' published ones: PagerDuty's Events API v2 (`docs/events-API-v2` of PagerDuty/developer-docs
and `POST /enqueue` of its API reference), v3 webhooks and their signatures (`docs/webhooks/01-Overview.md`,
`04-Signatures.md`).
"""

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from bot.settings.oncall import PagerDutyPaging, PagingSettings, WebhookPaging
from sandbox.serving import Served

ROUTING_KEY, SIGNING = "7f3a" * 8, "whsec-91b2"
SECRET = "generic-3e8f"
INVALID = {"status": "invalid event", "message": "Event object is invalid", "errors": ["'summary' is missing"]}


class Pagers:
    """`down`: what they answer instead. `rung` are the pages that rang a phone; `status` is what each is now."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status: dict[str, str] = {}
        self.rung: list[str] = []
        self.down: Callable[[], web.Response] | None = None
        app = web.Application()
        app.router.add_post("/v2/enqueue", self._enqueue)
        app.router.add_post("/mine", self._mine)
        self.served = Served(app)

    def settings(self, *names: str) -> PagingSettings:
        url = self.served.url
        given = {
            "pagerduty": PagerDutyPaging(
                routing_key=SecretStr(ROUTING_KEY), webhook_secret=SecretStr(SIGNING), url=url
            ),
            "webhook": WebhookPaging(url=f"{url}/mine", secret=SecretStr(SECRET)),
        }
        return PagingSettings(**{name: given[name] for name in names})

    def actions(self) -> list[tuple[str, str]]:
        return [(request["action"], request["key"]) for request in self.asked]

    def _done(self, action: str, key: str, body: dict[str, Any]) -> None:
        self.asked.append({"action": action, "key": key, "body": body})
        before = self.status.get(key, "resolved")
        if action == "trigger" and before == "resolved":
            self.status[key] = "triggered"
            self.rung.append(key)
        elif action != "trigger" and key in self.status and before != "resolved":
            self.status[key] = {"acknowledge": "acknowledged"}.get(action, "resolved")

    async def _enqueue(self, request: web.Request) -> web.Response:
        if self.down:
            return self.down()
        body = await request.json()
        if body["routing_key"] != ROUTING_KEY or (
            body["event_action"] == "trigger" and not {"summary", "source", "severity"} <= body["payload"].keys()
        ):
            return web.json_response(INVALID, status=400)
        self._done(body["event_action"], body["dedup_key"], body)
        said = {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}
        return web.json_response(said, status=202)

    async def _mine(self, request: web.Request) -> web.Response:
        if self.down:
            return self.down()
        raw, timestamp = await request.read(), request.headers["X-Hami-Bot-Timestamp"]
        signed = hmac.new(SECRET.encode(), f"{timestamp}.".encode() + raw, hashlib.sha256).hexdigest()
        assert request.headers["X-Hami-Bot-Signature"] == f"v1={signed}"
        body = json.loads(raw)
        self._done(body["action"], body["key"], body)
        return web.Response(status=204)


def pagerduty_posts(key: str, event: str = "incident.acknowledged", agent: str = "user_reference") -> bytes:
    """A v3 webhook as PagerDuty's documentation shows it."""
    reference = {
        "html_url": "https://acme.pagerduty.com/users/PLH1HKV",
        "id": "PLH1HKV",
        "self": "https://api.pagerduty.com/users/PLH1HKV",
        "summary": "Tenex Engineer",
        "type": agent,
    }
    service = {"id": "PF9KMXH", "summary": "API Service", "type": "service_reference"}
    data = {
        "id": "PGR0VU2",
        "type": "incident",
        "self": "https://api.pagerduty.com/incidents/PGR0VU2",
        "number": 2,
        "status": event.rpartition(".")[2],
        "incident_key": key,
        "created_at": "2020-04-09T15:16:27Z",
        "title": "A little bump in the road",
        "service": service,
        "urgency": "high",
        "resolve_reason": None,
    }
    told = {
        "id": "5ac64822-4adc-4fda-ade0-410becf0de4f",
        "event_type": event,
        "resource_type": "incident",
        "occurred_at": "2020-10-02T18:45:22.169Z",
        "agent": reference if agent else None,
        "client": {"name": "PagerDuty"},
        "data": data,
    }
    return json.dumps({"event": told}).encode()


def signed(body: bytes, secret: str = SIGNING) -> dict[str, str]:
    """With the signature of a secret that is being replaced before it."""
    other = hmac.new(b"the-old-one", body, hashlib.sha256).hexdigest()
    ours = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-PagerDuty-Signature": f"v1={other},v1={ours}"}


def entry(email: str | None, schedule: str, level: int = 1) -> dict[str, Any]:
    name = (email or "nobody").partition("@")[0]
    user = {"id": f"P{name.upper()}", "type": "user", "summary": name, "email": email}
    where = {"id": schedule, "type": "schedule_reference", "summary": "GPUs"}
    return {"user": user, "schedule": where, "escalation_level": level, "start": None, "end": None}


def page(*entries: dict[str, Any], more: bool = False) -> web.Response:
    return web.json_response({"oncalls": list(entries), "limit": 100, "offset": 0, "more": more, "total": None})
