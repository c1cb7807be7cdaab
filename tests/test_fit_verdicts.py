"""What the real scheduler said of every probe pod on every node of its cluster, against the table that `fit` gives.

`cases/fit/*.tar.gz` are recordings of nodes and pods under HAMi's own extender, with `probes.json`: pods as its webhook
admitted them, and per node the extender's verdict when it was asked about that pod and that node alone.
"""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from playbooks.fit.manifest import Manifest
from tests.cases_support import ARCHIVES, ask


class Difference(NamedTuple):
    node: str
    pod: str
    said: list[str]
    ours: list[str]


class Outcome(NamedTuple):
    checked: int
    differing: list[Difference]


@cache
def compare(archive: Path) -> Outcome:
    with tarfile.open(archive) as files:
        probes = json.load(files.extractfile("probes.json"))  # type: ignore[arg-type]
    manifest = Manifest("probes", json.dumps({"kind": "List", "items": [probe["pod"] for probe in probes]}))
    (table,) = (table for table in ask(archive, verb="fit", file=[manifest]).tables if table.title == "nodes")
    ours = {(pod, node): parts("fit" if verdict == "fit" else reason) for pod, node, verdict, reason, _ in table.rows}
    asked = [
        Difference(node, name, parts(said), ours[name, node])
        for name, verdicts in ((probe["pod"]["metadata"]["name"], probe["verdicts"]) for probe in probes)
        for node, said in verdicts.items()
    ]
    return Outcome(len(asked), [question for question in asked if question.said != question.ours])


def parts(reason: str) -> list[str]:
    """The parts of the reason, sorted: versions before 2.10 give them in any order."""
    return sorted(reason.split(", "))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_every_verdict_is_the_real_scheduler_s(archive):
    assert compare(archive).differing == []


def test_the_number_of_verdicts_checked_is_told(capsys):
    outcomes = [compare(archive) for archive in ARCHIVES]
    checked, differing = (
        sum(outcome.checked for outcome in outcomes),
        sum(len(outcome.differing) for outcome in outcomes),
    )
    with capsys.disabled():
        print(f"\nfit: {checked} verdicts checked, {differing} differing")  # noqa: T201  # the figure is the point
    assert checked == 9240
