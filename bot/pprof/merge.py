"""Subtracts a base profile: -diff_base, -base and -normalize (internal/driver/fetch.go, profile/merge.go)."""

import copy
from collections.abc import Sequence

from bot.errors import UsageError
from bot.pprof.nodes import no_location
from bot.pprof.profile import (
    BASE_LABEL,
    Function,
    Label,
    Location,
    Mapping,
    Profile,
    ProfileSample,
    SampleList,
    int64,
    truncated,
)
from bot.texts import Text

_PAGE = 0x1000


def subtract(source: Profile, base: Profile, *, diff: bool, normalize: bool) -> Profile:
    """The profile `source` less `base`. With `diff` (-diff_base) the base's samples get BASE_LABEL and make the total.
    Raises UsageError where the two profiles do not measure the same.
    """
    _check_alike(source, base)
    if normalize:
        before, after = (
            [int64(sum(column)) for column in zip(*(sample.values for sample in profile.samples), strict=True)]
            or [0] * len(profile.sample_types)
            for profile in (base, source)
        )
        _scale(source, [ours / theirs if theirs else 0.0 for ours, theirs in zip(before, after, strict=True)])
    _scale(base, [-1.0] * len(base.sample_types))
    if diff:
        label = Label(*BASE_LABEL, 0, "")
        base.samples = SampleList([sample._replace(labels=(*sample.labels, label)) for sample in base.samples])
    return _Merger(source, base).merged(diff=diff)


def _check_alike(source: Profile, base: Profile) -> None:
    if source.period_type != base.period_type or source.sample_types != base.sample_types:
        raise UsageError(
            Text("error-pprof.profiles-do-not-measure-same", one=_types(source), other=_types(base)),
            hint=Text("error-pprof.compare-one-kind"),
        )


def _types(profile: Profile) -> str:
    types = [*profile.sample_types, profile.period_type]
    return " ".join(f"{value_type.type}/{value_type.unit}" for value_type in types)


def _scale(profile: Profile, ratios: Sequence[float]) -> None:
    if all(ratio == 1 for ratio in ratios):
        return
    kept: list[ProfileSample] = []
    for sample in profile.samples:
        pairs = list(zip(sample.values, ratios, strict=True))
        scaled = [value if ratio == 1 else _rounded(float(value) * ratio) for value, ratio in pairs]
        if any(value for value, ratio in zip(scaled, ratios, strict=True) if ratio != 1):
            kept.append(sample._replace(values=scaled))
    profile.samples = SampleList(kept)


def _rounded(number: float) -> int:
    whole = truncated(number)
    halfway = 0.5 <= abs(number - whole) < 1  # more than that where no int64 holds the number
    return whole + (number > 0) - (number < 0) if halfway else whole


class _Merger:
    def __init__(self, source: Profile, base: Profile) -> None:
        self._source, self._base = source, base
        self._mappings: dict[tuple[int, int, str], Mapping] = {}
        self._functions: dict[tuple[int, str, str, str], Function] = {}
        self._locations: dict[tuple[object, ...], Location] = {}
        self._samples: dict[tuple[object, ...], tuple[ProfileSample, list[int]]] = {}
        for profile in (source, base):
            self._add(profile)

    def merged(self, *, diff: bool) -> Profile:
        """The sum of the profiles: the earlier time, both durations and comments; all else is the source's."""
        source, base, found = self._source, self._base, copy.copy(self._source)
        found.samples = SampleList(
            [sample._replace(values=values) for sample, values in self._samples.values() if any(values)]
        )
        found.mappings, found.functions = list(self._mappings.values()), list(self._functions.values())
        found.locations = {location.id: location for location in self._locations.values()}
        if source.time_nanos == 0 or base.time_nanos < source.time_nanos:
            found.time_nanos = base.time_nanos
        found.duration_nanos = int64(source.duration_nanos + base.duration_nanos)
        found.period = max(source.period, base.period) if source.period else base.period
        found.comments = list(dict.fromkeys([*source.comments, *base.comments]))
        found.default_sample_type = source.default_sample_type or base.default_sample_type
        found.doc_url = source.doc_url or base.doc_url
        found.may_hold_base = diff or source.may_hold_base or base.may_hold_base
        return found

    def _add(self, profile: Profile) -> None:
        if profile.mappings and not self._mappings:
            self._mapping(profile.mappings[0])  # the first one is the program
        ids: dict[int, int] = {}
        for sample in profile.samples:
            if not any(sample.values):
                continue
            for number in sample.location_ids:
                if number not in ids:
                    if number not in profile.locations:
                        raise no_location()
                    ids[number] = self._location(profile.locations[number]).id
            stack = tuple([ids[number] for number in sample.location_ids])
            # Stacks are equal whatever the order of label keys; the order within a key counts, and empty labels do not.
            said = [label for label in sample.labels if label.text or label.number or label.unit]
            key = (stack, *sorted(said, key=lambda label: (label.key, not label.text)))
            known = self._samples.get(key)
            if known is None:
                self._samples[key] = (sample._replace(location_ids=stack), list(sample.values))
            else:
                known[1][:] = [int64(a + b) for a, b in zip(known[1], sample.values, strict=True)]

    def _location(self, location: Location) -> Location:
        mapping = self._mapping(location.mapping) if location.mapping else None
        start = location.mapping.start if location.mapping else 0
        lines = tuple(line._replace(function=self._function(line.function)) for line in location.lines)
        places = tuple((line.function.id, line.line, line.column) for line in lines)
        key = (location.address - start, mapping.id if mapping else 0, places, location.is_folded)
        if key not in self._locations:
            number = len(self._locations) + 1
            self._locations[key] = Location(number, mapping, location.address, lines, location.is_folded)
        return self._locations[key]

    def _mapping(self, mapping: Mapping) -> Mapping:
        size = -(-(mapping.limit - mapping.start) // _PAGE) * _PAGE
        key = (size, mapping.offset, mapping.build_id or mapping.file)
        if key not in self._mappings:
            self._mappings[key] = mapping._replace(id=len(self._mappings) + 1)
        return self._mappings[key]

    def _function(self, function: Function) -> Function:
        key = (function.start_line, function.name, function.system_name, function.filename)
        if key not in self._functions:
            names = function.name, function.system_name, function.filename
            self._functions[key] = Function(len(self._functions) + 1, *names, function.start_line)
        return self._functions[key]
