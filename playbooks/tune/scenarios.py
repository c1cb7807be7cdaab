"""The guide's table of symptoms, beside what is seen here."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bot.report import Sheet, Table
from bot.texts import Prose, Text, listed, sentences
from playbooks.tune.guide import Scenario, Symptom, scenarios
from playbooks.tune.rows import Advice


class ScenarioRow(NamedTuple):
    """The fields are the table's columns. `seen`: yes, no, or cannot-tell."""

    symptom: Prose
    seen: str
    parameter: str
    guide: str
    topic: str
    ours: Prose


_SYMPTOMS: Mapping[Symptom, Text] = {
    "slow-scheduling": Text("scenario.slow-scheduling"),
    "node-locked": Text("scenario.node-locked"),
    "low-utilisation": Text("scenario.low-utilisation"),
    "gpu-oom": Text("scenario.gpu-oom"),
    "scheduler-oom": Text("scenario.scheduler-oom"),
    "no-monitor-data": Text("scenario.no-monitor-data"),
    "slow-cuda": Text("scenario.slow-cuda"),
    "loose-cores": Text("scenario.loose-cores"),
}
_SHEET = Sheet("scenarios", ScenarioRow)


def scenario_table(advice: Sequence[Advice]) -> Table:
    """A row for each symptom of the guide."""
    return _SHEET.table([_row(scenario, advice) for scenario in scenarios()])


def _row(scenario: Scenario, advice: Sequence[Advice]) -> ScenarioRow:
    telling = [each.row for each in advice if each.row.topic == scenario.topic and each.of_symptom]
    seen = "yes" if any(row.direction in scenario.directions for row in telling) else "no"
    if all(row.direction == "cannot-tell" for row in telling) and (telling or scenario.topic != "monitor-gap"):
        seen = "cannot-tell"
    ours = [each.row for each in advice if each.row.topic == scenario.topic]
    advised = sorted({sentences(row.direction, row.recommended) for row in ours}, key=repr)
    return ScenarioRow(
        _SYMPTOMS[scenario.symptom],
        seen,
        scenario.parameter,
        scenario.value,
        scenario.topic,
        listed(advised),
    )
