"""Values and percentages as pprof writes them (internal/measurement/measurement.go, internal/report/report.go)."""

from typing import NamedTuple

from bot.pprof.profile import int64, magnitude, truncated

_SMALLEST = -(1 << 63)
AUTO = "minimum"
"""The unit that fits the value; pprof's own word for it."""
_UNINTERESTING = ("count", "sample", "unit", "minimum", "auto")


class _Family(NamedTuple):
    """Units of one kind: (name, aliases, factor), and the one for values that are below all of them."""

    units: tuple[tuple[str, tuple[str, ...], float], ...]
    default: tuple[str, float]


_FAMILIES = (
    _Family(
        (
            ("B", ("b", "byte"), 1.0),
            ("kB", ("kb", "kbyte", "kilobyte"), float(1 << 10)),
            ("MB", ("mb", "mbyte", "megabyte"), float(1 << 20)),
            ("GB", ("gb", "gbyte", "gigabyte"), float(1 << 30)),
            ("TB", ("tb", "tbyte", "terabyte"), float(1 << 40)),
            ("PB", ("pb", "pbyte", "petabyte"), float(1 << 50)),
        ),
        ("B", 1.0),
    ),
    _Family(
        (
            ("ns", ("ns", "nanosecond"), 1.0),
            ("us", ("μs", "us", "microsecond"), 1e3),
            ("ms", ("ms", "millisecond"), 1e6),
            ("s", ("s", "sec", "second"), 1e9),
            ("hrs", ("hour", "hr"), 3600e9),
        ),
        ("s", 1e9),
    ),
)


class _KnownUnit(NamedTuple):
    """A unit, by any of its aliases."""

    family: _Family
    name: str
    factor: float


_KNOWN = {
    alias: _KnownUnit(family, name, factor)
    for family in _FAMILIES
    for name, aliases, factor in family.units
    for alias in aliases
}


def scale(value: int, unit: str, wanted: str) -> tuple[float, str]:
    """The value in the wanted unit, and that unit's name; the name is empty where a number needs none."""
    if value < 0 and value != _SMALLEST:
        scaled, name = scale(-value, unit, wanted)
        return -scaled, name
    known = _known(unit)
    if known is None:
        return float(value), "" if wanted in _UNINTERESTING else wanted
    return _converted(known.family, float(value) * known.factor, wanted)


def same_family(unit: str, other: str) -> bool:
    """Whether values of the two units can be compared."""
    known, known_other = _known(unit), _known(other)
    return unit == other or (known is not None and known_other is not None and known.family is known_other.family)


def _converted(family: _Family, value: float, wanted: str) -> tuple[float, str]:
    if wanted in ("minimum", "auto"):
        fitting = [(factor, name) for name, _, factor in family.units if value / factor >= 1.0]
        name, factor = (max(fitting)[1], max(fitting)[0]) if fitting else family.default
    else:
        known = _known(wanted)
        name, factor = (known.name, known.factor) if known and known.family is family else family.default
    return value / factor, name


def _known(unit: str) -> _KnownUnit | None:
    alias = unit.lower()
    if len(alias) > 2 or not alias.isascii():
        alias = alias.removesuffix("s") if len(alias.encode("utf-8", "surrogateescape")) > 2 else alias
    return _KNOWN.get(alias)


def label(value: int, unit: str, wanted: str) -> str:
    """The value in words: `13.24s`, `0`."""
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
    """What a cutoff is for a total: cut to a whole number, without sign."""
    return magnitude(truncated(float(total) * fraction))


def common_unit(smallest: int, total: int, unit: str) -> str:
    """The one unit of a whole report, for the smallest value that it shows (not 0) and the total."""
    fitting = scale(smallest, unit, AUTO)[1]
    if fitting != scale(total, unit, AUTO)[1] and int64(smallest * 100) < total:
        fitting = scale(int64(100 * smallest), unit, AUTO)[1]  # so that the smallest may be as little as 0.01
    return fitting or unit
