"""What goes wrong inside a GPU container: what it was given, and what of its node or its log would tell."""

from collections.abc import Collection, Iterator, Sequence

from bot.hami.pods.allocations import Allocation, counted_allocations, is_finished
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import ContainerStatus, Pod
from bot.report import Finding, Gap, gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl_pod, let_read_logs
from playbooks.rule import rule
from playbooks.rules.common.containers import GpuContainers, gpu_containers, in_trouble, statuses
from playbooks.rules.common.findings import finding
from playbooks.rules.nodes.gpu_faults import reported
from playbooks.scenes.placed_pod import PlacedScene

_KEEPS_SUFFIX = Version(2, 10, 0)
"""As this version reads it, the suffix `[template-slot]` of a MIG instance stays on its uuid."""
_SIGNS = {"hami-core-crash", "limit-not-enforced"}
_VISIBLE, _NONE = "CUDA_VISIBLE_DEVICES", ("", "-1", "none")
_TELLS_ITSELF = ("OOMKilled", "StartError", "ContainerCannotRun", "Completed")
"""Ends of which the container's log says no more."""


def given(scene: PlacedScene) -> GpuContainers:
    """The pod's GPU containers, and what HAMi gave it."""
    return GpuContainers(gpu_containers(scene.pod, scene.config), shares(scene.pod))


def shares(pod: Pod) -> list[Allocation]:
    """What HAMi gave the pod of GPUs whose limits HAMi-core keeps: a MIG instance keeps its own."""
    if pod.metadata.annotation(FIRST.names.mode) == "mig":
        return []
    counted = counted_allocations(pod.metadata, _KEEPS_SUFFIX)
    return [
        allocation
        for allocations in counted or ()
        for allocation in allocations
        if not allocation.uuid.startswith("MIG-") and "[" not in allocation.uuid
    ]


def is_limited(scene: PlacedScene, held: GpuContainers) -> bool:
    """Whether the pod holds less than whole GPUs: a whole one needs no limit."""
    if held.cores or not held.shares:
        return held.cores
    gpus = scene.config.gpus
    size = {card.uuid: 0 if card.mode == "mig" else card.memory_mib for card in scene.cards}
    if all(share.uuid in size for share in held.shares):
        return any(share.memory_mib < size[share.uuid] for share in held.shares)
    asked = {name for container in held.containers if container.resources for name in container.resources.limits or ()}
    return not asked.isdisjoint({gpus.memory, gpus.percentage})


def sharers(scene: PlacedScene, held: GpuContainers) -> list[Pod] | None:
    """The other pods on its GPUs; None where they could not be read."""
    mine, pods = {share.uuid for share in held.shares}, scene.side.pods if scene.side else ()
    if isinstance(pods, Gap):
        return None
    others = (other for other in pods if other.metadata.uid != scene.pod.metadata.uid and not is_finished(other))
    return [other for other in others if mine & {share.uuid for share in shares(other)}]


def is_troubled(scene: PlacedScene) -> bool:
    """Whether a container of the pod does not run, or keeps ending."""
    return any(in_trouble(status, scene.now) for status in statuses(scene.pod))


@rule("card-fault", reads=("install", "node"))
def on_a_faulty_gpu(scene: PlacedScene) -> Iterator[Finding]:
    """A GPU container ends for no other known reason where another program reports a fault of the node's GPUs."""
    names = {container.name for container in scene.once(given).containers}
    ended = any(
        status.name in names and in_trouble(status, scene.now) and _ran(status) for status in statuses(scene.pod)
    )
    if ended and scene.node is not None and (cause := reported(scene.node, "suspected")):
        yield cause.told(of=scene.install)


@rule("gpu-start-failure", reads=("install",))
def hidden_from_cuda(scene: PlacedScene) -> Iterator[Finding]:
    """A GPU container that fails hides every GPU from CUDA by its own environment."""
    failing = {status.name for status in statuses(scene.pod) if in_trouble(status, scene.now) and _ran(status)}
    for container in scene.once(given).containers:
        hides = [one for one in container.env or () if one.name == _VISIBLE and one.value in _NONE]
        if container.name in failing and hides and hides[0].value_from is None:
            values = {"container": container.name, "variable": f'"{_VISIBLE}"', "value": f'"{hides[0].value}"'}
            claim = Text("gpu-start-failure.hidden", **values)
            proofs = [quotes.of_pod(scene.pod, _VISIBLE, "{.spec.containers[*].env}")]
            fix = step(Text("gpu-start-failure.unset", **values), kubectl_pod(scene.pod, "get", "-o", "yaml"))
            yield finding(
                "gpu-start-failure", claim, "confirmed", (), proofs, severity="warning", actions=[fix], of=scene.install
            )


def unread_log(scene: PlacedScene, told: Collection[str]) -> Sequence[Gap]:
    """Says that a GPU container's log was not read, where it could tell more: the container runs, keeps ending, or what
    was `told`, by its codes, are other signs.
    """
    names = {container.name for container in scene.once(given).containers}
    asking = [status for status in statuses(scene.pod) if status.name in names]
    ran = any(status.state.running or (in_trouble(status, scene.now) and _ran(status)) for status in asking)
    if scene.seen is None or (not ran and _SIGNS.isdisjoint(told)):
        return []
    if scene.own_logs is None:
        allow = Text("gap.own-log-hint", role=let_read_logs(scene.pod.namespace))
        return [gap("container log", Text("gap.own-log"), allow)]
    return scene.own_log_gaps


def _ran(status: ContainerStatus) -> bool:
    ended = status.state.terminated or status.last_state.terminated
    return ended is not None and ended.reason not in _TELLS_ITSELF
