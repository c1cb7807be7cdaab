"""What the bot's own port answers from the moment when it listens: what it is about depends on how far the start is."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from slack_bolt.app.async_app import AsyncApp

from bot.alerts_endpoint import Take
from bot.errors import SourceError
from bot.metrics import Exposition, Figures
from bot.pager.inbound import PagerAction
from bot.pager_endpoints import Hear
from bot.triage.webhook import Alert


class Receivers(NamedTuple):
    """What keeps alerts, and what pagers post."""

    take: Take
    hear: Hear


class Front:
    """Set as the start goes on. `app` takes what Slack sends; `ears` take alerts, once there is a store to keep them.

    Setting `stopping` ends both. `exposition` is what /metrics tells.
    """

    def __init__(self) -> None:
        self.why_not_ready: Callable[[], str] = lambda: "starting"
        self.notes: Callable[[], str] = str
        self.app: AsyncApp | None = None
        self.ears: Receivers | None = None
        self.stopping = asyncio.Event()
        self.exposition = Exposition(Figures(lambda: not self.readiness()))

    def is_not_ready(self, why: str) -> None:
        """What /readyz says until something else is set."""
        self.why_not_ready = lambda: why

    def readiness(self) -> str:
        """Why the bot is not ready now, or nothing."""
        return self.why_not_ready()

    async def take(self, alerts: list[Alert]) -> None:
        """Raises BotError for what was not kept."""
        await self._ears().take(alerts)

    async def hear(self, heard: PagerAction) -> None:
        """Raises BotError for what was not kept."""
        await self._ears().hear(heard)

    def _ears(self) -> Receivers:
        if self.ears is None:
            raise SourceError(self.readiness())
        return self.ears
