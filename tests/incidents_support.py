"""The recorded incidents under `incidents/`: a cluster as it was when somebody asked, and which finding was the cause.

Half of them are made after public threads of HAMi, half come from a lab with HAMi's real scheduler; `ok-*` are controls
in which HAMi is not at fault. `expected.json` of each says why.
"""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import Language
from tests.cases_support import Files, ask_cluster, files_in

INCIDENTS = Path(__file__).parent / "incidents"


class Incident(NamedTuple):
    """What was asked (`pod`: a pod for `why`, a node, a namespace or nothing else) and how a right answer looks.

    `says` are patterns that the first finding's claim, steps or quotes match, `never` what no claim or step matches.
    """

    name: str
    verb: str
    pod: str
    first: tuple[str, ...]
    wrong: tuple[str, ...]
    says: tuple[str, ...]
    never: tuple[str, ...]

    def ask(self, cluster: RecordedCluster | None = None, language: Language = "en") -> Report:
        """The report on the recording, or on an edited copy of it."""
        return ask_cluster(cluster or open_incident(self.name), verb=self.verb, language=language, **self.target)

    @property
    def target(self) -> dict[str, str]:
        """The values of the verb's arguments."""
        name = {"nodes": "node", "quota": "namespace"}.get(self.verb, "pod")
        return {name: self.pod} if self.pod or self.verb == "nodes" else {}


def incidents() -> list[Incident]:
    """Every recorded incident."""
    return [_read(folder) for folder in sorted(INCIDENTS.iterdir()) if folder.is_dir()]


@cache
def open_incident(name: str) -> RecordedCluster:
    """The recording of one incident, opened once."""
    return RecordedCluster.open(INCIDENTS / name / "recording.tar.gz")


@cache
def recorded_files(name: str) -> Files:
    """The files of one incident's recording by name, to be edited in a copy."""
    return files_in(INCIDENTS / name / "recording.tar.gz")


def _read(folder: Path) -> Incident:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    first, verb = expected["first"], expected["verb"]
    firsts = (first,) if isinstance(first, str) else tuple(first)
    says, never = (tuple(expected.get(key, ())) for key in ("says", "never"))
    return Incident(folder.name, verb, expected["pod"], firsts, tuple(expected["not"]), says, never)
