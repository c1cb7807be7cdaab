"""Reads what questions about scheduling need: HAMi's install and every other part of it, the GPUs and their holders."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeVar

import msgspec

from bot.errors import NotFound, Unusable
from bot.hami.installation import dra
from bot.hami.installation.install import (
    GUIDES_LABEL,
    Forbidden,
    Install,
    SchedulerConfig,
    extender_of,
    find_device_config,
    find_scheduler_config,
    kube_scheduler_of,
    mounted_config_maps,
    read_forbidden,
    read_install,
    trace_of,
)
from bot.hami.nodes.registration import parse_handshake
from bot.hami.pods.allocations import NODE_KEY
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST
from bot.hami.version import NEWEST_READ
from bot.kube.cluster import Cluster, Hinting, seen
from bot.kube.hami_pods import COMPONENT_LABEL, FORBIDDEN, HANDSHAKE, PLUGIN_COMPONENT, SCHEDULER_COMPONENT
from bot.kube.models import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HOLDERS,
    LEASES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    WEBHOOKS,
    ConfigMap,
    Holder,
    Kind,
    Lease,
    Node,
    Pod,
    Resource,
    ResourceQuota,
    ResourceSlice,
    Workload,
)
from bot.kube.models.base import Kept, of_each
from bot.kube.selectors import label_matcher
from bot.kube.times import parse_time
from bot.report import NEWER_HAMI, Confidence, Gap, gap
from bot.texts import Text, listed
from playbooks.gather.dra import gather_slices
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.webhook import WebhookSeen, gather_webhook
from playbooks.playbook import Sources

R = TypeVar("R", bound=Resource)

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_UNZONED = ("Requesting_", "Deleted_")
"""The beginnings of handshakes that the scheduler writes, with a local time that names no zone."""

DEPLOYMENTS_SOURCE = "deployments"
PODS_SOURCE = "scheduler pods"
LEASE_SOURCE = "scheduler lease"
NODE_SELECTOR_FLAG = "node-label-selector"


class InstallSeen(msgspec.Struct, frozen=True):
    """HAMi's install, its device config, and the ConfigMaps of its namespace; `gaps` for what could not be read."""

    install: Install
    config: DeviceConfig
    gaps: tuple[Gap, ...]
    config_maps: tuple[ConfigMap, ...] = ()
    slices: Sequence[ResourceSlice] | Gap = ()
    """The devices that DRA drivers offer; read only if no HAMi scheduler was found."""
    presence: Literal["found", "volcano", "absent", "unknown"] = "found"
    """Whether anything of HAMi is in the cluster, or only its plugin for Volcano; `absent` only if all was read."""
    cluster: str = ""
    context: str = ""
    """The name of the kubeconfig's context, if it is not the cluster's name."""

    @property
    def not_installed(self) -> Text | None:
        """The sentence that HAMi is not installed here; None if it is, or if that is not known."""
        if self.presence != "absent":
            return None
        key = "hami-not-installed.context" if self.context else "hami-not-installed.claim"
        return Text(key, cluster=self.cluster, context=self.context)

    @property
    def lease_unread(self) -> bool:
        """Whether the lease could not be read; `install` has None also for a lease that does not exist."""
        return any(gap.source == LEASE_SOURCE for gap in self.gaps)

    @property
    def confidence(self) -> Confidence:
        """`confirmed` only if the install was read whole: what is unread may explain what is seen."""
        return "suspected" if self.gaps else "confirmed"


class Capacity(NamedTuple):
    """The nodes, the pods that hold or reserve GPUs, and the quotas of one namespace or of all. `kept` is where results
    that were worked out of them stay for later questions (see `Cluster.kept`).
    """

    nodes: list[Node] | Gap
    pods: list[Holder] | Gap
    quotas: list[ResourceQuota] | Gap
    kept: Kept | None = None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for gap in self if isinstance(gap, Gap))


_ASSUMED = Text("error-gather.chart-resource-names-are-assumed")


def is_absent(seen: InstallSeen) -> bool:
    """Whether Deployments and pods were read, and none of them is HAMi's scheduler."""
    return not seen.install.seen and not any(gap.source in (DEPLOYMENTS_SOURCE, PODS_SOURCE) for gap in seen.gaps)


def install_unread(seen: InstallSeen) -> bool:
    """Whether neither the scheduler's Deployment nor its pods could be read."""
    return {DEPLOYMENTS_SOURCE, PODS_SOURCE} <= {gap.source for gap in seen.gaps}


def nothing_read(gap: Gap) -> Unusable:
    """The error for a question none of whose sources could be read: a report would only consist of gaps."""
    return Unusable(gap.text, hint=gap.advice)


async def gather_install(sources: Sources) -> InstallSeen:
    """Finds HAMi by its chart's label, else the guides' label, else its container's name; or by the settings' names."""
    cluster = sources.cluster
    deployments, pods = await asyncio.gather(
        seen(DEPLOYMENTS_SOURCE, _deployments(sources)),
        seen(PODS_SOURCE, _labelled(cluster, PODS, sources.hami_namespace)),
    )
    if pods == [] and not isinstance(deployments, Gap):
        pods = await seen(PODS_SOURCE, _pods_of(cluster, deployments))
    gaps = [*cluster.notes, *(gap for gap in (deployments, pods) if isinstance(gap, Gap))]
    install = read_install(
        [] if isinstance(deployments, Gap) else deployments,
        [] if isinstance(pods, Gap) else pods,
        None,
        version_hint=cluster.hami_version_hint,
    )
    try:
        label_matcher(install.flags.get(NODE_SELECTOR_FLAG, "").strip("[]"))
    except ValueError as error:  # which nodes the scheduler takes in is then not known
        why = Text("error.at", place=f"--{NODE_SELECTOR_FLAG}", why=str(error))
        gaps.append(gap("scheduler flags", why, Text("error-gather.every-node-in-scope")))
        install = install._replace(flags={**install.flags, NODE_SELECTOR_FLAG: ""})
    config, config_maps = DeviceConfig(), list[ConfigMap]()
    namespace = sources.hami_namespace or install.namespace
    if namespace:
        lease, maps = await asyncio.gather(
            seen(LEASE_SOURCE, _lease(cluster, install)), seen("config maps", cluster.list(CONFIG_MAPS, namespace))
        )
        gaps += [gap for gap in (lease, maps) if isinstance(gap, Gap)]
        install = install._replace(lease=None if isinstance(lease, Gap) else lease)
        config_maps, several = mounted_config_maps(() if isinstance(maps, Gap) else maps, install)
        if several:
            which = Text("error-gather.several-device-configs", names=listed(several), first=several[0])
            gaps.append(gap("device config", which, Text("error-gather.device-config-mount")))
        found = find_device_config(config_maps)
        if isinstance(found, DeviceConfig):
            config = found
        elif not isinstance(maps, Gap):
            why = Text("error-gather.device-config-yaml", place=namespace, problem=found or "not there")
            gaps.append(gap("device config", why, _ASSUMED))
    elif any(gap.source in (DEPLOYMENTS_SOURCE, PODS_SOURCE) for gap in gaps):
        gaps.append(gap("device config", Text("error-gather.no-scheduler-found"), _ASSUMED))
    if isinstance(cluster, Hinting):
        config = config.hinted(cluster.device_hints)
    config = config.switched_on(install.flags)
    if install.version and install.version.version > NEWEST_READ:
        newer = Text("error-gather.newer-than-known", version=install.version.version, newest=NEWEST_READ)
        gaps.append(gap(NEWER_HAMI, newer, Text("error-gather.all-verdicts-are-only-suspected")))
    context = "" if cluster.context == cluster.name else cluster.context
    read = InstallSeen(install, config, tuple(gaps), tuple(config_maps), cluster=cluster.name, context=context)
    return read if install.seen else await _looked_for(cluster, read)


async def _looked_for(cluster: Cluster, install: InstallSeen) -> InstallSeen:
    """Where no scheduler of HAMi's was found: whether anything else of HAMi is there, in any namespace."""
    slices: Sequence[ResourceSlice] | Gap = ()
    if is_absent(install):
        slices = await gather_slices(cluster)
    lists = await asyncio.gather(
        seen(DEPLOYMENTS_SOURCE, cluster.list(DEPLOYMENTS)),
        seen("daemon sets", cluster.list(DAEMON_SETS)),
        seen("webhooks", cluster.list(WEBHOOKS)),
        seen("nodes", cluster.list(NODES)),
    )
    unread = [gap for gap in lists if isinstance(gap, Gap)]
    by_dra = not isinstance(slices, Gap) and bool(dra.of_hami(slices))
    traces = {trace_of(item) for some in lists if not isinstance(some, Gap) for item in some} - {""}
    if by_dra or traces:
        return msgspec.structs.replace(
            install, slices=slices, presence="found" if by_dra or "hami" in traces else "volcano"
        )
    if is_absent(install) and not unread:
        return msgspec.structs.replace(install, slices=slices, presence="absent")
    gaps = tuple(dict.fromkeys((*install.gaps, *unread)))
    return msgspec.structs.replace(install, slices=slices, presence="unknown", gaps=gaps)


async def _deployments(sources: Sources) -> list[Workload]:
    cluster = sources.cluster
    if sources.hami_namespace and sources.scheduler_deployment:
        return [await cluster.get(DEPLOYMENTS, sources.scheduler_deployment, sources.hami_namespace)]
    if found := await _labelled(cluster, DEPLOYMENTS, sources.hami_namespace):
        return found
    everything = await cluster.list(DEPLOYMENTS, sources.hami_namespace)
    return [workload for workload in everything if extender_of(workload.spec.template.spec)]


async def _labelled(cluster: Cluster, kind: Kind[R], namespace: str) -> list[R]:
    """What has the chart's label for HAMi's scheduler; where nothing has, the guides'."""
    for labels in (f"{COMPONENT_LABEL}={SCHEDULER_COMPONENT}", "=".join(GUIDES_LABEL)):
        if found := await cluster.list(kind, namespace, labels=labels):
            return found
    return []


async def _pods_of(cluster: Cluster, deployments: Sequence[Workload]) -> list[Pod]:
    """The pods of a scheduler that carries none of the known labels: by the labels of its own template."""
    for deployment in deployments:
        labels = ",".join(f"{key}={value}" for key, value in (deployment.spec.template.metadata.labels or {}).items())
        if labels and (found := await cluster.list(PODS, deployment.namespace, labels=labels)):
            return found
    return []


async def _lease(cluster: Cluster, install: Install) -> Lease | None:
    name = install.flags.get("leader-elect-resource-name") or install.scheduler_name
    namespace = install.flags.get("leader-elect-resource-namespace") or install.namespace
    try:
        return await cluster.get(LEASES, name, namespace)
    except NotFound:
        return None


async def gather_capacity(cluster: Cluster, install: Install, namespace: str) -> Capacity:
    """Reads what HAMi's fit is worked out from; quotas of `namespace`, or of all namespaces if it is empty."""
    nodes, pods, quotas = await asyncio.gather(
        seen("nodes", cluster.list(NODES)),
        seen("pods", gather_holders(cluster, install.scheduler_name)),
        seen("resource quotas", cluster.list(RESOURCE_QUOTAS, namespace)),
    )
    return Capacity(nodes, pods, quotas, cluster.kept)


async def gather_holders(cluster: Cluster, scheduler_name: str) -> list[Holder]:
    """Reads the unfinished pods that hold or reserve GPUs.

    HAMi labels them since 2.5. A pod without the label that names HAMi's scheduler may be one too: its metadata is
    enough to tell. Reading all pods instead would be most of what a large cluster costs.
    """
    unlabelled = f"{UNFINISHED},spec.schedulerName={scheduler_name}"
    labelled, rest = await asyncio.gather(
        cluster.list(HOLDERS, labels=NODE_KEY, fields=UNFINISHED),
        cluster.list(HOLDERS, labels=f"!{NODE_KEY}", fields=unlabelled, metadata_only=True),
    )
    return labelled + [pod for pod in rest if pod.metadata.annotation(NODE_KEY)]


def times_of_pod(pod: Pod) -> Iterator[str | None]:
    """The times in a pod's metadata and status, as the API writes them."""
    yield pod.metadata.creation_timestamp
    yield from (condition.last_transition_time for condition in pod.status.conditions or ())


def times_shown(cluster: Cluster, nodes: Sequence[Node], install: Install) -> Iterator[str | None]:
    """The newest times that the cluster's objects show, by its own clock: the lease's, and that of the nodes."""
    yield install.lease.spec.renew_time if install.lease else None
    newest = [moment for moment in of_each(cluster.kept, _newest_time, nodes) if moment]
    if newest:
        yield max(newest).isoformat()


def _newest_time(node: Node) -> datetime | None:
    texts = {condition.last_heartbeat_time for condition in node.status.conditions or ()}
    moments = [moment for moment in map(parse_time, texts) if moment]
    handshake = node.metadata.annotation(FIRST.names.handshake)
    if handshake and not handshake.startswith(_UNZONED):
        handshake_state = parse_handshake(handshake)
        moments += [handshake_state.at] if handshake_state.at and handshake_state.zoned else []
    return max(moments, default=None)


PLUGIN_CONTAINER = "device-plugin"

NEEDLES = (FORBIDDEN, HANDSHAKE)
"""The words that the extender's log is searched for."""


class Components(msgspec.Struct, frozen=True):
    """The parts of the installation that were read, or gaps. `resources_known`: HAMi's device config was found."""

    webhook: WebhookSeen
    plugins: list[Workload] | Gap
    plugin_pods: list[Pod] | Gap
    nodes: list[Node] | Gap
    server_version: str | Gap
    scheduler_config: SchedulerConfig | None
    resources_known: bool
    refused: tuple[tuple[Pod, str, Forbidden], ...]
    """Lines of the extender's log by which the API server refuses HAMi's own service account something, with what."""
    slices: list[ResourceSlice] | Gap
    """The devices that DRA drivers offer; empty does not prove that there are none, see `gather_slices`."""
    gaps: tuple[Gap, ...]


async def gather_components(cluster: Cluster, install: Install, log: ExtenderLines) -> Components:
    """Reads all of HAMi but the scheduler; an unread part is a gap. `log` has the extender's lines with NEEDLES."""
    plugin = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"
    plugins, plugin_pods, nodes, maps, slices = await asyncio.gather(
        seen("daemon sets", cluster.list(DAEMON_SETS, labels=plugin)),
        seen("device plugin pods", cluster.list(PODS, labels=plugin)),
        seen("nodes", cluster.list(NODES)),
        seen("config maps", cluster.list(CONFIG_MAPS, install.namespace)),
        gather_slices(cluster),
    )
    webhook, version = await asyncio.gather(
        gather_webhook(cluster, install, log=log), seen("API server's version", cluster.server_version())
    )
    gaps = [
        *webhook.gaps,
        *(gap for gap in (plugins, plugin_pods, nodes, maps, slices, version) if isinstance(gap, Gap)),
    ]
    read = [] if isinstance(maps, Gap) else maps
    config = find_scheduler_config(read, kube_scheduler_of(install))
    if isinstance(config, str):
        gaps.append(gap("kube-scheduler config", config))
        config = None
    known = isinstance(find_device_config(read), DeviceConfig)
    gaps += log.gaps
    # What the API server refuses HAMi's scheduler, by its own log: roles themselves are not ours to read.
    matches = ((pod, line, read_forbidden(line)) for pod, line in log.holding(FORBIDDEN).lines)
    return Components(
        webhook,
        plugins,
        plugin_pods,
        nodes,
        server_version=version,
        scheduler_config=config,
        resources_known=known,
        refused=tuple((pod, line, what) for pod, line, what in matches if what),
        slices=slices,
        gaps=tuple(dict.fromkeys(gaps)),
    )
