"""The rows of the tables of `pending`, the question about pods that wait for GPUs."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from bot.finding_codes import PendingClass
from bot.report import FirstNames
from bot.texts import Text


class CauseRow(msgspec.Struct, frozen=True):
    """A row for the pods pending for one cause, with the oldest of them (`ns/name`) and the nodes concerned. `acts` and
    `meaning` say in words who has to act and what the cause is.
    """

    cause: str
    pods: int
    oldest: str
    waiting_since: datetime | None
    nodes: FirstNames
    acts: Text
    meaning: Text


class OthersRow(NamedTuple):
    """A row for the pending pods of another scheduler, with the oldest of them."""

    scheduler: str
    pods: int
    oldest: str
    waiting_since: datetime | None


class PendingRow(msgspec.Struct, frozen=True):
    """A row for a pending pod: a `WaitingRow` (`playbooks.judgement.waiting`) with its cause and the number of nodes.
    `cause` and `nodes` are None for a pod that was not judged.
    """

    namespace: str
    pod: str
    waiting_since: datetime | None
    minutes: int | None
    asks: str
    cause: str | None
    nodes: int | None
    waits_for: PendingClass
