"""What is configured around pods: quotas, config, leases, services and webhooks."""

from bot.kube.models.base import LabelSelector, Model, ObjectReference, Quantity, Resource


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
    """Of a namespace only its labels are read."""


class RuntimeClass(Resource, frozen=True):
    """`handler` is the name that the node's container runtime has to know."""

    handler: str = ""


class MutatingWebhookConfiguration(Resource, frozen=True):
    webhooks: list[Webhook] | None = None
