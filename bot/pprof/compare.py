"""Two or more profiles of one kind side by side: what changed by more than chance explains.

CPU and delta profiles are put on one footing as values per second; what is in use, and goroutines, are counts at one
moment. A difference is marked as noise when it lies within twice the standard deviation that the numbers of
observations give (Poisson).
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from bot.errors import UsageError
from bot.pprof.function_shares import function_cum, is_own, observations, shares
from bot.pprof.nodes import base_name
from bot.pprof.profile import Profile, ValueType
from bot.pprof.sampletypes import ALLOCATED, sample_index
from bot.texts import Text

GC = re.compile(r"runtime\.(gcBgMarkWorker|bgsweep|bgscavenge|gcAssistAlloc)")
_ALLOCATED_OBJECTS = "alloc_objects"
_DEVIATIONS = 2.0
_MOMENT = ("inuse_objects", "inuse_space", "goroutine", "threadcreate")
_LONGER = 1.2
_SECOND_NS = 1e9


class Change(NamedTuple):
    """A row: each profile's value in order, per second or as it is; `noise` is about the last against the first."""

    name: str
    values: tuple[float, ...]
    noise: bool

    @property
    def difference(self) -> float:
        """The last less the first."""
        return self.values[-1] - self.values[0]

    @property
    def gone(self) -> bool:
        """In the first, not in the last: no sample, which is not the same as never run."""
        return bool(self.values[0]) and not self.values[-1]

    @property
    def new(self) -> bool:
        """In the last, not in the first."""
        return bool(self.values[-1]) and not self.values[0]


class Unlike(NamedTuple):
    """What makes the profiles differ beyond what they measure: `program`, `period`, `duration` or `since-start`."""

    code: str
    values: str = ""


class Comparison(NamedTuple):
    """`functions` by the size of the change, of everything that any of the profiles has.

    `gc` is the garbage collector's share of each profile. It and `allocated` are None where the profiles do not tell.
    """

    kind: ValueType
    per_second: bool
    total: Change
    gc: Change | None
    allocated: Change | None
    functions: list[Change]
    warnings: list["Unlike"]

    @property
    def significant(self) -> list[Change]:
        """The functions whose change is more than noise."""
        return [function for function in self.functions if not function.noise]

    @property
    def own(self) -> list[Change]:
        """Those of the program and its libraries."""
        return [change for change in self.significant if is_own(change.name)]


class _Side(NamedTuple):
    seconds: float
    total: int
    cum: dict[str, int]
    gc: int
    allocated: int | None
    observed: float
    """Observations per unit of value."""


def compare(profiles: Sequence[Profile], wanted: str = "") -> Comparison:
    """The profiles, oldest first, each as `top.prepared` gives it. Raises UsageError when they are of several kinds."""
    indexes = [sample_index(profile, wanted or compared_type(profile)) for profile in profiles]
    kinds = [profile.sample_types[index] for profile, index in zip(profiles, indexes, strict=True)]
    if len(set(kinds)) > 1:
        raise UsageError(
            Text("error-pprof.profiles-measure-different-things", kinds=", ".join(kind.type for kind in kinds)),
            hint=Text("error-pprof.compare-one-kind"),
        )
    kind = kinds[0]
    per_second = kind.type not in _MOMENT and all(profile.duration_nanos > 0 for profile in profiles)
    pairs = zip(profiles, indexes, strict=True)
    sides = [_side(profile, index, per_second=per_second) for profile, index in pairs]
    names = dict.fromkeys(name for side in sides for name in side.cum)
    functions = [_change(name, sides, [side.cum.get(name, 0) for side in sides]) for name in names]
    known = [side.allocated for side in sides if side.allocated is not None]
    return Comparison(
        kind=kind,
        per_second=per_second,
        total=_change("total", sides, [side.total for side in sides]),
        gc=_collector(sides) if kind.type == "cpu" else None,
        allocated=_change("allocated", sides, known) if len(known) == len(sides) and per_second else None,
        functions=sorted(functions, key=lambda function: (-abs(function.difference), function.name)),
        warnings=_warnings(profiles, kind, per_second=per_second),
    )


def compared_type(profile: Profile) -> str:
    """The sample type that is compared where nobody named one; empty for the default, which pprof takes.

    Of what happened during a time it is the allocations that two versions differ in.
    """
    allocates = any(value_type.type == _ALLOCATED_OBJECTS for value_type in profile.sample_types)
    return _ALLOCATED_OBJECTS if allocates and profile.duration_nanos > 0 else ""


def _side(profile: Profile, index: int, *, per_second: bool) -> _Side:
    total = sum(value for _, value in profile.samples.stacks(index))
    size = sum(abs(value) for _, value in profile.samples.stacks(index))
    types = [value_type.type for value_type in profile.sample_types]
    space = types.index(ALLOCATED) if ALLOCATED in types else None
    return _Side(
        seconds=profile.duration_nanos / _SECOND_NS if per_second else 1.0,
        total=total,
        cum=function_cum(profile, index),
        gc=shares(profile, index, {"gc": GC})["gc"].weight,
        allocated=None if space is None else sum(value for _, value in profile.samples.stacks(space)),
        observed=observations(profile, index)(size, size) / size if size else 0.0,
    )


def _change(name: str, sides: Sequence[_Side], values: Sequence[int]) -> Change:
    rates = tuple(value / side.seconds for value, side in zip(values, sides, strict=True))
    first, last = sides[0], sides[-1]
    variance = sum(
        abs(value) / side.observed / side.seconds**2
        for value, side in ((values[0], first), (values[-1], last))
        if side.observed
    )
    return Change(name, rates, noise=abs(rates[-1] - rates[0]) <= _DEVIATIONS * math.sqrt(variance))


def _collector(sides: Sequence[_Side]) -> Change:
    parts = tuple(side.gc / side.total if side.total else 0.0 for side in sides)
    ends = ((parts[0], sides[0]), (parts[-1], sides[-1]))
    variance = sum(
        part * (1 - part) / (side.observed * side.total) for part, side in ends if side.observed * side.total
    )
    return Change(
        "garbage collection", parts, noise=abs(parts[-1] - parts[0]) <= _DEVIATIONS * math.sqrt(abs(variance))
    )


def _warnings(profiles: Sequence[Profile], kind: ValueType, *, per_second: bool) -> list[Unlike]:
    found: list[Unlike] = []
    programs = [
        base_name(profile.mappings[0].file) if profile.mappings and profile.mappings[0].file else "?"
        for profile in profiles
    ]
    if len(set(programs)) > 1:
        found.append(Unlike("program", ", ".join(programs)))
    if len({profile.period for profile in profiles}) > 1:
        found.append(Unlike("period", ", ".join(str(profile.period) for profile in profiles)))
    durations = [profile.duration_nanos / _SECOND_NS for profile in profiles]
    if per_second and max(durations) > _LONGER * min(durations):
        found.append(Unlike("duration", ", ".join(f"{duration:.1f} s" for duration in durations)))
    if not per_second and kind.type not in _MOMENT:
        found.append(Unlike("since-start"))
    return found
