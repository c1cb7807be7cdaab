"""What a digest compares: figures by name, and how they differ from those of the last one."""

from collections.abc import Mapping
from typing import NamedTuple

Figures = Mapping[str, str]
"""`AREA/WHAT` -> value, such as `pending/card-insufficient-memory` -> `3`. Of an area that could not be seen there is
`unseen/AREA`, of one that was seen in part `gaps/AREA` with what was not: nothing is concluded from what is missing in
the one, or from what differs where the other does."""
_BLIND = ("unseen", "gaps")
_COUNTERS = ("scheduler-restarts", "plugin-restarts")
"""Areas whose figures count since their pod began: more is news, and a pod that is gone has restarted nothing."""


class Difference(NamedTuple):
    """One figure that is another one now; empty where there is, or was, none."""

    area: str
    what: str
    before: str
    after: str


def differences(before: Figures, after: Figures) -> list[Difference]:
    """What changed, area by area in the order of the newer figures; only what was seen as well then as it is now."""
    blind = not_compared(before, after)
    found: list[Difference] = []
    for name in dict.fromkeys([*after, *before]):
        area, what = split(name)
        old, new = before.get(name, ""), after.get(name, "")
        if area in _COUNTERS:
            old, new = (old or "0", new) if int(new or "0") > int(old or "0") else ("", "")
        if area not in _BLIND and area not in blind and old != new:
            found.append(Difference(area, what, old, new))
    areas = list(dict.fromkeys(split(name)[0] for name in [*after, *before]))
    return sorted(found, key=lambda difference: areas.index(difference.area))


def not_compared(before: Figures, after: Figures) -> list[str]:
    """The areas that were not seen then or now, or not the same part of them."""
    unseen = {what for figures in (before, after) for area, what in map(split, figures) if area == "unseen"}
    partly = {split(name)[1] for name in [*before, *after] if split(name)[0] == "gaps"}
    other = {area for area in partly if before.get(f"gaps/{area}") != after.get(f"gaps/{area}")}
    return sorted(unseen | other)


def anything_compared(before: Figures, after: Figures) -> bool:
    """Whether there is an area that was seen as well then as it is now, or none that was not."""
    blind = not_compared(before, after)
    areas = {split(name)[0] for name in (*before, *after)}
    return not blind or bool(areas.difference(_BLIND, blind))


def split(name: str) -> tuple[str, str]:
    """Area and what."""
    area, _, what = name.partition("/")
    return area, what


def step(before: str, after: str) -> str:
    """By how much a number grew, with its sign; empty where it is none, or there was none."""
    try:
        grown = int(after or "0") - int(before or "0")
    except ValueError:
        return ""
    return f"{grown:+,}"
