"""Slack delivers a mention again that nobody acknowledged: then it is acked later than it was said."""

import asyncio
import time

from benchmarks.soak.deeds import Book
from sandbox.slack import SlackServer

_EVERY_S = 1.0


class Retries:
    """Reads Slack's journal as it grows: it keeps only the newest entries."""

    def __init__(self, slack: SlackServer) -> None:
        self._slack = slack
        self._read_to = 0
        self._acked: dict[str, float] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            self.read()

    def read(self) -> None:
        """What came since."""
        for entry in self._slack.journal.after(self._read_to, 10**6):
            self._read_to = entry.id
            if entry.kind == "ack" and entry.ok and (event := entry.request.get("event")):
                self._acked.setdefault(str(event.get("user", "")), time.time())

    def write(self, book: Book) -> None:
        """The deeds that were acked so. Whoever asks for a change by a mention confirms it by something else."""
        self.read()
        for deed in book.deeds:
            if not deed.acked_at and deed.kind != "raise":
                deed.acked_at = self._acked.get(deed.who, 0.0)
