"""All that a playbook of your own may import, beside click and the standard library.

Names are added here and are never taken away or given another meaning within a major version; see
docs/own-playbooks.md. Everything else in hami-bot may change at any time.
"""

from collections.abc import Sequence

from bot.errors import NotFound, SourceError, UsageError
from bot.kube.cluster import seen
from bot.kube.models import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Container,
    Event,
    Namespace,
    Node,
    Pod,
    ResourceQuota,
    Workload,
)
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, Sheet, Subject, Table
from bot.texts import Texts
from playbooks.own.cluster import DeviceRequest, Hami, quote_of_request
from playbooks.own.cluster import OwnCluster as Cluster
from playbooks.own.interface import Answer
from playbooks.own.interface import OwnPlaybook as Playbook
from playbooks.quotes import kubectl
from playbooks.quotes import of_event as quote_of_event
from playbooks.quotes import of_node as quote_of_node
from playbooks.quotes import of_pod as quote_of_pod
from playbooks.rules.common.findings import finding as _finding

__all__ = [
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "EVENTS",
    "JOBS",
    "NAMESPACES",
    "NODES",
    "PODS",
    "REPLICA_SETS",
    "RESOURCE_QUOTAS",
    "STATEFUL_SETS",
    "Answer",
    "Cluster",
    "Confidence",
    "Container",
    "DeviceRequest",
    "Event",
    "Evidence",
    "Finding",
    "Gap",
    "Hami",
    "Namespace",
    "NextAction",
    "Node",
    "NotFound",
    "Playbook",
    "Pod",
    "ResourceQuota",
    "Severity",
    "Sheet",
    "SourceError",
    "Subject",
    "Table",
    "Texts",
    "UsageError",
    "Workload",
    "finding",
    "kubectl",
    "parse_time",
    "quote_of_event",
    "quote_of_node",
    "quote_of_pod",
    "quote_of_request",
    "seen",
]


def finding(
    claim: str,
    evidence: Sequence[Evidence] = (),
    *,
    severity: Severity = "warning",
    confidence: Confidence = "confirmed",
    nodes: Sequence[str] = (),
    actions: Sequence[NextAction] = (),
) -> Finding:
    """A finding of a playbook of your own: a claim, its evidence, the nodes that it is about, at most three actions."""
    return _finding("own-finding", claim, confidence, nodes, evidence, severity=severity, actions=actions)
