"""GPU reasons for which a container of a placed pod was not started."""

from collections.abc import Sequence
from datetime import UTC, datetime

from bot.hami.signatures import Hit
from bot.hami.version import Version
from bot.kube.models import Event, Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding
from bot.texts import Text
from playbooks.rules.common.containers import in_trouble, statuses
from playbooks.rules.common.signature_findings import in_events, in_messages, signed

_CONTAINER, _SANDBOX = "Failed", "FailedCreatePodSandBox"
"""kubelet's events of a container or a sandbox that the runtime did not make; `BackOff` never says why (HAMi#1106)."""
_AFTER_SANDBOX = ("Pulling", "Pulled", "Created", "Started")
_NEVER = datetime.min.replace(tzinfo=UTC)


def start_faults(pod: Pod, events: Sequence[Event], version: Version | None, now: datetime) -> list[Finding]:
    """What the container runtime said of a start that failed, where a signature knows the words.

    A container that runs again says no more what is wrong now, however its last start ended.
    """
    halted = [status for status in statuses(pod) if in_trouble(status, now)]
    found = in_messages(pod, halted, version)
    found += [(hit, proof, "") for hit, proof in _of_events(pod, events, version, halted=bool(halted))]
    if not found:
        return []
    hit, _, container = found[0]
    proofs = [proof for other, proof, _ in found if other.signature.code == hit.signature.code]
    node = pod.spec.node_name
    key = "start-fault.claim" if container else "start-fault.pod"
    claim = Text(key, container=container, node=node or "?", means=hit.signature.means)
    return [signed(hit, proofs, claim, (node,) if node else ())]


def _of_events(
    pod: Pod, events: Sequence[Event], version: Version | None, *, halted: bool
) -> list[tuple[Hit, Evidence]]:
    """From events that nothing has overtaken: a container was started since, or the sandbox was made."""
    own = [event for event in events if event.involved_object.uid in ("", pod.metadata.uid)]
    started = [_time(status.state.running.started_at) for status in statuses(pod) if status.state.running]
    ready = pod.condition("PodReadyToStartContainers")
    made = [_time(ready.last_transition_time)] if ready and ready.status == "True" else []
    made += [_time(event.seen_at) for event in own if event.reason in _AFTER_SANDBOX]
    since = {_SANDBOX: max(started + made, default=_NEVER), _CONTAINER: max(started, default=_NEVER)}
    wanted = (_SANDBOX, _CONTAINER) if halted else (_SANDBOX,)
    return in_events(
        (event for event in own if event.reason in wanted and _time(event.seen_at) >= since[event.reason]), version
    )


def _time(text: str | None) -> datetime:
    return parse_time(text) or _NEVER
