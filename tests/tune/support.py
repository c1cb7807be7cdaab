"""The recordings with metrics under `cases/`, each with the advice that must be given and that must not.

They are of a lab with HAMi's real scheduler and vGPUmonitor; ages, and where `why` says so other parts, are crafted.
"""

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.prometheus import Prometheus
from bot.report import Report
from bot.texts import Language, Texts
from playbooks.playbook import Sources
from playbooks.tune.advice import AdviceRow
from playbooks.tune.playbook import PLAYBOOK, Request

CASES = Path(__file__).parent / "cases"


class Wanted(NamedTuple):
    """A piece of advice as `expected.json` has it; `object` is a pod, nodes with commas between, or words."""

    topic: str
    direction: str
    object: str

    def is_met_by(self, row: AdviceRow) -> bool:
        """Whether the row gives it; words that name no object leave the object open."""
        named = [
            name for name in self.object.replace(" ", ",").split(",") if "/" in name or name.startswith("gpu-node")
        ]
        same = (row.topic, row.direction) == (self.topic, self.direction)
        return same and all(name in row.object.replace(" ", ",").split(",") for name in named)


class Case(NamedTuple):
    """A recording, what must be told about it, and what must not."""

    name: str
    advice: tuple[Wanted, ...]
    never: tuple[Wanted, ...]

    def ask(
        self,
        prometheus: Prometheus | None = None,
        *,
        everything: bool = True,
        template: str = "",
        language: Language = "en",
    ) -> Report:
        """The answer of `tune --all`, of `tune` or of `tune --template`."""
        cluster = open_case(self.name)
        sources = Sources(cluster, ports=cluster, prometheus=prometheus)
        return PLAYBOOK.report(asyncio.run(PLAYBOOK.gather(Request(everything, template), sources)), Texts(language))


def cases() -> list[Case]:
    """All of them."""
    return [_read(folder) for folder in sorted(CASES.iterdir())]


@cache
def open_case(name: str) -> RecordedCluster:
    """The recording of one case, opened once."""
    return RecordedCluster.open(CASES / name / "recording.tar.gz")


def rows_of(report: Report) -> list[AdviceRow]:
    """The rows of the table `advice`."""
    (table,) = (table for table in report.tables if table.title == "advice")
    return [AdviceRow(*row) for row in table.rows]  # type: ignore[arg-type]


def _read(folder: Path) -> Case:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return Case(folder.name, _wanted(expected["advice"]), _wanted(expected["never"]))


def _wanted(listed: list[dict[str, str]]) -> tuple[Wanted, ...]:
    return tuple(Wanted(card["topic"], card["direction"], card.get("object", "")) for card in listed)
