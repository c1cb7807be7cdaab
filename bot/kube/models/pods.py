"""Pods as a scheduler and kubelet see them."""

from typing import Any

from bot.kube.models.base import Condition, LabelSelector, Model, Quantity, Resource, SelectorRequirement


class ResourceRequirements(Model, frozen=True):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class SecurityContext(Model, frozen=True):
    privileged: bool | None = None


class EnvVar(Model, frozen=True):
    """`value` is empty also where the variable comes from elsewhere (`value_from`), as from a ConfigMap."""

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
    """A claim for devices that kube-scheduler and a DRA driver give, not HAMi's scheduler.

    It names a ResourceClaim, or a template that one is made from for this pod.
    """

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class HostPath(Model, frozen=True):
    path: str = ""


class Volume(Model, frozen=True):
    name: str = ""
    host_path: HostPath | None = None


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


class PodResourceClaimStatus(Model, frozen=True):
    """The ResourceClaim that was made from the template of the claim of that `name`."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Model, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class Pod(Resource, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None when the status has none."""
        return next((condition for condition in self.status.conditions or () if condition.type == kind), None)
