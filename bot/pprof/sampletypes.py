"""What a profile measures: which of its sample types is meant, and which several profiles have (profile/index.go)."""

from collections.abc import Iterable, Sequence

from bot.errors import UsageError
from bot.pprof.profile import Profile, SampleList


def sample_index(profile: Profile, wanted: str) -> int:
    """The position of the wanted sample type, or of the default one. Raises UsageError with those that there are."""
    types = [value_type.type for value_type in profile.sample_types]
    if not wanted:
        known = profile.default_sample_type in types
        return types.index(profile.default_sample_type) if known else len(types) - 1
    if wanted.lstrip("+-").isdecimal():
        if not 0 <= int(wanted) < len(types):
            raise UsageError(f"sample_index {wanted} is outside the range [0..{len(types) - 1}]", **_one_of(types))
        return int(wanted)
    bare = wanted.removeprefix("inuse_")
    for index, name in enumerate(types):
        if name in (wanted, bare):
            return index
    raise UsageError(f'sample_index "{wanted}" must be one of: [{" ".join(types)}]', **_one_of(types))


def _one_of(types: list[str]) -> dict[str, str]:
    return {"hint": f"This profile has: {', '.join(types)}.", "example": f"--sample_index={types[0]}"}


def keep_common_types(profiles: Sequence[Profile]) -> None:
    """Leave only the sample types that each profile has once, in the order of the first. Raises UsageError for none."""
    every = [value_type.type for profile in profiles for value_type in profile.sample_types]
    common = [
        value_type.type for value_type in profiles[0].sample_types if every.count(value_type.type) == len(profiles)
    ]
    if not common:
        raise UsageError("profiles have empty common sample type list", hint=_measured(profiles))
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


def _measured(profiles: Iterable[Profile]) -> str:
    lists = [" ".join(value_type.type for value_type in profile.sample_types) or "nothing" for profile in profiles]
    return f"They measure: {'; '.join(lists)}. Compare profiles of one kind."
