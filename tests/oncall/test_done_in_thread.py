"""What was done in an incident's thread beside its own deeds: changes asked for there, and profiles taken."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.settings.oncall import OncallSettings
from bot.slack.render import blocks
from bot.slack.render.summary import summary_lines
from bot.store import open_store
from bot.texts import LANGUAGES, Language, Texts
from bot.triage.state import News
from bot.triage.summary import IncidentEvent, summarize
from handlers.oncall.keeper import REMINDERS, Keeper
from handlers.oncall.service import IncidentDeed, TriageService
from tests.oncall.bot import CHANNEL, TOKEN
from tests.oncall.heads import ADA, head
from tests.oncall.rig import Rig, on_rig, pending
from tests.oncall.stored import CAUSE
from tests.slack import changing, test_profiles
from tests.slack.outbox_support import ONCALL

pytestmark = pytest.mark.few(3)

GIVEN = OncallSettings(channel=CHANNEL, token=SecretStr(TOKEN))
MADE = News("change-asked", ADA.user, "verbosity 5 for 30m because it hangs")
TAKEN = News("profile-taken", ADA.user, "cpu http://hami-system/hami-scheduler-0:6060 30s")


@on_rig(1)
async def test_it_is_in_the_summary_and_the_export_of_that_thread_once(rig: Rig, keeper: Keeper) -> None:
    row = await rig.opens(keeper, pending(0))
    for news in (MADE, MADE, TAKEN):
        await rig.store.incidents.note_in_thread(ONCALL, row.thread_ts, news, f"{news.turn}/1")
    await rig.store.incidents.note_in_thread(ONCALL, "1.5", MADE, "another")
    await rig.store.incidents.note_in_thread("C0GENERAL1", row.thread_ts, MADE, "elsewhere")
    await rig.store.incidents.note_in_thread(ONCALL, "", MADE, "nowhere")
    await rig.passes(5, keeper)
    [file] = (await TriageService(rig.deps(), keeper, ()).export(ADA, row)).files
    _, _, summary = file.content.decode().partition("\n## Summary\n\n")
    assert [line for line in summary.splitlines() if ADA.user in line] == [
        f"- Change requested: verbosity 5 for 30m because it hangs ({ADA.user})",
        f"- Profile taken: cpu http://hami-system/hami-scheduler-0:6060 30s ({ADA.user})",
    ]
    told = rig.replies(rig.heads()[0])
    assert sum("Change requested" in text for text in told) == 1
    assert not any("Profile taken" in text for text in told)  # the profile stands there itself


@on_rig(1, new=True)
async def test_who_asked_for_it_is_reminded_in_the_thread_once_also_by_another_process(
    rig: Rig, keeper: Keeper
) -> None:
    row = await rig.opens(keeper, pending(0))
    triage = TriageService(rig.deps(), keeper, ())
    told = await triage.remind(ADA, row, 1800, rig.now, "Europe/Berlin")
    assert "(Europe/Berlin)" in told
    await rig.passes(1700, keeper, step_s=300)
    assert reminders(rig) == []
    await rig.passes(400, rig.keeper("two"), rig.keeper("three"), step_s=100)
    [said] = reminders(rig)
    assert "still open (Open)" in said

    await triage.remind(ADA, row, 60, rig.now, "")
    await triage.act(ADA, row, IncidentDeed("close"))
    await rig.passes(120, keeper, step_s=30)
    assert len(reminders(rig)) == 1
    assert await rig.store.marks.all(REMINDERS) == []


@on_rig(1, new=True)
async def test_tomorrow_is_at_nine_where_the_person_is(rig: Rig, keeper: Keeper) -> None:
    row = await rig.opens(keeper, pending(0))
    night = datetime(2026, 11, 27, 23, 30, tzinfo=UTC).timestamp()
    told = await TriageService(rig.deps(), keeper, ()).remind(ADA, row, 0, night, "Asia/Shanghai")
    assert "2026-11-29 09:00 (Asia/Shanghai)" in told
    [mark] = await rig.store.marks.all(REMINDERS)
    assert datetime.fromtimestamp(float(mark.text), UTC) == datetime(2026, 11, 29, 1, 0, tzinfo=UTC)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_told_in_every_language(language: Language) -> None:
    say = Texts(language)
    told = str(
        blocks.in_words(
            summary_lines(head("closed"), summarize([IncidentEvent(1.0, MADE), IncidentEvent(2.0, TAKEN)])), say
        )
    )
    assert MADE.detail in told
    assert say("triage.did-profile-taken") in told


async def an_incident(folder: Path, thread_of: Callable[[], Awaitable[dict[str, Any]]]) -> str:
    """The thread of one, in the bot's own store."""
    async with open_store(f"sqlite+aiosqlite:///{folder}/bot.db") as store:
        await store.alerts.take([pending(0)])
        await store.incidents.sort("", CAUSE, [pending(0)], CHANNEL)
    return (await thread_of())["ts"]


async def noted(folder: Path, turn: str) -> News:
    """What the only incident knows of."""
    async with open_store(f"sqlite+aiosqlite:///{folder}/bot.db") as store:
        [row] = await store.incidents.opened()
        [news] = [event.news for event in await store.timeline.of(row.id) if event.news.turn == turn]
        return news


async def test_a_change_that_is_confirmed_in_the_thread_is_told_there(tmp_path: Path) -> None:
    async with asyncio.timeout(180), changing.a_place(tmp_path) as world, changing.a_bot(world, oncall=GIVEN):
        thread = await an_incident(tmp_path, lambda: world.card(CAUSE.claim))
        words = "verbosity 5 for 30m because trainer-0 hangs"
        await world.slack.mention("ada", changing.ROOM, words, thread_ts=thread)
        where: dict[str, Any] = {"channel": changing.ROOM, "thread_ts": thread, "seconds": 30}
        offered = await world.slack.wait_for(**where, containing="4 → 5", user="ada")
        await world.click("ada", offered, "change:confirm")
        await world.slack.wait_for(**where, containing="Change requested")
        assert await noted(tmp_path, "change-asked") == News("change-asked", ADA.user, words)


async def test_a_profile_that_is_taken_in_the_thread_is_known(tmp_path: Path) -> None:
    world_of = test_profiles.a_world(tmp_path, {"oncall": GIVEN}, test_profiles.SEED.profiles, held=False)
    async with asyncio.timeout(180), world_of as world:
        thread = await an_incident(tmp_path, lambda: world.answer(CAUSE.claim))
        await world.slack.mention("ada", test_profiles.ROOM, "profile cpu 5s", thread_ts=thread)
        await world.answer("560ms in 10 s")
        news = await noted(tmp_path, "profile-taken")
        assert news.by == ADA.user
        assert news.detail.startswith("cpu ")
        assert news.detail.endswith(f"{test_profiles.NAMESPACE}/{test_profiles.POD}:443 5s")


def reminders(rig: Rig) -> list[str]:
    return [text for text in rig.replies(rig.heads()[0]) if "asked to be reminded" in text and ADA.user in text]
