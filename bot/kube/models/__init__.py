"""The API's own JSON, narrowed to the fields that some rule reads; everything else is skipped while decoding.

Because the shapes are the API's, `kubectl get … -o json` is a valid input, and what `record` writes holds nothing
that was never modelled. Times stay text: a rule that needs one parses it with `bot.kube.times`.
"""

# pyright: reportUnusedImport=false

from typing import Generic, TypeVar

import msgspec

from bot.kube.models.base import Condition, Node, ObjectMeta, Quantity, Resource
from bot.kube.models.claims import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from bot.kube.models.pods import (
    Container,
    ContainerStatus,
    DaemonPod,
    Holder,
    Pod,
    PodSpec,
    ResourceRequirements,
    StateTerminated,
    Toleration,
)
from bot.kube.models.workloads import (
    ConfigMap,
    EndpointSlice,
    Event,
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    QueuedSpec,
    QueuedStatus,
    QueuedWorkload,
    ResourceQuota,
    RuntimeClass,
    Service,
    Webhook,
    Workload,
)

T = TypeVar("T", bound=Resource)


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """A kind of object: its place in the API, and the narrow type that it is decoded into. `older`: versions for API
    servers without `version`, newest first. `one`: the API's `kind` of one object, where it is not the type's name.
    """

    plural: str
    type: type[T]
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    older: tuple[str, ...] = ()
    one: str = ""

    def path(self, namespace: str = "", name: str = "") -> str:
        """The request path of the kind's list, or of one object when a name is given."""
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
DEPLOYMENTS = Kind("deployments", Workload, "apps", one="Deployment")
REPLICA_SETS = Kind("replicasets", Workload, "apps", one="ReplicaSet")
STATEFUL_SETS = Kind("statefulsets", Workload, "apps", one="StatefulSet")
DAEMON_SETS = Kind("daemonsets", Workload, "apps", one="DaemonSet")
JOBS = Kind("jobs", Workload, "batch", one="Job")
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
QUEUED_WORKLOADS = Kind("workloads", QueuedWorkload, "kueue.x-k8s.io", "v1beta2", older=("v1beta1",), one="Workload")

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
