"""The figures that digests compare: what differs from the last digest's, and each digest's GPU memory."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bot.texts import Prose

Figures = Mapping[str, str]
"""The figures of one digest: `AREA/WHAT` -> value, such as `pending/card-insufficient-memory` -> `3`. An area that
could not be read has `unseen/AREA`, one that was read in part `gaps/AREA` with what is missing: nothing is concluded
from figures that an unread area lacks, or from differences in an area whose gaps differ."""
_BLIND = ("unseen", "gaps")
_COUNTERS = ("scheduler-restarts", "plugin-restarts")
"""Areas whose figures count since their pod began: only more is news, and a pod that is gone has restarted nothing."""


class Difference(NamedTuple):
    """One figure that differs between two digests; `before` or `after` is empty where there was, or is, none."""

    area: str
    what: str
    before: str
    after: str


def differences(before: Figures, after: Figures) -> list[Difference]:
    """The figures that changed, by area in the order of the newer ones; only areas that were read alike both times."""
    blind = not_compared(before, after)
    found: list[Difference] = []
    for name in dict.fromkeys([*after, *before]):
        area, what = area_and_what(name)
        old, new = before.get(name, ""), after.get(name, "")
        if area in _COUNTERS:
            old, new = (old or "0", new) if int(new or "0") > int(old or "0") else ("", "")
        if area not in _BLIND and area not in blind and old != new:
            found.append(Difference(area, what, old, new))
    areas = list(dict.fromkeys(area_and_what(name)[0] for name in [*after, *before]))
    return sorted(found, key=lambda difference: areas.index(difference.area))


def not_compared(before: Figures, after: Figures) -> list[str]:
    """The areas that were not read for both digests, or of which not the same part was read."""
    unseen = {what for figures in (before, after) for area, what in map(area_and_what, figures) if area == "unseen"}
    partly = {area_and_what(name)[1] for name in [*before, *after] if area_and_what(name)[0] == "gaps"}
    other = {area for area in partly if before.get(f"gaps/{area}") != after.get(f"gaps/{area}")}
    return sorted(unseen | other)


def anything_compared(before: Figures, after: Figures) -> bool:
    """Whether some area was read alike for both digests, or no area was left out."""
    blind = not_compared(before, after)
    areas = {area_and_what(name)[0] for name in (*before, *after)}
    return not blind or bool(areas.difference(_BLIND, blind))


def area_and_what(name: str) -> tuple[str, str]:
    """The area of a figure's name, and what it counts there."""
    area, _, what = name.partition("/")
    return area, what


def step(before: str, after: str) -> str:
    """By how much a number grew, with its sign; a missing one counts as 0, and the step is empty for no number."""
    try:
        grown = int(after or "0") - int(before or "0")
    except ValueError:
        return ""
    return f"{grown:+,}"


_MEMORY, _GIVEN, _LARGEST = "memory-MiB", "memory-given-MiB", "largest-slice-MiB"


class Point(NamedTuple):
    """One digest's figures for one GPU model, in MiB; None where they were not known. `at`: unix seconds."""

    at: float
    memory: int | None
    given: int | None
    largest: int | None


def trends(runs: Sequence[tuple[float, Figures]]) -> dict[str, list[Point]]:
    """A point per digest for each GPU model that two digests know, the models with the most memory first."""
    kinds = _by_kind(runs).items()
    return {kind: some for kind, some in kinds if sum(point.memory is not None for point in some) > 1}


def memory_by_model(figures: Figures, at: float) -> dict[str, Point]:
    """One digest's point for each GPU model, those with the most memory first."""
    return {kind: point for kind, [point] in _by_kind([(at, figures)]).items()}


def _by_kind(runs: Sequence[tuple[float, Figures]]) -> dict[str, list[Point]]:
    kinds = {what for _, figures in runs for area, what in map(area_and_what, figures) if area == _MEMORY}
    areas = (_MEMORY, _GIVEN, _LARGEST)
    found = {
        kind: [Point(at, *(int(text) if text.isdecimal() else None for text in given)) for at, given in texts]
        for kind in kinds
        if (texts := [(at, [figures.get(f"{area}/{kind}", "") for area in areas]) for at, figures in runs])
    }
    return dict(sorted(found.items(), key=lambda item: (-max(point.memory or 0 for point in item[1]), item[0])))


class FigureRow(NamedTuple):
    """One of the figures by which digests are compared (`Figures`), as a row of a table."""

    area: Prose
    what: str
    value: str


class OwnerRow(NamedTuple):
    """The pods of one owner that a finding is about; `finding` is the finding's place in the report, from 1 on."""

    finding: int
    kind: str
    namespace: str
    name: str
    team: str
    pods: int
