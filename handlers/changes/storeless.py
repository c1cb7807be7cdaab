"""That the store cannot be opened, told where the open changes are told: without a store there is no outbox for it."""

import logging

from bot.changes.plan import annotation
from bot.changes.record import KEY, Record, read_record
from bot.errors import BotError
from bot.slack.gateway import Gateway
from bot.slack.render.blocks import Draft
from bot.slack.render.change import DETAIL, what
from bot.slack.render.prose import error_line, progress
from bot.slack.render.text import escape, inert
from bot.texts import Text, Texts
from handlers.changes.journal import key_of
from handlers.changes.writable_clusters import WritableCluster

NO_STORE = ":no-store"
"""Ends the key of what is told."""

log = logging.getLogger(__name__)


class Storeless:
    """Tells it once for each open change, also where another process has: the message is found by its key."""

    def __init__(self, say: Texts) -> None:
        self._say = say
        self._told: set[str] = set()
        self.told_in: set[str] = set()
        """Where it was told by this process, or another one that this process found."""

    async def tell(self, gateway: Gateway, writable: WritableCluster, namespace: str, why: BotError) -> None:
        """In the channel that each record on a Deployment names. What cannot be told now is, when this is called again.

        An empty `namespace` means all.
        """
        try:
            for place in await writable.writer.annotated(KEY, namespace):
                record = read_record(annotation(await writable.writer.deployment(*place)) or "")
                if isinstance(record, Record) and record.id not in self._told:
                    await self._tell(gateway, writable, record, why)
                    self._told.add(record.id)
        except BotError as error:
            log.warning("that the store cannot be opened is not told in %s: %s", writable.cluster or "Slack", error)

    async def _tell(self, gateway: Gateway, writable: WritableCluster, record: Record, why: BotError) -> None:
        trouble = self._say("changing.no-store", why=inert(error_line(why, self._say), DETAIL))
        still_open = self._say(
            "changing.no-store-open",
            what=what(record),
            target=record.target,
            until=record.at,
            command=record.kind.reverting,
        )
        key = f"{key_of(record.id)}{NO_STORE}"
        for channel in writable.journal.told_in(record):
            self.told_in.add(channel)
            found = await gateway.keyed(channel, key, oldest=record.since)
            if all(message.text == AGAIN.in_words(self._say).text for message in found):
                await gateway.say(channel, progress(f"{trouble} {still_open}"), key=key)


AGAIN = Draft(escape(Text("changing.store-again")))
"""What takes the place of what was told, once the store is open."""
