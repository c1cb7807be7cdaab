"""Writes a recording (`hami-bot.recording/v1`): what can be read of a cluster, redacted, the same bytes each time."""

import asyncio
import gzip
import io
import shutil
import tarfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from bot.errors import SourceError, UsageError
from bot.kube.client.live import LiveCluster
from bot.kube.client.requests import ForbiddenError
from bot.kube.cluster import Cluster, PodPorts, list_served, seen
from bot.kube.hami_pods import COMPONENT_LABEL, SCHEDULER_COMPONENT
from bot.kube.lists import encode_list
from bot.kube.models import (
    ALL_KINDS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    WEBHOOKS,
    Event,
    Kind,
    Lease,
    Node,
    Pod,
    Resource,
)
from bot.kube.recording.files import FORMAT, META, archive_stem, file_name
from bot.kube.recording.record_logs import logs_of_hami, metrics_of_hami
from bot.kube.recording.recorded_cluster import Meta
from bot.kube.recording.redact import HAMI_COMPONENTS, redacted
from bot.kube.times import format_time
from bot.report import Gap
from bot.texts import Text

_PRIVATE, _GRANTED_THERE = ("configmaps", "leases"), ("services", "endpointslices")
_LATEST = 2**32 - 1  # of a time in a gzip header
ObjectsOf = Callable[[Kind[Resource]], Awaitable[list[Resource]]]


class RecordSummary(NamedTuple):
    """What a recording holds: the number of objects of each kind, the logs' names; and the gaps."""

    path: Path
    objects: dict[str, int]
    logs: tuple[str, ...]
    gaps: tuple[Gap, ...]


async def record(
    cluster: Cluster,
    out: Path,
    *,
    pod: tuple[str, str] | None = None,
    server_version: str,
    annotations: tuple[str, ...],
    ports: PodPorts | None = None,
    objects_of: ObjectsOf | None = None,
) -> RecordSummary:
    """Writes a recording of the cluster to `out`: a `.tar.gz` where the name ends so, which is replaced, else a folder,
    which must be new or empty. `pod` (namespace and name) limits the scheduler's logs to the lines that name it or bear
    on every pod; objects are always complete, since what a node has left depends on every pod. `annotations`:
    beginnings of annotation keys to keep beside HAMi's and Kubernetes' own. `ports`: access to the scheduler's metrics,
    None to leave them out. `objects_of` reads the objects of a kind, perhaps fewer than all. Raises SourceError when
    nothing could be read at all, UsageError when `out` cannot be written.
    """
    out, objects_of = _checked(out), objects_of or partial(_all_of, cluster)
    async with asyncio.TaskGroup() as reading:
        lists = [reading.create_task(seen(kind.plural, objects_of(kind))) for kind in ALL_KINDS]
    files: dict[str, bytes] = {}
    objects: dict[str, int] = {}
    gaps: list[Gap] = []
    pods: list[Pod] = []
    shown: list[str | None] = []
    for kind, task in zip(ALL_KINDS, lists, strict=True):
        items = task.result()
        if isinstance(items, Gap):
            gaps.append(items)
            continue
        objects[kind.plural] = len(items)
        shown += [time for item in items for time in _times(item)]
        # In a thread, as the logs are masked: a bot that records meanwhile answers others.
        files[f"objects/{file_name(kind)}"] = await asyncio.to_thread(
            encode_list, kind, (redacted(item, annotations) for item in items)
        )
        if kind.plural == PODS.plural:
            pods = [item for item in items if isinstance(item, Pod)]
    if not objects:
        raise SourceError(
            Text("error-recording.nothing-could-be-read", name=cluster.name, why=gaps[0].text), hint=gaps[0].advice
        )
    metrics, metrics_gaps = await metrics_of_hami(ports, pods) if ports else ({}, [])
    node = next((candidate.spec.node_name for candidate in pods if (candidate.namespace, candidate.name) == pod), "")
    logs, log_gaps = await logs_of_hami(cluster, pods, pod[1] if pod else "", node)
    taken_at = cluster.as_of(shown)  # the replay has to judge ages as the cluster's own clock does
    meta = Meta(format_time(taken_at), FORMAT, cluster.name, server_version, cluster.hami_version_hint)
    files |= logs | metrics | {META: msgspec.json.encode(meta)}
    try:
        await asyncio.to_thread(_write, out, files, taken_at)
    except OSError as error:
        raise UsageError(
            Text("error-command.could-not-be-written", out=out, why=str(error)),
            hint=Text("error-recording.name-another-place-with-o"),
        ) from error
    return RecordSummary(out, objects, tuple(sorted(logs)), (*gaps, *metrics_gaps, *log_gaps))


async def _all_of(cluster: Cluster, kind: Kind[Resource]) -> list[Resource]:
    """Lists a kind: private kinds, and those the chart's role grants only there, in the scheduler's namespaces."""
    if kind.plural not in _PRIVATE:
        try:
            return await list_served(cluster, kind)
        except ForbiddenError:
            if kind.plural not in _GRANTED_THERE:
                raise
    schedulers = await cluster.list(PODS, labels=f"{COMPONENT_LABEL}={SCHEDULER_COMPONENT}")
    found = [await cluster.list(kind, namespace) for namespace in sorted({pod.namespace for pod in schedulers})]
    return [item for items in found for item in items]


def _times(item: Resource) -> Iterator[str | None]:
    yield item.metadata.creation_timestamp
    if isinstance(item, Event):
        yield item.seen_at
    elif isinstance(item, Lease):
        yield item.spec.renew_time
    elif isinstance(item, Node):
        yield from (condition.last_heartbeat_time for condition in item.status.conditions or ())
    elif isinstance(item, Pod):
        yield from (condition.last_transition_time for condition in item.status.conditions or ())


def _checked(out: Path) -> Path:
    """The absolute path, found fit to be written before anything is read."""
    out = out.absolute()
    if not out.parent.is_dir():
        raise UsageError(
            Text("error-recording.not-folder", parent=out.parent),
            hint=Text("error-recording.name-existing-folder-with-o"),
        )
    is_archive = archive_stem(out) is not None
    if any(out.iterdir()) or is_archive if out.is_dir() else out.exists() and not is_archive:
        hint = Text("error-recording.name-new-folder-tar-gz")
        raise UsageError(Text("error-recording.place-is-taken", out=out), hint=hint)
    return out


def _write(out: Path, files: dict[str, bytes], taken_at: datetime) -> None:
    """All or nothing: beside the target first, so that a full disk leaves no half recording under its name."""
    part = out.with_name(f"{out.name}.part")
    _remove(part)
    try:
        if stem := archive_stem(out):
            mtime = min(max(0, int(taken_at.timestamp())), _LATEST)
            with (
                part.open("wb") as raw,
                gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=mtime) as zipped,
                tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
            ):
                for name, data in sorted(files.items()):
                    member = tarfile.TarInfo(f"{stem}/{name}")
                    member.size, member.mtime = len(data), mtime
                    archive.addfile(member, io.BytesIO(data))
        else:
            for name, data in files.items():
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                (part / name).write_bytes(data)
        part.replace(out)
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


_IN_NAMESPACE = (CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, LEASES, REPLICA_SETS, SERVICES)
_PLURALS = frozenset(kind.plural for kind in _IN_NAMESPACE)
_REASONS = ("FilteringFailed", "BindingFailed")
"""The reasons of HAMi's own events, which are in the namespace of the pod they are about (pkg/scheduler/event.go)."""


async def capture(
    cluster: LiveCluster, namespace: str, pods: Sequence[Pod], out: Path, *, annotations: tuple[str, ...]
) -> RecordSummary:
    """Records to `out` what a restart of HAMi's scheduler ends with its `pods`: logs, metrics, the lease. To spare a
    large cluster it reads HAMi alone: HAMi's `namespace`, the nodes, the webhooks, HAMi's events. `annotations` as for
    `record`. Metrics that may not be fetched are a gap. Raises SourceError when no log of the pods could be read,
    UsageError when `out` cannot be written.
    """

    async def objects_of(kind: Kind[Resource]) -> list[Resource]:
        if kind.plural == PODS.plural:
            wanted = f"{COMPONENT_LABEL} in ({','.join(sorted(HAMI_COMPONENTS))})"
            return _with(await cluster.list(kind, namespace, labels=wanted), pods)
        if kind.plural == EVENTS.plural:
            found = await cluster.list(kind, namespace)
            for reason in _REASONS:
                elsewhere = f"reason={reason},metadata.namespace!={namespace}"
                found = _with(found, await cluster.list(kind, fields=elsewhere))
            return found
        if kind.plural in (NODES.plural, WEBHOOKS.plural):
            return await cluster.list(kind)
        return await cluster.list(kind, namespace) if kind.plural in _PLURALS else []

    version = await cluster.server_version()
    summary = await record(
        cluster, out, server_version=version, annotations=annotations, ports=cluster, objects_of=objects_of
    )
    if pods and not summary.logs:
        why = next(
            (gap.text for gap in summary.gaps if gap.source.startswith("log of")),
            Text("error-recording.they-have-none"),
        )
        text = Text("error-recording.no-log-could-be-read", why=why)
        raise SourceError(text, hint=Text("error-recording.incomplete-recording", out=out))
    return summary


def _with(listed: list[Resource], more: Sequence[Resource]) -> list[Resource]:
    known = {(resource.namespace, resource.name) for resource in listed}
    return listed + [resource for resource in more if (resource.namespace, resource.name) not in known]
