"""The rows about stages of scheduling and pools of nodes that a report holds, and that charts draw."""

from typing import NamedTuple


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
