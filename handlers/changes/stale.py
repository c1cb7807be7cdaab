"""Cards that offer what cannot be done any more, and that nothing in this store will ever edit."""

import logging

from bot.slack.render.change import Pressed, render_over
from bot.store import StoreError
from handlers.changes.journal import key_of
from handlers.lent import Lent

log = logging.getLogger(__name__)


async def edit_stale(lent: Lent, about: Pressed, channel: str, ts: str) -> None:
    """Takes the buttons off the card that is this message, and says why: what it offers is over, or not known here.

    A card that this store's outbox posted is left: it says what is so, or is about to.
    """
    if not ts:
        return
    try:
        if await lent.store.outbox.posted(channel, ts):
            return
        message = render_over(about, lent.say)
        await lent.outbox.put(f"{key_of(about.key)}:over:{ts}", channel, message, update_ts=ts, severity="warning")
    except StoreError as error:  # the person is answered all the same
        log.warning("a card that is out of date could not be edited: %s", error)
