"""Failures on demand: what Slack, its proxies and the network do to an app on a bad day."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from aiohttp import web

from sandbox.slack.clock import Clock, sleep

RequestFault = Literal[
    "rate_limited", "status", "html", "error", "slow", "hang", "hang_after", "reset", "reset_after", "outage", "revoked"
]
SocketFault = Literal["refuse", "dead_ticket", "silent"]
DeliveryFault = Literal["duplicate", "replay"]
FileFault = Literal["late_files"]
FaultKind = RequestFault | SocketFault | DeliveryFault | FileFault

_LASTING = {"outage", "revoked"}  # states, not events: they end with `until` or by being removed
_HTML = "<html><head><title>Server Error</title></head><body><h1>Something went wrong.</h1></body></html>"


@dataclass
class Fault:
    """Something that goes wrong for requests or deliveries whose subject matches `where` (a regex, searched).

    Subjects are for requests of the app "api/chat.postMessage", "commands/..." and "actions/..." (response URLs),
    "upload/...", "files/..." and "link"; for what it is sent "delivery/" and events_api, slash_commands or interactive.
    It lets `skip` matches pass, then fires `times` times (None: always), between `since` and `until` on the server's
    clock.

    Requests: "rate_limited" (429 with `retry_after` as it stands, also "1.5"), "status" (`status` with a web page),
    "html" (200 with a web page), "error" (200, ok false, `error`), "slow" (answered after `seconds`), "hang" (nothing
    happened, no answer comes), "hang_after" (what was asked happened, no answer comes), "reset" (the connection;
    nothing happened), "reset_after" (what was asked happened, the answer is lost), "outage" (every connection is reset,
    sockets are cut), "revoked" (token_revoked everywhere). Sockets: "refuse" (the handshake gets 503, its ticket is
    spent), "dead_ticket" (408), "silent" (a socket swallows frames and pings). Deliveries: "duplicate" (sent twice),
    "replay" (again `seconds` later, byte for byte). Files: "late_files" (what is completed has a type, and stands in
    its channel, only `seconds` after the answer).
    """

    kind: FaultKind
    where: str = ""
    times: int | None = 1
    skip: int = 0
    since: float = 0
    until: float = math.inf
    seconds: float = 0
    status: int = 503
    retry_after: str = "1"
    error: str = "fatal_error"
    _seen: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in {kind for group in get_args(FaultKind) for kind in get_args(group)}:
            raise ValueError(f"there is no fault {self.kind!r}")
        re.compile(self.where)
        if self.kind == "revoked":
            self.where = "^api/"  # response URLs and uploads carry no token
        if self.kind in _LASTING:
            self.times = None

    def fires(self, subject: str, now: float) -> bool:
        """Whether it happens this time; counts the match."""
        if not (self.since <= now < self.until and re.search(self.where, subject)):
            return False
        self._seen += 1
        return self.skip < self._seen and (self.times is None or self._seen <= self.skip + self.times)


class FaultPlan:
    """The faults of a server, first match wins; `on_change` is called when there is a new one and when one begins."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._faults: list[Fault] = []

    def append(self, fault: Fault) -> Fault:
        """Adds a fault and gives it back, for `remove`."""
        self._faults.append(fault)
        self._on_change()
        if fault.since > self._clock.now():
            self._clock.call_later(fault.since - self._clock.now(), self._on_change)
        return fault

    def remove(self, fault: Fault) -> None:
        self._faults.remove(fault)

    def clear(self) -> None:
        self._faults.clear()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def __len__(self) -> int:
        return len(self._faults)

    def fired(self, kinds: Any, subject: str) -> Fault | None:
        """The first fault of these kinds (a Literal) that fires for the subject."""
        now = self._clock.now()
        wanted = get_args(kinds) or (kinds,)
        return next((fault for fault in self._faults if fault.kind in wanted and fault.fires(subject, now)), None)

    @property
    def outage(self) -> bool:
        """Whether Slack is down right now."""
        now = self._clock.now()
        return any(fault.kind == "outage" and fault.since <= now < fault.until for fault in self._faults)


async def spoil(
    fault: Fault,
    request: web.Request,
    answer: Callable[[], Awaitable[web.StreamResponse]],
    clock: Clock,
    closing: asyncio.Event,
) -> web.StreamResponse:
    """Answers a request as the fault says. `answer` does what was asked; `closing` ends a hang."""
    match fault.kind:
        case "rate_limited":
            body = {"ok": False, "error": "ratelimited"}
            return web.json_response(body, status=429, headers={"Retry-After": str(fault.retry_after)})
        case "status":
            return web.Response(status=fault.status, text=_HTML, content_type="text/html")
        case "html":
            return web.Response(text=_HTML, content_type="text/html")
        case "error":
            return web.json_response({"ok": False, "error": fault.error})
        case "revoked":
            return web.json_response({"ok": False, "error": "token_revoked"})
        case "slow":
            await sleep(clock, fault.seconds)
            return await answer()
        case "hang":
            await closing.wait()
        case "hang_after":
            await answer()
            await closing.wait()
        case "reset_after":
            await answer()
    return reset(request)


def reset(request: web.Request) -> web.Response:
    """A response that nobody gets, because the connection is cut."""
    if request.transport:
        request.transport.abort()
    return web.Response()
