"""The kinds that the sandbox's API server knows, and what its discovery says about each."""

from collections.abc import Iterator
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of object. `api` is the path of its group and version: `api/v1`, `apis/apps/v1`."""

    name: str
    plural: str
    api: str
    namespaced: bool = True
    short: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return self.api.removeprefix("apis/").removeprefix("api/")

    @property
    def group(self) -> str:
        return self.api.split("/")[1] if self.api.startswith("apis/") else ""

    @property
    def qualified(self) -> str:
        """The name of the kind in messages: `Pod`, `Deployment.apps`."""
        return f"{self.name}.{self.group}" if self.group else self.name

    @property
    def resource(self) -> str:
        """The name of the resource in messages, and of its file in recordings: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


# Of each API: kind, plural, short names; a kind behind "/" is not namespaced.
_TABLE = {
    "api/v1": """
        ConfigMap configmaps cm, Endpoints endpoints ep, Event events ev, LimitRange limitranges limits,
        /Namespace namespaces ns, /Node nodes no, PersistentVolumeClaim persistentvolumeclaims pvc,
        /PersistentVolume persistentvolumes pv, Pod pods po, ReplicationController replicationcontrollers rc,
        ResourceQuota resourcequotas quota, Secret secrets, ServiceAccount serviceaccounts sa, Service services svc""",
    "apis/admissionregistration.k8s.io/v1": """
        /MutatingWebhookConfiguration mutatingwebhookconfigurations,
        /ValidatingWebhookConfiguration validatingwebhookconfigurations""",
    "apis/apps/v1": """
        DaemonSet daemonsets ds, Deployment deployments deploy, ReplicaSet replicasets rs,
        StatefulSet statefulsets sts""",
    "apis/batch/v1": "CronJob cronjobs cj, Job jobs",
    "apis/coordination.k8s.io/v1": "Lease leases",
    "apis/discovery.k8s.io/v1": "EndpointSlice endpointslices",
    "apis/kueue.x-k8s.io/v1beta2": "Workload workloads wl",
    "apis/node.k8s.io/v1": "/RuntimeClass runtimeclasses",
    "apis/resource.k8s.io/v1": """
        /DeviceClass deviceclasses, ResourceClaim resourceclaims, ResourceClaimTemplate resourceclaimtemplates,
        /ResourceSlice resourceslices""",
    "apis/scheduling.k8s.io/v1": "/PriorityClass priorityclasses pc",
}


def _rows() -> Iterator[Kind]:
    for api, text in _TABLE.items():
        for row in text.split(","):
            name, plural, *short = row.split()
            yield Kind(name.removeprefix("/"), plural, api, not name.startswith("/"), tuple(short))


KINDS = tuple(_rows())
"""The kinds that are served even if nothing was seeded: an empty list is an answer, an unknown resource is a 404."""

SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds with a `scale` subresource."""

GENERATED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"})
"""Kinds whose `metadata.generation` counts changes of the spec."""

STATUS = frozenset({*GENERATED, "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota"})
"""Kinds whose status is written through the `status` subresource only."""
