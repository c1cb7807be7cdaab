"""`/hami doctor`: operators see every link, alone; others see who may."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.main import running
from bot.settings import load_settings
from bot.slack.render.text import TOTAL_BUDGET, total_text
from bot.texts import Texts
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.doctor.checks import examine
from handlers.doctor.links import Link
from handlers.doctor.slack_command import render_links
from playbooks.playbook import Sources
from tests.doctor.support import World, a_world
from tests.slack.bot import PATIENT
from tests.slack.changing import ADA, text_of

ROOM = "gpu-oncall"


@asynccontextmanager
async def a_bot(world: World) -> AsyncGenerator[None]:
    """The bot with the settings of that world."""
    world.settings["http"] = {"bind": "127.0.0.1:0"}
    world.settings["access"] = {"operators": [ADA]}
    config = world.folder / "hami-bot.yaml"
    config.write_text(yaml.safe_dump(world.settings))
    settings = load_settings(config)
    assert settings
    assert settings.slack

    def opener(cluster: str) -> AbstractAsyncContextManager[Sources]:
        return open_sources(ClusterChoice(cluster=cluster, config=config))

    examining = partial(examine, ClusterChoice(config=config))
    async with running(settings, settings.slack, opener, PATIENT, examining=examining):
        yield


@asynccontextmanager
async def a_world_with_bot(folder: Path) -> AsyncGenerator[World]:
    async with asyncio.timeout(180), a_world(folder) as world, a_bot(world):
        yield world


async def told(world: World, user: str, containing: str) -> str:
    """What this person alone is shown in the channel."""

    def look() -> list[dict[str, Any]]:
        seen = world.slack.messages(ROOM, user)
        return [message for message in seen if message.get("ephemeral") and containing in text_of(message)]

    return text_of((await world.slack.wait_for(look))[-1])


@pytest.mark.parametrize("surface", ["command", "mention"])
async def test_an_operator_alone_is_shown_every_link(surface: str, tmp_path: Path) -> None:
    async with a_world_with_bot(tmp_path) as world:
        await getattr(world.slack, surface)("ada", ROOM, "doctor")
        shown = await told(world, "ada", "0 failed")
        for link in ("ok: slack-token", "ok: store", "ok: cluster lab", "ok: hami lab"):
            assert link in shown
        everybody = [message for message in world.slack.messages(ROOM, "grace") if "slack-token" in text_of(message)]
        assert everybody == []


async def test_somebody_else_is_told_who_may(tmp_path: Path) -> None:
    async with a_world_with_bot(tmp_path) as world:
        before = len(world.server.requests)
        await world.slack.command("grace", ROOM, "doctor")
        assert ADA in await told(world, "grace", "You may not ask for a check of the bot")
        assert not [request for request in world.server.requests[before:] if request.method == "POST"]


async def test_in_chinese_as_asked_for(tmp_path: Path) -> None:
    async with a_world_with_bot(tmp_path) as world:
        await world.slack.command("ada", ROOM, "doctor --lang zh")
        await told(world, "ada", "0 项失败")


def test_what_failed_stands_first_with_its_fix_and_what_has_no_room_is_counted() -> None:
    links = [Link("cluster", "ok", "x" * 500, about=f"c{number}") for number in range(40)]
    message = render_links([*links, Link("store", "failed", "locked", "end the other")], Texts("en"))
    shown = text_of({"blocks": list(message.blocks)})
    assert shown.index("failed: store") < shown.index("Fix: end the other") < shown.index("ok: cluster c0")
    assert "more: hami-bot doctor in a shell shows all" in shown
    assert total_text(list(message.blocks)) <= TOTAL_BUDGET


def test_what_is_well_needs_no_fix_and_chinese_has_names_for_states_and_checks() -> None:
    links = [Link("store", "ok", "opens", "could be larger"), Link("clock", "failed", "late", "set it")]
    shown = text_of({"blocks": list(render_links(links, Texts("zh")).blocks)})
    assert "失败: 时钟" in shown
    assert "处理：set it" in shown
    assert "处理：could" not in shown
