"""A temporary change in Slack from the command to its end, over the real bot, a pretended Slack and cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slack.bot import Mode
from tests.slack.changing import ADA, World, actions, played, text_of


@pytest.fixture(params=["socket", "http"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param


def test_a_change_is_shown_confirmed_made_and_reverted(tmp_path: Path, mode: Mode) -> None:
    async def scene(world: World) -> None:
        before = await world.deployment()
        form = await world.offered("verbosity 5 for 10m")
        assert "4 → 5" in text_of(form)
        assert not await world.is_open()
        await world.submit("ada", "trainer-0 hangs")
        card = await world.card("In effect")
        assert "-v=5" in await world.words()
        assert "trainer-0 hangs" in text_of(card)
        assert list(actions(card)) == ["change:revert", "change:extend"]
        await world.click("ada", card, "change:revert")
        ended = await world.card("Put back")
        assert ended["ts"] == card["ts"]
        assert actions(ended) == {}
        after = await world.deployment()
        assert after["spec"] == before["spec"]
        assert not await world.is_open()
        outcomes = [outcome for _, _, outcome in await world.audit()]
        assert outcomes == ["requested", "planned", "raised", "effective", "reverted"]

    played(tmp_path, scene, mode=mode)


def test_who_asked_for_an_open_change_is_shown_by_name_and_nobody_is_called(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.raised()
        await world.slack.command("grace", "gpu-oncall", "verbosity")
        shown = (await world.told("grace", "is set on"))["blocks"]
        assert {"type": "user", "user_id": ADA} in list(_objects_in(shown))
        assert [one for one in _objects_in(shown) if ADA in str(one.get("text", ""))] == []

    played(tmp_path, scene)


def test_a_change_of_the_cluster_that_serve_was_started_for_is_looked_after(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.raised("verbosity 5 for 30m --cluster lab")
        world.ahead_s = 1801
        await world.card("Put back")
        assert not await world.is_open()

    played(tmp_path, scene, usual="lab")


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _objects_in(one)
