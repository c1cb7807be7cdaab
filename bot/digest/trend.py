"""How much memory there was, digest by digest."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.digest.figures import Figures, split

_MEMORY, _GIVEN, _LARGEST = "memory-MiB", "memory-given-MiB", "largest-slice-MiB"


class Point(NamedTuple):
    """One digest's figures of one type of card, in MiB; None where they were not known. `at`: unix seconds."""

    at: float
    memory: int | None
    given: int | None
    largest: int | None


def trends(runs: Sequence[tuple[float, Figures]]) -> dict[str, list[Point]]:
    """A point per digest by type of card, the types with the most memory first; types that were seen once have none."""
    kinds = {what for _, figures in runs for area, what in map(split, figures) if area == _MEMORY}
    points = {kind: [_point(at, figures, kind) for at, figures in runs] for kind in kinds}
    found = {kind: some for kind, some in points.items() if sum(1 for point in some if point.memory is not None) > 1}
    return dict(sorted(found.items(), key=lambda item: (-max(point.memory or 0 for point in item[1]), item[0])))


def rooms(figures: Figures, at: float) -> dict[str, Point]:
    """One digest's point by type of card, the types with the most memory first."""
    kinds = [what for area, what in map(split, figures) if area == _MEMORY]
    found = {kind: _point(at, figures, kind) for kind in kinds}
    return dict(sorted(found.items(), key=lambda item: (-(item[1].memory or 0), item[0])))


def _point(at: float, figures: Figures, kind: str) -> Point:
    memory, given, largest = (_number(figures.get(f"{area}/{kind}", "")) for area in (_MEMORY, _GIVEN, _LARGEST))
    return Point(at, memory, given, largest)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
