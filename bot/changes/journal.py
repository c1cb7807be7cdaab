"""The events of a temporary change, and the journal that keeps and tells them; its revert stands on the object."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

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
"""Events that end a change: after them nothing is left to be reverted."""


Source = Literal["record", "copy", "found"]
"""What an event goes by: the `record` on the object, or the journal's `copy`; `found`: nothing was done, only seen."""


class ChangeEvent(msgspec.Struct, frozen=True):
    """Something that happened to a change. `by` is who made it happen, empty for the deadline or what was found.
    `unreadable`: the record on the object is damaged or gone; `record` is then the journal's copy, by which the change
    is reverted at its deadline, or None, and nothing is reverted. `at` is when, in seconds since 1970 by the API
    server's clock; whoever notes the event sets it. `target` is `namespace/name` of the Deployment, `uid` its uid where
    that is told. `by_hand`, of a failed revert, is the shell line with which a person reverts the change.
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
    """The journal of changes is not ready yet; it will be, and loses nothing by the delay."""


class KnownChange(NamedTuple):
    """A change as the journal knows it; `state` is planned, raised, effective, or how it ended. `uid` is that of the
    Deployment it was planned on, empty if that is not known.
    """

    record: Record
    uid: str
    state: Literal["planned"] | EventKind


class Journal(Protocol):
    """The place where changes are kept and told. Every method raises `bot.errors.BotError` when it cannot do so."""

    async def planned(self, record: Record, uid: str) -> None:
        """Notes a change before anything is written to the cluster. If this fails, nothing is changed."""
        ...

    async def note(self, event: ChangeEvent) -> None:
        """Notes an event of a change. The same event again changes nothing."""
        ...

    async def opened(self) -> Sequence[KnownChange]:
        """The changes of this cluster that have not ended."""
        ...
