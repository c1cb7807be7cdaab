"""Pods as schedulers and kubelet see them, and smaller models of pods for lists of thousands, to save memory."""

from datetime import datetime
from typing import Any

import msgspec

from bot.kube.models.base import (
    Condition,
    LabelSelector,
    Model,
    ObjectMeta,
    OwnerReference,
    Quantity,
    Resource,
    SelectorRequirement,
    keep,
    shared,
)
from bot.kube.times import parse_time


class ResourceRequirements(Model, frozen=True):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class SecurityContext(Model, frozen=True):
    privileged: bool | None = None


class EnvVar(Model, frozen=True):
    """A container's variable. `value` is empty where `value_from` is set, as from a ConfigMap."""

    name: str = ""
    value: str = ""
    value_from: dict[str, Any] | None = None


class VolumeMount(Model, frozen=True):
    name: str = ""
    mount_path: str = ""


class ContainerPort(Model, frozen=True):
    container_port: int = 0


class Container(Model, frozen=True):
    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class Toleration(Model, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class NodeSelectorTerm(Model, frozen=True):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(Model, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(Model, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(Model, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None


class PodAntiAffinity(Model, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class Affinity(Model, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class SchedulingGate(Model, frozen=True):
    name: str = ""


class PodResourceClaim(Model, frozen=True):
    """A pod's claim for devices of a DRA driver: it names a ResourceClaim, or a template for one of the pod's own."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class HostPath(Model, frozen=True):
    path: str = ""


class ConfigMapVolume(Model, frozen=True):
    name: str = ""


class Volume(Model, frozen=True):
    name: str = ""
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None


class PodSpec(Model, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] = []  # noqa: RUF012  # msgspec copies an empty list
    init_containers: list[Container] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    priority: int | None = None
    overhead: dict[str, Quantity] | None = None
    runtime_class_name: str = ""
    volumes: list[Volume] | None = None


class StateWaiting(Model, frozen=True):
    reason: str = ""
    message: str = ""


class StateRunning(Model, frozen=True):
    started_at: str | None = None


class StateTerminated(Model, frozen=True):
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Model, frozen=True):
    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Model, frozen=True):
    name: str = ""
    image: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Model, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodResourceClaim] | None = None
    """The ResourceClaims that were made from templates, by the names of the pod's claims."""


class Pod(Resource, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> Condition | None:
        """The pod's condition of type `kind`, None when the status has none."""
        return next((condition for condition in self.status.conditions or () if condition.type == kind), None)

    def container(self, name: str) -> ContainerStatus | None:
        """The status of the pod's container called `name`, None without one."""
        return next((status for status in self.status.container_statuses or () if status.name == name), None)

    @property
    def shown_status(self) -> str:
        """What holds the pod up in the words of kubectl's column STATUS (`CrashLoopBackOff`), else its phase."""
        if self.metadata.deletion_timestamp:
            return "Terminating"
        for prefix, containers in ("Init:", self.status.init_container_statuses), ("", self.status.container_statuses):
            states = [container.state for container in containers or ()]
            running = any(state.running for state in states)
            for state in states:
                if state.waiting and state.waiting.reason not in ("", "PodInitializing"):
                    return prefix + state.waiting.reason
                if state.terminated and (state.terminated.exit_code or not (prefix or running)):
                    return prefix + (state.terminated.reason or f"ExitCode:{state.terminated.exit_code}")
        return self.status.reason or self.status.phase

    @property
    def refusal(self) -> str:
        """Why the pod's scheduler found no node for the pod; empty where it found one, or has not tried."""
        told = self.condition("PodScheduled")
        return told.message if told is not None and told.status == "False" else ""

    def running_since(self, name: str) -> datetime | None:
        """When the running container `name` started; None when it does not run."""
        status = self.container(name)
        return parse_time(status.state.running.started_at) if status and status.state.running else None


class HolderSpec(Model, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    init_containers: list[Container] | None = None

    def __post_init__(self) -> None:
        keep(self, "node_name", shared(self.node_name))
        keep(self, "scheduler_name", shared(self.scheduler_name))


class ListedState(Model, frozen=True):
    """A container's state in lists of thousands of pods, without the time since when it runs."""

    waiting: StateWaiting | None = None
    terminated: StateTerminated | None = None


class ListedContainer(Model, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ListedState = ListedState()
    last_state: ListedState = ListedState()

    @property
    def end(self) -> StateTerminated | None:
        """How the container's process ended last; None where that is not known."""
        return self.state.terminated or self.last_state.terminated


class HolderStatus(Model, frozen=True):
    phase: str = ""
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ListedContainer] | None = None

    def __post_init__(self) -> None:
        """Keeps only containers whose process ended, to save memory: of thousands of pods they are few."""
        keep(self, "phase", shared(self.phase))
        if self.container_statuses:
            ended = [container for container in self.container_statuses if container.end]
            keep(self, "container_statuses", ended or None)


class Holder(Resource, frozen=True):
    """A pod with the few fields that adding up GPUs' shares needs, to save memory: a large cluster has thousands."""

    spec: HolderSpec = HolderSpec()
    status: HolderStatus = HolderStatus()


class DaemonPodSpec(Model, frozen=True):
    node_name: str = ""


class DaemonPodCondition(Model, frozen=True):
    type: str = ""
    status: str = ""


class DaemonPodStatus(Model, frozen=True):
    phase: str = ""
    reason: str = ""
    conditions: list[DaemonPodCondition] | None = None
    container_statuses: list[ListedContainer] | None = None

    def __post_init__(self) -> None:
        """Keeps only the condition Ready: the others would be a third of the memory of thousands of pods."""
        keep(self, "conditions", [condition for condition in self.conditions or () if condition.type == "Ready"])


class DaemonPodMeta(ObjectMeta, frozen=True):
    annotations: dict[str, str] | None = msgspec.field(default=None, name="(left out)")
    owner_references: list[OwnerReference] | None = msgspec.field(default=None, name="(left out too)")
    uid: str = msgspec.field(default="", name="(and this)")


class DaemonPod(Resource, frozen=True):
    """A pod of a DaemonSet, as a question about all nodes reads it: its node and its health."""

    metadata: DaemonPodMeta = DaemonPodMeta()
    spec: DaemonPodSpec = DaemonPodSpec()
    status: DaemonPodStatus = DaemonPodStatus()
