"""Values and percentages as pprof writes them (internal/measurement/measurement.go, internal/report/report.go)."""

from typing import NamedTuple

from bot.pprof.profile import int64, magnitude

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
    _Family(
        (
            ("n*GCU", ("nanogcu",), 1e-9),
            ("u*GCU", ("microgcu",), 1e-6),
            ("m*GCU", ("milligcu",), 1e-3),
            ("GCU", ("gcu",), 1.0),
            ("k*GCU", ("kilogcu",), 1e3),
            ("M*GCU", ("megagcu",), 1e6),
            ("G*GCU", ("gigagcu",), 1e9),
            ("T*GCU", ("teragcu",), 1e12),
            ("P*GCU", ("petagcu",), 1e15),
        ),
        ("GCU", 1.0),
    ),
)


def scale(value: int, unit: str, wanted: str) -> tuple[float, str]:
    """The value in the wanted unit, and that unit's name; the name is empty where a number needs none."""
    if value < 0 and value != _SMALLEST:
        scaled, name = scale(-value, unit, wanted)
        return -scaled, name
    for family in _FAMILIES:
        if (factor := _factor(family, unit)) is not None:
            return _converted(family, float(value) * factor, wanted)
    return float(value), "" if wanted in _UNINTERESTING else wanted


def same_family(unit: str, other: str) -> bool:
    """Whether values of the two units can be compared."""
    return unit == other or any(
        _factor(family, unit) is not None and _factor(family, other) is not None for family in _FAMILIES
    )


def _converted(family: _Family, value: float, wanted: str) -> tuple[float, str]:
    if wanted in ("minimum", "auto"):
        fitting = [(factor, name) for name, _, factor in family.units if value / factor >= 1.0]
        name, factor = (max(fitting)[1], max(fitting)[0]) if fitting else family.default
    else:
        name, factor = _unit(family, wanted) or family.default
    return value / factor, name


def _factor(family: _Family, unit: str) -> float | None:
    found = _unit(family, unit)
    return found[1] if found else None


def _unit(family: _Family, unit: str) -> tuple[str, float] | None:
    alias = unit.lower()
    if len(alias.encode("utf-8", "surrogateescape")) > 2:
        alias = alias.removesuffix("s")
    return next(((name, factor) for name, aliases, factor in family.units if alias in aliases), None)


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
    return magnitude(int(float(total) * fraction))


def common_unit(smallest: int, total: int, unit: str) -> str:
    """The one unit of a whole report, for the smallest value that it shows (not 0) and the total."""
    fitting = scale(smallest, unit, AUTO)[1]
    if fitting != scale(total, unit, AUTO)[1] and int64(smallest * 100) < total:
        fitting = scale(int64(100 * smallest), unit, AUTO)[1]  # so that the smallest may be as little as 0.01
    return fitting or unit
