"""Values and percentages as pprof writes them (internal/measurement/measurement.go, internal/report/report.go)."""

from typing import NamedTuple

from bot.pprof.profile import int64, magnitude, truncated

_SMALLEST = -(1 << 63)
AUTO = "minimum"
"""pprof's word for the unit that fits the value."""
_UNINTERESTING = ("count", "sample", "unit", "minimum", "auto")


class _Unit(NamedTuple):
    kind: str
    name: str
    factor: float


_PREFIXES = (("", ""), ("k", "kilo"), ("M", "mega"), ("G", "giga"), ("T", "tera"), ("P", "peta"))
_KNOWN = {
    alias.lower(): _Unit("size", f"{short}B", float(1 << 10 * power))
    for power, (short, word) in enumerate(_PREFIXES)
    for alias in (f"{short}b", f"{short}byte", f"{word}byte")
} | {
    alias: _Unit("time", name, factor)
    for name, factor, aliases in (
        ("ns", 1.0, ("ns", "nanosecond")),
        ("us", 1e3, ("μs", "us", "microsecond")),
        ("ms", 1e6, ("ms", "millisecond")),
        ("s", 1e9, ("s", "sec", "second")),
        ("hrs", 3600e9, ("hour", "hr")),
    )
    for alias in aliases
}
_SMALL = {"size": _KNOWN["b"], "time": _KNOWN["s"]}
"""The unit of values below all units, by kind."""


def scale(value: int, unit: str, wanted: str) -> tuple[float, str]:
    """The value in the wanted unit, and the unit's name; the name is empty where a number needs none."""
    if value < 0 and value != _SMALLEST:
        scaled, name = scale(-value, unit, wanted)
        return -scaled, name
    known = _known(unit)
    if known is None:
        return float(value), "" if wanted in _UNINTERESTING else wanted
    amount, target = float(value) * known.factor, _known(wanted)
    if wanted in ("minimum", "auto"):
        fitting = (each for each in _KNOWN.values() if each.kind == known.kind and amount / each.factor >= 1.0)
        target = max(fitting, key=lambda each: each.factor, default=None)
    if target is None or target.kind != known.kind:
        target = _SMALL[known.kind]
    return amount / target.factor, target.name


def _known(unit: str) -> _Unit | None:
    alias = unit.lower()
    if len(alias) > 2 or not alias.isascii():
        alias = alias.removesuffix("s") if len(alias.encode("utf-8", "surrogateescape")) > 2 else alias
    return _KNOWN.get(alias)


def label(value: int, unit: str, wanted: str) -> str:
    """The value with its unit as pprof prints it: `13.24s`, `0`."""
    scaled, name = scale(value, unit, wanted)
    text = f"{scaled:.2f}".removesuffix(".00")
    return "0" if text in ("0", "-0") else text + name


def percentage(value: int, total: int) -> str:
    """The value's share of the total, six characters wide, never negative."""
    ratio = abs(float(value) / float(total)) * 100 if total else 0.0
    if 99.95 <= ratio <= 100.05:
        return "  100%"
    return f"{ratio:5.2f}%" if ratio >= 1.0 else f"{ratio:5.2g}%"


def fraction_of(total: int, fraction: float) -> int:
    """The fraction of a total as a cutoff: a whole number without sign."""
    return magnitude(truncated(float(total) * fraction))


def common_unit(smallest: int, total: int, unit: str) -> str:
    """The one unit for a whole table, from the smallest value that it shows (not 0) and the total."""
    fitting = scale(smallest, unit, AUTO)[1]
    if fitting != scale(total, unit, AUTO)[1] and int64(smallest * 100) < total:
        fitting = scale(int64(100 * smallest), unit, AUTO)[1]  # so that the smallest may be as little as 0.01
    return fitting or unit
