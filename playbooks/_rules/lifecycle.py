"""Pods that are past scheduling: running, finished, failed, or waiting to start."""

from collections.abc import Iterable

from bot.hami.allocations import BIND_PHASE_KEY
from bot.kube.models import ContainerStatus, Event, Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, NextAction, Scope, one_line
from bot.texts import Texts
from playbooks import _evidence
from playbooks._rules.prose import plugin_pods_command

_ALLOCATE_REASON = "UnexpectedAdmissionError"
_START_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Failed", "BackOff", "InspectFailed")
_STARTING = ("ContainerCreating", "PodInitializing", "")


def past_scheduling(pod: Pod, events: Iterable[Event], say: Texts) -> Finding | None:
    """What a pod that needs no scheduling is doing; None when it still waits for a node."""
    own = [one for one in events if one.involved_object.uid in ("", pod.metadata.uid)]
    if pod.status.phase == "Succeeded":
        return _finding(pod, say, "succeeded", _evidence.of_pod(pod, "Succeeded", "{.status.phase}"))
    if (refused := _allocate_failed(pod, own, say)) is not None:
        return refused
    if pod.status.phase == "Failed":
        return _failed(pod, say)
    if not pod.spec.node_name:
        return None
    if pod.metadata.deletion_timestamp:
        return _not_started(pod, own, say)
    statuses = pod.status.container_statuses or []
    crashing = any(one.state.waiting and one.state.waiting.reason not in _STARTING for one in statuses)
    if pod.status.phase == "Running" and not crashing:
        return _finding(
            pod, say, "running", _evidence.of_pod(pod, "Running", "{.status.phase}"), node=pod.spec.node_name
        )
    return _not_started(pod, own, say)


def _allocate_failed(pod: Pod, events: list[Event], say: Texts) -> Finding | None:
    proofs: list[Evidence] = []
    if pod.status.reason == _ALLOCATE_REASON or "Allocate failed" in pod.status.message:
        proofs.append(_evidence.of_pod(pod, pod.status.message or pod.status.reason, "{.status.message}"))
    proofs += [_evidence.of_event(one) for one in events if one.reason == _ALLOCATE_REASON][-1:]
    if pod.metadata.annotation(BIND_PHASE_KEY) == "failed" and pod.status.phase != "Running":
        proofs.append(_evidence.of_pod_annotation(pod, BIND_PHASE_KEY))
    if not proofs:
        return None
    node = pod.spec.node_name
    return Finding(
        code="allocate-failed",
        claim=one_line(say("allocate-failed.claim", node=node or "?", why=proofs[0].quote), 400),
        severity="warning",
        confidence="confirmed",
        scope=Scope(nodes=(node,) if node else ()),
        evidence=tuple(proofs),
        next_actions=(
            NextAction(
                say("allocate-failed.plugin-log"),
                plugin_pods_command(node),
            ),
            NextAction(
                say("allocate-failed.recreate"),
                f"kubectl -n {pod.namespace} delete pod {pod.name}",
                changes_cluster=True,
            ),
        ),
    )


def _failed(pod: Pod, say: Texts) -> Finding:
    ended = next(
        (one for one in pod.status.container_statuses or () if one.state.terminated and one.state.terminated.exit_code),
        None,
    )
    if ended and ended.state.terminated:
        why = say("image-or-start-failure.exit", container=ended.name, code=ended.state.terminated.exit_code)
        quote, path = (
            ended.state.terminated.reason or ended.name,
            "{.status.containerStatuses[*].state.terminated.reason}",
        )
    else:
        why = pod.status.message or pod.status.reason or say("image-or-start-failure.no-reason")
        quote, path = pod.status.message or pod.status.reason or "Failed", "{.status}"
    return _start_failure(pod, say, say("image-or-start-failure.failed", why=why), [_evidence.of_pod(pod, quote, path)])


def _not_started(pod: Pod, events: list[Event], say: Texts) -> Finding:
    statuses: list[ContainerStatus] = [
        *(pod.status.init_container_statuses or ()),
        *(pod.status.container_statuses or ()),
    ]
    waiting = next((one for one in statuses if one.state.waiting and one.state.waiting.reason not in _STARTING), None)
    proofs: list[Evidence] = []
    if waiting and waiting.state.waiting:
        why = f"{waiting.state.waiting.reason} {waiting.state.waiting.message}".strip()
        path = "{.status.containerStatuses[*].state.waiting}"
        proofs.append(_evidence.of_pod(pod, waiting.state.waiting.message or waiting.state.waiting.reason, path))
    else:
        why = say("image-or-start-failure.starting")
    told = [one for one in events if one.reason in _START_EVENTS]
    if told:
        last = max(told, key=lambda one: str(parse_time(one.seen_at)))
        proofs.append(_evidence.of_event(last))
        why = why if waiting else last.message
    proofs = proofs or [_evidence.of_pod(pod, pod.spec.node_name, "{.spec.nodeName}")]
    return _start_failure(pod, say, say("image-or-start-failure.claim", node=pod.spec.node_name, why=why), proofs)


def _start_failure(pod: Pod, say: Texts, claim: str, proofs: list[Evidence]) -> Finding:
    return Finding(
        code="image-or-start-failure",
        claim=one_line(claim, 400),
        severity="warning",
        confidence="confirmed",
        scope=Scope(nodes=(pod.spec.node_name,) if pod.spec.node_name else ()),
        evidence=tuple(proofs),
        next_actions=(
            NextAction(say("image-or-start-failure.describe"), f"kubectl -n {pod.namespace} describe pod {pod.name}"),
        ),
    )


def _finding(pod: Pod, say: Texts, code: str, proof: Evidence, **values: str) -> Finding:
    node = pod.spec.node_name
    return Finding(
        code=code,
        claim=say(f"{code}.claim", pod=f"{pod.namespace}/{pod.name}", **values),
        severity="info",
        confidence="confirmed",
        scope=Scope(nodes=(node,) if node else ()),
        evidence=(proof,),
    )
