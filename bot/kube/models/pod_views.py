"""Parts of pods, for lists of thousands: a whole `Pod` each would be most of the memory."""

from sys import intern

import msgspec

from bot.kube.models.base import Model, ObjectMeta, OwnerReference, Resource, keep
from bot.kube.models.pods import Container, ContainerStatus, StateTerminated, StateWaiting


class HolderSpec(Model, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    init_containers: list[Container] | None = None


class HolderState(Model, frozen=True):
    terminated: StateTerminated | None = None


class HolderContainer(Model, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: HolderState = HolderState()
    last_state: HolderState = HolderState()

    @property
    def end(self) -> StateTerminated | None:
        """How its process ended last; None where that is not known."""
        return self.state.terminated or self.last_state.terminated


class HolderStatus(Model, frozen=True):
    phase: str = ""
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[HolderContainer] | None = None

    def __post_init__(self) -> None:
        """Only containers whose process ended stay: of thousands of pods they are few."""
        if self.container_statuses:
            keep(
                self,
                "container_statuses",
                [container for container in self.container_statuses if container.end] or None,
            )


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
    name: str = ""
    ready: bool = False
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
        keep(self, "conditions", [condition for condition in self.conditions or () if condition.type == "Ready"])


class DaemonPodMeta(ObjectMeta, frozen=True):
    annotations: dict[str, str] | None = msgspec.field(default=None, name="(left out)")
    owner_references: list[OwnerReference] | None = msgspec.field(default=None, name="(left out too)")
    uid: str = msgspec.field(default="", name="(and this)")

    def __post_init__(self) -> None:
        """All of a DaemonSet's pods have the same labels: their texts are kept once."""
        keep(self, "labels", {key: intern(value) for key, value in (self.labels or {}).items()})


class DaemonPod(Resource, frozen=True):
    """A pod that every node has one of, as a sweep reads it: where it is and how it does."""

    metadata: DaemonPodMeta = DaemonPodMeta()
    spec: DaemonPodSpec = DaemonPodSpec()
    status: DaemonPodStatus = DaemonPodStatus()
