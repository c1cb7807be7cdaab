"""What the app is sent: envelopes or signed requests, three seconds to acknowledge them, and retries of events."""

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import aiohttp

from sandbox.slack.clock import Clock, sleep, within
from sandbox.slack.faults import FaultPlan
from sandbox.slack.journal import Journal
from sandbox.slack.sockets import NoSocketError, Sockets

RETRY_AFTER_S = (0, 60, 300)  # after the first, second and third failed attempt
VERIFICATION_TOKEN = "verification"  # noqa: S105  # deprecated by Slack, still sent
Kind = Literal["slash_commands", "events_api", "interactive"]


@dataclass(frozen=True, slots=True)
class Ack:
    """The app's acknowledgement: `payload` is its answer, `error` the word that a person would see."""

    ok: bool
    error: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    latency_ms: float = 0.0
    ts: str = ""
    """The ts of the message that the person wrote, if there is one."""


class _Parcel(NamedTuple):
    """One thing to deliver: its payload is fixed, as text, from the moment it happened."""

    kind: Kind
    text: str
    title: str
    answerable: bool
    signed_at: float
    number: int = 0
    reason: str = ""


class UndeliveredError(Exception):
    """The app did not get it: `error` as a person sees it, `reason` as X-Slack-Retry-Reason has it."""

    def __init__(self, error: str, reason: str, *, final: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.reason = reason
        self.final = final


class Delivery:
    """Sends to the app over `mode`: "socket", or "http" to `request_url`."""

    def __init__(self, clock: Clock, journal: Journal, faults: FaultPlan, sockets: Sockets, secret: str) -> None:
        self.mode: Literal["socket", "http"] = "socket"
        self.request_url = ""
        self._clock = clock
        self._journal = journal
        self._faults = faults
        self._sockets = sockets
        self._signing_secret = secret
        self.deadline_s = 3.0
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Gives up what was still to be sent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session:
            await self._session.close()

    async def send(self, kind: Kind, payload: dict[str, Any], title: str, *, answerable: bool = True) -> Ack:
        """Delivers once, and returns when the app has acknowledged or has not; events are retried in the background."""
        parcel = _Parcel(kind, json.dumps(payload), title, answerable, time.time())
        if self._faults.fired("duplicate", f"delivery/{kind}"):
            self._spawn(self._attempt(parcel))
        replay = self._faults.fired("replay", f"delivery/{kind}")
        if replay:
            self._spawn(self._replay(parcel, replay.seconds))
        ack, failure = await self._attempt(parcel)
        if failure and kind == "events_api" and not failure.final:
            self._spawn(self._retry(parcel, failure.reason))
        return ack

    def later(self, kind: Kind, payload: dict[str, Any], title: str) -> None:
        """Delivers as `send` does, without waiting: for events that no person waits for."""
        self._spawn(self.send(kind, payload, title, answerable=False))

    async def verify_request_url(self) -> bool:
        """Whether the app answers the challenge that Slack sends when a request URL is entered."""
        challenge = uuid.uuid4().hex
        body = json.dumps({"type": "url_verification", "token": VERIFICATION_TOKEN, "challenge": challenge})
        try:
            answer = await self._post(_Parcel("events_api", body, "url_verification", True, time.time()))
        except UndeliveredError:
            return False
        return answer.get("challenge", answer.get("text")) == challenge

    async def _retry(self, parcel: _Parcel, reason: str) -> None:
        for number, seconds in enumerate(RETRY_AFTER_S, start=1):
            if seconds:
                await sleep(self._clock, seconds)
            again = parcel._replace(signed_at=time.time(), number=number, reason=reason)
            _, failure = await self._attempt(again)
            if failure is None or failure.final:
                return
            reason = failure.reason

    async def _replay(self, parcel: _Parcel, seconds: float) -> None:
        await sleep(self._clock, seconds)
        await self._attempt(parcel)

    async def _attempt(self, parcel: _Parcel) -> tuple[Ack, UndeliveredError | None]:
        retry = f" (retry {parcel.number}: {parcel.reason})" if parcel.number else ""
        name = f"{parcel.kind} {parcel.title}{retry}"
        sent = json.loads(parcel.text)
        self._journal.write("delivery", name, request=sent)
        began = time.perf_counter()
        try:
            payload = await self._over_the_wire(parcel)
        except UndeliveredError as error:
            entry = self._journal.write("ack", name, ok=False, status=0, since=began, request=sent, error=error.error)
            return Ack(ok=False, error=error.error, latency_ms=entry.latency_ms), error
        entry = self._journal.write("ack", name, since=began, request=sent, response=payload)
        return Ack(ok=True, payload=payload, latency_ms=entry.latency_ms), None

    async def _over_the_wire(self, parcel: _Parcel) -> dict[str, Any]:
        if self._faults.outage:
            raise UndeliveredError("dispatch_failed", "connection_failed")
        return await (self._post(parcel) if self.mode == "http" else self._over_socket(parcel))

    async def _over_socket(self, parcel: _Parcel) -> dict[str, Any]:
        envelope = {
            "envelope_id": str(uuid.uuid4()),
            "type": parcel.kind,
            "accepts_response_payload": parcel.answerable,
            "payload": json.loads(parcel.text),
        }
        if parcel.kind == "events_api":
            envelope |= {"retry_attempt": parcel.number, "retry_reason": parcel.reason}
        try:
            payload = await self._sockets.request(envelope, self.deadline_s)
        except NoSocketError as error:
            raise UndeliveredError("dispatch_failed", "connection_failed") from error
        except TimeoutError as error:
            raise UndeliveredError("operation_timeout", "timeout") from error
        return payload if isinstance(payload, dict) else {"text": str(payload)}

    async def _post(self, parcel: _Parcel) -> dict[str, Any]:
        body, content_type = _http_body(parcel.kind, parcel.text)
        signed = sign(self._signing_secret, body, int(parcel.signed_at)) | {"Content-Type": content_type}
        if parcel.number:
            signed |= {"X-Slack-Retry-Num": str(parcel.number), "X-Slack-Retry-Reason": parcel.reason}
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        try:
            return await within(self._clock, self.deadline_s, self._exchange(body, signed))
        except TimeoutError as error:
            raise UndeliveredError("operation_timeout", "http_timeout") from error
        except aiohttp.ClientError as error:
            raise UndeliveredError("dispatch_failed", "connection_failed") from error

    async def _exchange(self, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        assert self._session
        async with self._session.post(self.request_url, data=body, headers=headers, allow_redirects=False) as answer:
            text = await answer.text()
            if not 200 <= answer.status < 300:
                final = answer.headers.get("X-Slack-No-Retry") == "1"
                raise UndeliveredError("dispatch_failed", "http_error", final=final)
        return _http_payload(text)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def sign(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """The headers that sign a request, version v0. `timestamp` is real time: the app compares it with its own clock."""
    base = b"v0:%d:%s" % (timestamp, body)
    signature = hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": f"v0={signature}"}


def _http_body(kind: Kind, text: str) -> tuple[bytes, str]:
    form = "application/x-www-form-urlencoded"
    if kind == "slash_commands":
        return urlencode(json.loads(text)).encode(), form
    if kind == "interactive":
        return urlencode({"payload": text}).encode(), form
    return text.encode(), "application/json"


def _http_payload(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        payload = json.loads(text)
    except ValueError:
        return {"text": text}
    return payload if isinstance(payload, dict) else {"text": text}
