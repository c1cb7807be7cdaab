"""The rows about GPUs that a report holds, and that pictures and bars draw."""

from typing import Literal, NamedTuple

from bot.report import Names, Uuid

FREE = "free"
UNKNOWN = "unknown"
UNREGISTERED = "unregistered"
"""States of a GPU; in any other it takes no pod."""


class GpuRow(NamedTuple):
    """One GPU, the most telling fields first: a message shows few. Memory in MiB; None is not known.

    `memory_free` is empty for a GPU that HAMi dropped. `slots` is `USED/TOTAL`. `memory_counted` is what HAMi's
    scheduler counts as used where that was read and is not `memory_used`.
    """

    node: str
    card: Uuid
    type: str
    state: str
    memory_used: int | None
    memory_free: int | Literal[""] | None
    memory_total: int
    holders: Names
    slots: str
    cores_used: int | None
    cores_total: int
    memory_counted: int | Literal[""] = ""

    @property
    def room(self) -> int:
        """The memory that a pod could get."""
        return (
            max(self.memory_total - self.memory_used, 0) if self.state == FREE and self.memory_used is not None else 0
        )

    @property
    def is_known(self) -> bool:
        """Whether its state and what is given of it are known, and HAMi counts on it."""
        return self.memory_used is not None and self.state not in (UNKNOWN, UNREGISTERED)


class TypeRow(NamedTuple):
    """All registered GPUs of one type, with the largest slice that a pod could get, in MiB; None is not known."""

    type: str
    largest_slice: int | None
    node: str
    free: int | None
    cards: int
    memory_total: int
    memory_used: int | None
    memory_stranded: int | None
