"""What goes wrong inside a GPU container: by its own log first, then by what the API shows of it."""

from collections.abc import Sequence
from datetime import datetime

from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.pods.allocations import Allocation, counted_allocations, is_finished
from bot.hami.pods.allocations import given as allocated
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import ContainerStatus, Pod
from bot.report import Finding, Gap, gap
from bot.texts import Text
from playbooks.gather.placed_pod import PlacedPod
from playbooks.rules.common.containers import GpuContainers, gpu_containers, in_trouble, statuses
from playbooks.rules.nodes.gpu_faults import reported
from playbooks.rules.placed.container_log_faults import GivenGpus, own_log_faults
from playbooks.rules.placed.hami_core_version import library_of, unmeasured, with_library, with_paths
from playbooks.rules.placed.limit_not_enforced import limits_that_cannot_hold
from playbooks.rules.placed.limit_remarks import Remark, entry_remarks, limit_remarks
from playbooks.rules.placed.segfault import segfaults
from playbooks.rules.placed.wrong_chip import other_chip
from playbooks.rules.waiting import volcano

_KEEPS_SUFFIX = Version(2, 10, 0)
"""As this version reads it, the suffix `[template-slot]` of a MIG instance stays on its uuid."""
_SIGNS = ("hami-core-crash", "limit-not-enforced")
_TELLS_ITSELF = ("OOMKilled", "StartError", "ContainerCannotRun", "Completed")
"""Ends of which the container's log says no more."""


def inside_faults(pod: Pod, placed: PlacedPod, now: datetime) -> list[Finding]:
    """The fault that explains most; empty for a container of which nothing bad is known."""
    given = GpuContainers(gpu_containers(pod, placed.install.config), _shares(pod))
    if faults := own_log_faults(pod, placed.own_logs or (), _gpus(pod, given, placed), now):
        return [_of_library(finding, placed) for finding in faults]
    if any(in_trouble(status, now) for status in statuses(pod)):
        crashed = [_of_library(segfault, placed) for segfault in segfaults(pod, given, placed.side.plugin_pods, now)]
        return crashed or _on_a_faulty_gpu(pod, given, placed, now)
    return limits_that_cannot_hold(pod, given) if _is_limited(given, placed) else []


def _gpus(pod: Pod, given: GpuContainers, placed: PlacedPod) -> GivenGpus:
    count = placed.install.config.gpus.count
    counted = any(count in ((one.resources and one.resources.limits) or ()) for one in given.containers)
    limits = [share.memory_mib for share in given.shares] if _is_limited(given, placed) else []
    has_any = counted or allocated(pod.metadata) is not None or bool(volcano.limited_containers(pod))
    return GivenGpus(has_any, given.cores, limits)


def _of_library(finding: Finding, placed: PlacedPod) -> Finding:
    plugins = placed.side.plugin_pods
    if finding.code == "hami-core-missing":
        return with_paths(finding, plugins)
    depends = finding.code in ("hami-core-crash", "hami-core-hang")
    return with_library(finding, library_of(plugins)) if depends else finding


def remarks_of(pod: Pod, placed: PlacedPod) -> list[Remark]:
    """What a user of a sound running pod may take for a fault; nothing of one whose GPUs are whole."""
    if chips := other_chip(pod, placed.side, placed.install.config):
        return chips
    plugins = placed.side.plugin_pods
    if vgpus := volcano.limited_containers(pod):
        return limit_remarks(pod, GpuContainers(vgpus, ()), None, plugins)
    mig = {card.uuid for card in _registered(placed) if card.mode == "mig"}
    shares = [share for share in _shares(pod) if share.uuid not in mig]
    given = GpuContainers(gpu_containers(pod, placed.install.config), shares)
    if not shares or not _is_limited(given, placed):
        return []
    seen = placed.install.install.version
    return [
        *unmeasured(plugins),
        *limit_remarks(pod, given, _sharers(pod, given, placed), plugins),
        *entry_remarks(pod, seen.version if seen else None),
    ]


def _sharers(pod: Pod, given: GpuContainers, placed: PlacedPod) -> list[Pod] | None:
    """The other pods on its GPUs; None where they could not be read."""
    mine, pods = {share.uuid for share in given.shares}, placed.side.pods
    if isinstance(pods, Gap):
        return None
    others = (other for other in pods if other.metadata.uid != pod.metadata.uid and not is_finished(other))
    return [other for other in others if mine & {share.uuid for share in _shares(other)}]


def unread_log(pod: Pod, placed: PlacedPod, findings: Sequence[Finding], now: datetime) -> list[Gap]:
    """That a GPU container's log was not read, where it could tell more: the container runs, keeps ending, or shows
    other signs.
    """
    names = {container.name for container in gpu_containers(pod, placed.install.config)}
    asking = [status for status in statuses(pod) if status.name in names]
    ran = any(status.state.running or (in_trouble(status, now) and _ran(status)) for status in asking)
    if not ran and not any(finding.code in _SIGNS for finding in findings):
        return []
    if placed.own_logs is None:
        return [gap("container log", Text("gap.own-log"), Text("gap.own-log-hint"))]
    return list(placed.own_log_gaps)


def _on_a_faulty_gpu(pod: Pod, given: GpuContainers, placed: PlacedPod, now: datetime) -> list[Finding]:
    """What another program reports of the node's GPUs, where a GPU container ends for no other known reason."""
    names = {container.name for container in given.containers}
    ended = any(status.name in names and in_trouble(status, now) and _ran(status) for status in statuses(pod))
    cause = reported(placed.side.node) if ended and not isinstance(placed.side.node, Gap) else None
    return [cause._replace(confidence="suspected").told()] if cause else []


def _ran(status: ContainerStatus) -> bool:
    ended = status.state.terminated or status.last_state.terminated
    return ended is not None and ended.reason not in _TELLS_ITSELF


def _shares(pod: Pod) -> list[Allocation]:
    """What HAMi gave the pod of GPUs whose limits HAMi-core keeps: a MIG instance keeps its own."""
    if pod.metadata.annotation(FIRST.names.mode) == "mig":
        return []
    counted = counted_allocations(pod.metadata, _KEEPS_SUFFIX)
    return [
        allocation
        for container in counted or ()
        for allocation in container
        if not allocation.uuid.startswith("MIG-") and "[" not in allocation.uuid
    ]


def _is_limited(given: GpuContainers, placed: PlacedPod) -> bool:
    """Whether the pod has less than whole GPUs: a whole one needs no limit."""
    if given.cores or not given.shares:
        return given.cores
    gpus = placed.install.config.gpus
    size = {card.uuid: 0 if card.mode == "mig" else card.memory_mib for card in _registered(placed)}
    if all(share.uuid in size for share in given.shares):
        return any(share.memory_mib < size[share.uuid] for share in given.shares)
    asked = {name for container in given.containers if container.resources for name in container.resources.limits or ()}
    return not asked.isdisjoint({gpus.memory, gpus.percentage})


def _registered(placed: PlacedPod) -> list[Card]:
    """The node's GPUs; empty also where the node could not be read."""
    node = placed.side.node
    read = [] if isinstance(node, Gap) else read_registrations(node)
    return [card for registration in read if isinstance(registration, Registration) for card in registration.cards]
