"""A pod as its manifest has it: with what kube-scheduler looks at beside HAMi's cards, and we do not."""

from collections.abc import Iterator

from bot.kube.models import Affinity, Container, ContainerPort, Pod, PodAntiAffinity, PodSpec, Volume
from bot.kube.models.base import Model

STANDARD_INPUT = "-"
_ANYWAY = "ScheduleAnyway"


class ManifestPort(ContainerPort, frozen=True):
    host_port: int | None = None


class ManifestContainer(Container, frozen=True):
    ports: list[ManifestPort] | None = None  # type: ignore[assignment]  # as the volumes below


class ManifestAffinity(Affinity, frozen=True):
    pod_affinity: PodAntiAffinity | None = None


class ManifestVolume(Volume, frozen=True):
    persistent_volume_claim: dict[str, object] | None = None
    ephemeral: dict[str, object] | None = None


class Spread(Model, frozen=True):
    when_unsatisfiable: str = ""


class ManifestSpec(PodSpec, frozen=True):
    containers: list[ManifestContainer] = []  # type: ignore[assignment] # noqa: RUF012  # msgspec copies an empty list
    affinity: ManifestAffinity | None = None
    volumes: list[ManifestVolume] | None = None  # type: ignore[assignment]  # a narrower list of a frozen struct
    topology_spread_constraints: list[Spread] | None = None


class ManifestPod(Pod, frozen=True):
    """`written_in` is the file that was named, `-` where there is none: the reader sets it, no document does."""

    spec: ManifestSpec = ManifestSpec()
    written_in: str = STANDARD_INPUT


def file_of(pod: Pod) -> str:
    """The path of the pod's manifest, `-` where it is in no file."""
    return pod.written_in if isinstance(pod, ManifestPod) else STANDARD_INPUT


def rules_on_others(pod: Pod) -> list[str]:
    """The fields by which other pods, ports and volumes decide where the pod may go, as the API names them."""
    return list(dict.fromkeys(_rules_on_others(pod.spec))) if isinstance(pod.spec, ManifestSpec) else []


def _rules_on_others(spec: ManifestSpec) -> Iterator[str]:
    if (affinity := spec.affinity) is not None:
        for name, rule in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
            if rule is not None and rule.required_during_scheduling_ignored_during_execution:
                yield name
    if any(port.host_port for container in spec.containers for port in container.ports or ()):
        yield "hostPort"
    if any(volume.persistent_volume_claim is not None for volume in spec.volumes or ()):
        yield "persistentVolumeClaim"
    if any(volume.ephemeral is not None for volume in spec.volumes or ()):
        yield "ephemeral volume"
    if spec.resource_claims:
        yield "resourceClaims"
    if any(spread.when_unsatisfiable != _ANYWAY for spread in spec.topology_spread_constraints or ()):
        yield "topologySpreadConstraints"
