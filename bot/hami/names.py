"""The names of one vendor's resources and annotations: everything that HAMi reads by name."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from bot.hami.nodes.cards import Card, read_cards


class Names(msgspec.Struct, frozen=True, eq=False):
    """One vendor's names of resources and annotations. `{word}` stands for a chip's name where a vendor has several.

    Names of resources are the chart's defaults, which a cluster's device config may replace.
    """

    word: str
    """HAMi's word for the vendor: a GPU whose type contains it is of this vendor."""
    count: str
    noun: str = "GPU"
    """The users' word for one device of this vendor."""
    memory: str = ""
    cores: str = ""
    percentage: str = ""
    use_type: str = ""
    """Pod annotations that narrow the choice of GPUs, from here to `numa_bind`; empty where the vendor reads none."""
    no_use_type: str = ""
    use_uuid: str = ""
    no_use_uuid: str = ""
    mode: str = ""
    numa_bind: str = ""
    also_read: tuple[str, ...] = ()
    """Further pod annotations that the vendor's scan reads (`Constraints.more`)."""
    register: str = ""
    """The node annotation that lists the vendor's GPUs."""
    handshake: str = ""
    allocated: tuple[str, ...] = ()
    """The pod annotations that hold what HAMi gave the pod."""
    capacity: str = ""
    """The node resource that GPUs are counted by where no annotation lists them."""
    card_word: str = ""
    """The word between the node's name and the card's index, where HAMi makes up a card's id."""
    capacity_unit: int = 1
    """The amount of `capacity` that makes one GPU."""
    read: Callable[[str], tuple[Card, ...]] = read_cards
    """Reads the GPUs of a register annotation. Raises ValueError where the text cannot be read."""
    more_annotations: tuple[str, ...] = ()
    """Beginnings of the vendor's annotation keys that are not under the domain of `count`."""
    passed_over: tuple[str, ...] = ()
    """Resources that the webhook reads and kube-scheduler is told to ignore."""
    shares_domain: bool = False
    """Whether resources of others than HAMi are under the domain of its names too."""

    @property
    def domain(self) -> str:
        return self.count.partition("/")[0]

    @property
    def annotations(self) -> tuple[str, ...]:
        """The beginnings of the vendor's annotation keys, beside `hami.io/`."""
        return f"{self.domain}/", *self.more_annotations

    def of(self, word: str) -> "Names":
        """The names with `word`, one of the vendor's chips, filled in."""
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
