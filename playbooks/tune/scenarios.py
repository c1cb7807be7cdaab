"""The guide's table of symptoms, beside what is seen here."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.report import Sheet, Table
from bot.texts import Texts
from playbooks.tune.guide import Scenario, scenarios
from playbooks.tune.rows import Advice


class ScenarioRow(NamedTuple):
    """The fields are the table's columns. `seen`: yes, no, or cannot-tell."""

    symptom: str
    seen: str
    parameter: str
    guide: str
    topic: str
    ours: str


_SHEET = Sheet("scenarios", ScenarioRow)


def scenario_table(advice: Sequence[Advice], say: Texts) -> Table:
    """A row for each symptom of the guide."""
    return _SHEET.table([_row(scenario, advice, say) for scenario in scenarios()])


def _row(scenario: Scenario, advice: Sequence[Advice], say: Texts) -> ScenarioRow:
    telling = [each.row for each in advice if each.row.topic == scenario.topic and each.of_symptom]
    seen = "yes" if any(row.direction in scenario.directions for row in telling) else "no"
    if all(row.direction == "cannot-tell" for row in telling) and (telling or scenario.topic != "monitor-gap"):
        seen = "cannot-tell"
    ours = [each.row for each in advice if each.row.topic == scenario.topic]
    listed = sorted({" ".join(filter(None, (row.direction, row.recommended))) for row in ours})
    return ScenarioRow(
        say(f"scenario.{scenario.symptom}"), seen, scenario.parameter, scenario.value, scenario.topic, ", ".join(listed)
    )
