"""The API's own JSON, narrowed to the fields that some rule reads; everything else is skipped while decoding.

Because the shapes are the API's, `kubectl get … -o json` is a valid input, and what `record` writes holds nothing
that was never modelled. Times stay text: a rule that needs one parses it with `bot.kube.times`.
"""

from sys import intern
from typing import Generic, TypeVar

import msgspec


class Model(msgspec.Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """A narrow, immutable view of an API object; unknown fields are ignored."""


class OwnerReference(Model, frozen=True):
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Model, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def label(self, key: str) -> str | None:
        """The label's value, None when absent."""
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        """The annotation's value, None when absent."""
        return self.annotations.get(key) if self.annotations else None


_keep = msgspec.structs.force_setattr
"""Replaces a field while the object is made, and at no other time."""


class Resource(Model, frozen=True):
    """What every API object has."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace


# ------------------------------------------------------------------------------------------------ pods


Quantity = str | int | float


class ResourceRequirements(Model, frozen=True):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class SecurityContext(Model, frozen=True):
    privileged: bool | None = None


class Container(Model, frozen=True):
    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class Toleration(Model, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SelectorRequirement(Model, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Model, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


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


class PodSpec(Model, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    priority: int | None = None
    overhead: dict[str, Quantity] | None = None


class Condition(Model, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class StateWaiting(Model, frozen=True):
    reason: str = ""
    message: str = ""


class StateRunning(Model, frozen=True):
    started_at: str | None = None


class StateTerminated(Model, frozen=True):
    reason: str = ""
    message: str = ""
    exit_code: int = 0
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


class Pod(Resource, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None when the status has none."""
        return next((one for one in self.status.conditions or () if one.type == kind), None)


class HolderSpec(Model, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    init_containers: list[Container] | None = None


class HolderStatus(Model, frozen=True):
    phase: str = ""
    init_container_statuses: list[ContainerStatus] | None = None


class Holder(Resource, frozen=True):
    """A pod as the ledger reads it. A large cluster has thousands: a whole `Pod` each would be most of the memory."""

    spec: HolderSpec = HolderSpec()
    status: HolderStatus = HolderStatus()


class DaemonPodSpec(Model, frozen=True):
    node_name: str = ""


class DaemonPodCondition(Model, frozen=True):
    type: str = ""
    status: str = ""


class DaemonContainerState(Model, frozen=True):
    waiting: StateWaiting | None = None
    terminated: StateTerminated | None = None


class DaemonContainer(Model, frozen=True):
    restart_count: int = 0
    state: DaemonContainerState = DaemonContainerState()
    last_state: DaemonContainerState = DaemonContainerState()


class DaemonPodStatus(Model, frozen=True):
    phase: str = ""
    reason: str = ""
    conditions: list[DaemonPodCondition] | None = None
    container_statuses: list[DaemonContainer] | None = None

    def __post_init__(self) -> None:
        """Only the Ready condition stays: of thousands of pods the others would be a third of what they take."""
        _keep(self, "conditions", [one for one in self.conditions or () if one.type == "Ready"])


class DaemonPodMeta(ObjectMeta, frozen=True):
    annotations: dict[str, str] | None = msgspec.field(default=None, name="(left out)")
    owner_references: list[OwnerReference] | None = msgspec.field(default=None, name="(left out too)")
    uid: str = msgspec.field(default="", name="(and this)")

    def __post_init__(self) -> None:
        """All of a DaemonSet's pods have the same labels: their texts are kept once."""
        _keep(self, "labels", {key: intern(value) for key, value in (self.labels or {}).items()})


class DaemonPod(Resource, frozen=True):
    """A pod that every node has one of, as a sweep reads it: where it is and how it does."""

    metadata: DaemonPodMeta = DaemonPodMeta()
    spec: DaemonPodSpec = DaemonPodSpec()
    status: DaemonPodStatus = DaemonPodStatus()


# ------------------------------------------------------------------------------------------------ nodes


class NodeCondition(Model, frozen=True):
    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None


class Taint(Model, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Model, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(Model, frozen=True):
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[NodeCondition] | None = None


class Node(Resource, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class FewLabels(Model, frozen=True):
    gpu: str | None = None


class SweptMeta(ObjectMeta, frozen=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="(left out)")
    few_labels: FewLabels = msgspec.field(default=FewLabels(), name="labels")
    uid: str = msgspec.field(default="", name="(left out too)")
    resource_version: str = msgspec.field(default="", name="(and this)")
    creation_timestamp: str | None = msgspec.field(default=None, name="(and that)")

    def label(self, key: str) -> str | None:
        return self.few_labels.gpu if key == "gpu" else None


class SweptStatus(NodeStatus, frozen=True):
    def __post_init__(self) -> None:
        """Devices alone stay of the amounts, and Ready of the conditions."""
        _keep(self, "conditions", [one for one in self.conditions or () if one.type == "Ready"])
        allocatable, capacity = _devices(self.allocatable), _devices(self.capacity)
        _keep(self, "allocatable", allocatable)
        _keep(self, "capacity", allocatable if allocatable == capacity else capacity)


def _devices(amounts: dict[str, Quantity] | None) -> dict[str, Quantity]:
    return {name: amount for name, amount in (amounts or {}).items() if "/" in name}


class SweptNode(Node, frozen=True):
    """A node of a sweep over all, with what bears on its devices: the rest would be most of the memory.

    Of its labels it knows `gpu` alone, of its amounts the devices, of its conditions Ready.
    """

    metadata: SweptMeta = SweptMeta()
    status: SweptStatus = SweptStatus()


# ------------------------------------------------------------------------------------------------ events


class ObjectReference(Model, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Model, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class EventSource(Model, frozen=True):
    component: str = ""
    host: str = ""


class Event(Resource, frozen=True):
    """A core/v1 Event. kube-scheduler's carry `event_time` and a series, HAMi's `last_timestamp` and a count."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    reporting_component: str = ""

    @property
    def seen_at(self) -> str:
        """When it last happened: the latest time that the event carries, empty when it carries none."""
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""


# ------------------------------------------------------------------------------------------------ workloads


class PodTemplate(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class RollingUpdate(Model, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class Strategy(Model, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadMeta(ObjectMeta, frozen=True):
    generation: int = 0


class WorkloadSpec(Model, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    strategy: Strategy | None = None
    paused: bool = False
    template: PodTemplate = PodTemplate()


class WorkloadStatus(Model, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    number_ready: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    conditions: list[Condition] | None = None


class Workload(Resource, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job: what owns pods."""

    metadata: WorkloadMeta = WorkloadMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


# ------------------------------------------------------------------------------------------------ the rest


class QuotaSpec(Model, frozen=True):
    hard: dict[str, Quantity] | None = None


class QuotaStatus(Model, frozen=True):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


class ResourceQuota(Resource, frozen=True):
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class ConfigMap(Resource, frozen=True):
    data: dict[str, str] | None = None


class LeaseSpec(Model, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class Lease(Resource, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class ServicePort(Model, frozen=True):
    name: str = ""
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(Model, frozen=True):
    type: str = ""
    selector: dict[str, str] | None = None
    ports: list[ServicePort] | None = None


class Service(Resource, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(Model, frozen=True):
    ready: bool | None = None


class Endpoint(Model, frozen=True):
    conditions: EndpointConditions | None = None
    target_ref: ObjectReference | None = None


class EndpointSlice(Resource, frozen=True):
    endpoints: list[Endpoint] | None = None


class ServiceReference(Model, frozen=True):
    namespace: str = ""
    name: str = ""


class WebhookClientConfig(Model, frozen=True):
    service: ServiceReference | None = None
    url: str | None = None
    ca_bundle: str | None = None


class Webhook(Model, frozen=True):
    name: str = ""
    failure_policy: str | None = None
    client_config: WebhookClientConfig | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None


class MutatingWebhookConfiguration(Resource, frozen=True):
    webhooks: list[Webhook] | None = None


# ------------------------------------------------------------------------------------------------ kinds

T = TypeVar("T", bound=Resource)


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """A kind of object: its place in the API, and the narrow type that it is decoded into."""

    plural: str
    type: type[T]
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def file_name(self) -> str:
        """The file under `objects/` of a recording: `pods.json`, `leases.coordination.k8s.io.json`."""
        return f"{self.plural}.{self.group}.json" if self.group else f"{self.plural}.json"

    def path(self, namespace: str = "", name: str = "") -> str:
        """The request path of a list, or of one object when a name is given."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural, name] if name else [*parts, self.plural])


PODS = Kind("pods", Pod)
HOLDERS = Kind("pods", Holder)
DAEMON_PODS = Kind("pods", DaemonPod)
NODES = Kind("nodes", Node, namespaced=False)
SWEPT_NODES = Kind("nodes", SweptNode, namespaced=False)
EVENTS = Kind("events", Event)
RESOURCE_QUOTAS = Kind("resourcequotas", ResourceQuota)
CONFIG_MAPS = Kind("configmaps", ConfigMap)
SERVICES = Kind("services", Service)
DEPLOYMENTS = Kind("deployments", Workload, "apps")
REPLICA_SETS = Kind("replicasets", Workload, "apps")
STATEFUL_SETS = Kind("statefulsets", Workload, "apps")
DAEMON_SETS = Kind("daemonsets", Workload, "apps")
JOBS = Kind("jobs", Workload, "batch")
LEASES = Kind("leases", Lease, "coordination.k8s.io")
ENDPOINT_SLICES = Kind("endpointslices", EndpointSlice, "discovery.k8s.io")
WEBHOOKS = Kind(
    "mutatingwebhookconfigurations", MutatingWebhookConfiguration, "admissionregistration.k8s.io", namespaced=False
)

ALL_KINDS: tuple[Kind[Resource], ...] = (
    NODES,
    PODS,
    EVENTS,
    RESOURCE_QUOTAS,
    CONFIG_MAPS,
    SERVICES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    LEASES,
    ENDPOINT_SLICES,
    WEBHOOKS,
)  # pyright: ignore[reportAssignmentType]  # Kind is invariant; here only names and paths are used
