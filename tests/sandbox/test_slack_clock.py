"""The clock of the stand-in for Slack, which tests move by hand."""

import asyncio

from sandbox.slack.clock import VirtualClock


def test_it_never_goes_back_when_two_move_it_at_once() -> None:
    async def run() -> float:
        clock = VirtualClock(0.0)
        clock.call_later(0.05, lambda: None)  # on the way of the first, which the second overtakes
        await asyncio.gather(clock.advance(0.05), clock.advance(300.0))
        return clock.now()

    assert asyncio.run(run()) >= 300.0
