"""Pacing, as arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.slack.calls import CHANNEL, TIERS, Pacer

POST = "chat.postMessage"


def test_a_quiet_channel_takes_a_small_burst_and_then_one_a_second():
    pacer = Pacer()
    assert [pacer.reserve(POST, "C1", 0.0, 10.0) for _ in range(5)] == [0.0, 0.0, 0.0, 1.0, 2.0]


def test_what_is_not_waited_for_is_not_entered_as_made():
    pacer = Pacer()
    for _ in range(3):
        pacer.reserve(POST, "C1", 0.0, 0.0)
    assert pacer.reserve(POST, "C1", 0.0, 0.0) == 1.0
    assert pacer.reserve(POST, "C1", 0.0, 0.0) == 1.0


def test_channels_do_not_wait_for_each_other():
    pacer = Pacer()
    for _ in range(3):
        pacer.reserve(POST, "C1", 0.0, 0.0)
    assert pacer.reserve(POST, "C2", 0.0, 0.0) == 0.0


def test_a_pause_stops_that_method_in_that_channel_and_nothing_else():
    pacer = Pacer()
    pacer.pause(POST, "C1", 30.0)
    assert pacer.reserve(POST, "C1", 10.0, 60.0) == 20.0
    assert pacer.reserve(POST, "C2", 10.0, 60.0) == 0.0
    assert pacer.reserve("chat.update", "C3", 10.0, 60.0) == 0.0


def test_a_shorter_pause_does_not_end_a_longer_one():
    pacer = Pacer()
    pacer.pause(POST, "C1", 30.0)
    pacer.pause(POST, "C1", 5.0)
    assert pacer.reserve(POST, "C1", 10.0, 60.0) == 20.0


def test_a_method_is_limited_over_all_channels_by_its_tier():
    pacer = Pacer()
    waits = [pacer.reserve("chat.update", f"C{n}", 0.0, 100.0) for n in range(TIERS[3].burst + 1)]
    assert waits[:-1] == [0.0] * TIERS[3].burst
    assert waits[-1] == pytest.approx(1.2)


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from(["C1", "C2"])), max_size=60))
def test_no_channel_ever_gets_more_than_its_rate_and_its_burst(calls: list[tuple[float, str]]):
    pacer, now = Pacer(), 0.0
    made: dict[str, list[float]] = {"C1": [], "C2": []}
    for pause, channel in calls:
        now += pause
        made[channel].append(now + pacer.reserve(POST, channel, now, 1e9))
    for times in made.values():
        for first, start in enumerate(times):
            for last in range(first, len(times)):
                allowed = CHANNEL.burst + (times[last] - start) * CHANNEL.per_second
                assert last - first + 1 <= allowed + 1e-6


def test_channels_that_are_quiet_again_are_forgotten():
    pacer = Pacer()
    for n in range(5000):
        pacer.reserve(POST, f"C{n}", float(n), 0.0)
    assert len(pacer._spent) < 2100
