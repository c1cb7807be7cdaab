"""The on-call report says how a week went."""

import pytest

from bot.report import Severity
from bot.slack.render.summary import render_oncall_report
from bot.texts import LANGUAGES, Language, Texts
from bot.triage.state import News, Turn
from bot.triage.summary import Case, IncidentEvent, OncallReport, report_on
from handlers.oncall.keeper import Keeper
from handlers.oncall.service import IncidentDeed, TriageService
from sandbox.slack.content import strings_of
from tests.oncall.heads import ADA, HOSTILE, head
from tests.oncall.rig import Rig, on_rig, pending
from tests.slack.render import NOTHING, assert_fits, parsed, read


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
