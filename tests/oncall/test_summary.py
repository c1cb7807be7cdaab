"""What a thread says once it is over, and the report of a week: how long it took, who did what, what was affected."""

import pytest

from bot.report import Severity
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.summary import render_oncall_report, summary_block
from bot.texts import LANGUAGES, Language, Texts
from bot.triage.state import News, Turn
from bot.triage.summary import Case, IncidentEvent, OncallReport, Summary, report_on, summarize
from handlers.oncall.keeper import Keeper
from handlers.oncall.service import IncidentDeed, TriageService
from sandbox.slack.content import strings_of
from tests.oncall.heads import ADA, GRACE, HOSTILE, head
from tests.oncall.rig import Rig, on_rig, pending
from tests.slack.render import NOTHING, assert_fits, parsed, read

pytestmark = pytest.mark.few(4)


def timeline(*happened: tuple[float, str, str, str]) -> Summary:
    return summarize([IncidentEvent(at, News(turn, by, detail)) for at, turn, by, detail in happened])  # type: ignore[arg-type]


def test_times_count_from_the_first_opening_to_the_first_who_acknowledged_and_to_the_last_end() -> None:
    told = timeline(
        (100.0, "opened", "", ""),
        (160.0, "called", "", "U0ADA00001"),
        (220.0, "taken", "U0ADA00001", ""),
        (300.0, "acknowledged", "U0GRACE001", ""),
        (400.0, "resolved", "", ""),
        (500.0, "reopened", "", ""),
        (560.0, "called", "", "U0ADA00001"),
        (700.0, "resolved", "", ""),
    )
    assert told == Summary(120.0, "U0ADA00001", 600.0, "", 1, ("U0ADA00001", "U0ADA00001"), owner="U0ADA00001")


def test_one_that_is_open_again_has_no_end_yet() -> None:
    told = timeline((0.0, "opened", "", ""), (9.0, "closed", "U0ADA00001", ""), (20.0, "renewed", "", "GPUPodPending"))
    assert (told.ended_s, told.closed_by, told.returned) == (None, "", 1)


def test_what_was_done_is_notes_handovers_mutes_and_the_words_of_a_close() -> None:
    happened = [
        IncidentEvent(1.0, News("opened")),
        IncidentEvent(2.0, News("acknowledged", "U0ADA00001")),
        IncidentEvent(3.0, News("noted", "U0ADA00001", "rebooted gpu-7")),
        IncidentEvent(4.0, News("handed-over", "U0ADA00001", "U0GRACE001")),
        IncidentEvent(5.0, News("muted", "U0GRACE001", "1800000000")),
        IncidentEvent(6.0, News("closed", "U0GRACE001", "false alarm")),
    ]
    assert summarize(happened).done == tuple(happened[2:])


@on_rig(9)
async def test_a_resolved_thread_ends_with_one_summary_and_with_another_after_it_came_back(rig: Rig) -> None:
    keeper, other = rig.keeper(), rig.keeper("two")
    service = TriageService(rig.deps(), keeper, ())
    await keeper.take([pending(0), pending(3)])
    await rig.passes(240, keeper, other, step_s=60)
    [row] = await rig.store.incidents.opened()
    await service.act(ADA, row, IncidentDeed("ack"))
    await service.act(ADA, row, IncidentDeed("note", "rebooted gpu-7"))
    await keeper.take([pending(0, status="resolved"), pending(3, status="resolved")])
    await rig.passes(400, keeper, other, step_s=50)
    [shown] = rig.heads()
    told = rig.replies(shown)
    assert [text for text in told if "Summary" in text] == told[-1:]
    assert "Resolved: the cause is gone" in told[-1]
    for part in ("Acknowledged after 4m", "Resolved by itself after", "Note: rebooted gpu-7", "Affected: 2 pods"):
        assert part in told[-1]
    await keeper.take([pending(6)])
    await rig.passes(10, keeper, other)
    await keeper.take([pending(6, status="resolved")])
    await rig.passes(400, keeper, other, step_s=50)
    told = rig.replies(shown)
    assert len([text for text in told if "Summary" in text]) == 2
    assert "Came back 1 time" in told[-1]
    assert "Affected: 3 pods" in told[-1]


@on_rig(3)
async def test_the_export_ends_with_the_summary(rig: Rig, keeper: Keeper) -> None:
    service = TriageService(rig.deps(), keeper, ())
    row = await rig.opens(keeper, pending(0), seconds=120)
    await service.act(ADA, row, IncidentDeed("handover", to=GRACE.user))
    await service.act(GRACE, row, IncidentDeed("close", "false *alarm*"))
    [file] = (await service.export(ADA, row)).files
    _, _, end = file.content.decode().partition("\n## Summary\n\n")
    assert end.splitlines() == [
        "- Acknowledged after 2m (U0ADA00001)",
        "- Closed after 2m (U0GRACE001)",
        "- Owner: U0GRACE001",
        "- Handed over to U0GRACE001 (U0ADA00001)",
        "- Closed: false \\*alarm\\* (U0GRACE001)",
        "- Affected: 1 pod (Namespace: ml)",
        "- GPU-hours affected: 0.033 (1 GPU requested, 2m each on average)",
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_summary_lets_nobodys_words_act_and_fits(language: Language) -> None:
    done = tuple(IncidentEvent(1.0, News(turn, HOSTILE, HOSTILE)) for turn in ("noted", "handed-over", "closed")) * 9
    summary = Summary(1.0, HOSTILE, 2.0, HOSTILE, 3, (HOSTILE, "S0ONCALL01", HOSTILE), 4, done)
    message = Message("x", (blocks.in_words(summary_block(head("closed"), summary), Texts(language)),))
    assert_fits(message)
    assert all(read(element) == NOTHING for element in parsed(message))
    assert "usergroup" not in str(message.blocks)


def case(*happened: tuple[float, Turn, str, str]) -> Case:
    return Case("lock-held", "warning", [IncidentEvent(at, News(turn, by, what)) for at, turn, by, what in happened])


def test_times_are_medians_of_the_incidents_that_opened_in_the_period() -> None:
    cases = [
        case((100.0, "opened", "", ""), (100.0 + s, "acknowledged", "U1", ""), (100.0 + 10 * s, "resolved", "", ""))
        for s in (10, 30, 500)
    ]
    before = case((50.0, "opened", "", ""), (99.0, "acknowledged", "U1", ""), (150.0, "resolved", "", ""))
    told = report_on([before, *cases, case((200.0, "opened", "", ""))], 60.0, 9000.0)
    assert (told.acknowledge_s, told.resolve_s, told.unacknowledged) == (30.0, 300.0, 1)
    assert told.opened == (("lock-held", "warning", 4),)


def test_calls_are_those_of_the_period_also_for_incidents_that_opened_before() -> None:
    old = case((50.0, "opened", "", ""), (55.0, "called", "", "UADA"), (70.0, "called", "", "UADA"))
    new = case((80.0, "opened", "", ""), (90.0, "called", "", "UADA"), (95.0, "last-resort", "", "SALL"))
    assert report_on([old, new], 60.0, 99.0).calls == (("UADA", 2), ("SALL", 1))


@on_rig(6)
async def test_the_report_of_a_week_counts_what_happened_and_what_is_open(rig: Rig, keeper: Keeper) -> None:
    service = TriageService(rig.deps(), keeper, ())
    assert "last 7 days: 0 incidents opened" in (await service.report()).text
    await keeper.take([pending(number) for number in range(4)])
    await rig.passes(120, keeper, step_s=60)
    rows = await rig.store.incidents.opened()
    acked = next(row for row in rows if row.cause.code == "card-insufficient-memory")
    await service.act(ADA, acked, IncidentDeed("ack"))
    await keeper.take([pending(0, status="resolved"), pending(3, status="resolved")])
    await rig.passes(400, keeper, step_s=50)
    told = list(strings_of({"blocks": list((await service.report()).blocks)}))
    assert "On-call report, last 7 days: 3 incidents opened" in told
    assert "card-insufficient-memory (warning): 1" in told
    assert "until somebody acknowledged: 2m" in told
    assert "nobody acknowledged: 2 incidents" in told
    assert "GPUPodPending: 4" in told
    assert told.index("Still open") < min(told.index(row.id) for row in rows if row.id != acked.id)
    assert acked.id not in told
    await rig.bot.clock.advance(8 * 86400)
    assert "last 7 days: 0 incidents opened" in (await service.report()).text


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_report_lets_nobodys_words_act_and_fits(language: Language) -> None:
    many = tuple((f"{HOSTILE[:60]}{n}", n) for n in range(30))
    opened: tuple[tuple[str, Severity, int], ...] = tuple((name, "critical", n) for name, n in many)
    report = OncallReport(opened, 60.0, 90.0, 3, (("S0ONCALL01", 2), *many), many)
    message = render_oncall_report(report, 7, [head("open")] * 40).in_words(Texts(language))
    assert_fits(message)
    assert all(read(element) == NOTHING for element in parsed(message))
    assert "usergroup" not in str(message.blocks)
