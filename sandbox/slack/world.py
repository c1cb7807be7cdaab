"""Everything that one server holds, for the parts that answer requests."""

import secrets
from dataclasses import dataclass, field

from sandbox.slack.changes import Changes
from sandbox.slack.clock import Clock, Timer
from sandbox.slack.delivery import Delivery
from sandbox.slack.faults import FaultPlan
from sandbox.slack.files import Files
from sandbox.slack.journal import Entry, Journal
from sandbox.slack.responses import ResponseUrls
from sandbox.slack.seed import Seed
from sandbox.slack.sockets import Sockets
from sandbox.slack.tokens import Tokens
from sandbox.slack.views import Views
from sandbox.slack.workspace import Workspace

STATUS_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Credentials:
    """The app's tokens and signing secret; new ones for every server."""

    bot_token: str = field(default_factory=lambda: f"xoxb-sandbox-{secrets.token_hex(12)}")
    app_token: str = field(default_factory=lambda: f"xapp-1-sandbox-{secrets.token_hex(12)}")
    signing_secret: str = field(default_factory=lambda: secrets.token_hex(16))


class World:
    """The state and the machinery of one workspace with one app. `url` is set when the server listens."""

    def __init__(self, seed: Seed, clock: Clock, *, strict: bool, deadline_s: float) -> None:
        self.url = ""
        self.seed = seed
        self.clock = clock
        self.strict = strict
        self.credentials = Credentials()
        self.changes = Changes()
        self.unknown_methods: list[str] = []
        self.unknown_blocks: set[str] = set()
        self.workspace = Workspace(seed, clock, self.changes.tell)
        self.journal = Journal(clock.now, self._on_entry)
        self.faults = FaultPlan(clock, self._on_faults)
        self.sockets = Sockets(seed.app.id, clock, self.journal, self.faults)
        self.sockets.on_count = self.tell_connected
        secret = self.credentials.signing_secret
        self.delivery = Delivery(clock, self.journal, self.faults, self.sockets, secret)
        self.delivery.deadline_s = deadline_s
        self.responses = ResponseUrls(self.workspace, clock, strict=strict, without=self.unknown_blocks)
        self.files = Files(self.workspace, clock)
        self.views = Views(self.workspace)
        self._statuses: dict[tuple[str, str], tuple[str, Timer]] = {}
        self.triggers: Tokens[str] = Tokens(clock, deadline_s)

    @property
    def connected(self) -> bool:
        """Whether there is an app to deliver to."""
        return bool(self.delivery.request_url) if self.delivery.mode == "http" else len(self.sockets) > 0

    @property
    def statuses(self) -> dict[tuple[str, str], str]:
        """What the app is doing now, by channel and thread."""
        return {where: text for where, (text, _) in self._statuses.items()}

    def close(self) -> None:
        """Cancels the timers that would clear what the app says it is doing."""
        for _, timer in self._statuses.values():
            timer.cancel()

    def tell_connected(self) -> None:
        self.changes.tell({"type": "app", "connected": self.connected})

    def set_status(self, channel: str, thread_ts: str, text: str) -> None:
        """Sets what the page shows as "is looking at ..."; it goes after two minutes or with the next message."""
        news = {"type": "status", "channel": channel, "thread_ts": thread_ts or None, "text": text}
        self.changes.tell(news)
        _, timer = self._statuses.pop((channel, thread_ts), ("", None))
        if timer:
            timer.cancel()
        if text:
            ends = self.clock.call_later(STATUS_SECONDS, lambda: self.set_status(channel, thread_ts, ""))
            self._statuses[(channel, thread_ts)] = text, ends

    def clear_status(self, channel: str, thread_ts: str) -> None:
        if (channel, thread_ts) in self._statuses:
            self.set_status(channel, thread_ts, "")

    def _on_entry(self, entry: Entry) -> None:
        self.changes.tell({"type": "journal", "cursor": entry.id})

    def _on_faults(self) -> None:
        if self.faults.outage:
            self.sockets.cut()
