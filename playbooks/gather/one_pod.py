"""What is read about one pod: a scene of one that waits for its node, one that has it, or one that is not there."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bot.hami.pods.allocations import reserved_node
from bot.hami.scheduler_logs.log_lines import lines_about
from bot.kube.cluster import Cluster, seen
from bot.kube.hami_pods import HANDSHAKE
from bot.kube.models import DAEMON_SETS, EVENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, Event, Pod, Workload
from bot.report import Gap
from playbooks.gather.dra import gather_claims
from playbooks.gather.lock_owners import gather_owners
from playbooks.gather.node_side import LogSeen, gather_logs, gather_node_side, gather_plugin_sets
from playbooks.gather.nodes_in_question import gather_nodes_in_question
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.scheduler_process import gather_process, with_ended, with_ghosts
from playbooks.gather.scheduling import gather_capacity, gather_install, times_of_pod, times_shown
from playbooks.gather.subject import AbsentPod, SubjectRequest
from playbooks.gather.volcano_plugins import gather_volcano_plugins
from playbooks.gather.webhook import FAILED_CALL, gather_webhook, went_past_hami
from playbooks.playbook import Sources
from playbooks.scenes.cluster import ClusterScene, Messages
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene

_CONTROLLERS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS, "Job": JOBS}


async def events_of(cluster: Cluster, namespace: str, name: str) -> list[Event] | Gap:
    """The events of a name."""
    return await seen("events", cluster.list(EVENTS, namespace, fields=f"involvedObject.name={name}"))


async def gather_waiting_pod(pod: Pod, sources: Sources, group: str) -> PodScene:
    """Reads what decides whether the pod gets a node; `group` is its PodGroup, where it has one."""
    cluster = sources.cluster
    install, events = await asyncio.gather(gather_install(sources), events_of(cluster, pod.namespace, pod.name))
    past = went_past_hami(pod, install.install, install.config)
    needles = [pod.name, *([HANDSHAKE] if past else [])]
    capacity, of_group, (process, log) = await asyncio.gather(
        gather_capacity(cluster, install.install, pod.namespace),
        _events_of_group(cluster, pod.namespace, group),
        gather_process(sources, install, [pod], *needles),
    )
    nodes = [] if isinstance(capacity.nodes, Gap) else capacity.nodes
    owners, questioned, process, claims, volcano_plugins = await asyncio.gather(
        gather_owners(cluster, nodes, [pod]),
        gather_nodes_in_question(cluster, pod, nodes, install.config),
        with_ghosts(sources, process, capacity.pods),
        gather_claims(cluster, pod),
        gather_volcano_plugins(cluster, pod),
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
    return PodScene(pod, in_cluster, claims, of_group, volcano_plugins)


async def _events_of_group(cluster: Cluster, namespace: str, group: str) -> list[Event] | Gap:
    return await events_of(cluster, namespace, group) if group else []


def _messages(pod: Pod, events: Sequence[Event] | Gap, log: ExtenderLines, now: datetime) -> Messages:
    """What the schedulers said of the one pod."""
    name, about = (pod.namespace, pod.name), log.holding(pod.name)
    lines = [
        (scheduler, line) for scheduler, raw in about.lines for line in lines_about([raw], pod.namespace, pod.name, now)
    ]
    unread = [events] if isinstance(events, Gap) else []
    return Messages({} if isinstance(events, Gap) else {name: events}, {name: lines}, (*unread, *about.gaps))


async def gather_absent_pod(wanted: SubjectRequest, absent: AbsentPod | Gap, sources: Sources) -> AbsentScene:
    """Reads the events of the name, and HAMi's webhook where nobody answered it for the pod."""
    cluster = sources.cluster
    events = await events_of(cluster, wanted.namespace, wanted.name)
    install = webhook = None
    if isinstance(absent, AbsentPod) and any(FAILED_CALL in refusal.message for refusal in absent.refusals):
        install = await gather_install(sources)
        webhook = await gather_webhook(cluster, install.install)
    return AbsentScene(wanted, absent, events, cluster.now(), install, webhook)


def asks_for_devices(pod: Pod) -> bool:
    """Whether any of its containers asks for an extended resource, or HAMi gave it a device."""
    return reserved_node(pod.metadata) != "" or bool(_asking(pod))


def _asking(pod: Pod) -> set[str]:
    """The containers that ask for an extended resource."""
    return {
        container.name
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        if any("/" in name for name in (container.resources.limits if container.resources else None) or ())
    }


async def gather_placed_pod(pod: Pod, sources: Sources) -> PlacedScene:
    """Reads what may explain a placed pod: only its events of one without devices, or that has ended well."""
    cluster = sources.cluster
    if not pod.spec.node_name or pod.status.phase == "Succeeded" or not asks_for_devices(pod):
        return PlacedScene(pod, await events_of(cluster, pod.namespace, pod.name), cluster.now())
    events, install, side, own = await asyncio.gather(
        events_of(cluster, pod.namespace, pod.name),
        gather_install(sources),
        gather_node_side(cluster, pod.spec.node_name, logs=_may_be_refused(pod)),
        gather_logs(cluster, [pod], only=_asking(pod)) if sources.workload_logs else _nothing(),
    )
    bare = pod.status.phase == "Failed" and not side.plugin_pods
    past = not _runs_well(pod) and went_past_hami(pod, install.install, install.config)
    sets, webhook, owner = await asyncio.gather(
        gather_plugin_sets(cluster) if bare else _nothing(),
        gather_webhook(cluster, install.install, [pod.namespace]) if past else _nothing(),
        seen("owner", _owner(cluster, pod)) if past else _nothing(),
    )
    return PlacedScene(
        pod,
        events,
        cluster.now(),
        install,
        side,
        own_logs=None if own is None else [log for log in own if isinstance(log, LogSeen)],
        own_log_gaps=[gap for gap in own or () if isinstance(gap, Gap)],
        plugin_sets=sets,
        webhook=webhook,
        owner=owner,
    )


async def _nothing() -> None:
    return None


async def _owner(cluster: Cluster, pod: Pod) -> Workload | None:
    """What made the pod; None where that is none of Kubernetes' own controllers, or is gone."""
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
