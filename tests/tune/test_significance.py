"""A difference within noise is no difference."""

import pytest

from playbooks.tune.compare import Difference, compare_counts, compare_times

_SPREAD = [float(second) for second in range(1, 21)]


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        (_SPREAD, [second / 10 for second in _SPREAD], "better"),
        ([second / 10 for second in _SPREAD], _SPREAD, "worse"),
        (_SPREAD, [second + 0.5 for second in _SPREAD], "no difference"),
        (_SPREAD, _SPREAD, "no difference"),
        ([5.0] * 20, [5.0] * 20, "no difference"),
        (_SPREAD[:9], [0.1] * 20, "not enough data"),
        ([], [], "not enough data"),
    ],
)
def test_times_differ_by_rank_and_by_median(before: list[float], after: list[float], answer: Difference) -> None:
    assert compare_times(before, after, 0.05) == answer


def test_a_difference_below_what_can_be_measured_is_none() -> None:
    assert compare_times([1.0] * 30, [1.5] * 30, 1.0) == "no difference"
    assert compare_times([1.0] * 30, [1.5] * 30, 0.05) == "worse"


@pytest.mark.parametrize(
    ("before", "after", "pods", "answer"),
    [
        (538, 0, (60, 60), "better"),
        (0, 538, (60, 60), "worse"),
        (10, 12, (60, 60), "no difference"),
        (100, 50, (60, 30), "no difference"),
        (0, 0, (60, 60), "no difference"),
        (538, 0, (60, 9), "not enough data"),
    ],
)
def test_counts_differ_by_more_than_chance(before: int, after: int, pods: tuple[int, int], answer: Difference) -> None:
    assert compare_counts(before, after, *pods) == answer
