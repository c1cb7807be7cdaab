"""What one vendor calls its resources and annotations: everything that HAMi reads by name."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from bot.hami.nodes.cards import Card, read_cards


class Names(msgspec.Struct, frozen=True, eq=False):
    """One vendor's names; those of resources are the chart's defaults, which a cluster's device config may replace.

    `{word}` in a name stands for a chip's name where one vendor has several.
    """

    word: str
    """What HAMi calls the vendor: a GPU is the vendor's whose type text contains it."""
    count: str
    noun: str = "GPU"
    """What its users call one of them."""
    memory: str = ""
    cores: str = ""
    percentage: str = ""
    use_type: str = ""
    """The pod annotations that narrow the choice of GPUs; empty where the vendor reads none."""
    no_use_type: str = ""
    use_uuid: str = ""
    no_use_uuid: str = ""
    mode: str = ""
    numa_bind: str = ""
    also_read: tuple[str, ...] = ()
    """Further pod annotations that its scan reads (`Constraints.more`)."""
    register: str = ""
    """The node annotation that lists the GPUs."""
    handshake: str = ""
    allocated: tuple[str, ...] = ()
    """The pod annotations that hold what HAMi gave."""
    capacity: str = ""
    """The node resource that GPUs are counted by where no annotation lists them."""
    card_word: str = ""
    """What HAMi puts between the node's name and the card's index where it makes up a card's id."""
    capacity_unit: int = 1
    """How much of it makes one GPU."""
    read: Callable[[str], tuple[Card, ...]] = read_cards
    """The GPUs of a register annotation. Raises ValueError where it cannot be read."""
    more_annotations: tuple[str, ...] = ()
    """What keys of annotations begin with that are not under the domain of `count`."""
    passed_over: tuple[str, ...] = ()
    """Resources that the webhook reads and the scheduler is told to pass over."""
    shares_domain: bool = False
    """Whether other resources under the domain of its names are not HAMi's."""

    @property
    def domain(self) -> str:
        return self.count.partition("/")[0]

    @property
    def annotations(self) -> tuple[str, ...]:
        """What the keys of its annotations begin with, beside `hami.io/`."""
        return f"{self.domain}/", *self.more_annotations

    def of(self, word: str) -> "Names":
        """The names of one of its chips."""
        return self if word == self.word else _of_chip(self, word)


@lru_cache(maxsize=256)
def _of_chip(names: Names, word: str) -> Names:
    filled: dict[str, Any] = {"word": word}
    for field, value in msgspec.structs.asdict(names).items():
        if isinstance(value, str) and field != "word":
            filled[field] = value.replace("{word}", word)
        elif isinstance(value, tuple):
            filled[field] = tuple(name.replace("{word}", word) for name in cast("tuple[str, ...]", value))
    return msgspec.structs.replace(names, **filled)
