"""Objects around pods: their owners, events, and configuration: quotas, config maps, leases, services and webhooks."""

from bot.kube.models.base import Condition, LabelSelector, Model, ObjectMeta, ObjectReference, Quantity, Resource
from bot.kube.models.pods import PodSpec


class EventSeries(Model, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class EventSource(Model, frozen=True):
    component: str = ""
    host: str = ""


class Event(Resource, frozen=True):
    """A core/v1 Event. kube-scheduler's events have `event_time` and a series, HAMi's `last_timestamp` and a count."""

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
        """When the event last happened: the latest time that it carries, empty when it carries none."""
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""

    @property
    def component(self) -> str:
        """The program that reports the event."""
        return self.reporting_component or (self.source.component if self.source else "")

    @property
    def of_autoscaler(self) -> bool:
        """Whether cluster-autoscaler or karpenter reports the event: their FailedScheduling is no scheduler's."""
        return any(name in self.component for name in ("autoscaler", "karpenter"))

    def is_about(self, uid: str) -> bool:
        """Whether the event is about the object with this UID, or does not say which of its name."""
        return self.involved_object.uid in ("", uid)


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
    """The spec of a Deployment, Job and the like. `suspend` is a Job's: true keeps it from creating pods."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    strategy: Strategy | None = None
    paused: bool = False
    suspend: bool = False
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


class QueuedSpec(Model, frozen=True):
    queue_name: str = ""
    priority: int | None = None
    active: bool = True


class QueuedStatus(Model, frozen=True):
    conditions: list[Condition] | None = None


class QueuedWorkload(Resource, frozen=True):
    """Kueue's Workload: one for each Job, pod or group of pods that Kueue holds until its turn comes."""

    spec: QueuedSpec = QueuedSpec()
    status: QueuedStatus = QueuedStatus()


class QuotaSpec(Model, frozen=True):
    hard: dict[str, Quantity] | None = None
    scopes: list[str] | None = None
    scope_selector: dict[str, object] | None = None


class QuotaStatus(Model, frozen=True):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


class ResourceQuota(Resource, frozen=True):
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()

    @property
    def is_scoped(self) -> bool:
        """Whether Kubernetes holds only some of the namespace's pods against the quota."""
        return bool(self.spec.scopes or self.spec.scope_selector)


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


class SliceEndpoint(Model, frozen=True):
    conditions: EndpointConditions | None = None
    target_ref: ObjectReference | None = None


class EndpointSlice(Resource, frozen=True):
    endpoints: list[SliceEndpoint] | None = None


class ServiceReference(Model, frozen=True):
    namespace: str = ""
    name: str = ""
    port: int | None = None
    path: str | None = None


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


class Namespace(Resource, frozen=True):
    """A namespace; only its metadata is read."""


class RuntimeClass(Resource, frozen=True):
    """A RuntimeClass. `handler` is the name that the node's container runtime has to know."""

    handler: str = ""


class MutatingWebhookConfiguration(Resource, frozen=True):
    webhooks: list[Webhook] | None = None
