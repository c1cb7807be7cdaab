"""What a profile measures: which of its sample types is meant, and which several profiles have (profile/index.go)."""

from collections.abc import Iterable, Sequence

from bot.errors import UsageError
from bot.pprof.profile import Profile, SampleList
from bot.texts import Text

ALLOCATED = "alloc_space"


def sample_index(profile: Profile, wanted: str) -> int:
    """The position of the wanted sample type, or of the default one. Raises UsageError with those that there are."""
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
    """The sample type that an answer shows where nobody named one; empty for the default, which pprof takes.

    Of what a heap gives during a time it is the bytes allocated: Go's difference of two heaps names no default
    (net/http/pprof, `deltaProfile`), and the last type, the memory in use, is negative where memory was freed.
    """
    is_difference = profile.duration_nanos > 0 and not profile.default_sample_type
    allocates = any(value_type.type == ALLOCATED for value_type in profile.sample_types)
    return ALLOCATED if is_difference and allocates else ""


def _one_of(types: list[str]) -> dict[str, str]:
    return {"hint": f"This profile has: {', '.join(types)}.", "example": f"--sample_index={types[0]}"}


def keep_common_types(profiles: Sequence[Profile]) -> None:
    """Leave only the sample types that each profile has once, in the order of the first. Raises UsageError for none."""
    every = [value_type.type for profile in profiles for value_type in profile.sample_types]
    common = [
        value_type.type for value_type in profiles[0].sample_types if every.count(value_type.type) == len(profiles)
    ]
    if not common:
        raise UsageError(Text("error-pprof.profiles-have-empty-common-sample"), hint=_measured(profiles))
    for profile in profiles:
        types = [value_type.type for value_type in profile.sample_types]
        if types == common:
            continue
        chosen = [types.index(sample_type) for sample_type in common]
        profile.sample_types = [profile.sample_types[index] for index in chosen]
        if profile.default_sample_type not in common:
            profile.default_sample_type = common[0]
        profile.samples = SampleList(
            [sample._replace(values=[sample.values[index] for index in chosen]) for sample in profile.samples]
        )


def _measured(profiles: Iterable[Profile]) -> Text:
    lists = [" ".join(value_type.type for value_type in profile.sample_types) or "nothing" for profile in profiles]
    return Text("error-pprof.they-measure", kinds="; ".join(lists))
