"""What a profile says, as the report needs it: pure, and for a large one slow (a second for 100,000 samples)."""

from typing import NamedTuple

from bot.pprof.decode import read
from bot.pprof.graph import Trim
from bot.pprof.profile import Profile, ValueType, sample_index, shown_type
from bot.pprof.top import Options, TopRow, listing, prepared, total_of
from bot.pprof.units import AUTO, label

ROWS = 10
_SECOND_NS = 1_000_000_000


class View(NamedTuple):
    """`kind` is the sample type that the rest is about, `total_text` its sum over all samples with its unit.

    `seconds` is 0 for what is so at one moment. `rows` are the first of the table.
    `profile` is as `decode.read` gives it.
    """

    kind: ValueType
    total: int
    total_text: str
    seconds: float
    rows: tuple[TopRow, ...]
    profile: Profile


def view(content: bytes) -> View:
    """Raises SourceError for what is no profile."""
    profile = read(content)
    kind_shown = shown_type(profile)
    found = listing(prepared(profile.copy()), Options(sample_index=kind_shown, trim=Trim(nodecount=ROWS)))
    index = sample_index(profile, kind_shown)
    kind, total = profile.sample_types[index], total_of(profile, index)
    return View(
        kind=kind,
        total=total,
        total_text=label(total, kind.unit, AUTO),
        seconds=max(profile.duration_nanos, 0) / _SECOND_NS,
        rows=found.rows,
        profile=profile,
    )
