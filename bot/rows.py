"""Rows of a report's tables about GPUs, stages of scheduling and pools of nodes, which pictures draw."""

from typing import Literal, NamedTuple

import msgspec

from bot.report import NameList
from bot.texts import Text, Texts, literal

FREE = "free"
UNKNOWN = "unknown"
UNREGISTERED = "unregistered"
"""States of a GPU, for `GpuRow.state`: `free` takes pods, `unknown` may take some, any other takes none."""


def state_in_words(state: str) -> Text:
    """The state of a GPU as people read it: `no slots`."""
    return literal(state.replace("-", " "), Texts("zh").name(state, "states"))


class GpuRow(msgspec.Struct, frozen=True, gc=False):
    """One GPU in a table, the most telling fields first: a message shows few. Memory in MiB; None is not known. `card`
    is the GPU's UUID, as a `Uuid` in an overview, where it may be the number of GPUs that one row stands for.
    `memory_free` is empty for a GPU that HAMi dropped, and where HAMi hands out no part of a GPU's memory (`divided` is
    false): such a GPU is given or not. `noun` is the users' word for it. `slots` is `USED/TOTAL`. `memory_counted` is
    what HAMi's scheduler counts as used where that was read and differs from `memory_used`.
    """

    node: str
    card: str | Text
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
        """The memory in MiB that a pod could get on the GPU."""
        if self.state != FREE or self.memory_used is None or not self.divided:
            return 0
        return max(self.memory_total - self.memory_used, 0)

    @property
    def given(self) -> tuple[int, int]:
        """How much of the GPU is given, and of how much: MiB, or slots where HAMi hands out whole devices only."""
        if self.divided:
            return self.memory_used or 0, self.memory_total
        used, _, total = self.slots.partition("/")
        if not used.isdecimal() or not total.isdecimal():
            return 0, 1
        return (1, 1) if int(used) and self.state != FREE else (int(used), int(total))

    @property
    def is_known(self) -> bool:
        """Whether the GPU's state and what is given of it are known, and HAMi counts on it."""
        return self.memory_used is not None and self.state not in (UNKNOWN, UNREGISTERED)


class TypeRow(msgspec.Struct, frozen=True):
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
    """A stage of scheduling over `n` pods, in seconds. `known_by`: `log`, or `object` (whole seconds only)."""

    stage: str
    n: int
    median_s: float | None
    p95_s: float | None
    max_s: float | None
    known_by: str


class PoolRow(msgspec.Struct, frozen=True):
    """A pool of GPU nodes. Memory in MiB: registered, given to pods, and used by them (None is not known). `splits` is
    the number of slots of each GPU; the last four fields count shares by their size on one GPU.
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
        """The number of shares of each size in the pool."""
        return (
            ("< 2 GiB", self.below_2_gib),
            ("2-8 GiB", self.from_2_gib),
            ("8-16 GiB", self.from_8_gib),
            ("16 GiB and more", self.from_16_gib),
        )
