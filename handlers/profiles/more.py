"""`hami-bot profile list FUNCTION FILE`: per line; `profile compare BEFORE AFTER …`: what changed beyond chance."""

from collections.abc import Iterable
from pathlib import Path

from bot.errors import UsageError
from bot.pprof.compare import Change, Comparison, compare
from bot.pprof.decode import read
from bot.pprof.graph import Trim
from bot.pprof.listing import function_lines
from bot.pprof.profile import Profile
from bot.pprof.sampletypes import sample_index
from bot.pprof.top import Options, prepared, top, total_of
from bot.pprof.units import AUTO, label, percentage
from handlers.profiles.shell import HINT, Words, read_file

_ROWS = 10
_LISTED = 20
_WIDTH = 12


def list_text(asked: Words) -> str:
    """The lines of the functions that a regular expression finds. Raises UsageError and SourceError."""
    if len(asked.plain) != 2:
        raise UsageError("name a function and one profile", hint=HINT)
    function, file = asked.plain
    profile = _profile(file)
    index = sample_index(profile, asked.options.get("sample_index", ""))
    unit, total = profile.sample_types[index].unit, total_of(profile, index)
    lines = [f"Total: {label(total, unit, AUTO)}"]
    for one in function_lines(profile, index, function)[:_LISTED]:
        share = percentage(one.cum, total).strip()
        lines.append(f"ROUTINE ======================== {one.name} in {one.file or 'no file'}")
        lines.append(f"{label(one.flat, unit, AUTO):>10} {label(one.cum, unit, AUTO):>10} (flat, cum) {share} of Total")
        for line in one.lines:
            flat, cum = (label(value, unit, AUTO) if value else "." for value in (line.flat, line.cum))
            lines.append(f"{flat:>10} {cum:>10} {line.line:>6}")
    return "\n".join(lines) + "\n"


def compare_text(asked: Words) -> str:
    """What changed between the first and the last profile, oldest first. Raises UsageError and SourceError."""
    if len(asked.plain) < 2:
        raise UsageError("name at least two profiles, the oldest first", hint=HINT)
    wanted = asked.options.get("sample_index", "")
    found = compare([_profile(file) for file in asked.plain], wanted)
    lines = [*_summary(found, [Path(file).name for file in asked.plain])]
    if len(asked.plain) == 2:
        before, after = (read_file(Path(file), read) for file in asked.plain)
        options = Options(sample_index=wanted, trim=Trim(cum=True, nodecount=_ROWS))
        lines += ["", "go tool pprof -top -cum -diff_base:", top(after, before, diff=True, options=options)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _profile(file: str) -> Profile:
    return prepared(read_file(Path(file), read))


def _summary(found: Comparison, names: list[str]) -> Iterable[str]:
    yield from found.warnings
    what = f"{found.kind.type}{' per second' if found.per_second else ''}, from {names[0]} to {names[-1]}"
    significant = found.own[:_ROWS] or found.significant[:_ROWS]
    if found.total.noise and not significant:
        yield f"{what}: no change beyond noise."
    else:
        yield f"{what}:"
    yield _line(found, found.total)
    if found.gc and (found.gc.values[0] or found.gc.values[-1]):
        yield _line(found, found.gc)
    if found.allocated:
        yield _row(found.allocated, "bytes")
    for one in significant:
        yield _line(found, one)
    if gone := [one.name for one in found.own if one.gone]:
        yield f"Gone (no sample, which is not never run): {', '.join(gone[:_ROWS])}"
    if new := [one.name for one in found.own if one.new]:
        yield f"New: {', '.join(new[:_ROWS])}"


def _line(found: Comparison, change: Change) -> str:
    return _row(change, found.kind.unit)


def _row(change: Change, unit: str) -> str:
    values = "".join(f"{label(round(value), unit, AUTO):>{_WIDTH}}" for value in change.values)
    first, last = change.values[0], change.values[-1]
    ratio = f"{(last - first) / abs(first):+.0%}" if first else "new"
    return f"{values}  {'noise' if change.noise else ratio:>7}  {change.name}"
