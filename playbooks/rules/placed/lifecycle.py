"""Pods that are past scheduling: running, finished, failed, or waiting to start."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from bot.finding_codes import Code
from bot.hami.pods.allocations import BIND_PHASE_KEY, reserved_node
from bot.hami.pods.request_parsing import extended_resources
from bot.hami.vendors import BY_WORD, FIRST, vendor_of_resource
from bot.hami.vendors.vendor import Vendor
from bot.kube.models import ContainerStatus, Event, Pod
from bot.kube.recording.redact import NEVER_STARTED
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, NextAction, Severity
from bot.texts import Texts
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rules.common.containers import between_restarts, path_in, statuses, stuck
from playbooks.rules.common.findings import finding
from playbooks.rules.common.prose import plugin_pods_command

_ALLOCATE_REASON = "UnexpectedAdmissionError"
_OUT_OF = "OutOf"
_START_EVENTS = (
    "FailedMount",
    "FailedAttachVolume",
    "FailedPrepareDynamicResources",
    "FailedCreatePodSandBox",
    "Failed",
    "BackOff",
    "InspectFailed",
)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STUCK = timedelta(minutes=2)
"""How long a start without complaint, or a deletion past its deadline, is taken as normal."""


def past_scheduling(pod: Pod, events: Iterable[Event], now: datetime, say: Texts) -> Finding | None:
    """What a pod that needs no scheduling is doing; None when it still waits for a node."""
    own = [event for event in events if event.involved_object.uid in ("", pod.metadata.uid) and event.message.strip()]
    if pod.status.phase == "Succeeded":
        return _finding(pod, say, "succeeded", quotes.of_pod(pod, "Succeeded", "{.status.phase}"))
    if (refused := _allocate_failed(pod, own, say)) is not None:
        return refused
    if pod.status.phase == "Failed":
        return _failed(pod, say)
    if pod.metadata.deletion_timestamp:
        return _terminating(pod, now, say)
    if not pod.spec.node_name:
        return None
    crashing = any(stuck(status) or between_restarts(status, now) for status in pod.status.container_statuses or ())
    if pod.status.phase == "Running" and not crashing:
        return _finding(pod, say, "running", quotes.of_pod(pod, "Running", "{.status.phase}"), node=pod.spec.node_name)
    return _not_started(pod, own, now, say)


def _terminating(pod: Pod, now: datetime, say: Texts) -> Finding:
    """Being deleted. The API's deletionTimestamp is when the pod should be gone."""
    text = pod.metadata.deletion_timestamp or ""
    deadline = parse_time(text)
    late = deadline is not None and now - deadline > _STUCK
    key = "late" if late else "claim" if pod.spec.node_name else "unscheduled"
    proofs = [quotes.of_pod(pod, text, "{.metadata.deletionTimestamp}")]
    describe = NextAction(
        say("terminating.finalizers"),
        kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.finalizers}"),
    )
    return finding(
        "terminating",
        say(
            f"terminating.{key}",
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


def _vendor_of(pod: Pod) -> Vendor:
    """Whose devices the pod asks for, by the usual names of their resources."""
    found = (vendor_of_resource(name) for name in extended_resources(pod))
    return next((BY_WORD[of[0].word] for of in found if of), FIRST)


def _allocate_failed(pod: Pod, events: list[Event], say: Texts) -> Finding | None:
    proofs = _refusals_on_the_node(pod, events)
    if not proofs:
        return None
    node = pod.spec.node_name
    why = _device_error(proofs[0].quote) if proofs[0].quote != "failed" else say("allocate-failed.no-words")
    placed = reserved_node(pod.metadata) != ""
    scheduler = pod.spec.scheduler_name or "?"
    actions = [NextAction(say("allocate-failed.plugin-log"), plugin_pods_command(node, _vendor_of(pod)))]
    if not placed:
        look = kubectl_pod(pod, "get", "-o", "jsonpath={.spec.schedulerName}")
        actions.insert(0, NextAction(say("allocate-failed.scheduler"), look))
    recreate = kubectl_pod(pod, "delete")
    actions.append(NextAction(say("allocate-failed.recreate"), recreate, changes_cluster=True))
    key = "allocate-failed.claim" if placed else "allocate-failed.unplaced"
    return finding(
        "allocate-failed",
        say(key, node=node or "?", why=why, scheduler=scheduler),
        "confirmed",
        (node,) if node else (),
        tuple(proofs),
        severity="warning",
        actions=tuple(actions),
    )


def _refusals_on_the_node(pod: Pod, events: list[Event]) -> list[Evidence]:
    """What kubelet or the device plugin said when it refused the pod's devices after Bind."""
    proofs: list[Evidence] = []
    reason, message = pod.status.reason, pod.status.message
    devices = reason.startswith(_OUT_OF) and "/" in reason
    if reason == _ALLOCATE_REASON or devices or "Allocate failed" in message:
        proofs.append(quotes.of_pod(pod, message if message.strip() else reason, "{.status.message}"))
    proofs += [quotes.of_event(event) for event in events if event.reason == _ALLOCATE_REASON][-1:]
    if pod.metadata.annotation(BIND_PHASE_KEY) == "failed" and pod.status.phase != "Running":
        proofs.append(quotes.of_pod_annotation(pod, BIND_PHASE_KEY))
    return proofs


def _device_error(message: str) -> str:
    """The device plugin's own words, without what kubelet and gRPC put around them."""
    for mark in (" desc = ", "Allocate failed due to ", "Pod was rejected: "):
        if mark in message:
            return message.split(mark, 1)[1].removesuffix(", which is unexpected")
    return message


def _failed(pod: Pod, say: Texts) -> Finding:
    ended = next(
        (
            status
            for status in pod.status.container_statuses or ()
            if status.state.terminated and status.state.terminated.exit_code
        ),
        None,
    )
    if ended and ended.state.terminated:
        why = say("image-or-start-failure.exit", container=ended.name, code=ended.state.terminated.exit_code)
        end, field = ended.state.terminated, "reason"
        if end.reason in NEVER_STARTED and end.message.strip():
            field, why = "message", f"{why} {end.reason} ({quotes.shown(end.message)})"
        quote = end.message if field == "message" else end.reason or ended.name
        path = f"{{.status.containerStatuses[*].state.terminated.{field}}}"
    else:
        why = quotes.shown(pod.status.message) or pod.status.reason or say("image-or-start-failure.no-reason")
        quote, path = pod.status.message or pod.status.reason or "Failed", "{.status}"
    return _start_failure(pod, say, say("image-or-start-failure.failed", why=why), [quotes.of_pod(pod, quote, path)])


def _not_started(pod: Pod, events: list[Event], now: datetime, say: Texts) -> Finding:
    halted = next((status for status in statuses(pod) if stuck(status) or between_restarts(status, now)), None)
    started = [event for event in events if event.reason in _START_EVENTS]
    last = max(started, key=lambda event: parse_time(event.seen_at) or _LONG_AGO, default=None)
    proofs: list[Evidence] = []
    crashed = False
    if halted is not None:
        why, proofs, crashed = _why_stuck(pod, halted, say)
    elif last is not None:
        why = quotes.shown(last.message)
    elif pod.metadata.annotation(BIND_PHASE_KEY) == "allocating":
        why = say("image-or-start-failure.allocating")
        proofs.append(quotes.of_pod_annotation(pod, BIND_PHASE_KEY))
    else:
        why = say("image-or-start-failure.starting")
    if last is not None:
        proofs.append(quotes.of_event(last))
    key = "image-or-start-failure.crashing" if crashed else "image-or-start-failure.claim"
    claim = say(key, node=pod.spec.node_name, why=why)
    bound = pod.condition("PodScheduled")
    since = parse_time(bound.last_transition_time if bound else None) or parse_time(pod.metadata.creation_timestamp)
    calm = halted is None and last is None and since is not None and now - since <= _STUCK
    proofs = proofs or [quotes.of_pod(pod, pod.spec.node_name, "{.spec.nodeName}")]
    return _start_failure(pod, say, claim, proofs, "info" if calm else "warning")


def _why_stuck(pod: Pod, halted: ContainerStatus, say: Texts) -> tuple[str, list[Evidence], bool]:
    """Why a container does not start; the last exit code where it did start, which is then told by the third."""
    waiting, ended = halted.state.waiting, halted.last_state.terminated
    proofs: list[Evidence] = []
    if waiting is not None:
        path = path_in(pod, halted.name, "state.waiting")
        proofs = [quotes.of_pod(pod, waiting.message if waiting.message.strip() else waiting.reason, path)]
    if ended is None:
        return f"{waiting.reason} {quotes.shown(waiting.message)}".strip() if waiting else "", proofs, False
    exited = say("image-or-start-failure.exit", container=halted.name, code=ended.exit_code)
    if ended.reason in NEVER_STARTED and ended.message.strip():
        path = path_in(pod, halted.name, "lastState.terminated.message")
        proofs.insert(0, quotes.of_pod(pod, ended.message, path))
        return f"{exited} {ended.reason} ({quotes.shown(ended.message)})", proofs, True
    path = path_in(pod, halted.name, "lastState.terminated")
    proofs.insert(0, quotes.of_pod(pod, ended.reason or str(ended.exit_code), path))
    why = waiting.reason if waiting else say("image-or-start-failure.restarted", count=halted.restart_count)
    return f"{exited} {ended.reason} ({why})".replace("  ", " "), proofs, True


def _start_failure(pod: Pod, say: Texts, claim: str, proofs: list[Evidence], severity: Severity = "warning") -> Finding:
    return finding(
        "image-or-start-failure",
        claim,
        "confirmed",
        (pod.spec.node_name,) if pod.spec.node_name else (),
        tuple(proofs),
        severity=severity,
        actions=(
            NextAction(
                say("image-or-start-failure.describe"),
                kubectl_pod(pod, "describe"),
            ),
        ),
    )


def _finding(pod: Pod, say: Texts, code: Code, proof: Evidence, **values: str) -> Finding:
    node = pod.spec.node_name
    return finding(
        code,
        say(f"{code}.claim", pod=f"{pod.namespace}/{pod.name}", **values),
        "confirmed",
        (node,) if node else (),
        (proof,),
        severity="info",
    )
