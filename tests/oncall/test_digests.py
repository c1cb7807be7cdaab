"""Digests with a real store, outbox and Slack, in virtual time: one a day, what changed, once."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import select

from bot.digest.figures import differences, not_compared, step
from bot.digest.schedule import Schedule
from bot.errors import SourceError, UsageError
from bot.periodic_jobs import Clock
from bot.settings.schema import Settings
from bot.store.digests import GivenDigest
from bot.store.tables import digest_runs
from bot.texts import in_english
from handlers.changes.draft import Person
from handlers.inbox import AT_ONCE, Inbox
from handlers.oncall.digests import AT_ONCE as TOGETHER
from handlers.oncall.digests import AddDigest, Digests, Stop, read_digest
from handlers.oncall.setup import oncall_desk
from playbooks.playbook import Sources
from tests.cases_support import newer_recording
from tests.changes.records import OF_SCHEDULER
from tests.changes.rig import Killed, Steps, When, killed_at_each
from tests.oncall.rig import Rig, a_rig, on_rig, text, with_rig
from tests.oncall.scenes import busy_cluster
from tests.scenes import as_test
from tests.slack.outbox_support import ONCALL
from tests.stores import NewDatabase

WHO = Person("U0ADA00001", ONCALL)
NINE = Schedule("0 9 * * *", "Asia/Shanghai")  # 01:00 UTC; START is 2027-01-15 08:00 UTC
DAY = 86400.0
TO_NINE = 17 * 3600.0


def digests(rig: Rig, steps: Steps | None = None) -> Digests:
    return Digests(rig.stepped(steps) if steps else rig.deps())


async def runs(rig: Rig, digest_id: str) -> list[tuple[str, str]]:
    """(local time, state) of each, the oldest first."""
    query = select(digest_runs.c.wall, digest_runs.c.state).where(digest_runs.c.digest == digest_id)
    async with rig.store._engine.connect() as connection:
        return [(row.wall, row.state) for row in await connection.execute(query.order_by(digest_runs.c.at))]


async def after(rig: Rig, seconds: float, *desks: Digests) -> None:
    await rig.bot.clock.advance(seconds)
    await asyncio.gather(*(inbox.look() for inbox in desks or (digests(rig),)))
    await rig.send()


@on_rig(4)
async def test_a_digest_comes_every_day_and_says_in_one_line_that_nothing_changed(rig: Rig) -> None:
    told = await digests(rig).do("k", WHO, AddDigest(NINE), "")
    assert "2027-01-16 01:00 UTC" in str(told)
    await after(rig, TO_NINE - 60)
    assert rig.heads() == []
    await after(rig, 90)
    [first] = rig.heads()
    assert "4 pods are pending for 3 causes" in text(first)
    assert "Nothing to compare with yet" in text(first)
    for _ in range(3):
        await after(rig, DAY)
    again = rig.heads()[1:]
    assert len(again) == 3
    assert all("Nothing has changed" in text(message) and len(message["blocks"]) == 1 for message in again)


@on_rig(newer_recording)
async def test_a_hami_that_is_newer_than_any_the_bot_knows_is_said_in_one_sentence(rig: Rig) -> None:
    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    await after(rig, TO_NINE + 60)
    await after(rig, DAY)
    assert [text(message).count("HAMi 2.11.0 is newer than 2.10.0") for message in rig.heads()] == [1, 1]


@as_test(with_rig, "database", "tmp_path")
async def test_several_clusters_are_read_at_once_but_not_all(rig: Rig) -> None:
    together, inside, most = asyncio.Barrier(TOGETHER), 0, 0

    @contextlib.asynccontextmanager
    async def sources(cluster: str) -> AsyncGenerator[Sources]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await together.wait()
        inside -= 1
        raise SourceError(f"{cluster} is down")
        yield

    inbox = Digests(replace(rig.deps(), open_sources=sources))
    for number in range(2 * TOGETHER):
        await inbox.do(f"k{number}", WHO, AddDigest(NINE), f"cluster-{number}")
    await after(rig, TO_NINE + 60, inbox)
    assert most == TOGETHER


@on_rig(4)
async def test_it_says_what_changed(rig: Rig, *, tmp_path: Path) -> None:
    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    await after(rig, TO_NINE + 60)
    rig.recording = busy_cluster(tmp_path / "later", 7)
    await after(rig, DAY)
    told = text(rig.heads()[-1])
    assert "Pending pods" in told
    assert "card-insufficient-memory 2 → 3 (+1)" in told
    assert "The worst" in told


@on_rig(4)
async def test_its_pictures_are_the_trend_since_there_is_one_and_the_cards(rig: Rig, *, tmp_path: Path) -> None:
    def pictures() -> list[tuple[str, str]]:
        said = rig.bot.slack.workspace.everything(ONCALL)
        return [(file["name"], file["alt_txt"]) for _, text in said for file in text.get("files", ())]

    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    await after(rig, TO_NINE + 60)
    assert [name for name, _ in pictures()] == ["gpus.png"]
    await after(rig, DAY)  # nothing has changed
    assert len(pictures()) == 1
    rig.recording = busy_cluster(tmp_path / "later", 7)
    await after(rig, DAY)
    (name, words), cards = pictures()[1:]
    assert (name, cards[0]) == ("trend.png", "gpus.png")
    assert words.startswith("Memory, and the largest free slice, over the last 3 digests. NVIDIA-Tesla T4: 16 GiB")


@on_rig(2)
async def test_a_temporary_change_that_was_begun_since_is_news(rig: Rig) -> None:
    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    await after(rig, TO_NINE + 60)
    await rig.store.changes(rig.deps().cluster_of("")).planned(OF_SCHEDULER, "u-1")
    await after(rig, DAY)
    told = text(rig.heads()[-1])
    assert f"Temporary changes: new: {OF_SCHEDULER.target} {OF_SCHEDULER.flag} {OF_SCHEDULER.new}" in told
    assert "Open temporary changes: 1" in told


@on_rig(4)
async def test_the_worst_are_told_with_whose_they_are_and_the_room_that_is_left(rig: Rig) -> None:
    await digests(rig).do("k", WHO, "now", "")
    await rig.send()
    told = text(rig.heads()[-1])
    assert "Whose: HAMi hami-system/hami-scheduler" in told
    assert "Whose: Namespace ml" in told
    assert "NVIDIA-Tesla T4: 11.7 GiB of 16 GiB allocated, the largest free slice is 4.3 GiB" in told


@on_rig(2)
async def test_what_is_late_says_so_and_what_is_too_late_is_marked_as_skipped(rig: Rig) -> None:
    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    [wanted] = await rig.store.digests.wanted()
    await after(rig, TO_NINE + 3 * DAY + 3600)
    [late] = rig.heads()
    assert "was due 2027-01-19" in text(late)
    await after(rig, DAY + 5 * 3600)
    [_, missed] = rig.heads()
    assert "No digest of 2027-01-20" in text(missed)
    assert "was not running" in text(missed)
    assert [state for _, state in await runs(rig, wanted.id)] == ["skipped"] * 3 + ["posted", "skipped"]


@on_rig(2)
async def test_a_cluster_that_cannot_be_read_is_tried_again(rig: Rig) -> None:
    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    rig.down = SourceError("GET /api/v1/pods: HTTP 503")
    await after(rig, TO_NINE + 10)
    assert rig.heads() == []
    rig.down = None
    await after(rig, 301)
    assert len(rig.heads()) == 1


@on_rig(2)
async def test_one_that_could_not_be_made_in_time_is_said_in_one_line_once(rig: Rig) -> None:
    one, two = digests(rig), digests(rig)
    await one.do("k", WHO, AddDigest(NINE), "")
    [wanted] = await rig.store.digests.wanted()
    rig.down = SourceError("GET /api/v1/pods: HTTP 503")
    await after(rig, TO_NINE + 10, one)
    await after(rig, 3 * 3600, one)
    assert rig.heads() == []
    await after(rig, 3600, one)
    [missed] = rig.heads()
    assert "No digest of 2027-01-16" in text(missed)
    assert "GET /api/v1/pods: HTTP 503" in text(missed)
    rig.down = None
    await after(rig, 301, two, one)
    assert len(rig.heads()) == 1
    assert await runs(rig, wanted.id) == [("2027-01-16 09:00", "skipped")]


@on_rig(1)
async def test_digests_that_are_asked_for_wait_for_their_turn_to_read_the_cluster(rig: Rig) -> None:
    reading, most, full = 0, 0, asyncio.Event()

    @contextlib.asynccontextmanager
    async def crowded(cluster: str) -> AsyncGenerator[Sources]:
        nonlocal reading, most
        reading, most = reading + 1, max(most, reading + 1)
        if reading >= AT_ONCE:
            full.set()
        await full.wait()
        async with rig.sources(cluster) as sources:
            yield sources
        reading -= 1

    inbox, quiet = Inbox(replace(rig.deps(), open_sources=crowded)), Settings()
    async with Clock() as clock, oncall_desk(quiet, inbox, clock, identity="one", pace=60.0) as oncall:
        asked = (oncall.digests.do(str(number), WHO, "now", "") for number in range(2 * AT_ONCE))
        await asyncio.gather(*asked)
    assert most == AT_ONCE


@on_rig(2, new=True)
async def test_a_digest_of_the_settings_comes_until_they_no_longer_name_it_and_one_that_was_stopped_stays_so(
    rig: Rig,
) -> None:
    given = [GivenDigest(ONCALL, "", NINE)]
    one, two = (Digests(rig.deps(), given=given) for _ in range(2))
    await after(rig, 1, one, two)
    await after(rig, TO_NINE + 60, one, two)
    assert len(rig.heads()) == 1
    (found,) = await rig.store.digests.wanted(ONCALL)
    await digests(rig).do("stop", WHO, Stop(found.id), "")
    await Digests(rig.deps(), given=given).look()
    assert await rig.store.digests.wanted(ONCALL) == []
    later = [GivenDigest(ONCALL, "", NINE._replace(cron="30 9 * * *"))]
    await Digests(rig.deps(), given=later).look()
    assert [digest.schedule.cron for digest in await rig.store.digests.wanted()] == ["30 9 * * *"]
    await Digests(rig.deps(), given=[]).look()
    assert await rig.store.digests.wanted() == []


@pytest.mark.each_way
@on_rig(2, new=True)
async def test_two_replicas_post_one(rig: Rig) -> None:
    await digests(rig).do("k", WHO, AddDigest(NINE), "")
    one, two = digests(rig), digests(rig)
    await after(rig, TO_NINE + 60, one, two)
    await after(rig, DAY, two, one)
    assert len(rig.heads()) == 2


async def test_killed_at_any_step_there_is_one(
    new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    recording = busy_cluster(tmp_path, 2)

    async def life(at: int | None, when: When) -> list[str]:
        async with a_rig(new_database(), recording) as rig:
            await digests(rig).do("k", WHO, AddDigest(NINE), "")
            await rig.bot.clock.advance(TO_NINE + 60)
            steps = Steps(at, when)
            if at is None:
                await digests(rig, steps).look()
                return steps.names
            with pytest.raises(Killed):
                await digests(rig, steps).look()
            await after(rig, 0)
            await after(rig, 301, digests(rig), digests(rig))
            await after(rig, 301)
            [one] = rig.heads()
            assert "2 pods are pending" in text(one), (at, when)
            [wanted] = await rig.store.digests.wanted()
            assert await runs(rig, wanted.id) == [("2027-01-16 09:00", "posted")]
            return []

    record_property("crash_points", await killed_at_each(life))


@on_rig(2)
async def test_now_is_posted_and_is_not_what_the_next_one_is_compared_with(rig: Rig) -> None:
    inbox = digests(rig)
    assert await inbox.do("k", WHO, "now", "") == "The digest is in the channel."
    await inbox.do("k", WHO, "now", "")
    await rig.send()
    assert len(rig.heads()) == 1
    assert await rig.store.digests.last(ONCALL, "", 1) == []


@on_rig(2)
async def test_digests_are_listed_and_stopped_in_their_channel(rig: Rig) -> None:
    inbox = digests(rig)
    await inbox.do("k1", WHO, AddDigest(NINE), "")
    [one] = await rig.store.digests.wanted()
    elsewhere = Person(WHO.user, "C0GENERAL1")
    with pytest.raises(Exception, match="no digest"):
        await inbox.do("k2", elsewhere, Stop(one.id), "")
    listed = str(await inbox.do("k3", WHO, "list", ""))
    assert f"{one.id}: daily 09:00 Asia/Shanghai, about the default cluster; next 2027-01-16 01:00 UTC" in listed
    assert f"digest stop {one.id}" in listed
    assert one.id in str(await inbox.do("k4", WHO, Stop(one.id), ""))
    await after(rig, TO_NINE + DAY)
    assert rig.heads() == []


@pytest.mark.parametrize(
    "words", [["0 9 * * 1-5", "Europe/Berlin"], ["0", "9", "*", "*", "1-5", "Europe/Berlin"]], ids=["quoted", "bare"]
)
def test_a_cron_expression_needs_no_quotes(words: list[str]) -> None:
    assert read_digest(words) == AddDigest(Schedule("0 9 * * 1-5", "Europe/Berlin"))


def test_what_is_wrong_with_a_cron_expression_is_said_with_an_example_of_one() -> None:
    with pytest.raises(UsageError, match="more than once an hour") as caught:
        read_digest(["*/5 * * * *", "UTC"])
    assert "digest 0 9 * * 1-5 Europe/Berlin" in in_english(caught.value.hint)


@pytest.mark.parametrize("words", [["soon"], ["daily"], ["daily", "9", "UTC"], ["stop"], ["now", "x"]])
def test_what_is_not_understood_gets_an_example(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_digest(words)
    assert "For example: digest" in in_english(caught.value.hint)


def test_what_was_not_seen_as_well_as_before_is_not_compared() -> None:
    before = {"pending/x": "3", "hami/y": "1", "gaps/hami": "webhook", "quota %/a": "90"}
    after_ = {"pending/x": "4", "gaps/hami": "webhook, leases", "unseen/quota %": "HTTP 403"}
    assert [difference.what for difference in differences(before, after_)] == ["x"]
    assert not_compared(before, after_) == ["hami", "quota %"]


@pytest.mark.parametrize(
    ("before", "after_", "told"), [("2", "5", "+3"), ("5", "2", "-3"), ("", "4", "+4"), ("a", "4", "")]
)
def test_a_step_has_its_sign(before: str, after_: str, told: str) -> None:
    assert step(before, after_) == told


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("daily 09:00", "its time zone is missing"),
        ("daily 25:00", "not a time of day"),
        ("0 9 * * *", "its time zone is missing"),
        ("99 9 * * *", "99"),
    ],
)
def test_words_without_a_zone_are_told_what_is_wrong_with_them(words: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        read_digest(words.split())


def test_a_time_of_day_is_read_as_people_write_it() -> None:
    for at, cron in (("9:00", "0 9 * * *"), ("9am", "0 9 * * *"), ("12am", "0 0 * * *"), ("5:30PM", "30 17 * * *")):
        assert read_digest(["daily", at], "Asia/Shanghai") == AddDigest(Schedule(cron, "Asia/Shanghai"))
    with pytest.raises(UsageError, match="not a time of day"):
        read_digest(["daily", "13pm"], "UTC")
