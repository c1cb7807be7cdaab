"""What a cluster's controllers and nodes do to Deployments, their pods and the scheduler's Lease, step by step.

Time comes from the writer's clock and randomness from its seed, so the same steps give the same cluster. What was
recorded is taken to be settled: only what changes from then on is acted upon.
"""

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from sandbox.apiserver.collection import Collection
from sandbox.apiserver.deploymentstatus import deployment_status, replica_set_status
from sandbox.apiserver.entries import Change, Object, decoded
from sandbox.apiserver.proxy import PodPorts
from sandbox.apiserver.rollouts import Pods, bounds, plan
from sandbox.apiserver.store import Store
from sandbox.apiserver.templates import (
    REVISION,
    Made,
    is_ready,
    owned_by,
    pod_of,
    replica_set_of,
    running,
    same_template,
)
from sandbox.apiserver.writes import Writer

_LEADER_LABEL = "hami.io/scheduler-role"
_MICROSECONDS = "%Y-%m-%dT%H:%M:%S.%fZ"


class Timing(NamedTuple):
    """Seconds until a new pod is ready, until an ended one is gone, and until another pod takes over an orphaned Lease.
    The holder of a Lease renews it every `renew_s`, never if that is 0.
    """

    ready_s: float = 2
    gone_s: float = 1
    lease_s: float = 2
    renew_s: float = 0


class Controllers:
    """Steps a cluster. `ports` are told of every new pod and the sibling whose recordings it shows."""

    def __init__(self, store: Store, writer: Writer, timing: Timing, ports: PodPorts) -> None:
        self._deployments = store.of("deployments.apps")
        self._sets = store.of("replicasets.apps")
        self._pods = store.of("pods")
        self._leases = store.of("leases.coordination.k8s.io")
        self._nodes = store.of("nodes")
        self._versions = store.versions
        self._seen = store.versions.newest
        self._writer = writer
        self._timing = timing
        self._ports = ports
        self._touched: set[tuple[str, str]] = set()
        self._order = itertools.count()
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._made = itertools.count(1)

    async def run(self) -> None:
        """Steps whenever something has changed or is due, until it is cancelled."""
        if self._timing.renew_s:
            self._renew()
        while True:
            self.settle()
            wait_s = (self._due[0][0] - self._writer.clock()).total_seconds() if self._due else None
            await self._versions.changed.wait(None if wait_s is None else max(0.0, wait_s))

    def settle(self) -> None:
        """Steps until there is nothing to do before more time has passed."""
        while self.step():
            pass

    def step(self) -> bool:
        """Does what is due, then acts once on what has changed; False if there was nothing to do."""
        before = self._versions.newest
        while self._due and self._due[0][0] <= self._writer.clock():
            heapq.heappop(self._due)[2]()
        self._observe()
        touched, self._touched = sorted(self._touched), set()
        for namespace, name in touched:
            deployment = self._deployments.object(namespace, name)
            if deployment and deployment.get("spec", {}).get("template"):
                self._reconcile(deployment)
        return self._versions.newest != before

    def end_pod(self, pod: Object, grace_s: int) -> Object | None:
        """Marks a pod as ending, and removes it later; returns None, and does nothing, if it can go at once."""
        if grace_s == 0 or not pod["spec"].get("nodeName"):
            return None
        if not pod["metadata"].get("deletionTimestamp"):
            ends = self._writer.clock().astimezone(UTC) + timedelta(seconds=grace_s)
            pod["metadata"] |= {
                "deletionTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "deletionGracePeriodSeconds": grace_s,
            }
            self._pods.write(pod)
            self._later(min(self._timing.gone_s, grace_s), lambda: self._take_out(pod))
        return pod

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._writer.clock() + timedelta(seconds=seconds), next(self._order), action))

    def _observe(self) -> None:
        """Notes which Deployments what has happened is about."""
        seen, self._seen = self._seen, self._versions.newest
        for change in self._deployments.since(seen):
            if change.type == "DELETED":
                self._orphaned(self._sets, decoded(change.entry, self._deployments.kind))
            else:
                namespace, _, name = change.entry.key.partition("/")
                self._touched.add((namespace, name))
        for change in self._sets.since(seen):
            if change.type == "DELETED":
                self._orphaned(self._pods, decoded(change.entry, self._sets.kind))
            self._touch_owner(change)
        for change in self._pods.since(seen):
            replica_set = self._touch_grand_owner(change)
            if change.type == "DELETED" and replica_set:
                self._left_leases(change, replica_set)

    def _orphaned(self, collection: Collection, owner: Object) -> None:
        """What the owner controlled goes with it, as the garbage collector sees to."""
        for item in self._owned(collection, owner):
            if collection is self._pods and self.end_pod(item, 30):
                continue
            collection.remove(item["metadata"]["namespace"], item["metadata"]["name"])

    def _touch_owner(self, change: Change) -> None:
        metadata = msgspec.json.decode(change.entry.metadata)
        for owner in metadata.get("ownerReferences") or ():
            if owner["kind"] == "Deployment":
                self._touched.add((metadata["namespace"], owner["name"]))

    def _touch_grand_owner(self, change: Change) -> Object | None:
        """The ReplicaSet of the pod that has changed, None for a pod without one."""
        metadata = msgspec.json.decode(change.entry.metadata)
        for owner in metadata.get("ownerReferences") or ():
            replica_set = (
                self._sets.object(metadata["namespace"], owner["name"]) if owner["kind"] == "ReplicaSet" else None
            )
            if replica_set:
                owners = replica_set["metadata"].get("ownerReferences") or ()
                self._touched |= {(metadata["namespace"], owner["name"]) for owner in owners}
                return replica_set
        return None

    def _owned(self, collection: Collection, owner: Object) -> list[Object]:
        entries = collection.select(owner["metadata"].get("namespace", ""))
        uid = owner["metadata"].get("uid", "").encode()
        items = (decoded(entry, collection.kind) for entry in entries if uid in entry.metadata)
        return [item for item in items if owned_by(item, owner)]

    def _reconcile(self, deployment: Object) -> None:
        """One step of one Deployment: its ReplicaSets, their pods, the status of all."""
        sets = self._owned(self._sets, deployment)
        present = next((set_ for set_ in sets if same_template(set_, deployment["spec"]["template"])), None)
        newest = max((_revision(set_) for set_ in sets), default=0)
        if present is None or _revision(present) < newest:
            self._begin_rollout(deployment, present, newest + 1)
            return
        sets.sort(key=lambda replica_set: (replica_set is present, replica_set["metadata"]["creationTimestamp"]))
        pods = [self._owned(self._pods, set_) for set_ in sets]
        if self._plan(deployment, sets, pods):  # their pods follow at the next step
            self._write_status(deployment, sets, pods)
            return
        siblings = [pod for group in pods for pod in group]
        for replica_set, group in zip(sets, pods, strict=True):
            self._scale(replica_set, group, siblings)
        pods = [self._owned(self._pods, set_) for set_ in sets]
        for replica_set, group in zip(sets, pods, strict=True):
            self._write_if_changed(self._sets, replica_set | {"status": replica_set_status(replica_set, group)})
        self._write_status(deployment, sets, pods)

    def _plan(self, deployment: Object, sets: list[Object], pods: list[list[Object]]) -> bool:
        """Gives every ReplicaSet as many replicas as it may have now; False when they have those."""
        if deployment["spec"].get("paused"):
            return False
        counts = [_counted(*pair) for pair in zip(sets, pods, strict=True)]
        steps = plan(deployment["spec"], counts[-1], counts[:-1])
        changed = False
        for replica_set, replicas in zip(sets, (*steps.old, steps.new), strict=True):
            if replica_set["spec"]["replicas"] != replicas:
                replica_set["spec"]["replicas"] = replicas
                self._write_if_changed(self._sets, replica_set)
                changed = True
        return changed

    def _write_status(self, deployment: Object, sets: list[Object], pods: list[list[Object]]) -> None:
        status = deployment_status(deployment, sets, pods, self._writer.now())
        self._write_if_changed(self._deployments, deployment | {"status": status})

    def _begin_rollout(self, deployment: Object, present: Object | None, revision: int) -> None:
        """Makes the template's ReplicaSet the newest, and notes its revision on the Deployment."""
        created = present is None
        if present is None:
            present = replica_set_of(deployment, revision, bounds(deployment["spec"])[0], self._new())
        present["metadata"].setdefault("annotations", {})[REVISION] = str(revision)
        self._sets.write(present)
        deployment["metadata"].setdefault("annotations", {})[REVISION] = str(revision)
        reason, message = "FoundNewReplicaSet", f'Found new replica set "{present["metadata"]["name"]}"'
        if created:
            reason, message = "NewReplicaSetCreated", f'Created new replica set "{present["metadata"]["name"]}"'
        conditions = [
            condition
            for condition in deployment.get("status", {}).get("conditions") or ()
            if condition["type"] != "Progressing"
        ]
        now = self._writer.now()
        progressing = {"type": "Progressing", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now}
        conditions.append(progressing | {"reason": reason, "message": message})
        deployment["status"] = deployment.get("status", {}) | {"conditions": conditions}
        self._deployments.write(deployment)

    def _scale(self, replica_set: Object, pods: list[Object], siblings: list[Object]) -> None:
        """Creates and ends pods until the ReplicaSet has as many as it should have."""
        active = sorted((pod for pod in pods if not _ending(pod)), key=lambda pod: not is_ready(pod))
        wanted = replica_set["spec"]["replicas"]
        for _ in range(wanted - len(active)):
            self._create_pod(replica_set, siblings[0] if siblings else None)
        for pod in active[wanted:]:
            if self.end_pod(pod, pod["spec"].get("terminationGracePeriodSeconds", 30)) is None:
                self._take_out(pod)

    def _create_pod(self, replica_set: Object, sibling: Object | None) -> None:
        node = sibling["spec"].get("nodeName", "") if sibling else ""
        nodes = self._nodes.select()
        node = node or (nodes[0].key if nodes else "")
        pod = pod_of(replica_set, self._writer.suffix(), sibling, node, self._new())
        self._pods.write(pod)
        if sibling:
            self._ports.inherit(pod, sibling)
        self._later(self._timing.ready_s, lambda: self._make_ready(pod))

    def _make_ready(self, pod: Object) -> None:
        present = self._same_pod(pod)
        if present and not _ending(present):
            number = next(self._made)
            ip = f"127.1.{201 + number // 250}.{number % 250 + 1}"
            present["status"] = running(present, ip, number, self._writer.now())
            self._pods.write(present)

    def _take_out(self, pod: Object) -> None:
        if self._same_pod(pod):
            self._pods.remove(pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _same_pod(self, pod: Object) -> Object | None:
        """The pod as it is now, None when it is gone or another has its name."""
        present = self._pods.object(pod["metadata"]["namespace"], pod["metadata"]["name"])
        same = present and present["metadata"].get("uid") == pod["metadata"].get("uid")
        return present if same else None

    def _left_leases(self, change: Change, replica_set: Object) -> None:
        """Leases whose holder is gone are taken over by another pod of its Deployment."""
        namespace, _, name = change.entry.key.partition("/")
        leader = _LEADER_LABEL in change.entry.labels
        for entry in self._leases.select(namespace):
            if _holder(decoded(entry, self._leases.kind)) == name:
                self._later(
                    self._timing.lease_s, lambda key=entry.key: self._take_over(key, replica_set, leader=leader)
                )

    def _take_over(self, key: str, replica_set: Object, *, leader: bool) -> None:
        namespace, _, name = key.partition("/")
        lease = self._leases.object(namespace, name)
        if lease is None or self._pods.entry(namespace, _holder(lease)):
            return
        owners = {owner["uid"] for owner in replica_set["metadata"].get("ownerReferences") or ()}
        sets = (decoded(entry, self._sets.kind) for entry in self._sets.select(namespace))
        family = [
            set_ for set_ in sets if owners & {ref["uid"] for ref in set_["metadata"].get("ownerReferences") or ()}
        ]
        ready = [
            pod
            for replica_set in family
            for pod in self._owned(self._pods, replica_set)
            if is_ready(pod) and not _ending(pod)
        ]
        if not ready:
            self._later(self._timing.lease_s, lambda: self._take_over(key, replica_set, leader=leader))
            return
        pod = ready[0]
        now = self._writer.clock().astimezone(UTC).strftime(_MICROSECONDS)
        lease["spec"] |= {
            "holderIdentity": f"{pod['metadata']['name']}_{self._writer.uid()}",
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": lease["spec"].get("leaseTransitions", 0) + 1,
        }
        self._leases.write(lease)
        if leader:
            pod["metadata"]["labels"][_LEADER_LABEL] = "leader"
            self._pods.write(pod)

    def _renew(self) -> None:
        """Renews every Lease that a pod holds, and comes back."""
        for entry in self._leases.select():
            lease = decoded(entry, self._leases.kind)
            pod = self._pods.object(lease["metadata"]["namespace"], _holder(lease))
            if pod and not _ending(pod):
                lease["spec"]["renewTime"] = self._writer.clock().astimezone(UTC).strftime(_MICROSECONDS)
                self._leases.write(lease)
        self._later(self._timing.renew_s, self._renew)

    def _write_if_changed(self, collection: Collection, item: Object) -> None:
        before = collection.object(item["metadata"]["namespace"], item["metadata"]["name"])
        if before is None or before == item:
            return
        if before["spec"] != item["spec"]:
            item["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        collection.write(item)

    def _new(self) -> Made:
        return Made(self._writer.uid(), self._writer.now())


def _revision(replica_set: Object) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(REVISION, 0))


def _ending(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _holder(lease: Object) -> str:
    """The pod that holds a Lease: identities are `<host name>_<uuid>`."""
    return (lease.get("spec", {}).get("holderIdentity") or "").partition("_")[0]


def _counted(replica_set: Object, pods: list[Object]) -> Pods:
    ready = sum(is_ready(pod) and not _ending(pod) for pod in pods)
    return Pods(replica_set["spec"]["replicas"], len(pods), ready)
