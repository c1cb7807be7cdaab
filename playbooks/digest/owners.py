"""Whose the pods are that a finding concerns: their controllers, and a team where a label or annotation names one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from bot.hami.pods.allocations import NODE_KEY
from bot.kube.models import Holder, Pod
from bot.report import Finding, Gap, Report
from playbooks.pending.rows import CauseRow, PendingRow
from playbooks.rules.common.holders import Owner, owner_of


class FindingOrigin(NamedTuple):
    """A finding, the question that found it, and its place in that question's report."""

    verb: str
    number: int
    finding: Finding


def owners_of(about: FindingOrigin, reports: Mapping[str, Report], parts: Mapping[str, Any]) -> list[tuple[Owner, int]]:
    """The owners with how many pods of theirs are concerned, most first: pods that wait, or that are on the nodes."""
    match about.verb:
        case "pending":
            found = map(owner_of, _of_cause(about.number, reports["pending"], parts["pending"].waiting.pods))
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
    """The pods that hold cards of the nodes, as far as the cards' question saw them."""
    pods: list[Holder] | Gap = parts["gpus"].scene.cluster.capacity.pods if "gpus" in parts else []
    named = set(nodes)
    for pod in () if isinstance(pods, Gap) else pods:
        if (pod.spec.node_name or pod.metadata.annotation(NODE_KEY)) in named:
            yield pod
