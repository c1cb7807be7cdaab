"""The API's own JSON, narrowed to the fields that some rule reads; everything else is skipped while decoding.

Because the shapes are the API's, `kubectl get … -o json` is a valid input, and what `record` writes holds nothing
that was never modelled. Times stay text: a rule that needs one parses it with `bot.kube.times`.
"""

from typing import Generic, TypeVar

import msgspec

from bot.kube.models.base import (
    Condition,
    LabelSelector,
    Model,
    Node,
    NodeCondition,
    NodeInfo,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Quantity,
    Resource,
    SelectorRequirement,
    Taint,
)
from bot.kube.models.claims import (
    AllocatedDevice,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    SliceDevice,
)
from bot.kube.models.pods import (
    Affinity,
    Container,
    ContainerPort,
    ContainerState,
    ContainerStatus,
    DaemonContainer,
    DaemonContainerState,
    DaemonPod,
    DaemonPodCondition,
    DaemonPodMeta,
    DaemonPodSpec,
    DaemonPodStatus,
    EnvVar,
    Holder,
    HolderSpec,
    HolderStatus,
    HostPath,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
    SecurityContext,
    StateRunning,
    StateTerminated,
    StateWaiting,
    Toleration,
    Volume,
    VolumeMount,
)
from bot.kube.models.workloads import (
    ConfigMap,
    EndpointConditions,
    EndpointSlice,
    Event,
    EventSeries,
    EventSource,
    Lease,
    LeaseSpec,
    MutatingWebhookConfiguration,
    Namespace,
    PodTemplate,
    QueuedSpec,
    QueuedStatus,
    QueuedWorkload,
    QuotaSpec,
    QuotaStatus,
    ResourceQuota,
    RollingUpdate,
    RuntimeClass,
    Service,
    ServicePort,
    ServiceReference,
    ServiceSpec,
    SliceEndpoint,
    Strategy,
    Webhook,
    WebhookClientConfig,
    Workload,
    WorkloadMeta,
    WorkloadSpec,
    WorkloadStatus,
)

T = TypeVar("T", bound=Resource)


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """A kind of object: its place in the API, and the narrow type that it is decoded into.

    `older`: the versions of older API servers that serve no `version`, the newest first; the type reads them as well.
    """

    plural: str
    type: type[T]
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    older: tuple[str, ...] = ()

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
EVENTS = Kind("events", Event)
NAMESPACES = Kind("namespaces", Namespace, namespaced=False)
RUNTIME_CLASSES = Kind("runtimeclasses", RuntimeClass, "node.k8s.io", namespaced=False)
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
RESOURCE_GROUP = "resource.k8s.io"
_BETAS = ("v1beta2", "v1beta1")
RESOURCE_CLAIMS = Kind("resourceclaims", ResourceClaim, RESOURCE_GROUP, older=_BETAS)
CLAIM_TEMPLATES = Kind("resourceclaimtemplates", ResourceClaimTemplate, RESOURCE_GROUP, older=_BETAS)
RESOURCE_SLICES = Kind("resourceslices", ResourceSlice, RESOURCE_GROUP, namespaced=False, older=_BETAS)
QUEUED_WORKLOADS = Kind("workloads", QueuedWorkload, "kueue.x-k8s.io", "v1beta2", older=("v1beta1",))

ALL_KINDS: tuple[Kind[Resource], ...] = (
    NODES,
    PODS,
    EVENTS,
    NAMESPACES,
    RUNTIME_CLASSES,
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
    RESOURCE_CLAIMS,
    CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    QUEUED_WORKLOADS,
)  # pyright: ignore[reportAssignmentType]  # Kind is invariant; here only names and paths are used

__all__ = [
    "ALL_KINDS",
    "CLAIM_TEMPLATES",
    "CONFIG_MAPS",
    "DAEMON_PODS",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "ENDPOINT_SLICES",
    "EVENTS",
    "HOLDERS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "QUEUED_WORKLOADS",
    "REPLICA_SETS",
    "RESOURCE_CLAIMS",
    "RESOURCE_QUOTAS",
    "RESOURCE_SLICES",
    "RUNTIME_CLASSES",
    "SERVICES",
    "STATEFUL_SETS",
    "WEBHOOKS",
    "Affinity",
    "AllocatedDevice",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "DaemonContainer",
    "DaemonContainerState",
    "DaemonPod",
    "DaemonPodCondition",
    "DaemonPodMeta",
    "DaemonPodSpec",
    "DaemonPodStatus",
    "EndpointConditions",
    "EndpointSlice",
    "EnvVar",
    "Event",
    "EventSeries",
    "EventSource",
    "Holder",
    "HolderSpec",
    "HolderStatus",
    "HostPath",
    "Kind",
    "LabelSelector",
    "Lease",
    "LeaseSpec",
    "Model",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeCondition",
    "NodeInfo",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "Pod",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodResourceClaim",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "Quantity",
    "QueuedSpec",
    "QueuedStatus",
    "QueuedWorkload",
    "QuotaSpec",
    "QuotaStatus",
    "Resource",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
    "ResourceRequirements",
    "ResourceSlice",
    "RollingUpdate",
    "RuntimeClass",
    "SchedulingGate",
    "SecurityContext",
    "SelectorRequirement",
    "Service",
    "ServicePort",
    "ServiceReference",
    "ServiceSpec",
    "SliceDevice",
    "SliceEndpoint",
    "StateRunning",
    "StateTerminated",
    "StateWaiting",
    "Strategy",
    "Taint",
    "Toleration",
    "Volume",
    "VolumeMount",
    "Webhook",
    "WebhookClientConfig",
    "Workload",
    "WorkloadMeta",
    "WorkloadSpec",
    "WorkloadStatus",
]
