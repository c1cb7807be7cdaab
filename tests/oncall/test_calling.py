"""In Slack: who was called and who is next stands in the head, and a last resort is told where it reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.settings.schema import Settings
from handlers.health_monitor import watched
from handlers.oncall.keeper import Keeper
from handlers.parsing.question import Question
from handlers.user_actions import Deed
from tests.changes.rig import Killed, Steps, When, crash_points
from tests.oncall.bot import GIVEN
from tests.oncall.rig import TERMS, WRITES, Rig, a_rig, on_rig, pending, text
from tests.oncall.scenes import busy_cluster
from tests.sampling import Sample
from tests.slack.outbox_support import ONCALL
from tests.stores import NewDatabase

ADA, GROUP = TERMS.rota


@on_rig(3, new=True)
async def test_the_head_says_who_was_called_and_who_is_next_and_when(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0)])
    await rig.passes(0, keeper)
    [head] = rig.heads()
    assert ADA not in str(head)  # whom a first post names, it calls
    await rig.passes(100, keeper, step_s=50)
    [head] = rig.heads()
    assert "next called:" in text(head)
    assert f"'user_id': '{ADA}'" in str(head["blocks"])
    await rig.passes(900, keeper, step_s=300)
    [head] = rig.heads()
    assert "Called:" in text(head)
    [row] = await rig.store.incidents.opened()
    assert row.incident.called == (ADA,)
    blocks = str(head["blocks"])
    assert blocks.index(ADA) < blocks.index(GROUP) < blocks.index(f"'timestamp': {row.incident.called_at + 900:.0f}")


_UNFINISHED: list[tuple[tuple[str, str, dict[str, Any]], bool]] = [
    (("triage-press", "", {"deed": "ack", "incident": "ID"}), False),
    (("triage-press", "", {"deed": "take", "incident": "ID"}), False),
    (("triage-form", "", {"deed": "mute", "incident": "ID", "mute": "2h"}), False),
    (("triage", "triage close ID", {}), False),
    (("triage", "--cluster lab Triage ACK", {"in_short": True}), False),
    (("triage", "triage note ID: triage ack", {}), True),
    (("triage-press", "", {"deed": "ack", "incident": "ffffffff"}), True),
    (("triage", "triage ack ffffffff", {}), True),
    (("triage-form", "", {"deed": 7, "incident": []}), True),
    (("triage-open", "", {"deed": "handover", "incident": "ID"}), True),
]


@pytest.mark.parametrize(("deed", "calls"), _UNFINISHED)
async def test_nobody_is_called_while_somebody_s_acknowledgement_is_not_carried_out_yet(
    deed: tuple[str, str, dict[str, Any]], *, calls: bool, new_database: NewDatabase, tmp_path: Path
) -> None:
    kind, words, details = deed

    async with a_rig(new_database(), busy_cluster(tmp_path, 3)) as rig:
        keeper = rig.keeper()
        row = await rig.opens(keeper, pending(0), seconds=100)

        def about(text: str) -> str:
            return text.replace("ID", row.id)

        asked = Question(about(words), ADA, ONCALL, rig.now, thread_ts=row.thread_ts)
        raw = msgspec.Raw(about(msgspec.json.encode(details).decode()).encode())
        assert await rig.store.claim("deed", msgspec.json.encode(Deed(kind, asked, raw)).decode())
        await rig.passes(900, keeper, step_s=300)
        [row] = await rig.store.incidents.opened()
        assert row.incident.called == ((ADA,) if calls else ())
        await rig.store.done("deed")
        await rig.passes(5, keeper)
        [row] = await rig.store.incidents.opened()
        assert row.incident.called == (ADA,)


@pytest.mark.parametrize("last", ["C0GENERAL1", "U0LINUS001"])
@on_rig(3, new=True)
async def test_a_last_resort_is_told_once_in_its_channel_or_to_its_person(rig: Rig, *, last: str) -> None:
    terms = msgspec.structs.replace(TERMS, rota=(ADA,), last_resort=last)
    one, two = rig.keeper("one", terms=terms), rig.keeper("two", terms=terms)
    await one.take([pending(0)])
    await rig.passes(2000, one, two, step_s=100)
    [head] = rig.heads()
    assert [reply for reply in rig.replies(head) if "is the last resort" in reply]
    workspace = rig.bot.slack.workspace
    place = last if last.startswith("C") else workspace.open_dm(last).id
    told = [text(message) for _, message in workspace.everything(place) if "Everybody was called" in text(message)]
    assert len(told) == 1


@on_rig(3)
async def test_where_the_last_resort_is_the_threads_own_channel_one_reply_tells_both(rig: Rig) -> None:
    put = rig.outbox.put

    async def put_and_sent(*given: Any, **more: Any) -> None:
        await put(*given, **more)
        await rig.send()

    rig.outbox.put = put_and_sent
    keeper = rig.keeper(terms=msgspec.structs.replace(TERMS, rota=(ADA,), last_resort=ONCALL))
    await keeper.take([pending(0)])
    await rig.passes(2000, keeper, step_s=100)
    [head] = rig.heads()
    assert len([reply for reply in rig.replies(head) if "is the last resort" in reply]) == 1


def test_a_channel_of_last_resort_that_the_bot_cannot_post_to_is_told_of_like_the_others() -> None:
    given = GIVEN.model_copy(update={"last_resort": "C0GENERAL1"})
    assert watched(Settings(oncall=given)).channels == (GIVEN.channel, "C0GENERAL1")
    assert watched(Settings(oncall=GIVEN)).channels == (GIVEN.channel,)


@pytest.mark.each_way
async def test_killed_at_any_step_of_a_call_each_is_called_once_and_each_page_is_queued_once(
    new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    recording = busy_cluster(tmp_path, 3)
    terms = msgspec.structs.replace(TERMS, rota=(ADA,), last_resort="C0GENERAL1", pagers=("PagerDuty",))

    async def until_the_last_resort(rig: Rig, steps: Steps) -> list[str]:
        await rig.keeper().take([pending(0)])
        await rig.passes(50, rig.keeper(terms=terms), step_s=50)
        keeper = rig.keeper("killed", steps, terms)
        for _ in range(2):
            await rig.bot.clock.advance(900)
            for _ in range(3):
                await keeper.look()
                await rig.send()
        return steps.names

    async def killed(at: int, when: When) -> None:
        async with a_rig(new_database(), recording) as rig:
            with pytest.raises(Killed):
                await until_the_last_resort(rig, Steps(at, when))
            one, two = rig.keeper("one", terms=terms), rig.keeper("two", terms=terms)
            await rig.passes(2850, one, two, step_s=950)
            [head] = rig.heads()
            replies = rig.replies(head)
            words = ("is called", "is the last resort", "Paged", "Evidence")
            told = [len([reply for reply in replies if word in reply]) for word in words]
            assert told == [1, 1, 1, 1], (at, when, replies)
            everything = [text(message) for _, message in rig.bot.slack.workspace.everything("C0GENERAL1")]
            assert len([message for message in everything if "Everybody was called" in message]) == 1, (at, when)
            page = await rig.store.pages.next("PagerDuty")
            assert page
            await rig.store.pages.done(page)
            assert await rig.store.pages.next("PagerDuty") is None, (at, when)

    async with a_rig(new_database(), recording) as rig:
        names = await until_the_last_resort(rig, Steps())
    points = sample(crash_points(names, WRITES), 3)
    for at, when in points:
        await killed(at, when)
    record_property("crash_points", len(points))
