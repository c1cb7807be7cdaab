"""When a difference between two measurements is more than chance.

Times: a rank test (Mann-Whitney U, normal approximation with correction for ties), two-sided at 1 %, of at least ten
pods on each side; and the medians differ by 10 % of the larger, and by 0.05 s, or by 1 s where whole seconds are known.
Counts: each pod is one chance; the counts differ by more than three times their standard deviation if every pod on
either side caused as many.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Literal

Answer = Literal["better", "worse", "no difference", "not enough data"]
LEAST = 10
"""Pods on each side."""
_BEYOND_CHANCE = 2.58
_DEVIATIONS = 3
_SHARE = 0.1


def compare_times(before: Sequence[float], after: Sequence[float], resolution_s: float) -> Answer:
    """Seconds before and after; fewer are better."""
    if min(len(before), len(after)) < LEAST:
        return "not enough data"
    old, new = statistics.median(before), statistics.median(after)
    least = max(_SHARE * max(old, new), resolution_s)
    if abs(old - new) < least or abs(_rank_score(before, after)) < _BEYOND_CHANCE:
        return "no difference"
    return "better" if new < old else "worse"


def median(values: Sequence[float]) -> float | None:
    """Of the values, to two places; None without any."""
    return round(statistics.median(values), 2) if values else None


def compare_counts(before: int, after: int, pods_before: int, pods_after: int) -> Answer:
    """How often something happened to so many pods; less often is better."""
    if min(pods_before, pods_after) < LEAST:
        return "not enough data"
    excess = before * pods_after - after * pods_before
    deviation = math.sqrt((before + after) * pods_before * pods_after)
    if abs(excess) <= _DEVIATIONS * deviation:
        return "no difference"
    return "better" if excess > 0 else "worse"


def _rank_score(before: Sequence[float], after: Sequence[float]) -> float:
    """How many standard deviations the ranks of `before` are off what chance gives; 0 where all are the same."""
    first, second = len(before), len(after)
    total = first + second
    ties = Counter([*before, *after])
    ranks: dict[float, float] = {}
    below = 0
    for value in sorted(ties):
        ranks[value] = below + (ties[value] + 1) / 2
        below += ties[value]
    off = sum(ranks[value] for value in before) - first * (total + 1) / 2
    correction = sum(count**3 - count for count in ties.values()) / (total * (total - 1))
    variance = first * second / 12 * (total + 1 - correction)
    return off / math.sqrt(variance) if variance > 0 else 0.0
