"""The endpoint of alerts, and what it was given."""

from bot.errors import BotError
from bot.triage.webhook import Alert


class Taken:
    """What was taken; with `error` nothing is."""

    def __init__(self, error: BotError | None = None, *, stopping: bool = False) -> None:
        self.alerts: list[Alert] = []
        self._error = error
        self.stopping = stopping

    async def take(self, alerts: list[Alert]) -> None:
        if self._error:
            raise self._error
        self.alerts += alerts
