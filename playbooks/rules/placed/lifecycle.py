"""Pods that are past scheduling: running, finished, failed, or waiting to start."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from bot.finding_codes import Code
from bot.kube.models import Event, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rules.common.containers import between_restarts, statuses, stuck
from playbooks.rules.common.findings import finding
from playbooks.rules.placed.not_started import failed, not_started, unready
from playbooks.rules.placed.refused_by_node import allocate_failed

_STUCK = timedelta(minutes=2)
"""How long a deletion past its deadline is taken as normal."""


def past_scheduling(pod: Pod, events: Iterable[Event], now: datetime) -> Finding | None:
    """What a pod that needs no scheduling is doing; None when it still waits for a node."""
    name = f"{pod.namespace}/{pod.name}"
    own = [event for event in events if event.involved_object.uid in ("", pod.metadata.uid) and event.message.strip()]
    if pod.status.phase == "Succeeded":
        return _finding(
            pod, "succeeded", Text("succeeded.claim", pod=name), quotes.of_pod(pod, "Succeeded", "{.status.phase}")
        )
    if (refused := allocate_failed(pod, own)) is not None:
        return refused
    if pod.status.phase == "Failed":
        return failed(pod)
    if pod.metadata.deletion_timestamp:
        return _terminating(pod, now)
    if not pod.spec.node_name:
        return None
    crashing = any(stuck(status) or between_restarts(status, now) for status in statuses(pod))
    if pod.status.phase == "Running" and not crashing:
        if (lacks := unready(pod, own, now)) is not None:
            return lacks
        return _finding(
            pod,
            "running",
            Text("running.claim", pod=name, node=pod.spec.node_name),
            quotes.of_pod(pod, "Running", "{.status.phase}"),
        )
    return not_started(pod, own, now)


def _terminating(pod: Pod, now: datetime) -> Finding:
    """Being deleted. The API's deletionTimestamp is when the pod should be gone."""
    text = pod.metadata.deletion_timestamp or ""
    deadline = parse_time(text)
    late = deadline is not None and now - deadline > _STUCK
    key = "terminating.claim" if pod.spec.node_name else "terminating.unscheduled"
    proofs = [quotes.of_pod(pod, text, "{.metadata.deletionTimestamp}")]
    describe = step(
        Text("terminating.finalizers"),
        kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.finalizers}"),
    )
    return finding(
        "terminating",
        Text(
            "terminating.late" if late else key,
            pod=f"{pod.namespace}/{pod.name}",
            node=pod.spec.node_name or "?",
            deadline=format_time(deadline) if deadline else text,
        ),
        "confirmed",
        (pod.spec.node_name,) if pod.spec.node_name else (),
        tuple(proofs),
        severity="warning" if late else "info",
        actions=(describe,) if late else (),
    )


def _finding(pod: Pod, code: Code, claim: Text, proof: Evidence) -> Finding:
    node = pod.spec.node_name
    return finding(
        code,
        claim,
        "confirmed",
        (node,) if node else (),
        (proof,),
        severity="info",
    )
