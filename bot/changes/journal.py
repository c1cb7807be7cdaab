"""What becomes of a temporary change, as it is kept and told; the truth about undoing it stands on the object."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from bot.changes.record import Record
from bot.errors import BotError

EventKind = Literal[
    "never-raised",
    "raised",
    "effective",
    "stuck",
    "extended",
    "retimed",
    "reverted",
    "reverted-by-another",
    "drifted",
    "container-gone",
    "replaced",
    "unreadable",
    "failed",
]
ENDS: frozenset[EventKind] = frozenset(
    {"never-raised", "reverted", "reverted-by-another", "drifted", "container-gone", "replaced"}
)
"""After these nothing is left to be undone."""


Source = Literal["record", "copy", "found"]
"""By what it was done: by the record on the object, or by the journal's copy of a record that is damaged or not there
any more. `found`: nothing was done here.
"""


class ChangeEvent(NamedTuple):
    """Something that happened to a change. `by` is who made it happen, empty for the deadline or what was found.

    `unreadable`: the record on the object is damaged or gone. Where the journal has a copy, `record` is that copy, by
    which the change is reverted at its deadline; else it is None, and nothing is reverted.

    `at` is when, in seconds since 1970 by the API server's clock; whoever notes it sets that.

    `target` is `namespace/name` of the Deployment, `uid` its uid where that is told. `by_hand`, of one that failed, is
    the shell line with which a person reverts it.
    """

    kind: EventKind
    target: str
    record: Record | None
    detail: str = ""
    by: str = ""
    uid: str = ""
    by_hand: str = ""
    at: float = 0.0
    source: Source = "record"


class NotYet(BotError):  # noqa: N818  # what the person is told
    """The journal is not there yet: it will be, and loses nothing by that."""


class Open(NamedTuple):
    """A change that, as far as is known here, has not ended. `state`: what was told of it last, of the three.

    `uid` is that of the Deployment it was planned on, empty if that is not known.
    """

    record: Record
    uid: str
    state: Literal["planned", "raised", "effective"]


class Journal(Protocol):
    """Where changes are kept and told. Every method raises `bot.errors.BotError` when it cannot."""

    async def planned(self, record: Record, uid: str) -> None:
        """Before anything is written: that it will be. Without this nothing is changed."""
        ...

    async def note(self, event: ChangeEvent) -> None:
        """What happened. The same event again changes nothing."""
        ...

    async def opened(self) -> Sequence[Open]:
        """The changes of this cluster that have not ended."""
        ...
