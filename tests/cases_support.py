"""The recorded clusters under `cases/`, whole or with something taken away."""

import asyncio
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.render.overview import steps_shown
from bot.report import VERDICT_LIMIT, Report, as_json
from bot.texts import Language, Texts
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from tests.report_schema import validated

CASES = Path(__file__).parent / "cases"
VERSIONS = sorted(folder.name for folder in CASES.glob("hami-*"))

Files = dict[str, bytes]
Edit = Callable[[Files], None]


class Scenario(NamedTuple):
    """One pod of a recorded cluster: which finding must come first, and on which nodes where that is told."""

    version: str
    pod: str
    first: tuple[str, ...]
    nodes: tuple[str, ...] | None

    @property
    def question(self) -> "Question":
        return Question(self.version, "why", self.pod, {"pod": self.pod})


def scenarios() -> list[Scenario]:
    """Every pod of every recorded cluster."""
    found: list[Scenario] = []
    for version in VERSIONS:
        for load in json.loads((CASES / version / "scenarios.json").read_text()):
            first = load["first_finding"]
            nodes = tuple(sorted(load["nodes"])) if "nodes" in load else None
            firsts = (first,) if isinstance(first, str) else tuple(first)
            found.append(Scenario(version, f"{load['namespace']}/{load['pod']}", firsts, nodes))
    return found


_REPORTS: dict[tuple[str, str, str, Language], Report] = {}


class Question(NamedTuple):
    """A verb asked of a recorded cluster, with the values of its arguments; see `cases/questions/<verb>.json`.

    Of every question the gist of its answer is expected (`cases/<version>/answers.json`), of one of each verb the whole
    report as well (`in_full`).
    """

    version: str
    verb: str
    name: str
    values: dict[str, Any]

    @property
    def expected(self) -> Any:
        return _answers(self.version)[f"{self.verb} {self.name}"]

    def ask(self, cluster: RecordedCluster | None = None, language: Language = "en") -> Report:
        """The report on the recording, made once, or on an edited copy of it."""
        if cluster:
            return ask_cluster(cluster, verb=self.verb, language=language, **self.values)
        key = (self.version, self.verb, json.dumps(self.values), language)
        if key not in _REPORTS:
            _REPORTS[key] = self.ask(opened(self.version), language)
        return _REPORTS[key]


def questions() -> list[Question]:
    """Every question of every verb but `why`, for the versions that it names, or for all."""
    return [
        Question(version, file.stem, load["name"], load["values"])
        for file in sorted((CASES / "questions").glob("*.json"))
        for load in json.loads(file.read_text())
        for version in load.get("versions", VERSIONS)
    ]


_WHOLE = "hami-2.10"
_SMALLER = {"why": "ml/s03-card-insufficient-memory", "gpus": "one-node"}
"""Else the first question of the verb."""


def in_full() -> dict[str, Question]:
    """By verb, the question of which the whole report is expected, in `cases/reports/<verb>.json`."""
    found: dict[str, Question] = {}
    for question in (*questions(), *(scenario.question for scenario in scenarios())):
        if question.version == _WHOLE and question.name == _SMALLER.get(question.verb, question.name):
            found.setdefault(question.verb, question)
    return found


def gist(report: Report) -> Any:
    """What must not change unseen: the verdict, the findings with their nodes, what could not be read, the tables."""
    return {
        "verdict": report.verdict,
        "findings": [
            " ".join([finding.code, finding.severity, finding.confidence, *(finding.scope.nodes or ())])
            for finding in report.findings
        ],
        "gaps": ", ".join(gap.source for gap in report.gaps),
        "tables": ", ".join(f"{table.title}: {len(table.rows)}" for table in report.tables),
    }


def keeps_its_limits(report: Report) -> None:
    """It survives JSON, a warning has something to do, verdict, steps and rows have their measure."""
    assert msgspec.json.decode(as_json(report), type=Report) == report
    assert report.findings
    assert [found.code for found in report.findings if found.severity != "info" and not found.next_actions] == []
    assert 0 < len(report.verdict) <= VERDICT_LIMIT
    assert "\n" not in report.verdict
    assert len(steps_shown(report)) <= 3
    assert all(len(row) == len(table.columns) for table in report.tables for row in table.rows)


@cache
def _answers(version: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((CASES / version / "answers.json").read_text(encoding="utf-8"))
    return answers


def opened(version: str) -> RecordedCluster:
    """The recording of that version, opened once."""
    return _kept(CASES / version / "recording.tar.gz")


@cache
def _kept(recording: Path) -> RecordedCluster:
    return RecordedCluster.open(recording)


@cache
def files_of(version: str) -> Files:
    """The recording's files by name."""
    return files_in(CASES / version / "recording.tar.gz")


def files_in(path: Path) -> Files:
    """The files of a recording in an archive, by name."""
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def write_recording(files: Files, path: Path) -> Path:
    """The files as a .tar.gz."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(gzip.compress(raw.getvalue(), compresslevel=1, mtime=0))
    return path


def edited(version: str, path: Path, *edits: Edit) -> Path:
    """A copy of the recording with the edits applied."""
    files = dict(files_of(version))
    for edit in edits:
        edit(files)
    return write_recording(files, path)


def newer_recording(folder: Path) -> Path:
    """A recording of a HAMi newer than any that was read."""

    def edit(files: Files) -> None:
        for name, data in files.items():
            files[name] = data.replace(b"hami:v2.10.0", b"hami:v2.11.0") if name.startswith("objects/") else data

    return edited("hami-2.10", folder / "newer.tar.gz", edit)


def without(name: str) -> Edit:
    """Take a file of objects away: `without("events")`."""
    return lambda files: files.__delitem__(next(file for file in files if file.startswith(f"objects/{name}.")))


def without_logs(files: Files) -> None:
    """Take all logs away."""
    for name in [file for file in files if file.startswith("logs/")]:
        del files[name]


def change(name: str, edit: Callable[[list[dict[str, Any]]], None]) -> Edit:
    """Change the items of a file of objects in place."""

    def apply(files: Files) -> None:
        file = next(file for file in files if file.startswith(f"objects/{name}."))
        document = json.loads(files[file])
        edit(document["items"])
        files[file] = json.dumps(document).encode()

    return apply


@cache
def text_of(version: str) -> str:
    """All text in the recording: every key and value of its objects, and the logs."""
    return text_in(files_of(version))


def text_in(files: Mapping[str, bytes]) -> str:
    """The same of a recording's files, by their names."""
    texts: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                texts.append(key)
                if key == "labels":  # as kubectl shows a map
                    texts.append(json.dumps(one, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
                walk(one)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        else:
            texts.append(str(value))

    for name, data in files.items():
        if name.endswith(".json"):
            walk(json.loads(data))
        elif name.endswith((".log", ".prom")):
            texts.append(data.decode())
    return "\x00".join(texts)


def _drop_conditions(pods: list[dict[str, Any]]) -> None:
    for pod in pods:
        conditions = pod.get("status", {}).get("conditions", [])
        pod["status"]["conditions"] = [condition for condition in conditions if condition["type"] != "PodScheduled"]


without_conditions: Edit = change("pods", _drop_conditions)


def ask(recording: Path, pod: str = "", *, language: Language = "en", verb: str = "why", **values: Any) -> Report:
    """The report that a playbook gives on a recording; `pod` and `values` are the verb's arguments."""
    cluster = _kept(recording) if CASES in recording.parents else RecordedCluster.open(recording)
    return ask_cluster(cluster, pod, language=language, verb=verb, **values)


def ask_cluster(
    cluster: RecordedCluster, pod: str = "", *, language: Language = "en", verb: str = "why", **values: Any
) -> Report:
    """The same, on an opened recording."""
    playbook = find(verb)
    request = playbook.request(**({"pod": pod} if pod else {}), **values)
    sources = Sources(cluster, ports=cluster, workload_logs=True)
    return validated(playbook.report(asyncio.run(playbook.gather(request, sources)), Texts(language)))


ARCHIVES = sorted((CASES / "fit").glob("*.tar.gz"))
