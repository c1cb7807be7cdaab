"""What is wrong with a pod that has its node, the cause first: the node's GPU side, the start, then the container."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from bot.hami.pods.allocations import given
from bot.kube.models import Event, Pod
from bot.report import Finding
from playbooks import quotes
from playbooks.gather.placed_pod import PlacedPod
from playbooks.rules.admission.unread_request import unread_containers
from playbooks.rules.common.containers import statuses
from playbooks.rules.placed.container_faults import inside_faults, remarks_of
from playbooks.rules.placed.lifecycle import past_scheduling
from playbooks.rules.placed.limit_remarks import with_remarks
from playbooks.rules.placed.node_down import node_down
from playbooks.rules.placed.refused_by_node import bound_by_hami
from playbooks.rules.placed.refused_devices import refused_causes, refused_more
from playbooks.rules.placed.refused_without_hami import without_hami
from playbooks.rules.placed.start_faults import start_faults

_ASKS_NOTHING = "does not request any resource"
"""HAMi's event of a pod that its extender lets pass; 2.10 logs it only."""


def after_scheduling(pod: Pod, events: Sequence[Event], placed: PlacedPod | None, now: datetime) -> list[Finding]:
    """The causes, then what they led to. Empty when the pod still waits for a node."""
    past = past_scheduling(pod, events, now)
    if past is None or past.code == "succeeded":
        return [past] if past else []
    install = placed.install.install.version if placed else None
    version = install.version if install else None
    stripped = bool(bound_by_hami(pod, events))
    causes = start_faults(pod, events, version, now)
    if placed is not None and past.code == "allocate-failed":
        causes += refused_causes(past, pod, placed, now)
        past = refused_more(past, pod, placed.side, stripped=stripped)
    elif placed is not None and not causes and past.code != "terminating":
        causes = inside_faults(pod, placed, now)
    down = node_down(pod, placed.side.node, events) if placed else []
    if past.code == "running" and causes:
        return [*down, *causes]
    if past.code == "running" and placed is not None:
        past = with_remarks(past, remarks_of(pod, placed))
    first = without_hami(pod, past, placed, now) if placed and not stripped else []
    unread = _unread(pod, past, events, placed)
    if past.code == "image-or-start-failure" and not _began(pod):
        return [*down, *first, *causes, past, *unread]
    return [*down, *(first or unread), *causes, past]


def _began(pod: Pod) -> bool:
    """Whether any of its containers was started: what it lacks then is why it fails."""
    return any(
        status.state.running or status.state.terminated or status.last_state.terminated for status in statuses(pod)
    )


def _unread(pod: Pod, past: Finding, events: Sequence[Event], placed: PlacedPod | None) -> list[Finding]:
    """What the pod asked for and HAMi read no request in, of a pod that HAMi's scheduler placed and gave nothing."""
    if placed is None or past.code == "terminating" or given(pod.metadata):
        return []
    install = placed.install.install
    if pod.spec.scheduler_name != install.scheduler_name:
        return []
    version = install.version.version if install.version else None
    found = unread_containers(pod, placed.install.config, version)
    said = [quotes.of_event(event) for event in events if _ASKS_NOTHING in event.message and _is_of(event, pod)][-1:]
    return [structs.replace(one, evidence=(*one.evidence, *said)) for one in found]


def _is_of(event: Event, pod: Pod) -> bool:
    return event.involved_object.uid in ("", pod.metadata.uid)
