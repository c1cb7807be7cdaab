"""The figures of a digest, read from the reports of the questions that it puts and from their snapshots."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.nodes.scaling import core_factor, memory_factor, read_memory_scaling
from bot.kube.models import Pod
from bot.report import Finding, Gap, Report
from bot.rows import TypeRow
from bot.texts import in_english
from playbooks.pending.rows import CauseRow, PendingRow
from playbooks.quota.findings import NEAR
from playbooks.quota.table import QuotaRow

_LOCKS = "node-lock-"
_NAMED_NODES = 50
"""Of one fault: more are only counted."""
_NAMED_PODS = 500


def figures_of(reports: Mapping[str, Report], parts: Mapping[str, Any], unseen: Mapping[str, Gap]) -> dict[str, str]:
    """`AREA/WHAT` -> value, as `bot.digest.figures` compares them; `parts` are the snapshots of the reports."""
    figures: dict[str, str] = {}
    for verb, read in _READ.items():
        if verb in reports:
            if sources := sorted({gap.source for gap in reports[verb].gaps}):
                figures |= {f"gaps/{area}": ", ".join(sources) for area in _AREAS[verb]}
            figures |= read(reports[verb], parts[verb])
    figures |= {f"unseen/{area}": in_english(gap.text)[:200] for verb, gap in unseen.items() for area in _AREAS[verb]}
    return figures


def waiting(reports: Mapping[str, Report]) -> tuple[int, int]:
    """How many pods wait, and for how many causes: as many as `pending` tells, which parts causes finer than codes."""
    report = reports.get("pending")
    if report is None:
        return 0, 0
    return len(report.typed(PendingRow)), len(report.typed(CauseRow))


def _pending(report: Report, part: Any) -> dict[str, str]:
    del part
    pods = Counter[str]()
    for row in report.typed(CauseRow):
        pods[row.cause] += row.pods
    return {f"pending/{code}": str(count) for code, count in pods.items()}


def _nodes(report: Report, part: Any) -> dict[str, str]:
    """How many nodes have which fault or lock, and which ones, as long as they are few."""
    del part
    locks = [
        finding for finding in report.findings if finding.code.startswith(_LOCKS)
    ]  # one that will be released stands too long
    faults = [finding for finding in bad(report) if finding not in locks]
    return _on_nodes(faults, "node-faults", "faulty-nodes") | _on_nodes(locks, "locks", "locked-nodes")


def _on_nodes(findings: Sequence[Finding], counts: str, names: str) -> dict[str, str]:
    by_code: dict[str, set[str]] = {}
    for finding in (finding for finding in findings if finding.scope.nodes):
        by_code.setdefault(finding.code.removeprefix(_LOCKS), set()).update(finding.scope.nodes)
    figures = {f"{counts}/{code}": str(len(nodes)) for code, nodes in by_code.items()}
    many = sorted(code for code, nodes in by_code.items() if len(nodes) > _NAMED_NODES)
    if many:  # not named is not gone
        figures[f"gaps/{names}"] = f"more than {_NAMED_NODES} of {', '.join(many)}"
    named = {code: nodes for code, nodes in by_code.items() if code not in many}
    return figures | {f"{names}/{code} {node}": "1" for code, nodes in named.items() for node in sorted(nodes)}


def _gpus(report: Report, part: Any) -> dict[str, str]:
    figures: dict[str, str] = {}
    for row in report.typed(TypeRow):
        figures[f"memory-MiB/{row.type}"] = str(row.memory_total)
        figures[f"largest-slice-MiB/{row.type}"] = _number(row.largest_slice)
        figures[f"memory-given-MiB/{row.type}"] = _number(row.memory_used)
    return figures | _promised(part)


def _number(amount: int | None) -> str:
    return "?" if amount is None else str(amount)


def _promised(part: Any) -> dict[str, str]:
    """By type how many times the memory and the cores that its cards have are promised; MIG is never scaled."""
    settings = read_memory_scaling(part.scene.cluster.seen.config_maps)
    have, promise, cores = Counter[str](), Counter[str](), dict[str, list[float]]()
    for node in part.scene.cluster.capacity.nodes:
        found = (registration for registration in read_registrations(node) if isinstance(registration, Registration))
        for card in (card for registration in found for card in registration.cards if card.mode != "mig"):
            cores.setdefault(card.type, []).append(core_factor(card))
            if factor := memory_factor(card, node.name, settings):
                have[card.type] += round(card.memory_mib / factor)
                promise[card.type] += card.memory_mib
    figures = {f"over-subscription/{kind} memory": f"{promise[kind] / have[kind]:.2f}" for kind in have if have[kind]}
    return figures | {f"over-subscription/{kind} cores": f"{sum(all_) / len(all_):.2f}" for kind, all_ in cores.items()}


def _quota(report: Report, part: Any) -> dict[str, str]:
    """In percent the limits that are nearly used up, by who counts."""
    del part
    return {
        f"quotas/{row.namespace} {row.resource} {use.by}": f"{100 * use.used // use.limit}"
        for row in report.typed(QuotaRow)
        for use in row.uses
        if use.used >= NEAR * use.limit
    }


def _status(report: Report, part: Any) -> dict[str, str]:
    found = Counter(finding.code for finding in bad(report))
    figures = {f"hami/{code}": str(count) for code, count in found.items()}
    figures |= _restarts("scheduler-restarts", part.scene.install.pods)
    return figures | _restarts("plugin-restarts", part.scene.components.plugin_pods)


def _restarts(area: str, pods: Sequence[Pod] | Gap) -> dict[str, str]:
    """How often each pod's containers were started again since the pod is there."""
    if isinstance(pods, Gap):
        return {f"unseen/{area}": in_english(pods.text)[:200]}
    counts = {
        f"{area}/{pod.name}": str(count)
        for pod in pods
        if (count := sum(status.restart_count for status in pod.status.container_statuses or ()))
    }
    if len(counts) > _NAMED_PODS:
        return {f"unseen/{area}": f"more than {_NAMED_PODS} pods were started again"}
    return dict(sorted(counts.items()))


def bad(report: Report) -> list[Finding]:
    """The findings that need somebody."""
    return [finding for finding in report.findings if finding.severity != "info"]


_READ = {"pending": _pending, "nodes": _nodes, "status": _status, "quota": _quota, "gpus": _gpus}
"""In the order in which changes are told."""
_AREAS = {
    "pending": ("pending",),
    "nodes": ("node-faults", "faulty-nodes", "locks", "locked-nodes"),
    "gpus": ("memory-MiB", "largest-slice-MiB", "memory-given-MiB", "over-subscription"),
    "quota": ("quotas",),
    "status": ("hami", "scheduler-restarts", "plugin-restarts"),
}
"""Which areas a question's report fills."""
