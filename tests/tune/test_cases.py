"""Every recording with metrics gets the advice that it must get, and none that it must not."""

import pytest

from playbooks.tune.advice import AdviceRow
from tests.tune.support import Case, cases, rows_of


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_recording_gets_its_advice_and_none_that_is_wrong(case: Case) -> None:
    rows = rows_of(case.ask())
    missing = [wanted for wanted in case.advice if not any(map(wanted.is_met_by, rows))]
    wrong = [row for row in rows for never in case.never if never.is_met_by(row)]
    assert (missing, wrong) == ([], list[AdviceRow]())


def test_the_risk_is_that_of_the_direction() -> None:
    (oom_risk,) = (case for case in cases() if case.name == "oom-risk")
    (lower,) = (finding for finding in oom_risk.ask().findings if "1 is recommended" in finding.claim)
    assert "less memory can be requested" in lower.next_actions[0].label
