"""A bot whose clock is wrong: it says so and raises nothing, and what is open ends by the API server's clock."""

import asyncio
from pathlib import Path
from typing import Any

from tests.slack.changing import TWO, World, a_bot, a_place, played, readyz, text_of
from tests.slack.outages import free_port


async def asked(world: World) -> dict[str, Any]:
    """The card of a change that waits for its approval."""
    await world.asked("verbosity 5 for 10m", "trainer-0 hangs")
    return await world.card("Pending approval")


async def test_a_clock_that_is_set_three_hours_ahead_ends_nothing_early_and_raises_nothing(tmp_path: Path) -> None:
    bind = free_port()
    async with asyncio.timeout(180), a_place(tmp_path) as world, a_bot(world, bind=bind):
        before = (await world.deployment())["spec"]
        await world.raised()
        assert "ahead of" not in await readyz(bind)
        world.skew_s = 10_800
        await world.passes()
        assert await world.is_open()
        assert "3h ahead of the API server's: nothing is raised from here" in await readyz(bind)
        world.ahead_s = 1801
        await world.card("Reverted")
        assert (await world.deployment())["spec"] == before
        await world.slack.command("ada", "gpu-oncall", "verbosity 5 because x")
        await world.slack.wait_for(lambda: "ahead of the API server's" in text_of(world.slack.views("ada")))
        assert not await world.is_open()


async def test_a_change_that_was_raised_with_a_wrong_clock_says_so_on_its_card(tmp_path: Path) -> None:
    async with asyncio.timeout(180), a_place(tmp_path) as world, a_bot(world):
        await world.raised()
        record = await world.record()
        await world.rewritten(record | {"raised_at": "2099-01-01T00:00:00Z", "at": "2099-01-01T00:10:00Z"})
        assert "2099-01-01T00:00:00Z" in text_of(await world.card("Made with a wrong clock"))
        world.ahead_s = 605
        await world.card("Reverted")


@played()
async def test_who_asks_for_a_raise_is_told_of_the_wrong_clock_before_anything_is_read(world: World) -> None:
    world.skew_s = -10_800
    begun = len(world.cluster.requests)
    await world.slack.command("ada", "gpu-oncall", "verbosity 5 because x")
    await world.slack.wait_for(lambda: "behind the API server's" in text_of(world.slack.views("ada")))
    paths = [request.path for request in world.cluster.requests[begun:]]
    assert "/version" in paths
    assert not [path for path in paths if path.endswith(("/pods", "/nodes", "/log"))]


@played()
async def test_what_is_confirmed_with_a_wrong_clock_counts_as_not_asked_for(world: World) -> None:
    await world.offered("verbosity 5 for 30m")
    world.skew_s = 10_800
    await world.submit("ada", "trainer-0 hangs")
    await world.told("ada", "3h ahead of the API server's")
    assert [outcome for _, _, outcome in await world.audit()] == ["denied"]
    assert not await world.is_open()


@played()
async def test_what_was_shown_grows_old_by_the_api_servers_clock(world: World) -> None:
    world.skew_s = -50
    await world.offered("verbosity 5 for 30m")
    world.skew_s, world.ahead_s = 50, 550
    await world.submit("ada", "trainer-0 hangs")
    await world.card("In effect")


@played(access=TWO)
async def test_an_approval_is_waited_for_by_the_api_servers_clock(world: World) -> None:
    card = await asked(world)
    world.skew_s = 10_800
    await world.passes()
    await world.click("linus", card, "change:approve", "3h ahead of the API server's")
    world.skew_s = 0
    await world.click("linus", card, "change:approve")
    await world.card("In effect")


@played(access=TWO)
async def test_a_clock_that_is_behind_keeps_no_approval_waiting_longer(world: World) -> None:
    await asked(world)
    world.skew_s, world.ahead_s = -10_800, 601
    await world.card("Nobody approved")
