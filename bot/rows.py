"""The rows about GPUs, stages of scheduling and pools of nodes that a report holds, and that pictures draw."""

from typing import Literal, NamedTuple

from bot.report import NameList, Uuid
from bot.texts import Text

FREE = "free"
UNKNOWN = "unknown"
UNREGISTERED = "unregistered"
"""States of a GPU; in any other it takes no pod."""


class GpuRow(NamedTuple):
    """One GPU, the most telling fields first: a message shows few. Memory in MiB; None is not known.

    `card` of a row that stands for several GPUs, as in an overview, is their number. `memory_free` is empty for a GPU
    that HAMi dropped, and where HAMi hands out no part of its memory (`divided` is false): such a one is given or not.
    `noun` is what its users call it. `slots` is `USED/TOTAL`. `memory_counted` is what HAMi's scheduler counts as used
    where that was read and is not `memory_used`.
    """

    node: str
    card: Uuid | Text
    type: str
    state: str
    memory_used: int | None
    memory_free: int | Literal[""] | None
    memory_total: int
    holders: NameList
    slots: str
    cores_used: int | None
    cores_total: int
    memory_counted: int | Literal[""] = ""
    noun: str = "GPU"
    divided: bool = True

    @property
    def room(self) -> int:
        """The memory that a pod could get."""
        if self.state != FREE or self.memory_used is None or not self.divided:
            return 0
        return max(self.memory_total - self.memory_used, 0)

    @property
    def given(self) -> tuple[int, int]:
        """How much of it is given, and of how much: MiB, or slots where HAMi hands out whole ones only."""
        if self.divided:
            return self.memory_used or 0, self.memory_total
        used, _, total = self.slots.partition("/")
        if not used.isdecimal() or not total.isdecimal():
            return 0, 1
        return (1, 1) if int(used) and self.state != FREE else (int(used), int(total))

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


class StageRow(NamedTuple):
    """A stage of scheduling over `n` pods. `known_by`: `log`, or `object` where it is in whole seconds."""

    stage: str
    n: int
    median_s: float | None
    p95_s: float | None
    max_s: float | None
    known_by: str


class PoolRow(NamedTuple):
    """A pool of GPU nodes. Memory in MiB: registered, given to pods, and used by them (None is not known).

    `splits` is into how many shares each GPU is split; the last four count the shares by what was given of one GPU.
    """

    pool: str
    nodes: int
    gpus: int
    splits: int
    memory_mib: int
    given_mib: int
    used_mib: int | None
    below_2_gib: int
    from_2_gib: int
    from_8_gib: int
    from_16_gib: int

    @property
    def requests(self) -> tuple[tuple[str, int], ...]:
        """How many shares there are of each size."""
        names = ("< 2 GiB", "2-8 GiB", "8-16 GiB", "16 GiB and more")
        return tuple(zip(names, self[-4:], strict=True))
