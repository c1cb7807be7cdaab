"""The figures of a digest, read from the reports and snapshots of the questions that the digest asks.

GPU-hours of the last day that were held without use are counted by namespace. A share of a GPU counts by its part of
the GPU's memory. A share is without use since its last kernel, and before the first kernel since the process started:
at most a day, and no longer than the pod exists. Shares that are not measured count nothing. A finding's pods are
counted by owner: their controller, and its team if a label or annotation names one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.metrics.gpu_usage import MeasuredHolding, held_by
from bot.hami.nodes.node_state import core_factor, memory_factor, read_plugin_settings, registered_cards
from bot.hami.pods.allocations import NODE_KEY
from bot.hami.version import NEWEST_READ, Version
from bot.kube.models import Holder, Pod
from bot.kube.times import parse_time
from bot.report import Finding, Gap, Report, more_than_info
from bot.rows import TypeRow
from bot.texts import in_english
from playbooks.gather.scheduling import Capacity
from playbooks.gather.usage import UsageSeen
from playbooks.pending.rows import CauseRow, PendingRow
from playbooks.quota.table import QuotaRow
from playbooks.rules.common.holders import Owner, owner_of
from playbooks.rules.quota.limits import NEAR

_LOCKS = "node-lock-"
_NAMED_NODES = 50
"""The most nodes of one fault that are named; more are only counted."""
_NAMED_PODS = 500


def figures_of(reports: Mapping[str, Report], parts: Mapping[str, Any], unseen: Mapping[str, Gap]) -> dict[str, str]:
    """The figures `AREA/WHAT` -> value, as `bot.digest.figures` compares them, from reports and snapshots by verb."""
    figures: dict[str, str] = {}
    for verb, read in _READ.items():
        if verb in reports:
            if sources := sorted({gap.source for gap in reports[verb].gaps}):
                figures |= {f"gaps/{area}": ", ".join(sources) for area in _AREAS[verb]}
            figures |= read(reports[verb], parts[verb])
    figures |= {f"unseen/{area}": in_english(gap.text)[:200] for verb, gap in unseen.items() for area in _AREAS[verb]}
    return figures


def pending_counts(reports: Mapping[str, Report]) -> tuple[int, int]:
    """The number of pending pods and of their causes, as the overview of `pending` counts them."""
    report = reports.get("pending")
    causes = {(row.acts, row.cause) for row in report.typed(CauseRow)} if report else ()
    return len(report.typed(PendingRow)) if report else 0, len(causes)


def _pending(report: Report, _: Any) -> dict[str, str]:
    pods = Counter[str]()
    for row in report.typed(CauseRow):
        pods[row.cause] += row.pods
    return {f"pending/{code}": str(count) for code, count in pods.items()}


def _nodes(report: Report, _: Any) -> dict[str, str]:
    # One that will be released stands too long.
    locks = [finding for finding in report.findings if finding.code.startswith(_LOCKS)]
    faults = [finding for finding in more_than_info(report.findings) if finding not in locks]
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
    """How many times the memory and the cores that a type's cards have are promised; MIG is never scaled."""
    settings = read_plugin_settings(part.scene.cluster.seen.config_maps)
    have, promise, cores = Counter[str](), Counter[str](), dict[str, list[float]]()
    for node in part.scene.cluster.capacity.nodes:
        for card in (card for card in registered_cards(node) if card.mode != "mig"):
            cores.setdefault(card.type, []).append(core_factor(card))
            if factor := memory_factor(card, node, settings):
                have[card.type] += round(card.memory_mib / factor)
                promise[card.type] += card.memory_mib
    figures = {f"over-subscription/{kind} memory": f"{promise[kind] / have[kind]:.2f}" for kind in have if have[kind]}
    return figures | {f"over-subscription/{kind} cores": f"{sum(all_) / len(all_):.2f}" for kind, all_ in cores.items()}


def _quota(report: Report, _: Any) -> dict[str, str]:
    return {
        f"quotas/{row.namespace} {row.resource} {use.by}": f"{100 * use.used // use.limit}"
        for row in report.typed(QuotaRow)
        for use in row.uses
        if use.used >= NEAR * use.limit
    }


def _status(report: Report, part: Any) -> dict[str, str]:
    found = Counter(finding.code for finding in more_than_info(report.findings))
    figures = {f"hami/{code}": str(count) for code, count in found.items()}
    figures |= _restarts("scheduler-restarts", part.scene.install.pods)
    return figures | _restarts("plugin-restarts", part.scene.components.plugin_pods)


def _restarts(area: str, pods: Sequence[Pod] | Gap) -> dict[str, str]:
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


_READ = {"pending": _pending, "nodes": _nodes, "status": _status, "quota": _quota, "gpus": _gpus}
"""How the figures of each question are read, in the order in which the digest tells what changed."""
_AREAS = {
    "pending": ("pending",),
    "nodes": ("node-faults", "faulty-nodes", "locks", "locked-nodes"),
    "gpus": ("memory-MiB", "largest-slice-MiB", "memory-given-MiB", "over-subscription"),
    "quota": ("quotas",),
    "status": ("hami", "scheduler-restarts", "plugin-restarts"),
}

IDLE_AREA = "idle-GPU-hours"
_DAY_S, _HOUR_S = 24 * 3600.0, 3600.0


def idle_figures(capacity: Capacity, usage: UsageSeen, version: Version | None, taken_at: datetime) -> dict[str, str]:
    """The figures of GPUs held without use: hours by namespace, the most first, and where pods were not measured."""
    if isinstance(capacity.nodes, Gap) or isinstance(capacity.pods, Gap):
        return {}
    nodes = capacity.nodes if usage.usage.containers else ()
    memory = {card.uuid: card.memory_mib for node in nodes for card in registered_cards(node)}
    hours, unmeasured = defaultdict[str, float](float), set[str]()
    for holding in held_by(build_ledger(capacity.pods, version or NEWEST_READ).all(), usage.usage):
        found = _hours(holding, memory, taken_at)
        if found is None:
            unmeasured.add(holding.holding.namespace)
        else:
            hours[holding.holding.namespace] += found
    most = sorted(hours, key=lambda name: (-hours[name], name))
    figures = {f"{IDLE_AREA}/{name}": f"{hours[name]:.0f}" for name in most if round(hours[name])}
    if unmeasured:
        figures[f"gaps/{IDLE_AREA}"] = f"pods that are not measured: {', '.join(sorted(unmeasured))}"[:200]
    return figures


def _hours(held: MeasuredHolding, memory: Mapping[str, int], taken_at: datetime) -> float | None:
    """None where a figure, the pod's age or a GPU's size is missing."""
    created = parse_time(held.holding.created)
    shares = held.shares
    if held.unmeasured or created is None or any(not memory.get(uuid) for uuid in shares):
        return None
    since = dict.fromkeys(shares, min(_DAY_S, (taken_at - created).total_seconds()))
    for use in held.uses:
        if use.last_kernel is None:
            return None
        since[use.uuid] = max(0.0, min(since[use.uuid], use.last_kernel.value))
    return sum(since[uuid] / _HOUR_S * min(1.0, share.memory_mib / memory[uuid]) for uuid, share in shares.items())


class FindingOrigin(NamedTuple):
    """A finding, the question that found it, and its place in that question's report."""

    verb: str
    number: int
    finding: Finding


def owners_of(about: FindingOrigin, reports: Mapping[str, Report], parts: Mapping[str, Any]) -> list[tuple[Owner, int]]:
    """The owners of the pods that a finding is about (pending, or on its nodes), with how many each; most first."""
    match about.verb:
        case "pending":
            found = map(owner_of, _of_cause(about.number, reports["pending"], parts["pending"].scene.waiting.pods))
        case "nodes" | "gpus":
            found = map(owner_of, _on(about.finding.scope.nodes, parts))
        case "quota":
            quotas = (evidence.name for evidence in about.finding.evidence if evidence.kind == "ResourceQuota")
            found = (Owner("Namespace", "", name.partition("/")[0], "") for name in quotas)
        case _:
            subject = reports[about.verb].subject
            found = iter([Owner(subject.kind, subject.namespace, subject.name, "")])
    return sorted(Counter(found).items(), key=lambda item: (-item[1], item[0]))


def _of_cause(number: int, report: Report, pods: Iterable[Pod]) -> list[Pod]:
    """The pods of a cause: the table names all pods in the order of the causes."""
    counts = [row.pods for row in report.typed(CauseRow)]
    if number >= len(counts):
        return []
    start = sum(counts[:number])
    rows = report.typed(PendingRow)[start : start + counts[number]]
    names = {(row.namespace, row.pod) for row in rows}
    return [pod for pod in pods if (pod.namespace, pod.name) in names]


def _on(nodes: Iterable[str], parts: Mapping[str, Any]) -> Iterator[Holder]:
    pods: list[Holder] | Gap = parts["gpus"].scene.cluster.capacity.pods if "gpus" in parts else []
    named = set(nodes)
    for pod in () if isinstance(pods, Gap) else pods:
        if (pod.spec.node_name or pod.metadata.annotation(NODE_KEY)) in named:
            yield pod
