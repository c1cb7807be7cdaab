"""The text of `go tool pprof -top`, byte for byte."""

import time
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from bot.pprof import filters
from bot.pprof.filters import prune
from bot.pprof.graph import Graph, Trim, trimmed
from bot.pprof.merge import subtract
from bot.pprof.nodes import base_name, simplify
from bot.pprof.profile import Profile, ValueType, int64, is_base, sample_index, truncated
from bot.pprof.units import AUTO, common_unit, fraction_of, label, percentage, scale

_SECOND_NS = 1_000_000_000
_LONGEST_FILTER = 80


class Options(NamedTuple):
    """The options of a table; names and defaults are pprof's. `sample_index` is a name, a position, or empty."""

    sample_index: str = ""
    unit: str = AUTO
    relative_percentages: bool = False
    normalize: bool = False
    trim: Trim = Trim()
    filters: Mapping[str, str] = {}  # nobody changes it


_DEFAULT = Options()


class TopRow(NamedTuple):
    """A line of `profile top`. `function` has a mark behind its name where it is inlined."""

    flat: str
    flat_share: str
    sum_share: str
    cum: str
    cum_share: str
    function: str

    @property
    def name(self) -> str:
        """The function's name without the mark."""
        return self.function.removesuffix(" (inline)").removesuffix(" (partial-inline)")

    def __str__(self) -> str:
        shares = [f"{share:>6}" for share in (self.flat_share, self.sum_share, self.cum_share)]
        return f"{self.flat:>10} {shares[0]} {shares[1]} {self.cum:>10} {shares[2]}  {self.function}"


class Listing(NamedTuple):
    """The text of `profile top` in parts. `duration` is empty where it is not known."""

    header: tuple[str, ...]
    duration: str
    active: tuple[str, ...]
    summary: str
    left_out: tuple[str, ...]
    rows: tuple[TopRow, ...]

    def __str__(self) -> str:
        columns = f"{'flat':>10} {'flat':>5}% {'sum':>5}% {'cum':>10} {'cum':>5}%"
        duration = (self.duration,) if self.duration else ()
        lines = (*self.header, *duration, *self.active, self.summary, *self.left_out, columns, *map(str, self.rows))
        return "\n".join(lines) + "\n"


def top(source: Profile, base: Profile | None = None, *, diff: bool = False, options: Options = _DEFAULT) -> str:
    """The whole text of `profile top`. With `base` it is of the difference: `-base`, or `-diff_base` with `diff`.
    Changes the profiles given. Raises SourceError for a damaged profile, UsageError for options that do not fit it.
    """
    return str(listing(prepared(source, base, diff=diff, normalize=options.normalize), options))


def listing(profile: Profile, options: Options = _DEFAULT) -> Listing:
    """The text of `profile top` for a prepared profile, in parts. Changes the profile."""
    index = sample_index(profile, options.sample_index)
    if options.relative_percentages:
        filters.apply(profile, options.filters)
    total = total_of(profile, index)
    if not options.relative_percentages:
        filters.apply(profile, options.filters)
    graph = trimmed(profile, index, options.trim)
    return _listing(profile, graph, total, profile.sample_types[index], options)


def prepared(source: Profile, base: Profile | None = None, *, diff: bool = False, normalize: bool = False) -> Profile:
    """The profile, less its base, with names for people and without the frames that it asks to drop."""
    if base is not None:
        source = subtract(source, base, diff=diff, normalize=normalize)
    simplify(source.functions)
    prune(source)
    return source


def total_of(profile: Profile, index: int) -> int:
    """The sum of all values without their signs; only of the base's samples where a comparison marked them."""
    if profile.may_hold_base:
        base = int64(sum(abs(sample.values[index]) for sample in profile.samples if is_base(sample)))
        if base > 0:
            return base
    return int64(sum(abs(value) for _, value in profile.samples.stacks(index)))


def _listing(profile: Profile, graph: Graph, total: int, kind: ValueType, options: Options) -> Listing:
    unit = options.unit
    if unit == AUTO and graph.rows:
        values = [abs(row.flat) or abs(row.cum) for row in graph.rows]
        unit = common_unit(min(filter(None, values), default=total), total, kind.unit)

    @cache  # most values occur in several rows
    def value(number: int) -> str:
        return label(number, kind.unit, unit)

    shown = int64(sum(row.flat for row in graph.rows))
    active = filters.active(options.filters)
    share = percentage(shown, total).strip()
    left_out: list[str] = []
    if total and graph.dropped:
        cutoff = value(fraction_of(total, options.trim.nodefraction))
        left_out.append(f"Dropped {graph.dropped} node{'s' * (graph.dropped > 1)} (cum <= {cutoff})")
    if total and 0 < len(graph.rows) < graph.nodes:
        left_out.append(f"Showing top {len(graph.rows)} nodes out of {graph.nodes}")
    rows: list[TopRow] = []
    running = 0
    for row in graph.rows:
        running = int64(running + row.flat)
        own, so_far, with_callees = (percentage(weight, total).strip() for weight in (row.flat, running, row.cum))
        function = f"{row.node} {row.inline}" if row.inline else str(row.node)
        rows.append(TopRow(value(row.flat), own, so_far, value(row.cum), with_callees, function))
    return Listing(
        header=tuple(_header(profile, kind)),
        duration=_duration(profile, total, kind, value(total)),
        active=("Active filters:", *(f"   {_cut(text)}" for text in active)) if active else (),
        summary=f"Showing nodes accounting for {value(shown)}, {share} of {value(total)} total",
        left_out=tuple(left_out),
        rows=tuple(rows),
    )


def _header(profile: Profile, kind: ValueType) -> list[str]:
    lines: list[str] = []
    if profile.mappings:
        program = profile.mappings[0]
        lines += [f"File: {base_name(program.file)}"] if program.file else []
        lines += [f"Build ID: {program.build_id}"] if program.build_id else []
    lines += [comment for comment in profile.comments if not comment.startswith("#")]
    lines += [f"Type: {kind.type}"] if kind.type else []
    lines += [f"Doc: {profile.doc_url}"] if profile.doc_url else []
    if profile.time_nanos:
        at = time.localtime(profile.time_nanos // _SECOND_NS)
        lines.append(f"Time: {time.strftime('%Y-%m-%d %H:%M:%S', at)} {at.tm_zone}")
    return lines


def _duration(profile: Profile, total: int, kind: ValueType, total_text: str) -> str:
    if not profile.duration_nanos:
        return ""
    total_ns, unit = scale(total, kind.unit, "nanoseconds")
    ratio = f"({percentage(truncated(total_ns), profile.duration_nanos)})" if unit == "ns" and total_ns else ""
    duration = label(profile.duration_nanos, "nanoseconds", "auto")
    return f"Duration: {duration}, Total samples = {total_text} {ratio}"


def _cut(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return text if len(data) <= _LONGEST_FILTER else data[:_LONGEST_FILTER].decode("utf-8", "surrogateescape") + "…"
