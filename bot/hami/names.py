"""The names that HAMi reads of one vendor: its resources and annotations."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from bot.hami.nodes.cards import Card, read_cards


class Names(msgspec.Struct, frozen=True, eq=False):
    """One vendor's resources and annotations. `{word}` stands for a chip's name where a vendor has several.

    Resource names are the chart's defaults, which a cluster's device config may replace.
    """

    word: str
    """HAMi's word for the vendor, which the type of each of its GPUs contains."""
    count: str
    noun: str = "GPU"
    """The users' word for one of the vendor's devices."""
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
    """More pod annotations that the vendor's scan reads; their texts are `Constraints.more`."""
    register: str = ""
    handshake: str = ""
    allocated: tuple[str, ...] = ()
    capacity: str = ""
    """The node resource that counts GPUs where no annotation lists them."""
    card_word: str = ""
    """The word between the node's name and the GPU's index in an id that HAMi makes up."""
    capacity_unit: int = 1
    """The amount of `capacity` that makes one GPU."""
    read: Callable[[str], tuple[Card, ...]] = read_cards
    """Reads the GPUs of a register annotation. Raises ValueError where the text cannot be read."""
    more_annotations: tuple[str, ...] = ()
    """Beginnings of the vendor's annotation keys that are not under the domain of its `count` resource."""
    passed_over: tuple[str, ...] = ()
    """Resources that the webhook reads and kube-scheduler is told to ignore."""
    shares_domain: bool = False
    """Whether resources that are not HAMi's are under the domain of the vendor's names too."""

    @property
    def domain(self) -> str:
        return self.count.partition("/")[0]

    @property
    def annotations(self) -> tuple[str, ...]:
        """The beginnings of the vendor's annotation keys, without `hami.io/`."""
        return f"{self.domain}/", *self.more_annotations

    def of(self, word: str) -> "Names":
        """The names of the vendor's chip `word`."""
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
