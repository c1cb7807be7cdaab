"""Cards that offer what cannot be done any more, and that nothing in this store will ever edit."""

import logging
from collections.abc import Iterable
from typing import Any, cast

from bot.changes.plan import annotation
from bot.changes.record import Record, read_record
from bot.errors import BotError, NotFound
from bot.slack.error_words import PASSING
from bot.slack.failures import SlackFailure
from bot.slack.gateway import Keyed
from bot.slack.render.buttons import read_value
from bot.slack.render.change import APPROVE, EXTEND, REFUSE, REVERT, CardButton, render_over
from bot.store import StoreError
from bot.store.outbox_rows import DONE_KEPT
from bot.unexpected_errors import bugs_as_errors
from handlers.changes.journal import key_of
from handlers.changes.storeless import AGAIN, NO_STORE
from handlers.changes.writable_clusters import WritableCluster, WritableClusters
from handlers.deps import Deps

_OFFERS = frozenset({REVERT, EXTEND, APPROVE, REFUSE})

log = logging.getLogger(__name__)


class StaleCards:
    """Finds them in these channels by the keys in Slack's metadata, as far back as the outbox remembers."""

    def __init__(self, deps: Deps, clusters: WritableClusters, channels: Iterable[str]) -> None:
        self._deps = deps
        self._clusters = clusters
        self._channels = tuple(dict.fromkeys(channels))

    async def look(self) -> list[str]:
        """Edits them; a card that cannot be edited now is left to whoever clicks. After a pass: see `_is_known`.

        The channels to look in again: Slack could not be asked now.
        """
        missed: list[str] = []
        for channel in self._channels:
            try:
                with bugs_as_errors():
                    await self._look(channel)
            except BotError as error:
                log.warning("old cards in %s are not looked for: %s", channel, error)
                if isinstance(error, SlackFailure) and error.problem in PASSING:
                    missed.append(channel)
        return missed

    async def _look(self, channel: str) -> None:
        deps = self._deps
        again = AGAIN.in_words(deps.say)
        for message in await deps.gateway.keyed(channel, key_of(""), oldest=deps.now() - DONE_KEPT):
            if message.key.endswith(NO_STORE) and message.text != again.text:
                key = f"{message.key}:over:{message.ts}"
                await deps.outbox.put(key, channel, again, update_ts=message.ts, severity="warning")
            elif about := _offered(message):
                try:
                    await self._edit(about, channel, message.ts)
                except BotError as error:
                    log.warning("whether a card of %s is out of date is not known: %s", about.target, error)

    async def _edit(self, about: CardButton, channel: str, ts: str) -> None:
        self._deps.check_cluster(about.cluster)
        writable = await self._clusters.of(about.cluster)
        async with writable.busy:  # what a pass ends is noted when it is over
            if not await self._is_known(writable, about):
                await edit_stale(self._deps, about, channel, ts)

    async def _is_known(self, writable: WritableCluster, about: CardButton) -> bool:
        """Whether the store has it, or the Deployment carries it: then the next pass finds its card."""
        store = self._deps.store
        if await store.approvals.get(about.key) or await store.changes(writable.cluster).known(about.key):
            return True
        namespace, _, name = about.target.partition("/")
        try:
            record = read_record(annotation(await writable.writer.deployment(namespace, name)) or "")
        except NotFound:
            return False
        return isinstance(record, Record) and record.id == about.key


def _offered(card: Keyed) -> CardButton | None:
    """What the buttons of a card are about; None for what has none."""
    rows = (cast("list[dict[str, Any]]", block.get("elements") or []) for block in card.blocks)
    values = [str(button.get("value")) for row in rows for button in row if button.get("action_id") in _OFFERS]
    about = read_value(values[0], CardButton) if values else None
    return about if about and key_of(about.key) == card.key else None


async def edit_stale(deps: Deps, about: CardButton, channel: str, ts: str) -> None:
    """Takes the buttons off the card that is this message, and says why: what it offers is over, or not known here.

    A card that this store's outbox posted is left: it says what is so, or is about to.
    """
    if not ts:
        return
    try:
        if await deps.store.outbox.posted(channel, ts):
            return
        message = render_over(about).in_words(deps.say)
        await deps.outbox.put(f"{key_of(about.key)}:over:{ts}", channel, message, update_ts=ts, severity="warning")
    except StoreError as error:  # the person is answered all the same
        log.warning("a card that is out of date could not be edited: %s", error)
