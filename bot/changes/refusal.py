"""What must not be changed, and what to do instead."""

from typing import NamedTuple

from bot.changes.reasons import Reason
from bot.changes.record import Record


class Refusal(NamedTuple):
    """Why it must not be done; `record` is the open change that stands in the way, if one does."""

    code: str
    why: Reason
    hint: Reason
    record: Record | None = None
