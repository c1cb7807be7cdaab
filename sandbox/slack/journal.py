"""What went over the wire, for the page's inspector and for assertions."""

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

ENTRIES_KEPT = 2_000

Kind = Literal["api", "delivery", "ack", "response_url", "upload", "socket"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One exchange. `at` is the server's clock in seconds; `latency_ms` is real time, 0 if nothing was waited for.
    `title` begins with the method or the kind of envelope. `violations` are the findings of the block rules.
    """

    id: int
    at: float
    kind: Kind
    title: str
    ok: bool
    status: int
    latency_ms: float
    request: Any
    response: Any
    error: str = ""
    violations: tuple[dict[str, Any], ...] = ()

    def public(self) -> dict[str, Any]:
        """The entry as the page gets it."""
        return asdict(self)


class Journal:
    """The last entries, oldest first."""

    def __init__(self, now: Callable[[], float], on_entry: Callable[[Entry], None]) -> None:
        self._now = now
        self._on_entry = on_entry
        self._ids = itertools.count(1)
        self.entries: deque[Entry] = deque(maxlen=ENTRIES_KEPT)

    def write(
        self,
        kind: Kind,
        title: str,
        *,
        ok: bool = True,
        status: int = 200,
        since: float | None = None,
        request: Any = None,
        response: Any = None,
        error: str = "",
        violations: tuple[dict[str, Any], ...] = (),
    ) -> Entry:
        """Adds an exchange; `since` is the time.perf_counter() at which it began."""
        latency = 0.0 if since is None else round((time.perf_counter() - since) * 1000, 2)
        entry = Entry(
            next(self._ids), self._now(), kind, title, ok, status, latency, request, response, error, violations
        )
        self.entries.append(entry)
        self._on_entry(entry)
        return entry

    def after(self, cursor: int, limit: int) -> list[Entry]:
        """Entries newer than `cursor`, the newest `limit` of them, oldest first."""
        return [entry for entry in self.entries if entry.id > cursor][-limit:]

    def of(self, kind: Kind, containing: str = "") -> list[Entry]:
        """Entries of a kind whose title contains a text, oldest first."""
        return [entry for entry in self.entries if entry.kind == kind and containing in entry.title]
