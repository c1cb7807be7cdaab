"""What must not be changed, and what to do instead."""

from typing import NamedTuple

from bot.changes.record import Record
from bot.texts import Text


class Refusal(NamedTuple):
    """Why it must not be done; `record` is the open change that stands in the way, if one does."""

    code: str
    why: Text
    hint: Text
    record: Record | None = None
