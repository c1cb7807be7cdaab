"""Dynamic resource allocation (`resource.k8s.io`): a pod's claims, and the devices that drivers offer.

v1 (Kubernetes 1.34), v1beta2 (1.33) and v1beta1 (1.32) say the same at other depths: a request's class is in `exactly`
since v1beta2, a device's attributes are in `basic` until v1beta1.
"""

from bot.kube.models.base import Model, Resource


class ClassOfDevice(Model, frozen=True):
    device_class_name: str = ""


class ClaimDeviceRequest(Model, frozen=True):
    device_class_name: str = ""
    exactly: ClassOfDevice | None = None
    first_available: list[ClassOfDevice] | None = None


class RequestedDevices(Model, frozen=True):
    requests: list[ClaimDeviceRequest] | None = None


class ClaimSpec(Model, frozen=True):
    devices: RequestedDevices = RequestedDevices()


class AllocatedDevice(Model, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""


class AllocatedDevices(Model, frozen=True):
    results: list[AllocatedDevice] | None = None


class ClaimAllocation(Model, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()


class Consumer(Model, frozen=True):
    name: str = ""


class ClaimStatus(Model, frozen=True):
    allocation: ClaimAllocation | None = None
    reserved_for: list[Consumer] | None = None


class ResourceClaim(Resource, frozen=True):
    """A claim for devices, and the devices that kube-scheduler gave it."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def classes(self) -> list[str]:
        """The DeviceClasses that the claim requests."""
        listed = self.spec.devices.requests or ()
        of_each = ((request, request.exactly, *(request.first_available or ())) for request in listed)
        return [part.device_class_name for parts in of_each for part in parts if part and part.device_class_name]

    @property
    def devices(self) -> list[AllocatedDevice]:
        """The devices that the claim was given; empty also for an allocation that names no device."""
        allocation = self.status.allocation
        return (allocation.devices.results or []) if allocation else []


class ResourceClaimTemplate(Resource, frozen=True):
    """A template of claims; only its name is read."""


class DeviceText(Model, frozen=True):
    string: str = ""


class DeviceAttributes(Model, frozen=True):
    uuid: DeviceText | None = None


class BasicDevice(Model, frozen=True):
    attributes: DeviceAttributes | None = None


class SliceDevice(Model, frozen=True):
    name: str = ""
    attributes: DeviceAttributes | None = None
    basic: BasicDevice | None = None

    @property
    def uuid(self) -> str:
        """The device's attribute `uuid` as drivers of GPUs publish it; empty without."""
        attributes = self.attributes or (self.basic.attributes if self.basic else None)
        return attributes.uuid.string if attributes and attributes.uuid else ""


class SlicePool(Model, frozen=True):
    name: str = ""
    generation: int = 0


class SliceSpec(Model, frozen=True):
    driver: str = ""
    node_name: str = ""
    pool: SlicePool = SlicePool()
    devices: list[SliceDevice] | None = None


class ResourceSlice(Resource, frozen=True):
    """A DRA driver's offer of devices, mostly those of one node."""

    spec: SliceSpec = SliceSpec()
