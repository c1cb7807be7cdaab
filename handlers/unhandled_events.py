"""The last listeners: what nothing else listens to is acked, or Slack would deliver it again and count a failure."""

import logging
import re
from typing import Any

from bot.slack.app import App

_ANYTHING = re.compile(".*", re.DOTALL)

log = logging.getLogger(__name__)


def register(app: App) -> None:
    """To be registered after all others: bolt takes the first listener that matches."""

    async def event(body: dict[str, Any]) -> None:
        log.debug("no listener for the event %s", body.get("event", {}).get("type"))

    async def anything(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        log.info("no listener for %s", body.get("type") or body.get("command"))

    app.event(_ANYTHING)(event)
    for listen in (app.command, app.action, app.options, app.shortcut, app.view, app.view_closed):
        listen(_ANYTHING)(anything)
