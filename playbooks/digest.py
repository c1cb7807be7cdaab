"""How the cluster is today, in figures that can be compared with yesterday's, and what is wrong, the worst first.

It puts the other questions and reads their reports: what they say is said once, there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bot.errors import SourceError
from bot.kube.times import format_time
from bot.report import SCHEMA, SEVERITIES, Finding, Gap, Report, Subject, Table, one_line, worst
from bot.texts import Texts
from playbooks._digest_figures import COLUMNS, FIGURES_TABLE, figures_of, waiting
from playbooks._playbook import Playbook, Sources, find
from playbooks._rules import prose

ASKED = ("pending", "nodes", "gpus", "quota", "status")


class Request(NamedTuple):
    """Nothing is asked for in particular."""


class Snapshot(NamedTuple):
    """The snapshot of each question that is put, or why there is none."""

    cluster: str
    taken_at: datetime
    parts: Mapping[str, Any]
    unseen: Mapping[str, Gap]


def request() -> Request:
    """The whole cluster."""
    return Request()


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read what all the questions read. Raises SourceError when none of them can be answered."""
    del wanted
    found = await asyncio.gather(*(_gather(verb, sources) for verb in ASKED))
    parts = {verb: one for verb, one in zip(ASKED, found, strict=True) if not isinstance(one, SourceError)}
    errors = {verb: one for verb, one in zip(ASKED, found, strict=True) if isinstance(one, SourceError)}
    if not parts:
        raise next(iter(errors.values()))
    unseen = {verb: Gap(verb, error.message, error.hint) for verb, error in errors.items()}
    return Snapshot(sources.cluster.name, sources.cluster.now(), parts, unseen)


async def _gather(verb: str, sources: Sources) -> Any:
    playbook = find(verb)
    try:
        return await playbook.gather(playbook.request(), sources)
    except SourceError as error:
        return error


def diagnose(snapshot: Snapshot, say: Texts) -> Report:
    """Each question's report, of which the figures and all that is wrong are told."""
    reports = {verb: find(verb).diagnose(part, say) for verb, part in snapshot.parts.items()}
    findings = _worst(list(reports.values()))
    figures = figures_of(reports, snapshot.unseen)
    gaps = [*snapshot.unseen.values(), *(gap for report in reports.values() for gap in report.gaps)]
    rows = tuple((*name.partition("/")[::2], value) for name, value in figures.items())
    tables = [Table(FIGURES_TABLE, COLUMNS, rows)]
    return Report(
        schema=SCHEMA,
        playbook="digest",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Cluster", "", snapshot.cluster),
        verdict=one_line(_verdict(waiting(reports), figures, snapshot.unseen, say)),
        severity=worst(tuple(findings)),
        findings=tuple(prose.few_actions(findings)),
        tables=tuple(tables),
        gaps=tuple(dict.fromkeys(gaps)),
    )


def _worst(reports: Sequence[Report]) -> list[Finding]:
    """The most severe of all, each question's first before any question's second; else what tells that all is well."""
    ranked = [(number, finding) for report in reports for number, finding in enumerate(report.findings)]
    bad = [(number, one) for number, one in ranked if one.severity != "info"]
    bad.sort(key=lambda pair: (-SEVERITIES.index(pair[1].severity), pair[0]))
    distinct = {(one.code, one.scope.nodes): one for _, one in reversed(bad)}
    found = [one for one in dict.fromkeys(one for _, one in bad) if distinct[one.code, one.scope.nodes] is one]
    return found or [report.findings[0] for report in reports if report.findings][-1:]


def _verdict(waits: tuple[int, int], figures: Mapping[str, str], unseen: Mapping[str, Gap], say: Texts) -> str:
    told: list[str] = []
    if "pending" not in unseen:
        told.append(say("digest.waiting", pods=waits[0], causes=waits[1]))
    if "nodes" not in unseen:
        told.append(say("digest.faults", kinds=_kinds(figures, "node faults")))
    if "status" not in unseen:
        told.append(say("digest.health", kinds=_kinds(figures, "hami")))
    if unseen:
        told.append(say("digest.unseen", what=", ".join(unseen)))
    return "; ".join(told)


def _kinds(figures: Mapping[str, str], area: str) -> int:
    return sum(1 for name in figures if name.startswith(f"{area}/"))


PLAYBOOK = Playbook(
    verb="digest",
    summary="How is the cluster today: what waits, what is broken, what is left?",
    example="digest",
    parameters=(),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
