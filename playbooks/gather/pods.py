"""Reads what a question about all pending pods needs: each list once, however many pods are pending."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bot.errors import SourceError
from bot.hami.installation.dra import has_hami_claims
from bot.hami.installation.install import is_anothers, went_past_hami
from bot.hami.pods.allocations import reserved_node, waits
from bot.hami.pods.request_parsing import asked_resources
from bot.hami.scheduler_logs.log_lines import FILTER_STARTS, NODE_UNFIT, LogLine, lines_about, parse_line, pod_key_of
from bot.kube.cluster import Cluster, as_read, seen
from bot.kube.hami_pods import HANDSHAKE
from bot.kube.models import DAEMON_SETS, EVENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Event, Node, Pod, Workload
from bot.report import Gap, Subject, gap
from bot.texts import Text
from playbooks.gather.dra import KUEUE, QUEUE, gather_claims, gather_queued
from playbooks.gather.node_side import (
    ContainerLogs,
    driver_label,
    events_of,
    gather_logs,
    gather_node_side,
    gather_plugin_sets,
    gather_volcano_plugins,
)
from playbooks.gather.nodes_in_question import gather_nodes_in_question, gather_owners
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.scheduler_process import gather_process, with_ended, with_ghosts
from playbooks.gather.scheduling import (
    Capacity,
    InstallSeen,
    gather_capacity,
    gather_install,
    times_of_pod,
    times_shown,
)
from playbooks.gather.subject import AbsentPod, only_own_namespace
from playbooks.gather.usage import FEW_WITHIN_S, MeasuredNodes, scraped
from playbooks.gather.webhook import FAILED_CALL, gather_webhook
from playbooks.playbook import Sources
from playbooks.scenes.cluster import ClusterScene, Messages, Named
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene

PENDING = "status.phase=Pending,spec.nodeName="
_FEW_PODS = 20
"""Up to this many pending pods, the events are read pod by pod, as `why` does."""
_LONG_EVENTS_UP_TO = 500
"""The most nodes with which many pods' long events are read: HAMi's name every node, 100 kB a try on 5,000 nodes."""
_SHORT_REASONS = ("FailedScheduling", "BindingFailed")
_LONG_REASONS = ("FilteringFailed", "FilteringSucceed")
_FILTER_LINE = 'pod="'
"""The words in every log line that a filter run of HAMi 2.5 to 2.10 writes about its pod."""
_FILTER_WORDS = (*FILTER_STARTS, *NODE_UNFIT)


class Waiting(NamedTuple):
    """The pending pods that concern HAMi, the oldest first, and the namespace that was read; empty for all."""

    pods: list[Pod]
    namespace: str
    gaps: tuple[Gap, ...]
    by_claims: Sequence[Pod] = ()
    """Further pending pods that ask through ResourceClaims, for HAMi's devices or others'."""
    of_others: Sequence[Pod] = ()
    """Further pending pods that ask for resources of HAMi's names, but that another scheduler places."""


async def gather_waiting(sources: Sources, namespace: str) -> tuple[InstallSeen, Waiting]:
    """Reads HAMi's install and the pending pods that concern it. Raises SourceError if no pods can be read."""
    install, found = await asyncio.gather(gather_install(sources), seen("pods", _pending(sources.cluster, namespace)))
    if isinstance(found, Gap):
        raise SourceError(found.text, hint=found.advice)
    known = install.install.scheduler_name

    def concerns_hami(pod: Pod) -> bool:
        return pod.spec.scheduler_name == known or has_hami_claims(pod) or bool(asked_resources(pod, install.config))

    waiting = sorted(
        filter(waits, found.pods), key=lambda pod: (pod.metadata.creation_timestamp or "", pod.namespace, pod.name)
    )
    claiming = [pod for pod in waiting if pod.spec.resource_claims and not concerns_hami(pod)]
    asking = [(is_anothers(pod.spec.scheduler_name, install.install), pod) for pod in waiting if concerns_hami(pod)]
    pods, of_others = ([pod for anothers, pod in asking if anothers is it] for it in (False, True))
    return install, found._replace(pods=pods, by_claims=claiming, of_others=of_others)


def is_of(pod: Pod, whose: Sequence[str]) -> bool:
    """Whether the pod is in one of the namespaces or has one of the labels (`ml`, `owner=ada`); true without any."""
    labels = pod.metadata.labels or {}
    return not whose or any(
        labels.get(word.partition("=")[0]) == word.partition("=")[2] if "=" in word else pod.namespace == word
        for word in whose
    )


async def _pending(cluster: Cluster, namespace: str) -> Waiting:
    """Reads the credentials' own namespace, with a gap that says so, where not all may be read."""
    try:
        return Waiting(await cluster.list(PODS, namespace, fields=PENDING), namespace, ())
    except SourceError as error:
        if namespace or not cluster.namespace:
            raise
        pods = await cluster.list(PODS, cluster.namespace, fields=PENDING)
        return Waiting(pods, cluster.namespace, (only_own_namespace(cluster.namespace, error),))


async def gather_scene(
    sources: Sources, install: InstallSeen, waiting: Waiting, capacity: Capacity | None = None
) -> ClusterScene:
    """Reads what bears on these pods: nodes and GPUs (unless `capacity` has them), and what the schedulers said."""
    cluster = sources.cluster
    capacity = capacity or await gather_capacity(cluster, install.install, waiting.namespace)
    nodes: Sequence[Node] = () if isinstance(capacity.nodes, Gap) else capacity.nodes
    past = {pod.namespace for pod in waiting.pods if went_past_hami(pod, install.install, install.config)}
    needles = [*([_FILTER_LINE] if _reads_long(waiting, len(nodes)) else []), *([HANDSHAKE] if past else [])]
    owners, (events, gaps), (process, log), questioned = await asyncio.gather(
        gather_owners(cluster, nodes),
        _gather_events(cluster, waiting, len(nodes)),
        gather_process(sources, install, waiting.pods, *needles),
        gather_nodes_in_question(cluster, None, nodes, install.config),
    )
    process = await with_ended(cluster, await with_ghosts(sources, process, capacity.pods))
    webhook = await gather_webhook(cluster, install.install, past, log) if past else None
    messages = Messages(events, _lines(log, waiting, cluster.now()), (*gaps, *log.gaps))
    shown = (moment for pod in waiting.pods for moment in times_of_pod(pod))
    as_of = cluster.as_of([*shown, *times_shown(cluster, nodes, install.install)])
    return ClusterScene(
        install,
        capacity,
        as_of,
        messages=messages,
        lock_owners=owners,
        questioned=questioned,
        process=process,
        webhook=webhook,
    )


def _reads_long(waiting: Waiting, nodes: int) -> bool:
    return len(waiting.pods) <= _FEW_PODS or nodes <= _LONG_EVENTS_UP_TO


async def _gather_events(
    cluster: Cluster, waiting: Waiting, nodes: int
) -> tuple[dict[Named, list[Event]], tuple[Gap, ...]]:
    reads_long = _reads_long(waiting, nodes)
    if len(waiting.pods) <= _FEW_PODS:
        asked = [(pod.namespace, f"involvedObject.name={pod.name}") for pod in waiting.pods]
    else:
        reasons = (*_SHORT_REASONS, *(_LONG_REASONS if reads_long else ()))
        asked = [(waiting.namespace, f"involvedObject.kind=Pod,reason={reason}") for reason in reasons]
    found = await asyncio.gather(
        *(seen("events", cluster.list(EVENTS, namespace, fields=fields)) for namespace, fields in asked)
    )
    names = {(pod.namespace, pod.name) for pod in waiting.pods}
    events: dict[Named, list[Event]] = {}
    for event in (event for some in found if not isinstance(some, Gap) for event in some):
        about = event.involved_object
        name = (about.namespace or event.namespace, about.name)
        if name in names:
            events.setdefault(name, []).append(event)
    gaps = list(dict.fromkeys(gap for gap in found if isinstance(gap, Gap)))
    if not reads_long:
        why = Text("error-gather.each-names-all-nodes", nodes=f"{nodes:,}", count=f"{len(waiting.pods):,}")
        gaps.append(gap("HAMi's events and log", why, Text("error-gather.ask-about-one-pod")))
    return events, tuple(gaps)


def _lines(log: ExtenderLines, waiting: Waiting, now: datetime) -> dict[Named, list[tuple[Pod, LogLine]]]:
    names = {(pod.namespace, pod.name) for pod in waiting.pods}
    lines: dict[Named, list[tuple[Pod, LogLine]]] = {}
    for scheduler, raw in log.lines:
        if not any(word in raw for word in _FILTER_WORDS):
            continue
        line = parse_line(raw, now)
        namespace, _, name = pod_key_of(line).rpartition("/") if line else ("", "", "")
        if line and (namespace, name) in names:
            lines.setdefault((namespace, name), []).append((scheduler, line))
    return lines


_CONTROLLERS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS, "Job": JOBS}


async def gather_waiting_pod(pod: Pod, sources: Sources, group: str) -> PodScene:
    """Reads what decides whether the pod gets a node; `group` is its PodGroup, if it has one."""
    cluster = sources.cluster
    install, events = await asyncio.gather(gather_install(sources), events_of(cluster, pod.namespace, pod.name))
    past = went_past_hami(pod, install.install, install.config)
    needles = [pod.name, *([HANDSHAKE] if past else [])]
    capacity, of_group, (process, log) = await asyncio.gather(
        gather_capacity(cluster, install.install, pod.namespace),
        events_of(cluster, pod.namespace, group) if group else as_read(list[Event]()),
        gather_process(sources, install, [pod], *needles),
    )
    nodes = [] if isinstance(capacity.nodes, Gap) else capacity.nodes
    held_by_kueue = any(gate.name.startswith(KUEUE) for gate in pod.spec.scheduling_gates or ())
    owners, questioned, process, claims, volcano_plugins, queued = await asyncio.gather(
        gather_owners(cluster, nodes),
        gather_nodes_in_question(cluster, pod, nodes, install.config),
        with_ghosts(sources, process, capacity.pods),
        gather_claims(cluster, pod) if pod.spec.resource_claims else as_read(None),
        gather_volcano_plugins(cluster, pod),
        gather_queued(cluster, pod) if held_by_kueue else as_read(None),
    )
    process = await with_ended(cluster, process)
    in_cluster = ClusterScene(
        install,
        capacity,
        cluster.as_of([*times_of_pod(pod), *times_shown(cluster, nodes, install.install)]),
        messages=_messages(pod, events, log, cluster.now()),
        lock_owners=owners,
        questioned=questioned,
        process=process,
        webhook=await gather_webhook(cluster, install.install, [pod.namespace], log) if past else None,
    )
    return PodScene(in_cluster, pod, claims, of_group, volcano_plugins, queued)


def _messages(pod: Pod, events: Sequence[Event] | Gap, log: ExtenderLines, now: datetime) -> Messages:
    name, about = (pod.namespace, pod.name), log.holding(pod.name)
    lines = [
        (scheduler, line) for scheduler, raw in about.lines for line in lines_about([raw], pod.namespace, pod.name, now)
    ]
    unread = [events] if isinstance(events, Gap) else []
    return Messages({} if isinstance(events, Gap) else {name: events}, {name: lines}, (*unread, *about.gaps))


async def gather_absent_pod(wanted: Subject, absent: AbsentPod | Gap, sources: Sources) -> AbsentScene:
    """Reads the events of a pod that does not exist, and HAMi's webhook if it failed to answer for the pod."""
    cluster = sources.cluster
    events = await events_of(cluster, wanted.namespace, wanted.name)
    install = webhook = queued = None
    job = absent.suspended if isinstance(absent, AbsentPod) else None
    if job and job.metadata.label(QUEUE):
        queued = await gather_queued(cluster, job)
    if isinstance(absent, AbsentPod) and any(FAILED_CALL in refusal.message for refusal in absent.refusals):
        install = await gather_install(sources)
        webhook = await gather_webhook(cluster, install.install)
    return AbsentScene(wanted, absent, events, cluster.now(), install, webhook=webhook, queued=queued)


def asks_for_devices(pod: Pod) -> bool:
    """Whether a container of the pod asks for an extended resource, or HAMi gave the pod a device."""
    return reserved_node(pod.metadata) != "" or bool(_asking(pod))


def _asking(pod: Pod) -> set[str]:
    return {
        container.name
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        if any("/" in name for name in (container.resources.limits if container.resources else None) or ())
    }


async def gather_placed_pod(pod: Pod, sources: Sources) -> PlacedScene:
    """Reads what may explain a placed pod; only its events if it asks for no devices, or has ended well."""
    cluster = sources.cluster
    if not pod.spec.node_name or pod.status.phase == "Succeeded" or not asks_for_devices(pod):
        return PlacedScene(pod, await events_of(cluster, pod.namespace, pod.name), cluster.now())
    events, install, side, own = await asyncio.gather(
        events_of(cluster, pod.namespace, pod.name),
        gather_install(sources),
        gather_node_side(cluster, pod.spec.node_name, logs=_may_be_refused(pod)),
        gather_logs(cluster, [pod], only=_asking(pod)) if sources.workload_logs else as_read(None),
    )
    runs = any(status.state.running for status in pod.status.container_statuses or ())
    if runs and not isinstance(side.node, Gap) and not driver_label(side.node) and not side.logs:
        told = await gather_logs(cluster, side.plugin_pods)  # they may tell the driver's version
        side = side._replace(logs=tuple(told.logs))
    bare = pod.status.phase == "Failed" and not side.plugin_pods
    past = not _runs_well(pod) and went_past_hami(pod, install.install, install.config)
    sets, webhook, owner, measured, volcano_plugins = await asyncio.gather(
        gather_plugin_sets(cluster) if bare else as_read(None),
        gather_webhook(cluster, install.install, [pod.namespace]) if past else as_read(None),
        seen("owner", _owner(cluster, pod)) if past else as_read(None),
        scraped(sources.ports, side.plugin_pods, within_s=FEW_WITHIN_S) if sources.ports and runs else as_read(None),
        gather_volcano_plugins(cluster, pod) if _may_be_refused(pod) else as_read(ContainerLogs()),
    )
    return PlacedScene(
        pod,
        events,
        cluster.now(),
        install,
        side,
        own_logs=None if own is None else own.logs,
        own_log_gaps=() if own is None else own.gaps,
        plugin_sets=sets,
        webhook=webhook,
        owner=owner,
        measured=None if measured is None else MeasuredNodes(measured, cluster.now()),
        volcano_plugins=volcano_plugins,
    )


async def _owner(cluster: Cluster, pod: Pod) -> Workload | None:
    about = next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)
    kind = _CONTROLLERS.get(about.kind) if about else None
    if about is None or kind is None:
        return None
    return next(iter(await cluster.list(kind, pod.namespace, fields=f"metadata.name={about.name}")), None)


def _runs_well(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    return pod.status.phase == "Running" and all(status.ready and not status.restart_count for status in statuses)


def _may_be_refused(pod: Pod) -> bool:
    """Whether kubelet may have refused its devices: it starts no container before it has them."""
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    began = any(status.state.running or status.state.terminated or status.last_state.terminated for status in statuses)
    return not began or (pod.status.phase == "Failed" and bool(pod.status.reason))
