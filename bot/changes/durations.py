"""Lengths of time as people write them: `90s`, `10m`, `1h30m`, `2h`."""

import re

_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m(?:in)?)?(?:(\d{1,6})s)?", re.ASCII)
_ROUGH_S = 120


def read_duration(text: str) -> float | None:
    """Seconds; None for what is no length of time."""
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def format_duration(seconds: float) -> str:
    """`10m`, `1h30m`, `1m30s`: what `read_duration` reads; whole seconds, `0s` for less."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if amount]
    return "".join(parts) or "0s"


def roughly(seconds: float) -> str:
    """The same without seconds where they do not matter."""
    return format_duration(seconds if seconds < _ROUGH_S else round(seconds / 60) * 60)
