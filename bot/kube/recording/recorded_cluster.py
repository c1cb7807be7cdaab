"""A recorded cluster: a folder or `.tar.gz` (`hami-bot.recording/v1`) that answers as a live cluster would.

Files may be hand-made: the output of `kubectl get … -A -o json` is a valid `objects/` file as it is. Answers of pods'
ports are in `pprof/<namespace>/<pod>/<profile>.pb.gz` and `metrics/<namespace>/<pod>/<port>.prom`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, Unpack

import msgspec

from bot.errors import NotFound, SourceError, Unusable
from bot.kube.cluster import MOST_BYTES, LineFilter, LogLines, LogWanted, PodAnswer, PodGet, Which
from bot.kube.lists import Decoded, NotAListError, decode_list, raw_item
from bot.kube.models import ALL_KINDS, Kind, Resource
from bot.kube.recording.files import (
    FORMAT,
    META,
    NotRecordedError,
    RecordingFiles,
    archive_stem,
    file_name,
    log_name,
    open_files,
)
from bot.kube.selectors import field_matcher, label_matcher
from bot.kube.times import format_time, parse_time
from bot.report import Gap, gap
from bot.texts import Text

R = TypeVar("R", bound=Resource)

_STAMP = re.compile(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})(?: |$)")
_META_HINT = Text("error-recording.needs-taken-at", meta=META)
_TIMES = frozenset(
    {
        "creationTimestamp",
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
        "lastObservedTime",
        "lastTransitionTime",
        "startTime",
        "startedAt",
        "finishedAt",
        "renewTime",
    }
)


class Meta(msgspec.Struct, omit_defaults=True):
    """A recording's `meta.json`. Only `taken_at` must be there; a `format`, when there is one, must be ours."""

    taken_at: str
    format: str = ""
    cluster: str = ""
    server_version: str = ""
    hami_version: str = ""
    hami_vnpu_core: bool = False
    """Whether the device config sets `vnpus.hamiVnpuCore`."""
    neuron_cores_per_device: int = 0
    """The number of cores that HAMi's scheduler takes every Neuron device to have."""


_HINTS = ("hami_vnpu_core", "neuron_cores_per_device")


class RecordedCluster:
    """A recording as a `Cluster`. `undecodable`: bad objects of the lists read so far; `notes`: what was assumed."""

    cache_age_s = None
    context = namespace = ""
    kept = None
    clocks = None

    def __init__(self, path: Path, files: RecordingFiles, *, name: str = "") -> None:
        self._files = files
        self._lists: dict[tuple[str, type[Resource]], Decoded[Any]] = {}
        self.undecodable: list[str] = []
        self.notes: tuple[Gap, ...] = ()
        self._meta = self._read_meta(path)
        taken_at = parse_time(self._meta.taken_at)
        if taken_at is None:
            raise SourceError(
                Text("error-recording.taken-at-is-no-time", path=path, meta=META, taken_at=repr(self._meta.taken_at)),
                hint=_META_HINT,
            )
        self._taken_at = taken_at
        self.name = name or self._meta.cluster or archive_stem(path) or path.resolve().name
        self.hami_version_hint = self._meta.hami_version

    @classmethod
    def open(cls, path: Path, *, name: str = "") -> "RecordedCluster":
        """Opens the recording at `path`; an empty `name` means the recording's own. Raises SourceError."""
        return cls(path, open_files(path), name=name)

    @property
    def device_hints(self) -> Mapping[str, int]:
        """The hints about HAMi's devices in `meta.json`, those above 0."""
        said = {name: int(getattr(self._meta, name)) for name in _HINTS}
        return {name: value for name, value in said.items() if value > 0}

    async def server_version(self) -> str:
        return self._meta.server_version

    def now(self) -> datetime:
        return self._taken_at

    def as_of(self, shown: Iterable[str | None]) -> datetime:
        del shown
        return self._taken_at

    def files(self, prefix: str = "") -> list[str]:
        """The recording's file names that start with `prefix`, sorted: `metrics/hami-system/…/9395.prom`."""
        return self._files.names(prefix)

    def read(self, name: str) -> bytes:
        """The bytes of one file of the recording. Raises SourceError when it is not there."""
        return self._files.read(name)

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        decoded = self._objects(kind)
        wanted = (namespace if kind.namespaced else "", name)
        for item in decoded.items:
            if (item.namespace, item.name) == wanted:
                return item
        for bad in decoded.bad:
            # An object without a readable name may be the one that was asked for: absence cannot be claimed.
            if (bad.namespace, bad.name) == wanted or not bad.name:
                raise SourceError(
                    Text("error-recording.objects-item", file_name=file_name(kind), position=bad.position, why=bad.why)
                )
        raise _no_such(kind, name)

    async def raw(self, kind: Kind[R], name: str, namespace: str = "") -> dict[str, Any]:
        file = f"objects/{file_name(kind)}"
        try:
            found = raw_item(kind, self._files.read(file), namespace if kind.namespaced else "", name)
        except NotAListError as error:
            raise Unusable(f"{file} {error}") from error
        if found is None:
            raise _no_such(kind, name)
        return found

    async def list(self, kind: Kind[R], namespace: str = "", **which: Unpack[Which]) -> list[R]:
        """The objects of the kind, as `Cluster.list`; with all fields even for `metadata_only`."""
        items = self._objects(kind).items
        if namespace and kind.namespaced:
            items = [item for item in items if item.namespace == namespace]
        try:
            has_labels, has_fields = label_matcher(which.get("labels", "")), field_matcher(which.get("fields", ""))
            found = (item for item in items if has_labels(item.metadata.labels) and has_fields(item))
            return list(islice(found, which.get("most") or None))
        except ValueError as error:
            raise SourceError(
                Text("error-recording.objects-could-not-be-searched", file_name=file_name(kind), why=str(error))
            ) from error

    async def log(self, wanted: LogWanted) -> LogLines:
        name = log_name(wanted.namespace, wanted.pod, wanted.container, previous=wanted.previous)
        lines = LineFilter(wanted.needle, *wanted.others)
        if not wanted.tail:
            cut = self._files.tail(name, wanted.limit_bytes, lines.feed)
            found = lines.finish(cut_short=False)
            return _as_asked(wanted, found._replace(cut=found.cut or cut))
        # As an API server gives them: from so many lines before the end on, and no further than the limit.
        last = LineFilter(b"")
        self._files.tail(name, MOST_BYTES, last.feed)
        kept = last.finish(cut_short=False).lines[-wanted.tail :]
        text = "".join(f"{line}\n" for line in kept).encode()
        lines.feed(text[: wanted.limit_bytes])
        return _as_asked(wanted, lines.finish(cut_short=len(text) > wanted.limit_bytes))

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        """The recorded answer of a pod's port (`PodPorts`), whatever the query; its status is 200."""
        profile = wanted.path.removeprefix("debug/pprof/")
        for part in (wanted.namespace, wanted.pod, profile):
            if part in ("", ".", "..") or any(character in part for character in "/\\\0"):
                raise SourceError(Text("error-recording.no-name-of-profile", part=repr(part)))
        of_metrics = wanted.path == "metrics"
        folder, file = ("metrics", f"{wanted.port}.prom") if of_metrics else ("pprof", f"{profile}.pb.gz")
        name = f"{folder}/{wanted.namespace}/{wanted.pod}/{file}"
        if name not in self._files.names(f"{name.rpartition('/')[0]}/"):
            hint = Text("error-recording.add-what-pod-answered-byte")
            raise NotRecordedError(Text("error-recording.not-in-recording", name=name), hint=hint)
        body = self._files.read(name)
        return PodAnswer(200, {}, body[: wanted.limit_bytes], cut=len(body) > wanted.limit_bytes)

    def _objects(self, kind: Kind[R]) -> Decoded[R]:
        if (known := self._lists.get((file_name(kind), kind.type))) is not None:
            return known
        file = f"objects/{file_name(kind)}"
        data = self._files.read(file)
        try:
            decoded = decode_list(kind, data)
        except NotAListError as error:
            hint = Text("error-recording.write-with-kubectl", file=file[8:-5])
            raise Unusable(f"{file} {error}", hint=hint) from error
        self._lists[file_name(kind), kind.type] = decoded
        for bad in decoded.bad:
            at = "/".join(filter(None, (bad.namespace, bad.name))) or "nameless"
            self.undecodable.append(f"{file_name(kind)} item {bad.position} ({at}): {bad.why}")
        return decoded

    def _read_meta(self, path: Path) -> Meta:
        try:
            meta = msgspec.json.decode(self._files.read(META), type=Meta)
        except NotRecordedError:
            return self._assumed_meta(path)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                Text("error-recording.meta-could-not-be-read", path=path, meta=META, why=str(error)), hint=_META_HINT
            ) from error
        if meta.format not in (FORMAT, ""):
            text = Text("error-recording.of-format", path=path, format=repr(meta.format))
            raise SourceError(text, hint=Text("error-recording.format-read", format=FORMAT))
        return meta

    def _assumed_meta(self, path: Path) -> Meta:
        moments: list[datetime] = []
        for kind in ALL_KINDS:
            with suppress(SourceError):
                texts = _times(msgspec.to_builtins(self._objects(kind).items))
                moments += filter(None, map(parse_time, texts))
        if not moments:
            raise SourceError(Text("error-recording.has-no-time", path=path, meta=META), hint=_META_HINT)
        taken_at = format_time(max(moments))
        why = Text("error-recording.newest-time-is-taken", meta=META, taken_at=taken_at)
        self.notes = (gap(META, why, _META_HINT),)
        return Meta(taken_at)


def _as_asked(wanted: LogWanted, found: LogLines) -> LogLines:
    """The lines without the runtime's times, unless they are asked for. `kubectl logs --timestamps` adds them to every
    line; where some have none, the program wrote them itself.
    """
    if wanted.stamped or not all(_STAMP.match(line) for line in (found.first, *found.lines) if line):
        return found
    return found._replace(lines=tuple(_STAMP.sub("", line) for line in found.lines), first=_STAMP.sub("", found.first))


def _no_such(kind: Kind[R], name: str) -> NotFound:
    resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    return NotFound(Text("error-kube.not-found", resource=resource, name=name))


def _times(value: Any) -> Iterator[str]:
    """The times in an object (as builtins) that the cluster wrote; labels and annotations are anybody's."""
    if isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _times(item)
    elif isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            if key in _TIMES and isinstance(item, str):
                yield item
            elif key not in ("labels", "annotations"):
                yield from _times(item)
