"""A profile in memory, in pprof's words and with the file's ids. Without dataclasses: their import (with `inspect`)
takes a tenth of the time that a small table takes.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, NamedTuple, Protocol, dataclass_transform

from bot.errors import UsageError
from bot.texts import Text

WORD = 1 << 64
_SIGN = 1 << 63
_LIMIT = float(_SIGN)

BASE_LABEL = ("pprof::base", "true")
"""The label of samples that a comparison subtracts with -diff_base."""


class ValueType(NamedTuple):
    """The meaning of one value of a sample: what it counts and in which unit (`cpu`, `nanoseconds`)."""

    type: str
    unit: str


class Function:
    """A function of the program. `name` is for people; `system_name` is the binary's."""

    __slots__ = ("filename", "id", "name", "start_line", "system_name")

    def __init__(self, number: int, name: str, system_name: str, filename: str, start_line: int) -> None:
        self.id = number
        self.name = name
        self.system_name = system_name
        self.filename = filename
        self.start_line = start_line


class SourceLine(NamedTuple):
    function: Function
    line: int
    column: int


class Mapping(NamedTuple):
    """A mapped part of the address space; the first one of a profile is the program itself."""

    id: int
    start: int
    limit: int
    offset: int
    file: str
    build_id: str


class Location(NamedTuple):
    """An address of a stack. `lines[0]` is the innermost inlined function, the last one is the real function."""

    id: int
    mapping: Mapping | None
    address: int
    lines: tuple[SourceLine, ...]
    is_folded: bool = False


class Label(NamedTuple):
    """A program's label on a sample: a text, or a number with a unit."""

    key: str
    text: str
    number: int
    unit: str


class ProfileSample(NamedTuple):
    """One stack, leaf first, with a value for each sample type."""

    location_ids: Sequence[int]
    values: Sequence[int]
    labels: tuple[Label, ...]


class Samples(Protocol):
    """The samples of a profile, which can be read any number of times. Their length hint is not below their number."""

    def __length_hint__(self) -> int: ...

    def __iter__(self) -> Iterator[ProfileSample]: ...

    def stacks(self, index: int) -> Iterable[tuple[Sequence[int], int]]:
        """Gives the location ids and the value at `index` of every sample, for callers that need no labels."""
        ...


class SampleList:
    def __init__(self, samples: Sequence[ProfileSample]) -> None:
        self._samples = samples

    def __length_hint__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[ProfileSample]:
        return iter(self._samples)

    def stacks(self, index: int) -> Iterator[tuple[Sequence[int], int]]:
        return ((sample.location_ids, sample.values[index]) for sample in self._samples)


class Rewritten:
    """Samples with other stacks: `rewrite` maps a sample's location ids; None leaves the sample out."""

    def __init__(self, samples: Samples, rewrite: Callable[[Sequence[int]], Sequence[int] | None]) -> None:
        self._samples, self._rewrite = samples, rewrite

    def __length_hint__(self) -> int:
        return length_hint(self._samples)

    def __iter__(self) -> Iterator[ProfileSample]:
        for sample in self._samples:
            if (ids := self._rewrite(sample.location_ids)) is not None:
                yield sample._replace(location_ids=ids)

    def stacks(self, index: int) -> Iterator[tuple[Sequence[int], int]]:
        for ids, value in self._samples.stacks(index):
            if (rewritten := self._rewrite(ids)) is not None:
                yield rewritten, value


class Chosen:
    def __init__(self, samples: Samples, keep: Callable[[ProfileSample], bool]) -> None:
        self._samples, self._keep = samples, keep

    def __length_hint__(self) -> int:
        return length_hint(self._samples)

    def __iter__(self) -> Iterator[ProfileSample]:
        return filter(self._keep, self._samples)

    def stacks(self, index: int) -> Iterator[tuple[Sequence[int], int]]:
        return ((sample.location_ids, sample.values[index]) for sample in self)


@dataclass_transform(kw_only_default=True)
class _Fields:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Profile(_Fields):
    """A profile as its file has it. `locations` is by id; reading a sample with another id raises SourceError.
    `may_hold_base`: whether any sample may carry BASE_LABEL.
    """

    sample_types: list[ValueType]
    samples: Samples
    mappings: list[Mapping]
    locations: dict[int, Location]
    functions: list[Function]
    drop_frames: str
    keep_frames: str
    time_nanos: int
    duration_nanos: int
    period_type: ValueType
    period: int
    comments: list[str]
    default_sample_type: str
    doc_url: str
    may_hold_base: bool

    def copy(self) -> "Profile":
        """A copy to make a table of: filters change the profile that they are given."""
        found = copy.copy(self)
        found.locations = dict(self.locations)
        return found


def is_base(sample: ProfileSample) -> bool:
    """Whether a comparison subtracts the sample (-diff_base)."""
    return any((label.key, label.text) == BASE_LABEL for label in sample.labels)


def int64(number: int) -> int:
    """The number as Go's int64 holds it: sums wrap around."""
    return (number + _SIGN) % WORD - _SIGN


def magnitude(number: int) -> int:
    """The number without its sign; the smallest int64 stays itself, as in Go."""
    return int64(abs(number))


def truncated(number: float) -> int:
    """The whole part as Go's int64(number) gives it on amd64; the smallest int64 for a number out of range."""
    return int(number) if -_LIMIT <= number < _LIMIT else -_SIGN


ALLOCATED = "alloc_space"


def sample_index(profile: Profile, wanted: str) -> int:
    """The position of the wanted sample type, or of the default one. Raises UsageError, which names all types."""
    types = [value_type.type for value_type in profile.sample_types]
    if not wanted:
        known = profile.default_sample_type in types
        return types.index(profile.default_sample_type) if known else len(types) - 1
    if wanted.lstrip("+-").isdecimal():
        if not 0 <= int(wanted) < len(types):
            raise UsageError(
                Text("error-pprof.sample-index-is-outside-range", wanted=wanted, last=len(types) - 1), **_one_of(types)
            )
        return int(wanted)
    bare = wanted.removeprefix("inuse_")
    for index, name in enumerate(types):
        if name in (wanted, bare):
            return index
    raise UsageError(
        Text("error-pprof.sample-index-must-be-one", wanted=wanted, types=" ".join(types)), **_one_of(types)
    )


def shown_type(profile: Profile) -> str:
    """The sample type for an answer when none is named: for a heap over a time the bytes allocated, else pprof's
    default (empty).

    Go names no default for a difference of heaps (net/http/pprof, `deltaProfile`), and the last type is negative where
    memory was freed.
    """
    is_difference = profile.duration_nanos > 0 and not profile.default_sample_type
    allocates = any(value_type.type == ALLOCATED for value_type in profile.sample_types)
    return ALLOCATED if is_difference and allocates else ""


def _one_of(types: list[str]) -> dict[str, str]:
    return {"hint": f"This profile has: {', '.join(types)}.", "example": f"--sample_index={types[0]}"}
