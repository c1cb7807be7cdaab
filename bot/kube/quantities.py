"""Reads Kubernetes quantities (`20k`, `5Gi`, `1e3`) exactly (k8s.io/apimachinery/pkg/api/resource/quantity.go)."""

import re
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_LONGEST = 64
_LARGEST_EXPONENT = 64
# Holds every digit of the longest text times the largest suffix; the default context rounds to 28.
_EXACT = Context(prec=2 * (_LONGEST + _LARGEST_EXPONENT))


@lru_cache(maxsize=4096)
def parse_quantity(value: str | float) -> Decimal | None:
    """The exact number of a quantity; None when the text is no quantity (or one that no cluster could mean)."""
    try:
        text = str(value)
    except ValueError:  # an int of more digits than Python converts
        return None
    if len(text) > _LONGEST or not (found := _QUANTITY.fullmatch(text)):
        return None
    number, suffix, exponent = found.groups()
    if suffix in _BINARY:
        return _EXACT.multiply(Decimal(number), Decimal(1024 ** _BINARY[suffix]))
    power = int(exponent) if exponent else _DECIMAL.get(suffix or "", 0)
    return _EXACT.scaleb(Decimal(number), power) if abs(power) <= _LARGEST_EXPONENT else None


@lru_cache(maxsize=4096)
def whole(value: str | float | None) -> int | None:
    """The quantity rounded away from zero to a whole number, as Quantity.Value() does; None for no quantity."""
    number = None if value is None else parse_quantity(value)
    return None if number is None else int(number.to_integral_value(ROUND_UP))


_DECIMAL_UP = {exponent: suffix for suffix, exponent in _DECIMAL.items()}


@lru_cache(maxsize=4096)
def canonical(value: str | float) -> str:
    """The quantity as the API writes it: `2000` is `2k`, `2048Mi` is `2Gi`; other text unchanged."""
    number, found = parse_quantity(value), _QUANTITY.fullmatch(str(value))
    if number is None or found is None:
        return str(value)
    if found[2] in _BINARY and abs(number) >= 1024:  # less than 1Ki is written without a unit
        whole_number, power = int(number.to_integral_value(ROUND_UP)), 0
        while whole_number % 1024 == 0 and power < max(_BINARY.values()):
            whole_number, power = whole_number // 1024, power + 1
        return f"{whole_number}{next((unit for unit, of in _BINARY.items() if of == power), '')}"
    if not number:
        return "0"
    shown = number.normalize(_EXACT).as_tuple()
    power = max(min(int(shown.exponent) // 3 * 3, 18), -9)
    scaled = int(_EXACT.scaleb(number, -power).to_integral_value(ROUND_UP))
    unit = f"e{power}" if found[3] is not None and power else _DECIMAL_UP.get(power, "")
    return f"{scaled}{unit}"
