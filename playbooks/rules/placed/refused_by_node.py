"""A pod whose node refused its devices after Bind, in kubelet's or the device plugin's own words."""

from collections.abc import Sequence

from bot.hami.pods.allocations import BIND_PHASE_KEY, NODE_KEY, reserved_node
from bot.hami.pods.request_parsing import extended_resources
from bot.hami.vendors import BY_WORD, FIRST, vendor_of_resource
from bot.hami.vendors.vendor import Vendor
from bot.kube.models import Event, Pod
from bot.report import Evidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rules.common.findings import finding
from playbooks.rules.common.prose import plugin_pods_command

_ALLOCATE_REASON = "UnexpectedAdmissionError"
_OUT_OF = "OutOf"
_BOUND = "BindingSucceed"
"""HAMi's event of a Bind; no other scheduler writes it. Events expire; HAMi also leaves a label of the node's name."""


def _vendor_of(pod: Pod) -> Vendor:
    """Whose devices the pod asks for, by the usual names of their resources."""
    found = (vendor_of_resource(name) for name in extended_resources(pod))
    return next((BY_WORD[of[0].word] for of in found if of), FIRST)


def bound_by_hami(pod: Pod, events: Sequence[Event]) -> list[Evidence]:
    """What shows that HAMi bound the pod to its node although the annotations that Bind leaves are gone."""
    if reserved_node(pod.metadata) or not pod.spec.node_name:
        return []
    node = pod.spec.node_name
    own = [event for event in events if event.involved_object.uid in ("", pod.metadata.uid)]
    bound = [quotes.of_event(event) for event in own if event.reason == _BOUND and f"[{node}]" in event.message][-1:]
    return bound or ([quotes.of_pod_label(pod, NODE_KEY)] if pod.metadata.label(NODE_KEY) == node else [])


def allocate_failed(pod: Pod, events: Sequence[Event]) -> Finding | None:
    """The refusal, or None where there was none."""
    proofs = _refusals_on_the_node(pod, events)
    if not proofs:
        return None
    node = pod.spec.node_name
    why = _device_error(proofs[0].quote) if proofs[0].quote != "failed" else Text("allocate-failed.no-words")
    placed, stripped = reserved_node(pod.metadata) != "", bound_by_hami(pod, events)
    scheduler = pod.spec.scheduler_name or "?"
    actions = [step(Text("allocate-failed.plugin-log"), plugin_pods_command(node, _vendor_of(pod)))]
    if stripped:
        look = kubectl_pod(pod, "get", "--show-managed-fields", "-o", "yaml")
        actions = [step(Text("allocate-failed.who-removes"), look)]
    elif not placed:
        look = kubectl_pod(pod, "get", "-o", "jsonpath={.spec.schedulerName}")
        actions.insert(0, step(Text("allocate-failed.scheduler"), look))
    recreate = kubectl_pod(pod, "delete")
    actions.append(step(Text("allocate-failed.recreate"), recreate, changes_cluster=True))
    key = "allocate-failed.stripped" if stripped else "allocate-failed.unplaced"
    return finding(
        "allocate-failed",
        Text("allocate-failed.claim" if placed else key, node=node or "?", why=why, scheduler=scheduler),
        "confirmed",
        (node,) if node else (),
        (*proofs, *stripped),
        severity="warning",
        actions=tuple(actions),
    )


def _refusals_on_the_node(pod: Pod, events: Sequence[Event]) -> list[Evidence]:
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
