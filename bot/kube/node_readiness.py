"""What Kubernetes itself says of a node: whether it is ready, and what keeps pods off it."""

from bot.kube.models import Node

NOT_READY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CORDON_TAINT = "node.kubernetes.io/unschedulable"
PRESSURE_TAINTS = tuple(f"node.kubernetes.io/{kind}-pressure" for kind in ("memory", "disk", "pid"))


def not_ready(node: Node) -> bool:
    """Whether its Ready condition is not true, or its taints say so. Without conditions nothing is known."""
    return any(
        condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions or ()
    ) or any(taint.key in NOT_READY_TAINTS for taint in node.spec.taints or ())


def is_cordoned(node: Node) -> bool:
    return node.spec.unschedulable or any(taint.key == CORDON_TAINT for taint in node.spec.taints or ())


def pressures(node: Node) -> tuple[str, ...]:
    """The pressure taints, by which Kubernetes keeps pods off."""
    return tuple(taint.key for taint in node.spec.taints or () if taint.key in PRESSURE_TAINTS)


def other_taints(node: Node) -> tuple[str, ...]:
    """The taints that somebody put there, as keys."""
    known = (*NOT_READY_TAINTS, CORDON_TAINT, *PRESSURE_TAINTS)
    return tuple(taint.key for taint in node.spec.taints or () if taint.key not in known)
