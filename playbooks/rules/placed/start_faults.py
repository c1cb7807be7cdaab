"""GPU reasons for which a container of a placed pod was not started."""

from collections.abc import Iterator
from datetime import UTC, datetime

from bot.hami.signatures import Hit
from bot.kube.times import parse_time
from bot.report import Evidence, Finding
from bot.texts import Text
from playbooks.rule import rule
from playbooks.rules.common.containers import in_trouble, statuses
from playbooks.rules.common.signature_findings import in_events, in_messages, signed
from playbooks.scenes.placed_pod import PlacedScene

_CONTAINER, _SANDBOX = "Failed", "FailedCreatePodSandBox"
"""kubelet's events of a container or a sandbox that the runtime did not make; `BackOff` never says why (HAMi#1106)."""
_AFTER_SANDBOX = ("Pulling", "Pulled", "Created", "Started")
_NEVER = datetime.min.replace(tzinfo=UTC)


@rule("gpu-start-failure", "gpu-runtime-missing", "driver-not-loaded", "device-plugin-crash", "card-fault")
def start_fault(scene: PlacedScene) -> Iterator[Finding]:
    """The container runtime said of a start that failed what a signature knows.

    A container that runs again says no more what is wrong now, however its last start ended.
    """
    pod = scene.pod
    halted = [status for status in statuses(pod) if in_trouble(status, scene.now)]
    found = in_messages(pod, halted, scene.version)
    found += [(hit, proof, "") for hit, proof in _of_events(scene, halted=bool(halted))]
    if not found:
        return
    hit, _, container = found[0]
    proofs = [proof for other, proof, _ in found if other.signature.code == hit.signature.code]
    node = pod.spec.node_name
    key = "start-fault.claim" if container else "start-fault.pod"
    claim = Text(key, container=container, node=node or "?", means=hit.signature.means)
    yield signed(hit, proofs, claim, (node,) if node else ())


def _of_events(scene: PlacedScene, *, halted: bool) -> list[tuple[Hit, Evidence]]:
    """From events that nothing has overtaken: a container was started since, or the sandbox was made."""
    pod = scene.pod
    started = [_time(status.state.running.started_at) for status in statuses(pod) if status.state.running]
    ready = pod.condition("PodReadyToStartContainers")
    made = [_time(ready.last_transition_time)] if ready and ready.status == "True" else []
    made += [_time(event.seen_at) for event in scene.events if event.reason in _AFTER_SANDBOX]
    since = {_SANDBOX: max(started + made, default=_NEVER), _CONTAINER: max(started, default=_NEVER)}
    wanted = (_SANDBOX, _CONTAINER) if halted else (_SANDBOX,)
    said = (event for event in scene.events if event.reason in wanted and _time(event.seen_at) >= since[event.reason])
    return in_events(said, scene.version)


def _time(text: str | None) -> datetime:
    return parse_time(text) or _NEVER
