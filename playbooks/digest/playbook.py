"""`digest`: how the cluster is today, in figures that can be compared with yesterday's, and the worst problems first.
It asks the other questions and reads their reports; it judges nothing by itself.
"""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from bot.digest.figures import FigureRow, OwnerRow, area_and_what
from bot.errors import SourceError
from bot.report import SEVERITIES, Finding, Gap, Report, Sheet, Subject, gap, more_than_info
from bot.texts import Text, clauses, in_english
from playbooks.digest.figures import IDLE_AREA, FindingOrigin, figures_of, idle_figures, owners_of, pending_counts
from playbooks.gather.usage import UsageSeen, gather_usage
from playbooks.own.discovery import find
from playbooks.playbook import ALL, Playbook, Snapshot, Sources

ASKED = ("pending", "nodes", "gpus", "quota", "status")
FIGURES = Sheet("figures", FigureRow, brief="area what value", together=3)
OWNERS = Sheet("owners", OwnerRow)
_TOLD = {
    "pending": Text("digest-area.pending"),
    "node-faults": Text("digest-area.node-faults"),
    "locks": Text("digest-area.locks"),
    "quotas": Text("digest-area.quotas"),
    "hami": Text("digest-area.hami"),
    IDLE_AREA: Text("digest-area.idle-GPU-hours"),
    "largest-slice-MiB": Text("digest-area.largest-slice-MiB"),
}
"""The areas of figures that a person reads, with their names; the other areas are only compared."""
_UNITS = {"quotas": " %", IDLE_AREA: " h", "largest-slice-MiB": " MiB"}
_FIRST = 5
_WORST = 3
"""The number of findings whose owners the digest names."""


class Request(NamedTuple):
    """What a digest is asked for. `all`: everything instead of an overview."""

    all: bool = False


class DigestScene(NamedTuple):
    """The snapshots of the digest's questions by verb (`parts`), or why one could not be answered (`unseen`)."""

    parts: Mapping[str, Any]
    unseen: Mapping[str, Gap]
    usage: UsageSeen


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, DigestScene]:
    """Gathers all the questions of a digest. Raises SourceError if none of them can be answered."""
    found, usage = await asyncio.gather(
        asyncio.gather(*(_gather(verb, sources) for verb in ASKED)), gather_usage(sources)
    )
    if not (usage.usage.containers or sources.prometheus):  # no vGPUmonitor, it seems: the figures say so
        usage = msgspec.structs.replace(usage, gaps=())
    parts = {verb: part for verb, part in zip(ASKED, found, strict=True) if not isinstance(part, SourceError)}
    errors = {verb: error for verb, error in zip(ASKED, found, strict=True) if isinstance(error, SourceError)}
    if not parts:
        raise next(iter(errors.values()))
    unseen = {verb: gap(verb, error.message, error.hint) for verb, error in errors.items()}
    scene = DigestScene(parts, unseen, usage)
    return Snapshot(wanted, sources.cluster.name, sources.cluster.now(), scene)


async def _gather(verb: str, sources: Sources) -> Any:
    playbook = find(verb)
    try:
        return await playbook.gather(playbook.request(), sources)
    except SourceError as error:
        return error


def diagnose(snapshot: Snapshot[Request, DigestScene]) -> Report:
    """The digest: the figures from each question's report, and all findings, the worst first."""
    parts, unseen, usage = snapshot.scene
    reports = {verb: find(verb).diagnose(part) for verb, part in parts.items()}
    if {"nodes", "status"} <= reports.keys():  # what is told of each node is not told again of HAMi as a whole
        of_nodes = {finding.code for finding in reports["nodes"].findings}
        kept = [finding for finding in reports["status"].findings if finding.code not in of_nodes]
        reports["status"] = msgspec.structs.replace(reports["status"], findings=tuple(kept))
    ranked = _worst(reports)
    findings = [origin.finding for origin in ranked]
    figures = figures_of(reports, parts, unseen) | _idle(snapshot)
    of_reports = (gap for report in reports.values() for gap in report.gaps)
    owners = (
        OwnerRow(place, *owner, pods)
        for place, entry in enumerate(ranked[:_WORST], 1)
        if entry.finding.severity != "info"
        for owner, pods in owners_of(entry, reports, parts)
    )
    tables = FIGURES.table(_rows(figures), brief=_told(figures)), OWNERS.table(owners)
    # What the questions answer where HAMi is not installed: then no node and no pod was judged.
    first = (found for verb, report in reports.items() if verb != "pending" for found in report.findings[:1])
    absent = next((found.text for found in first if found.code == "hami-not-installed"), "")
    return snapshot.report(
        "digest",
        Subject("Cluster", "", snapshot.cluster),
        findings,
        verdict=absent or _verdict(reports, unseen),
        tables=(table for table in tables if table.rows),
        gaps=[*unseen.values(), *usage.gaps, *of_reports],
    )


def _idle(snapshot: Snapshot[Request, DigestScene]) -> dict[str, str]:
    parts, unseen, usage = snapshot.scene
    gpus = parts.get("gpus")
    if gpus is None:
        return {f"unseen/{IDLE_AREA}": in_english(unseen["gpus"].text)[:200]}
    world = gpus.scene.cluster
    return idle_figures(world.capacity, usage, world.version, snapshot.taken_at)


def _told(figures: Mapping[str, str]) -> Iterator[FigureRow]:
    for area, name in _TOLD.items():
        unit = _UNITS.get(area, "")
        some = ((what, value) for of, what, value in _rows(figures) if of == area)
        for what, value in islice(some, _FIRST):
            yield FigureRow(name, what, f"{int(value):,}{unit}" if value.isdecimal() else value)


def _rows(figures: Mapping[str, str]) -> list[FigureRow]:
    return [FigureRow(*area_and_what(name), value) for name, value in figures.items()]


def _worst(reports: Mapping[str, Report]) -> list[FindingOrigin]:
    """The most severe of all, each question's first before any question's second; else what tells that all is well."""
    known = {_key(finding) for finding in (reports["pending"].findings if "pending" in reports else ())}
    ranked = [
        FindingOrigin(verb, at, finding)
        for verb, report in reports.items()
        for at, finding in enumerate(report.findings)
        if verb != "quota" or _key(finding) not in known  # whose pods a quota keeps out, the pods themselves tell
    ]
    bad = [entry for entry in ranked if entry.finding.severity != "info"]
    bad.sort(key=lambda entry: (-SEVERITIES.index(entry.finding.severity), entry.number))
    distinct = {_key(entry.finding): entry for entry in reversed(bad)}
    found = [entry for entry in bad if distinct[_key(entry.finding)] is entry]
    return found or [origin for origin in ranked if origin.number == 0][-1:]


def _key(finding: Finding) -> tuple[str, tuple[str, ...]]:
    """Two questions that find the same say so with the same code about the same nodes."""
    return finding.code, finding.scope.nodes


def _verdict(reports: Mapping[str, Report], unseen: Mapping[str, Gap]) -> Text:
    """That there is none of something follows only where everything was seen."""
    lines: list[Text] = []
    if "pending" in reports:
        pods, causes = pending_counts(reports)
        none = Text("digest.waiting-unseen" if reports["pending"].gaps else "digest.waiting-none")
        lines.append(Text("digest.waiting", pods=pods, causes=causes) if pods else none)
    if "nodes" in reports:
        nodes = {node for finding in more_than_info(reports["nodes"].findings) for node in finding.scope.nodes}
        none = Text("digest.faults-unseen" if reports["nodes"].gaps else "digest.faults-none")
        lines.append(Text("digest.faults", nodes=len(nodes)) if nodes else none)
    if "status" in reports:
        problems = len(more_than_info(reports["status"].findings))
        none = Text("digest.health-unseen" if reports["status"].gaps else "digest.health-none")
        lines.append(Text("digest.health", problems=problems) if problems else none)
    if unseen:
        lines.append(Text("digest.unseen", what=[*unseen]))
    return clauses(lines)


PLAYBOOK = Playbook(
    verb="digest",
    summary="How is the cluster today: what is pending, what is broken, what is free?",
    example="digest",
    parameters=(ALL,),
    request=Request,
    gather=gather,
    diagnose=diagnose,
)
