"""Pods from manifests, YAML or JSON: the pod templates of objects of any kind, in one or several documents or Lists."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

import click
import msgspec
from msgspec import structs

from bot.errors import UsageError, WrongValue
from bot.hami.vendors import FIRST
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


class PodRole(NamedTuple):
    """The role of a pod in its manifest: `replicas` pods are like it, None if the cluster decides (DaemonSet). `kind`
    and `of` are the object with the template; `least` pods have to start together, None if it does not say.
    """

    kind: str = "Pod"
    of: str = ""
    name: str = ""
    replicas: int | None = 1
    least: int | None = None


class ManifestPod(Pod, frozen=True):
    """A pod of a manifest. `written_in` is the named file, `-` if there is none; no document can set it."""

    spec: ManifestSpec = ManifestSpec()
    written_in: str = STANDARD_INPUT
    as_role: PodRole = PodRole()


def role_of(pod: Pod) -> PodRole:
    """The role that the pod has in its manifest."""
    return pod.as_role if isinstance(pod, ManifestPod) else PodRole()


def file_of(pod: Pod) -> str:
    """The path of the pod's manifest; `-` if it is in no file."""
    return pod.written_in if isinstance(pod, ManifestPod) else STANDARD_INPUT


def rules_on_others(pod: Pod) -> list[str]:
    """What a pod of a manifest asks for that depends on other pods, ports or volumes: `podAffinity`, `hostPort`."""
    if not isinstance(spec := pod.spec, ManifestSpec):
        return []
    near, apart = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else (None, None)
    volumes, spreads = spec.volumes or (), spec.topology_spread_constraints or ()
    ports = [port for container in spec.containers for port in container.ports or ()]
    rules = {
        "podAffinity": near is not None and near.required_during_scheduling_ignored_during_execution,
        "podAntiAffinity": apart is not None and apart.required_during_scheduling_ignored_during_execution,
        "hostPort": any(port.host_port for port in ports),
        "persistentVolumeClaim": any(volume.persistent_volume_claim is not None for volume in volumes),
        "ephemeral volume": any(volume.ephemeral is not None for volume in volumes),
        "resourceClaims": spec.resource_claims,
        "topologySpreadConstraints": any(spread.when_unsatisfiable != _ANYWAY for spread in spreads),
    }
    return [name for name, holds in rules.items() if holds]


_MAX_BYTES = 16 * 1024 * 1024
_MAX_PODS = 5000
_MAX_VALUES = 200_000
"""The most values of one document that are read: with YAML's aliases a small file can stand for an endless one."""
_HELM = re.compile(r"\{\{-?\s*(?:\.(?:Values|Release|Chart)\b|\$|(?:include|toYaml|tpl|template|define)\s)")
_COUNTS = ("replicas", "minReplicas", "numNodes", "instances", "count")
_BUILT_IN = ("Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Pod")
_OWN_GROUPS = ("", "apps", "batch")
_VOLCANO = "batch.volcano.sh"
"""Volcano's Jobs are placed by Volcano where they name no scheduler."""
_IN_COMMON = ("schedulerName", "nodeSelector", "tolerations", "affinity")
"""Fields of a pod's spec that some kinds have once for all of their pods."""
_AMOUNTS = ("resources", "resourcesPerNode")
_SHORT = {"gpu": FIRST.names.count}
_NO_TEMPLATES = ("metadata", "status", "volumeClaimTemplates")
_GROUPS = ("leaderworker", "raycluster")
_NAMELESS = ("", "spec", "template", "job", "workflow", "model", "component", "containerset", *_GROUPS)
"""Keys on the way to a pod template, without their ending, that say nothing of the pod's role."""
_FENCE = re.compile(r"^```\w*[ \r]*$", re.MULTILINE)
"""A line around a manifest that was copied out of a message or a document."""
_ENDING = re.compile(r"(?:(?:Group|Replica|[Pp]od)?(?:Template|Specs?|Config))$")
_LONGEST_KIND = 60
_MAX_KINDS = 5


class Manifest(NamedTuple):
    """A manifest's text. `path` is its name in errors; `file` is the path to name in commands, `-` if it is no file."""

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
    """Reads one pod for each role in the manifests, in order. Raises UsageError if there is none."""
    walks = [(_Walk(manifest), manifest) for manifest in manifests]
    found = (pod for walk, manifest in walks for document in _documents(manifest) for pod in walk.pods(document))
    try:
        pods = list(islice(found, _MAX_PODS + 1))
    except RecursionError as error:  # an alias of what it stands in
        raise UsageError(Text("error-fit.neither-yaml-nor-json", path=walks[-1][1].path, why=reason(error))) from error
    if len(pods) > _MAX_PODS:
        raise UsageError(Text("error-fit.more-than-pods", most=_MAX_PODS), hint=Text("error-fit.split-the-manifest"))
    if not pods:
        kinds = dict.fromkeys(kind for walk, _ in walks for kind in walk.empty)
        told = Text("error-fit.holds-no-template", path=walks[0][1].path, kinds=", ".join(list(kinds)[:_MAX_KINDS]))
        nothing = Text("error-fit.manifest-holds-no-pod")
        raise UsageError(told if kinds else nothing, hint=Text("error-fit.give-pod-or-template"))
    return pods


def _documents(manifest: Manifest) -> list[object]:
    text = _FENCE.sub("", manifest.text.lstrip("\ufeff").replace("\u00a0", " "))  # copied out of a page
    if _HELM.search(text):
        raise _template(manifest)
    try:
        if text.lstrip()[:1] in ("{", "["):
            try:
                return [msgspec.json.decode(text)]
            except msgspec.DecodeError:
                pass  # flow-style YAML begins with a brace too
        return [document for document in parse_documents(text) if document is not None]
    except (RecursionError, WrongValue) as error:
        if "{{" in text:
            raise _template(manifest) from error
        why = error.text if isinstance(error, WrongValue) else reason(error)
        raise UsageError(Text("error-fit.neither-yaml-nor-json", path=manifest.path, why=why)) from error


def _template(manifest: Manifest) -> UsageError:
    return UsageError(Text("error-fit.helm-template", path=manifest.path), hint=Text("error-fit.render-it"))


class _Place(msgspec.Struct, frozen=True):
    """Where the walk is, and what stands around it; `named`: the role, if a key or a name says it."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    named: str = ""
    replicas: int | None = 1
    least: int | None = None
    inherited: Mapping[str, object] = {}  # nobody changes it
    meta: Mapping[str, object] = {}

    def times(self, number: int) -> "_Place":
        return structs.replace(self, replicas=None if self.replicas is None else self.replicas * number)


class _Walk:
    """The pod templates of one manifest's objects of any kind, found by their shape: a `spec` with `containers`. Some
    kinds have these without a template, or one container alone, or no more of it than its resources.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._left = _MAX_VALUES
        self.empty: list[str] = []

    def pods(self, document: object) -> Iterator[ManifestPod]:
        """One pod for each role. `empty` are the kinds of objects that have none. Raises UsageError."""
        for entry in cast("list[object]", document) if isinstance(document, list) else [document]:
            fields = _fields(entry)
            kind = fields.get("kind")
            if isinstance(kind, str) and kind.endswith("List") and "items" in fields:
                for item in _list(fields["items"]):
                    yield from self._of_object({"kind": kind[:-4], **_fields(item)}, _Place())
            else:
                yield from self._of_object(fields, _Place())

    def _of_object(self, fields: dict[str, object], around: _Place) -> Iterator[ManifestPod]:
        kind, group = fields.get("kind"), str(fields.get("apiVersion") or "").rpartition("/")[0]
        meta, found = _fields(fields.get("metadata")), False
        kind = kind if isinstance(kind, str) else ""
        place = structs.replace(
            around,
            kind=f"{kind} ({group})" if kind in _BUILT_IN and group not in _OWN_GROUPS else kind,
            name=str(meta.get("name") or str(meta.get("generateName") or "").rstrip("-") or around.name),
            namespace=str(meta.get("namespace") or around.namespace),
            named="",
            replicas=None if kind == "DaemonSet" else around.replicas,
            inherited={"schedulerName": "volcano"} if group == _VOLCANO else around.inherited,
            meta={"annotations": meta.get("annotations")},
        )
        pods = [self._pod(fields, place)] if kind == "Pod" else self._within(fields, place)
        for pod in pods:
            found = True
            yield pod
        if not found and not kind:
            raise UsageError(
                Text("error-fit.no-kind", path=self._manifest.path), hint=Text("error-fit.give-pod-or-template")
            )
        if not found:
            self.empty.append(kind[:_LONGEST_KIND])

    def _within(self, fields: dict[str, object], at: _Place) -> Iterator[ManifestPod]:
        self._left -= 1
        if self._left < 0:
            raise UsageError(
                Text("error-fit.more-than-pods", most=_MAX_PODS), hint=Text("error-fit.split-the-manifest")
            )
        at, spec = _counted(fields, at), _fields(fields.get("spec"))
        if _is_pod_spec(spec):
            yield self._pod(fields, _counted(spec, at))
        elif at.kind and (alone := _spec_without_template(fields)):
            yield self._pod({"metadata": fields.get("metadata", at.meta), "spec": alone}, at)
        else:
            for key, child in fields.items():
                if key not in _NO_TEMPLATES:
                    yield from self._below(child, _in_role(key, fields, at))

    def _below(self, child: object, at: _Place) -> Iterator[ManifestPod]:
        """The objects of a list are told apart by their names."""
        for part in cast("list[object]", child) if isinstance(child, list) else [child]:
            fields = _fields(part)
            name = fields.get("groupName", fields.get("name")) if part is not child else None
            if isinstance(fields.get("kind"), str) and "apiVersion" in fields:
                yield from self._of_object(fields, at)
            elif isinstance(part, list):
                yield from self._below(cast("object", part), at)
            elif fields:
                yield from self._within(fields, structs.replace(at, named=name) if isinstance(name, str) else at)

    def _pod(self, template: Mapping[str, object], at: _Place) -> ManifestPod:
        if at.inherited and (spec := _fields(template.get("spec"))):
            template = {**template, "spec": {**at.inherited, **spec}}
        spec = _fields(template.get("spec"))
        for container in map(_fields, (*_list(spec.get("initContainers")), *_list(spec.get("containers")))):
            for some in map(_fields, _fields(container.get("resources")).values()):
                # The API server reads null as 0.
                some.update((name, 0) for name, amount in some.items() if amount is None)
        try:
            pod = msgspec.convert(template, ManifestPod, strict=False)
        except (msgspec.ValidationError, RecursionError) as error:
            raise UsageError(Text("error-fit.no-pod-of-the-api", path=self._manifest.path, why=str(error))) from error
        meta, role = pod.metadata, PodRole(at.kind, at.name, at.named or at.name, at.replicas, at.least)
        if at.kind != "Pod":
            name = "-".join(filter(None, (at.name, at.named))).lower()
            meta = structs.replace(meta, name=name, namespace=at.namespace)
        return structs.replace(pod, metadata=meta, written_in=self._manifest.file, as_role=role)


def _counted(fields: dict[str, object], at: _Place) -> _Place:
    """With how many pods there are of each below, and what they have in common."""
    numbers = [fields[key] for key in _COUNTS if isinstance(fields.get(key), int)]
    hosts, parallel, most = (fields.get(key) for key in ("numOfHosts", "parallelism", "completions"))
    if numbers and at.replicas is not None:  # of something in which others had theirs it is no multiple
        at = structs.replace(at, replicas=numbers[0])
    if isinstance(parallel, int):  # of a Job; of a workflow it is how many of its steps run at once
        parallel = None if "template" not in fields else min(parallel, most) if isinstance(most, int) else parallel
    if isinstance(least := fields.get("minAvailable"), int):
        at = structs.replace(at, least=least)
    if common := {key: fields[key] for key in _IN_COMMON if key in fields}:
        at = structs.replace(at, inherited={**at.inherited, **common})
    for number in (parallel, hosts):
        at = at.times(number) if isinstance(number, int) else at
    return at


def _in_role(key: str, fields: dict[str, object], at: _Place) -> _Place:
    """What is below that key: of a LeaderWorkerSet's group the leader is one, with a template of its own or without."""
    size = fields.get("size")
    if key == "workerTemplate" and isinstance(size, int):
        at = at.times(size - 1 if fields.get("leaderTemplate") else size)
    name = _ENDING.sub("", key)
    part = _fields(fields[key])
    of_one = at.named and _is_amounts(_fields(part.get("resources"))) and not part.keys() & {*_COUNTS}
    return at if of_one or name.lower() in _NAMELESS else structs.replace(at, named=name)


def _is_pod_spec(fields: dict[str, object]) -> bool:
    containers = fields.get("containers")
    return bool(containers) and all(isinstance(container, dict) for container in _list(containers))


def _spec_without_template(fields: dict[str, object]) -> dict[str, object] | None:
    """The spec of pods that are written as containers, one container, or its resources alone; None of anything else."""
    spec = {key: value for key, value in fields.items() if key != "metadata"}
    alone = [_fields(fields.get(key)) for key in ("container", "script")]
    alone += [{"resources": _named(some)} for key in _AMOUNTS if _is_amounts(some := _fields(fields.get(key)))]
    beside = [child for child in map(_fields, fields.values()) if _is_amounts(_fields(child.get("resources")))]
    containers = [*_list(fields.get("containers"))] if _is_pod_spec(fields) else []
    containers += [part for part in alone if part] or (beside if containers else [])
    if not containers:
        return None
    return {**spec, "containers": [{"name": "main", **_fields(container)} for container in containers]}


def _named(amounts: dict[str, object]) -> dict[str, object]:
    """The amounts by the names of the API: Dynamo calls NVIDIA's GPUs `gpu`."""
    parts = {part: _fields(some) for part, some in amounts.items() if part in ("limits", "requests")}
    return {part: {_SHORT.get(name, name): amount for name, amount in some.items()} for part, some in parts.items()}


def _is_amounts(fields: dict[str, object]) -> bool:
    """Whether these are a container's resources; a volume's have storage alone."""
    asked = {**_fields(fields.get("limits")), **_fields(fields.get("requests"))}
    return bool(asked.keys() - {"storage"})


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _fields(document: object) -> dict[str, object]:
    return cast("dict[str, object]", document) if isinstance(document, dict) else {}
