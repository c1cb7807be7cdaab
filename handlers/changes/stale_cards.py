"""Mends Slack messages about changes that the outbox does not edit: cards out of date, and "the store cannot be
opened". Such messages are found in Slack by the keys in their metadata: the store that posted them may be gone.
"""

import logging
from collections.abc import Iterable
from typing import Any, cast

from bot.changes.plan import annotation
from bot.changes.record import KEY, Record, read_record
from bot.errors import BotError, NotFound, bugs_as_errors
from bot.slack.failures import PASSING, SlackFailure
from bot.slack.gateway import Gateway, Keyed
from bot.slack.render.blocks import Draft, read_value
from bot.slack.render.change import APPROVE, DETAIL, EXTEND, REFUSE, REVERT, CardButton, render_over, what
from bot.slack.render.prose import error_line, progress
from bot.slack.render.text import escape, inert
from bot.store import StoreError
from bot.store.outbox_rows import DONE_KEPT
from bot.texts import Text, Texts
from handlers.changes.journal import key_of
from handlers.changes.leader_pass import WritableCluster, WritableClusters
from handlers.deps import Deps

_OFFERS = frozenset({REVERT, EXTEND, APPROVE, REFUSE})

log = logging.getLogger(__name__)


class StaleCards:
    """Finds change cards that are out of date in the given channels, as far back as the outbox remembers."""

    def __init__(self, deps: Deps, clusters: WritableClusters, channels: Iterable[str]) -> None:
        self._deps = deps
        self._clusters = clusters
        self._channels = tuple(dict.fromkeys(channels))

    async def look(self) -> list[str]:
        """Edits cards that are out of date; call after a pass. A card that cannot be edited now waits until someone
        clicks. Returns the channels to look in again, because Slack could not be asked now.
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
                    deps.check_cluster(about.cluster)
                    writable = await self._clusters.of(about.cluster)
                    async with writable.busy:  # what a pass ends is noted when it is over
                        if not await self._is_known(writable, about):
                            await edit_stale(deps, about, channel, message.ts)
                except BotError as error:
                    log.warning("whether a card of %s is out of date is not known: %s", about.target, error)

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
    rows = (cast("list[dict[str, Any]]", block.get("elements") or []) for block in card.blocks)
    values = [str(button.get("value")) for row in rows for button in row if button.get("action_id") in _OFFERS]
    about = read_value(values[0], CardButton) if values else None
    return about if about and key_of(about.key) == card.key else None


async def edit_stale(deps: Deps, about: CardButton, channel: str, ts: str) -> None:
    """Removes the buttons from the card at `ts`, and says why: its change is over, or not known here. A card that this
    store's outbox posted is left alone: the outbox keeps it up to date.
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


NO_STORE = ":no-store"
"""The end of the key of a message that says that the store cannot be opened."""


class Storeless:
    """Tells once for each open change, over all processes, that the store cannot be opened."""

    def __init__(self, say: Texts) -> None:
        self._say = say
        self._told: set[str] = set()
        self.told_in: set[str] = set()
        """The channels where the missing store was reported, by this process or by another."""

    async def tell(self, gateway: Gateway, writable: WritableCluster, namespace: str, why: BotError) -> None:
        """Reports the missing store once in each channel that a record in `namespace` (empty: all) names."""
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
"""The message that replaces the one of `Storeless`, once the store is open."""
