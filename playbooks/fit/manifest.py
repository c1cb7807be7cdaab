"""Pods from manifests: YAML or JSON, one or several documents, Lists included."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, cast

import click
import msgspec
from msgspec import structs

from bot.errors import UsageError, WrongValue
from bot.kube.models import Container, Pod, PodSpec
from bot.kube.models.base import Model
from bot.kube.models.pods import Affinity, ContainerPort, PodAntiAffinity, Volume
from bot.safe_yaml import parse_documents, reason
from bot.texts import Text

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


_MAX_BYTES = 16 * 1024 * 1024
_MAX_PODS = 5000


class Manifest(NamedTuple):
    """A text with what errors call it. `file` is the path to name in commands, `-` where it is no file."""

    path: str
    text: str
    file: str = STANDARD_INPUT


class ManifestFile(click.ParamType[Manifest]):
    """A manifest's path, `-` for standard input; its value is the `Manifest`, which may be given as such."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Manifest:
        if isinstance(value, Manifest):
            return value
        try:
            with click.open_file(value, "rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)
        if len(data) > _MAX_BYTES:
            self.fail(f"{value}: larger than {_MAX_BYTES // 1024 // 1024} MiB", param, ctx)
        return Manifest(str(value), data.decode("utf-8", "replace"), str(value))


def read_pods(manifests: Iterable[Manifest]) -> list[ManifestPod]:
    """Every pod of the manifests, in order. Raises UsageError for text that is no manifest, or holds another kind."""
    found = (pod for manifest in manifests for document in _documents(manifest) for pod in _pods(manifest, document))
    pods = list(islice(found, _MAX_PODS + 1))
    if not pods:
        raise UsageError(Text("error-fit.manifest-holds-no-pod"), hint=Text("error-fit.give-pod-or-list"))
    if len(pods) > _MAX_PODS:
        raise UsageError(Text("error-fit.more-than-pods", most=_MAX_PODS), hint=Text("error-fit.split-the-manifest"))
    return pods


def _documents(manifest: Manifest) -> list[object]:
    text = manifest.text.lstrip("\ufeff")
    try:
        if text.lstrip()[:1] in ("{", "["):
            try:
                return [msgspec.json.decode(text)]
            except msgspec.DecodeError:
                pass  # flow-style YAML begins with a brace too
        return [document for document in parse_documents(text) if document is not None]
    except (RecursionError, WrongValue) as error:
        why = error.text if isinstance(error, WrongValue) else reason(error)
        raise UsageError(Text("error-fit.neither-yaml-nor-json", path=manifest.path, why=why)) from error


def _pods(manifest: Manifest, document: object) -> Iterator[ManifestPod]:
    """The pods of one document: a Pod, a List or PodList of them, or a bare sequence of either.

    Deeper nesting is refused: with YAML's aliases a small file can stand for an endless one.
    """
    listed: list[object] = cast("list[object]", document) if isinstance(document, list) else [document]
    for entry in listed:
        fields = _fields(entry)
        items = fields.get("items")
        if fields.get("kind") not in ("List", "PodList") or not isinstance(items, list):
            yield _pod(manifest, entry, "")
            continue
        for item in cast("list[object]", items):
            yield _pod(manifest, item, "Pod" if fields["kind"] == "PodList" else "")


def _pod(manifest: Manifest, document: object, kind: str) -> ManifestPod:
    """`kind` is what the document is where it does not say so itself."""
    fields = _fields(document)
    stated = fields.get("kind") or (kind if fields else None)
    if stated != "Pod":
        what = f"kind {stated}" if isinstance(stated, str) else "something without a kind"
        raise UsageError(
            Text("error-fit.holds-not-pod", path=manifest.path, what=what[:80]),
            hint=Text("error-fit.give-the-pod-itself"),
        )
    try:
        pod = msgspec.convert(document, ManifestPod, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(Text("error-fit.no-pod-of-the-api", path=manifest.path, why=str(error))) from error
    return structs.replace(pod, written_in=manifest.file)


def _fields(document: object) -> dict[str, object]:
    return cast("dict[str, object]", document) if isinstance(document, dict) else {}
