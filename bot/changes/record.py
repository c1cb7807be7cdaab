"""How to revert an open change: its record, an annotation of the Deployment's own, never of the pod template."""

import re
from typing import Literal, NamedTuple

import msgspec

from bot.changes.flags import Field
from bot.changes.kinds import ChangeKind, UnknownKind, kind_of
from bot.kube.times import parse_time
from bot.texts import Text

KEY = "hami-bot.io/temporary-change"
VERSION = 1
BY_SHELL = " (shell)"
"""Follows the login name of a person who raised a change in a shell."""
_ID = re.compile(r'"id"\s*:\s*"([^"\\]+)"')
_LONGEST = 64 * 1024
"""The longest record in characters; a longer annotation is not the bot's. All annotations together may have 256 KiB."""

Means = Literal["patch", "debug-flags"]
"""How a value is set: in the Deployment's words, or in the running process (kube-scheduler's PUT /debug/flags/v)."""


class FlagChange(msgspec.Struct, frozen=True):
    """A change of one flag, which is named without hyphens: from `old` (empty: it was not set) to `new`."""

    flag: str
    old: str
    new: str

    def __post_init__(self) -> None:
        kind_of(self.flag)

    @property
    def kind(self) -> ChangeKind:
        return kind_of(self.flag)


class Record(msgspec.Struct, frozen=True, omit_defaults=True, rename={"words_before": "from", "words_after": "to"}):
    """How to revert an open change, and for whom. Times are RFC 3339 in UTC with whole seconds; `at` is the deadline.
    `target` is `namespace/name` of the Deployment. `flag` names a kind of `bot.changes.kinds`: any other raises
    UnknownKind. `words_before` and `words_after` are the whole list `field` of the container; `old` (empty: it was not
    set) and `new` the flag's values. `also` are the other flags of that list that were set with it. `until_captured` is
    the pod (`namespace/name`) whose lines end the change early.
    """

    v: int
    id: str
    target: str
    flag: str
    container: str
    field: Field
    words_before: tuple[str, ...]
    words_after: tuple[str, ...]
    old: str
    new: str
    means: Means
    raised_at: str
    at: str
    by: str
    because: str = ""
    channel: str = ""
    until_captured: str = ""
    extended: int = 0
    also: tuple[FlagChange, ...] = ()

    def __post_init__(self) -> None:
        kind_of(self.flag)

    @property
    def flags(self) -> tuple[FlagChange, ...]:
        """Every flag that the change sets."""
        return (FlagChange(self.flag, self.old, self.new), *self.also)

    @property
    def kind(self) -> ChangeKind:
        """The kind of the first flag; all that concerns the change as a whole is the same for the other flags."""
        return kind_of(self.flag)

    @property
    def shown(self) -> str:
        """The flags that the change set, as people write them: `-v=5`, `--kube-qps=50 --kube-burst=100`."""
        return " ".join(f"{each.kind.flag.shown}={each.new}" for each in self.flags)

    @property
    def deadline(self) -> float:
        """When the change reverts by itself, in seconds since 1970."""
        return _seconds(self.at)

    @property
    def since(self) -> float:
        """When the change was raised, in seconds since 1970."""
        return _seconds(self.raised_at)


class UnreadableRecord(msgspec.Struct, frozen=True):
    """The bot's annotation on an object, where it is no record of this version; `why` tells people."""

    why: str


def read_record(text: str) -> Record | UnreadableRecord:
    """The record that the annotation's text holds, or why it cannot be read."""
    if len(text) > _LONGEST:
        return UnreadableRecord(f"it is {len(text):,} characters long")
    try:
        record = msgspec.json.decode(text, type=Record)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        unknown = isinstance(error.__cause__, UnknownKind)
        return UnreadableRecord(str(error.__cause__) if unknown else f"it is no record of a change: {error}")
    if record.v != VERSION:
        return UnreadableRecord(f"it was written by another version of hami-bot (record version {record.v})")
    if parse_time(record.at) is None or parse_time(record.raised_at) is None:
        return UnreadableRecord("its times cannot be read")
    return record


def id_in(text: str) -> str:
    """The change's id in the text of an annotation, also where the text is no valid record; empty without one."""
    found = _ID.search(text[:_LONGEST])
    return found[1] if found else ""


def with_times_of(record: Record, other: Record) -> Record:
    """The `other` record if it reverts as `record` does; else `record` with the other's times."""
    times = {"raised_at": other.raised_at, "at": other.at, "extended": other.extended}
    return other if same_way_back(record, other) else msgspec.structs.replace(record, **times)


def same_way_back(one: Record, other: Record) -> bool:
    """Whether both records are of one change and revert it alike: an extension alters the times alone."""
    return all(getattr(one, name) == getattr(other, name) for name in _WAY_BACK)


_WAY_BACK = ("id", "target", "container", "field", "words_before", "words_after", "flags", "means")


def write_record(record: Record) -> str:
    """The annotation's text for the record; equal records give equal texts."""
    return msgspec.json.encode(record).decode()


def _seconds(text: str) -> float:
    moment = parse_time(text)
    return moment.timestamp() if moment else 0.0


class Refusal(NamedTuple):
    """Why a change must not be made; `record` is the open change that stands in the way, if one does."""

    code: str
    why: Text
    hint: Text
    record: Record | None = None
