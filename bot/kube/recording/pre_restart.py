"""A recording of what ends with the scheduler's pods, made before they are restarted: logs, metrics, the lease.

Of HAMi alone, so that a large cluster costs little: its own namespace, the nodes' annotations, its events.
"""

from collections.abc import Sequence
from pathlib import Path

from bot.errors import SourceError
from bot.kube.client.live import LiveCluster
from bot.kube.hami_pods import COMPONENT_LABEL
from bot.kube.models import (
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
    Kind,
    Pod,
    Resource,
)
from bot.kube.recording.record import RecordSummary, write_recording
from bot.kube.recording.redact import HAMI_COMPONENTS
from bot.texts import Text

_IN_NAMESPACE = (CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, ENDPOINT_SLICES, LEASES, REPLICA_SETS, SERVICES)
_REASONS = ("FilteringFailed", "BindingFailed")
"""HAMi's own events, which stand where the pods are that they are about (pkg/scheduler/event.go)."""


async def capture(
    cluster: LiveCluster, namespace: str, pods: Sequence[Pod], out: Path, *, annotations: tuple[str, ...]
) -> RecordSummary:
    """Writes the recording to `out`; `pods` are the scheduler's, in HAMi's `namespace`; `annotations` as for `record`.

    Metrics that may not be fetched are a gap. Raises SourceError when no log of theirs could be read, UsageError when
    `out` cannot be written.
    """

    async def objects_of(kind: Kind[Resource]) -> list[Resource]:
        if kind.plural == PODS.plural:
            wanted = f"{COMPONENT_LABEL} in ({','.join(sorted(HAMI_COMPONENTS))})"
            return _with(await cluster.list(kind, namespace, labels=wanted), pods)
        if kind.plural == EVENTS.plural:
            return await _events(cluster, kind, namespace)
        if kind.plural in (NODES.plural, WEBHOOKS.plural):
            return await cluster.list(kind)
        return await cluster.list(kind, namespace) if kind.plural in _PLURALS else []

    version = await cluster.server_version()
    summary = await write_recording(
        cluster, out, objects_of, server_version=version, annotations=annotations, ports=cluster
    )
    if pods and not summary.logs:
        why = next(
            (gap.text for gap in summary.gaps if gap.source.startswith("log of")),
            Text("error-recording.they-have-none"),
        )
        text = Text("error-recording.no-log-could-be-read", why=why)
        raise SourceError(text, hint=Text("error-recording.incomplete-recording", out=out))
    return summary


async def _events(cluster: LiveCluster, kind: Kind[Resource], namespace: str) -> list[Resource]:
    found = await cluster.list(kind, namespace)
    for reason in _REASONS:
        elsewhere = await cluster.list(kind, fields=f"reason={reason},metadata.namespace!={namespace}")
        found = _with(found, elsewhere)
    return found


def _with(listed: list[Resource], more: Sequence[Resource]) -> list[Resource]:
    known = {(resource.namespace, resource.name) for resource in listed}
    return listed + [resource for resource in more if (resource.namespace, resource.name) not in known]


_PLURALS = frozenset(kind.plural for kind in _IN_NAMESPACE)
