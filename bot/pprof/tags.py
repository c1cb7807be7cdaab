"""tagfocus and tagignore: samples by their labels (internal/driver/driver_focus.go)."""

import re
from collections.abc import Callable

from bot.errors import UsageError
from bot.pprof.patterns import matcher
from bot.pprof.profile import Label, Profile, Sample
from bot.pprof.units import scale
from bot.texts import Text

_NUMBER = re.compile(r"([+-]?[0-9]+)([A-Za-z]+)?")
_LARGEST = (1 << 63) - 1
_KNOWN_UNITS = {"alignment": "bytes", "request": "bytes"}

TagTest = Callable[[Sample], bool]
_Range = Callable[[int, str], bool]


def tag_filter(value: str, what: str, profile: Profile) -> TagTest:
    """`key=rx,rx` (any of them), `rx,rx` on `key:text` (all of them), or a range of numbers: `bytes=1mb:2mb`.

    `what` names the option in the UsageError for what cannot be read.
    """
    key, equals, rest = value.partition("=")
    wanted = key if equals else ""
    text = rest if equals else value
    if (within := _range(text, what)) is not None:
        return _by_number(wanted, within, _number_units(profile))
    tests = [matcher(expression, what) for expression in text.split(",")]
    if not wanted:
        return lambda sample: all(any(test(f"{key}:{text}") for key, text in _texts(sample)) for test in tests)
    return lambda sample: any(key == wanted and any(test(text) for test in tests) for key, text in _texts(sample))


def _texts(sample: Sample) -> list[tuple[str, str]]:
    return [(label.key, label.text) for label in sample.labels if label.text]


def _is_number(label: Label) -> bool:
    return not label.text and (label.number != 0 or label.unit != "")


def _by_number(wanted: str, within: _Range, units: dict[str, str]) -> TagTest:
    def test(sample: Sample) -> bool:
        return any(
            within(label.number, units[label.key])
            for label in sample.labels
            if _is_number(label) and (not wanted or label.key == wanted)
        )

    return test


def _number_units(profile: Profile) -> dict[str, str]:
    """The unit of every numeric label: the first that any sample gives, else what the key suggests."""
    found: dict[str, str] = {}
    for sample in profile.samples:
        for label in filter(_is_number, sample.labels):
            if not found.get(label.key):
                found[label.key] = label.unit
    return {key: unit or _KNOWN_UNITS.get(key, key) for key, unit in found.items()}


def _range(text: str, what: str) -> _Range | None:
    """What numbers are meant by `1mb`, `1mb:`, `:1mb` and `1mb:2mb`; None when this is no range."""
    found = list(_NUMBER.finditer(text))[:2]
    if not found:
        return None
    first = found[0].group()
    low, unit = scale(_number(found[0], what), found[0][2] or "", found[0][2] or "")
    high = low
    if len(found) == 1:
        bounds = {first: (low, low), f"{first}:": (low, float("inf")), f":{first}": (float("-inf"), low)}
        if text not in bounds:
            return None
        low, high = bounds[text]
    else:
        if text != f"{first}:{found[1].group()}":
            return None
        high, other = scale(_number(found[1], what), found[1][2] or "", unit)
        if unit != other:
            return None

    def within(value: int, value_unit: str) -> bool:
        scaled, name = scale(value, value_unit, unit)
        return name == unit and low <= scaled <= high

    return within


def _number(match: re.Match[str], what: str) -> int:
    number = int(match[1]) if len(match[1]) < 30 else _LARGEST + 1
    if abs(number) > _LARGEST:
        raise UsageError(
            Text("error-pprof.too-large-a-number", what=what, number=match[1][:30]), example="bytes=1mb:2mb"
        )
    return number
