"""Which of what is heard of an alert is news."""

from hypothesis import given
from hypothesis import strategies as st

from bot.triage.webhook import NOTED_S, REPEATED_S, Alert, Outbreak, hear
from tests.oncall.rig import pending


def at(minute: int) -> str:
    return f"2027-01-15T08:{minute:02}:00Z"


def firing(starts: int) -> Alert:
    return pending(0, starts_at=at(starts))


def resolved(starts: int, ends: int | None = None) -> Alert:
    return pending(0, status="resolved", starts_at=at(starts), ends_at="" if ends is None else at(ends))


def heard(*said: tuple[float, Alert]) -> Outbreak:
    """The newest outbreak after all that was said, each at its second."""
    known = None
    for second, text in said:
        known = hear(known, text, second) or known
    assert known is not None
    return known


def test_an_alert_fires_and_is_over() -> None:
    assert heard((0, firing(0))) == Outbreak(1, "firing", at(0), "", 0, 0)
    assert heard((0, firing(0)), (60, resolved(0, 1))) == Outbreak(1, "resolved", at(0), at(1), 0, 60)


def test_what_fires_in_another_alertmanagers_words_is_the_same_outbreak_since_the_earliest_start() -> None:
    assert heard((0, firing(5)), (60, firing(3))) == Outbreak(1, "firing", at(3), "", 60, 0)
    assert heard((0, firing(3)), (NOTED_S, firing(5))) == Outbreak(1, "firing", at(3), "", NOTED_S, 0)


def test_it_is_over_whichever_start_is_named() -> None:
    assert heard((0, firing(5)), (60, firing(3)), (90, resolved(3))).status == "resolved"
    assert heard((0, firing(3)), (90, resolved(5))).status == "resolved"


def test_what_is_said_again_soon_after_the_end_is_a_repetition() -> None:
    over = (60, resolved(0, 1))
    assert heard((0, firing(0)), over, (60 + REPEATED_S, firing(0))).status == "resolved"
    assert heard((0, firing(0)), over, (61, resolved(0, 1))).changed_at == 60


def test_what_fires_later_or_since_after_the_end_is_another_outbreak() -> None:
    over = (60, resolved(0, 1))
    assert heard((0, firing(0)), over, (61 + REPEATED_S, firing(0)))[:3] == (2, "firing", at(0))
    assert heard((0, firing(0)), over, (61, firing(2)))[:3] == (2, "firing", at(2))


def test_the_end_of_an_earlier_outbreak_does_not_end_this_one() -> None:
    assert heard((0, firing(0)), (60, resolved(0, 1)), (61, firing(2)), (62, resolved(0, 1))).status == "firing"


def test_what_was_silent_for_too_long_fires_as_soon_as_it_is_heard_of() -> None:
    silent = heard((0, firing(0)))._replace(status="silent", changed_at=90_000)
    assert hear(silent, firing(0), 90_001) == Outbreak(2, "firing", at(0), "", 90_001, 90_001)
    assert hear(silent, resolved(0), 90_001) is None


_SAID = st.builds(firing, st.integers(0, 9)) | st.builds(resolved, st.integers(0, 9), st.none() | st.integers(0, 9))


@given(st.lists(st.tuples(st.integers(0, 400), _SAID), max_size=20))
def test_in_any_order_one_outbreak_fires_at_a_time_and_only_because_somebody_said_so(
    said: list[tuple[int, Alert]],
) -> None:
    known, second = None, 0
    for waited, text in said:
        second += waited
        after = hear(known, text, second)
        if after is None:
            continue
        if known is not None and after.number != known.number:
            assert known.status != "firing"
            assert after.number == known.number + 1
        if known is None or after.status != known.status:
            assert after.status == text.status
        assert hear(after, text, second) is None
        known = after
