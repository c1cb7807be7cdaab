"""More causes than people can read threads of: one thread gathers the rest, and each can be taken out of it."""

import msgspec
import pytest
from pydantic import SecretStr

from bot.settings.oncall import OncallSettings
from bot.slack.render import blocks
from bot.slack.render.blocks import read_value
from bot.slack.render.triage_head import OPEN, CauseChoice, digest_of, gathered, render_head
from bot.texts import LANGUAGES, Texts
from bot.triage.webhook import Alert
from handlers.changes.draft import Person, Refused
from handlers.oncall.incident_threads import head_of
from handlers.oncall.keeper import Keeper
from handlers.oncall.service import TriageService
from tests.oncall.bot import CHANNEL, ROOM, TOKEN, World, on_bot
from tests.oncall.rig import Rig, on_rig, pending, text
from tests.slack.outbox_support import ONCALL
from tests.slack.render import NOTHING, assert_fits, parsed, read

GATHERS = "this thread gathers the rest"


def bare(number: int, **over: str) -> Alert:
    return msgspec.structs.replace(
        pending(name=f"Disk{number:04}", pod="x", fingerprint=f"d{number}", **over), namespace="", pod=""
    )


async def gathering(rig: Rig, keeper: Keeper, count: int, most: int) -> str:
    """So many causes came at once; the id of the incident that has those beyond the limit."""
    await keeper.take([bare(number) for number in range(count)])
    await keeper.look()
    rows = await rig.store.incidents.opened()
    assert len(rows) == most + 1
    [row] = [row for row in rows if GATHERS in row.cause.claim]
    return row.id


@on_rig(1)
async def test_beyond_the_limit_one_thread_gathers_the_alerts_of_all_further_causes(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=3)
    await gathering(rig, keeper, 40, 3)
    await rig.send()
    [head] = [head for head in rig.heads() if GATHERS in text(head)]
    assert "37 alerts" in text(head)
    assert "Disk0003: 1 of 1 alert firing" in text(head)
    assert "and 22 more names" in text(head)


@on_rig(1)
async def test_what_is_critical_has_its_own_thread_however_many_others_there_are(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=3)
    await gathering(rig, keeper, 10, 3)
    await keeper.take([bare(50, severity="critical"), bare(51)])
    await rig.passes(10, keeper)
    assert [head for head in rig.heads() if head["text"].startswith("🔴 Open, critical: ")]
    assert len(rig.heads()) == 5


@on_rig(1)
async def test_a_minute_later_a_new_cause_has_its_own_thread_again(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=3)
    await gathering(rig, keeper, 10, 3)
    await rig.bot.clock.advance(61)
    await keeper.take([bare(50)])
    await keeper.look()
    assert len(await rig.store.incidents.opened()) == 5


@on_rig(1)
async def test_a_name_that_is_opened_has_its_own_thread_and_leaves_the_one_that_gathered_it(rig: Rig) -> None:
    keeper, ada = rig.keeper(threads_per_minute=3), Person("U0ADA00001", ONCALL)
    service = TriageService(rig.deps(), keeper, ())
    row = await rig.store.incidents.get(await gathering(rig, keeper, 10, 3))
    assert row
    await service.open_cause(ada, row, digest_of("Disk0007"))
    with pytest.raises(Refused, match="has its own thread"):
        await service.open_cause(ada, row, digest_of("Disk0007"))
    await service.open_cause(ada, row, digest_of("Disk0007"), is_again=True)
    await rig.passes(60, keeper, step_s=30)
    assert len(rig.heads()) == 5
    [head] = [head for head in rig.heads() if GATHERS in text(head)]
    assert "6 alerts" in text(head)
    assert "Disk0007" not in text(head)


@on_rig(1)
async def test_the_thread_that_gathers_says_what_is_over_and_resolves_when_all_is(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=3)
    await gathering(rig, keeper, 10, 3)
    await keeper.take([msgspec.structs.replace(bare(9), status="resolved")])
    await rig.passes(60, keeper, step_s=30)
    [head] = [head for head in rig.heads() if GATHERS in text(head)]
    assert "Disk0009: 0 of 1 alert firing" in text(head)
    await keeper.take([msgspec.structs.replace(bare(number), status="resolved") for number in range(10)])
    await rig.passes(600, keeper, step_s=150)
    [head] = [head for head in rig.heads() if GATHERS in text(head)]
    assert head["text"].startswith("✅ Resolved, ")


@on_rig(1, new=True)
async def test_a_request_with_thousands_of_alert_names_is_a_few_messages(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=10)
    await keeper.take([bare(number) for number in range(2000)])
    await rig.passes(30, keeper)
    assert len(rig.bot.slack.journal.of("api", "chat.postMessage")) <= 2 * 11
    counts = await rig.store.alerts.counts([row.id for row in await rig.store.incidents.opened()])
    assert sum(count.alerts for count in counts.values()) == 2000


@pytest.mark.parametrize("language", LANGUAGES)
@on_rig(1, new=True)
async def test_the_lines_of_hostile_names_let_nobodys_words_act_and_fit(rig: Rig, *, language) -> None:
    keeper = rig.keeper(threads_per_minute=1)
    row = await rig.store.incidents.get(await gathering(rig, keeper, 3, 1))
    assert row
    counts = (await rig.store.alerts.counts([row.id]))[row.id]
    hostile = tuple((f"<!channel> *b* `c` {number} " + "x" * 200, 1, 1) for number in range(200))
    message = render_head(head_of(row, msgspec.structs.replace(counts, by_name=hostile))).in_words(Texts(language))
    assert_fits(message)
    assert all(read(element) == NOTHING for element in parsed(message))


def test_a_choice_is_read_from_the_menu_and_from_nothing_else() -> None:
    menu = blocks.in_words(gathered("0123abcd", [("DiskFull", 1, 1)]), Texts("en"))[-1]["elements"][0]
    assert read_value(menu["options"][0]["value"], CauseChoice) == CauseChoice("0123abcd", digest_of("DiskFull"))
    assert [read_value(value, CauseChoice) for value in ('{"v":1,"incident":7,"name":"x"}', "[", "")] == [None] * 3


@on_bot(1, OncallSettings(channel=CHANNEL, token=SecretStr(TOKEN), threads_per_minute=1))
async def test_a_person_opens_a_thread_out_of_the_menu(world: World) -> None:
    alerts = [
        {"status": "firing", "labels": {"alertname": f"Disk{number}"}, "fingerprint": f"{number}"}
        for number in range(4)
    ]
    assert await world.post({"version": "4", "alerts": alerts}) == (200, "ok\n")
    head = await world.head("Disk3: 1 of 1 alert firing")
    [menu] = [
        element for block in head["blocks"] for element in block.get("elements", ()) if element.get("action_id") == OPEN
    ]
    option = next(option for option in menu["options"] if option["text"]["text"] == "Disk3")
    await world.slack.click("ada", OPEN, channel=ROOM, message_ts=head["ts"], selected_option=option)
    await world.told("ada", "Its thread opens in this channel")
    await world.head("Open, warning: Disk3")
