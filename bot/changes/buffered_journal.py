"""The journal as changes use it: it keeps nobody waiting, and what it cannot take does not undo what was done."""

import asyncio
import logging
from collections.abc import Mapping

from bot.changes.begin import ChangeFailed
from bot.changes.journal import ENDS, Event, Journal, NotYet, Open
from bot.changes.plan import Plan
from bot.changes.record import same_way_back
from bot.errors import BotError, bugs_as_errors
from bot.texts import Text

log = logging.getLogger(__name__)


def contradicted(event: Event, known: Mapping[str, Open] | None) -> Open | None:
    """The change that ended by a record which somebody had edited: the journal's copy says how it is to be undone."""
    opened = known.get(event.record.id) if known and event.record and event.kind in ENDS else None
    return None if not opened or not event.record or same_way_back(opened.record, event.record) else opened


class Telling:
    """`patience_s` is how long each call may take."""

    def __init__(self, journal: Journal, patience_s: float) -> None:
        self._journal = journal
        self._patience_s = patience_s
        self._bugs: set[str] = set()
        self._unread: str | None = None

    async def planned(self, plan: Plan) -> None:
        """Notes it before anything is written. Raises ChangeFailed: what is not noted is not done."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._journal.planned(plan.record, plan.uid)
        except TimeoutError as error:
            text = Text("error-change.not-changed-not-noted", seconds=f"{self._patience_s:g}")
            raise ChangeFailed(text, hint=Text("error-change.store-does-not-answer")) from error

    async def note(self, event: Event) -> None:
        """What was done stays done: if it cannot be noted now, the next pass finds it again."""
        try:
            async with asyncio.timeout(self._patience_s):
                with bugs_as_errors(self._bugs):
                    await self._journal.note(event)
        except (BotError, TimeoutError) as error:
            log.warning("%s of %s could not be noted: %s", event.kind, event.target, error)

    async def opened(self, namespace: str) -> dict[str, Open] | None:
        """By id; None while the journal is out of reach. An empty namespace means all."""
        try:
            async with asyncio.timeout(self._patience_s):
                with bugs_as_errors(self._bugs):
                    opened = await self._journal.opened()
        except (BotError, TimeoutError) as error:
            if (reason := str(error)) != self._unread:
                level = logging.INFO if isinstance(error, NotYet) else logging.WARNING
                log.log(level, "the journal of changes: %s", reason or f"no answer in {self._patience_s:g} s")
            self._unread = reason
            return None
        self._unread = None
        return {
            change.record.id: change for change in opened if namespace in ("", change.record.target.partition("/")[0])
        }
