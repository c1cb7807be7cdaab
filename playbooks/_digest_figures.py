"""The figures of a digest, read from the reports of the questions that it puts."""

from collections import Counter
from collections.abc import Iterator, Mapping

from bot.report import Finding, Gap, Report

FIGURES_TABLE = "figures"
COLUMNS = ("area", "what", "value")
_NAMED_NODES = 50
"""Of one fault: more are only counted."""
_NEARLY_FULL = 80
"""Percent of a quota."""


def figures_of(reports: Mapping[str, Report], unseen: Mapping[str, Gap]) -> dict[str, str]:
    """`AREA/WHAT` -> value; areas that could not be seen, or only in part, say so under `unseen`."""
    figures: dict[str, str] = {}
    for verb, read in _READ.items():
        if verb in reports:
            figures |= read(reports[verb])
            if sources := sorted({gap.source for gap in reports[verb].gaps}):
                figures |= {f"gaps/{area}": ", ".join(sources) for area in _AREAS[verb]}
    figures |= {f"unseen/{area}": gap.why[:200] for verb, gap in unseen.items() for area in _AREAS[verb]}
    return figures


def waiting(reports: Mapping[str, Report]) -> tuple[int, int]:
    """How many pods wait, and for how many causes: as many as `pending` tells, which parts causes finer than codes."""
    report = reports.get("pending")
    if report is None:
        return 0, 0
    return len(list(_rows(report, "pending"))), len(list(_rows(report, "causes")))


def _rows(report: Report, title: str) -> Iterator[dict[str, str]]:
    for table in report.tables:
        if table.title == title:
            yield from (dict(zip(table.columns, row, strict=True)) for row in table.rows)


def _pending(report: Report) -> dict[str, str]:
    pods = Counter[str]()
    for row in _rows(report, "causes"):
        pods[row["cause"]] += int(row["pods"])
    return {f"pending/{code}": str(count) for code, count in pods.items()}


def _nodes(report: Report) -> dict[str, str]:
    """How many nodes have which fault, and which ones, as long as they are few."""
    by_code: dict[str, set[str]] = {}
    for one in _bad(report):
        by_code.setdefault(one.code, set()).update(one.scope.nodes)
    figures = {f"node faults/{code}": str(len(nodes)) for code, nodes in by_code.items()}
    for code, nodes in by_code.items():
        if len(nodes) <= _NAMED_NODES:
            figures |= {f"faulty nodes/{code} {node}": "1" for node in sorted(nodes)}
    return figures


def _gpus(report: Report) -> dict[str, str]:
    figures: dict[str, str] = {}
    for row in _rows(report, "largest free slice by type"):
        figures[f"largest slice MiB/{row['type']}"] = row["largest slice"]
        figures[f"memory given MiB/{row['type']}"] = row["memory used"]
    return figures


def _quota(report: Report) -> dict[str, str]:
    figures: dict[str, str] = {}
    for row in _rows(report, "quota"):
        percent = row["HAMi %"].removesuffix("%")
        if percent.isdecimal() and int(percent) >= _NEARLY_FULL:
            figures[f"quota %/{row['namespace']} {row['resource']}"] = percent
    return figures


def _status(report: Report) -> dict[str, str]:
    found = Counter(one.code for one in _bad(report))
    return {f"hami/{code}": str(count) for code, count in found.items()}


def _bad(report: Report) -> list[Finding]:
    return [one for one in report.findings if one.severity != "info"]


_READ = {"pending": _pending, "nodes": _nodes, "gpus": _gpus, "quota": _quota, "status": _status}
_AREAS = {
    "pending": ("pending",),
    "nodes": ("node faults", "faulty nodes"),
    "gpus": ("largest slice MiB", "memory given MiB"),
    "quota": ("quota %",),
    "status": ("hami",),
}
"""Which areas a question's report fills."""
