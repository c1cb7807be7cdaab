"""Kubernetes quantities: `20k`, `1500m`, `5Gi`, `1e3` to exact numbers.

Rules: k8s.io/apimachinery/pkg/api/resource, quantity.go.
"""

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
    """The exact number, None when the text is no quantity (or one that no cluster could mean)."""
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
    """The quantity rounded away from zero to a whole number, as Quantity.Value() does; None when there is none."""
    number = None if value is None else parse_quantity(value)
    return None if number is None else int(number.to_integral_value(ROUND_UP))
