"""The on-call report by a schedule: once a week in its channel, until somebody ends it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.digest.schedule import Schedule
from bot.errors import UsageError
from bot.slack.message import Message
from bot.texts import in_english
from handlers.changes.draft import Person, Refused
from handlers.oncall.digests import AddDigest, Digests, Stop
from handlers.oncall.service import TriageService
from handlers.oncall.words import IncidentRequest, read_words
from tests.changes.rig import Killed, Steps, When, killed_at_each
from tests.oncall.bot import ROOM, World, on_bot
from tests.oncall.rig import TERMS, Rig, a_rig, on_rig, pending, text
from tests.oncall.scenes import busy_cluster
from tests.slack.outbox_support import ONCALL
from tests.stores import NewDatabase

WHO = Person("U0ADA00001", ONCALL)
MONDAYS = AddDigest(Schedule("0 9 * * mon", "UTC"), "oncall")  # 2027-01-15 08:00 UTC is a Friday
WEEK, TO_MONDAY = 7 * 86400.0, 3 * 86400.0 + 3600.0


def digests(rig: Rig, steps: Steps | None = None) -> Digests:
    """A process."""
    deps = rig.stepped(steps) if steps else rig.deps()
    return Digests(deps, report=TriageService(rig.deps(), rig.keeper(), ()).posted_report)


async def after(rig: Rig, seconds: float, *desks: Digests) -> list[str]:
    """What the channel has of reports by then."""
    await rig.bot.clock.advance(seconds)
    await asyncio.gather(*(service.look() for service in desks or (digests(rig),)))
    await rig.send()
    return [head for head in map(text, rig.heads()) if "n-call report" in head]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("", "mon 09:00 UTC"),
        ("fri", "fri 09:00 UTC"),
        ("Friday 17:30", "fri 17:30 UTC"),
        ("tue 9:00 Asia/Shanghai", "tue 09:00 Asia/Shanghai"),
        ("10:00 Europe/Berlin", "mon 10:00 Europe/Berlin"),
    ],
)
def test_day_time_and_zone_may_each_be_left_out(words: str, meant: str) -> None:
    posted = read_words(f"oncall report weekly {words}".split()).posted
    assert str(posted) == meant


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("someday", "'someday' is not a time zone"),
        ("mon 25:00", "'25:00' is not a time of day"),
        ("mon 09:00 UTC please", "'please' is too much"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_told_with_an_example(words: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong) as caught:
        read_words(f"oncall report weekly {words}".split())
    assert "oncall report weekly mon 09:00 Asia/Shanghai" in in_english(caught.value.hint)


@pytest.mark.parametrize("word", ["off", "stop"])
def test_it_is_ended_by_a_word(word: str) -> None:
    assert read_words(["oncall", "report", word]) == IncidentRequest("report", posted="off")


@on_rig(2)
async def test_a_late_report_is_of_the_week_before_it_was_due_and_says_that_it_is_late(rig: Rig) -> None:
    service, keeper = digests(rig), rig.keeper()
    await service.do("k", WHO, MONDAYS, "")
    await rig.bot.clock.advance(TO_MONDAY + 3 * 3600)
    await keeper.take([pending(0)])
    await rig.passes(5, keeper)
    [late] = await after(rig, 60, service)
    assert "0 incidents opened" in late
    assert "posted late, was due 2027-01-18 09:00" in late
    [_, next_one] = await after(rig, WEEK - 3 * 3600, service)
    assert "1 incident opened" in next_one
    assert "posted late" not in next_one


async def test_a_week_in_which_the_clocks_change_is_covered_once_and_whole(database: str, tmp_path: Path) -> None:
    spans: list[tuple[str, str]] = []

    async def report(since: float, until: float, _: str) -> Message:
        spans.append(
            (f"{datetime.fromtimestamp(since, UTC):%m-%d %H}", f"{datetime.fromtimestamp(until, UTC):%m-%d %H}")
        )
        return Message("a report")

    async with a_rig(database, busy_cluster(tmp_path, 1)) as rig:
        desk = Digests(rig.deps(), report=report)
        await desk.do("k", WHO, AddDigest(Schedule("0 9 * * mon", "Europe/Berlin"), "oncall"), "")
        for monday in ("2027-03-22T08:00:01", "2027-03-29T07:00:01", "2027-04-05T07:00:01"):
            await rig.bot.clock.advance(datetime.fromisoformat(f"{monday}+00:00").timestamp() - rig.now)
            await desk.look()
        assert spans == [("03-15 08", "03-22 08"), ("03-22 08", "03-29 07"), ("03-29 07", "04-05 07")]


@on_rig(2, new=True)
@pytest.mark.each_way
async def test_two_replicas_post_the_report_once_a_week(rig: Rig) -> None:
    one, two = digests(rig), digests(rig)
    told = str(await one.do("k", WHO, MONDAYS, ""))
    assert "mon 09:00 UTC" in told
    assert "2027-01-18 09:00 UTC" in told
    assert await after(rig, TO_MONDAY - 60, one, two) == []
    await rig.keeper().take([pending(0)])
    await rig.passes(5, rig.keeper())
    assert len(await after(rig, 120, one, two)) == 1
    [first, again] = await after(rig, WEEK, two, one)
    assert "last 7 days: 1 incident opened" in first
    assert "last 7 days: 0 incidents opened" in again
    assert "Still open" in again


@on_rig(2)
async def test_posted_in_a_channel_it_calls_neither_people_nor_user_groups(rig: Rig) -> None:
    await digests(rig).do("k", WHO, MONDAYS, "")
    await rig.bot.clock.advance(TO_MONDAY - 1200)
    keeper = rig.keeper()
    await keeper.take([pending(0), pending(1)])
    await rig.passes(60, keeper)
    one, two = await rig.store.incidents.opened()
    await rig.acts(two, "handover", to="S0OWNERS01")
    await rig.passes(1080, keeper, step_s=60)
    await after(rig, 120)
    [posted] = [head for head in rig.heads() if "n-call report" in text(head)]
    assert all(name in text(posted) for name in (one.id, two.id, *TERMS.rota, "S0OWNERS01"))
    assert "'type': 'user" not in str(posted["blocks"])
    assert "<@" not in posted["text"]
    assert "<!" not in posted["text"]


async def test_killed_at_any_step_the_report_comes_once(
    new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    recording = busy_cluster(tmp_path, 1)

    async def life(at: int | None, when: When) -> list[str]:
        async with a_rig(new_database(), recording) as rig:
            await digests(rig).do("k", WHO, MONDAYS, "")
            await rig.bot.clock.advance(TO_MONDAY + 60)
            steps = Steps(at, when)
            if at is None:
                await digests(rig, steps).look()
                return steps.names
            with pytest.raises(Killed):
                await digests(rig, steps).look()
            await after(rig, 301, digests(rig), digests(rig))
            assert len(await after(rig, 301)) == 1, (at, when)
            return []

    record_property("crash_points", await killed_at_each(life))


@on_rig(1)
async def test_a_channel_has_one_which_is_listed_with_its_digests_and_ended(rig: Rig) -> None:
    service = digests(rig)
    await service.do("k1", WHO, MONDAYS, "")
    await service.do("k1", WHO, MONDAYS, "")  # the same deed, done again after a crash
    with pytest.raises(Refused, match="already posted here: mon 09:00 UTC"):
        await service.do("k2", WHO, AddDigest(Schedule("0 9 * * fri", "UTC"), "oncall"), "")
    assert "mon 09:00 UTC, the on-call report; next 2027-01-18" in str(await service.do("k3", WHO, "list", ""))
    elsewhere = Person(WHO.user, "C0GENERAL1")
    with pytest.raises(Refused, match="this channel has no scheduled on-call report"):
        await service.do("k4", elsewhere, Stop(), "")
    ended = await service.do("k5", WHO, Stop(), "")
    assert ended == await service.do("k5", WHO, Stop(), "") == "The on-call report is not posted here any more."
    assert await after(rig, TO_MONDAY + 60) == []
    await service.do("k6", WHO, MONDAYS, "")
    [one] = await rig.store.digests.wanted()
    assert one.id in str(await service.do("k7", WHO, Stop(one.id), ""))


@on_rig(1)
async def test_a_report_is_nothing_that_a_digest_is_compared_with(rig: Rig) -> None:
    await digests(rig).do("k1", WHO, MONDAYS, "")
    assert len(await after(rig, TO_MONDAY + 60)) == 1
    assert await rig.store.digests.last(ONCALL, "", 5) == []


@on_rig(1)
async def test_one_that_nobody_can_make_any_more_is_told_once_with_why(rig: Rig) -> None:
    await digests(rig).do("k", WHO, MONDAYS, "")
    without = Digests(rig.deps())
    assert await after(rig, TO_MONDAY + 60, without) == []
    [missed] = await after(rig, 4 * 3600, without)
    assert "No on-call report of 2027-01-18 09:00" in missed
    assert "the settings lack oncall" in missed
    assert len(await after(rig, 301, without)) == 1


@on_bot(1)
async def test_people_begin_and_end_it_in_slack(world: World) -> None:
    await world.command(
        "ada", "oncall report weekly fri 17:00 Asia/Shanghai", "fri 17:00 Asia/Shanghai, here, of the last 7 days"
    )
    await world.command("grace", "digest list", "fri 17:00 Asia/Shanghai, the on-call report")
    await world.slack.mention("grace", ROOM, "oncall report off")
    await world.told("grace", "The on-call report is not posted here any more")


@on_bot(1, None)
async def test_a_bot_without_incidents_begins_none(world: World) -> None:
    await world.command("ada", "oncall report weekly", "this bot opens no triage threads")
