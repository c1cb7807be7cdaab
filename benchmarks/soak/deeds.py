"""What was asked of the bot, and whether it said that it took it."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal[
    "alert",
    "resolved alert",
    "note",
    "ack",
    "take",
    "mute",
    "handover",
    "digest",
    "digest stop",
    "raise",
    "extend",
    "revert",
    "question",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass
class Deed:
    """One thing that one person, or Alertmanager, did. Times are seconds since 1970; `acked_at` 0: nobody took it.

    `number` is its own: `who` did nothing else, and what it says has it. `about` is an alert's fingerprint.
    """

    kind: Kind
    number: int
    who: str
    about: str = ""
    at: float = field(default_factory=time.time)
    acked_at: float = 0.0

    @property
    def name(self) -> str:
        """What its text has, and no other text."""
        return named(self.number)

    def acked(self) -> None:
        self.acked_at = time.time()


def named(number: int) -> str:
    """How a number stands in a text: none is the beginning of another."""
    return f"soak-{number:06}"


class Book:
    """All deeds, in the order in which they were done, and a number for each."""

    def __init__(self, most: int) -> None:
        self.deeds: list[Deed] = []
        self._next = 0
        self._most = most
        self.not_possible: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        return self._next >= self._most

    def number(self) -> int:
        self._next += 1
        return self._next - 1

    def done(self, deed: Deed) -> Deed:
        self.deeds.append(deed)
        return deed
