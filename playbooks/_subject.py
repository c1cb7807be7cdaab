"""Whom a question is about: a pod by name, by unique prefix, or by what owns it."""

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

from bot.errors import NotFound, SourceError, UsageError
from bot.kube.cluster import Cluster
from bot.kube.models import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Event,
    Kind,
    Pod,
    Workload,
)
from bot.report import Subject

_OWNERS: dict[str, tuple[str, Kind[Workload]]] = {
    alias: (kind, api)
    for kind, api, aliases in (
        ("Deployment", DEPLOYMENTS, ("deploy", "deployment", "deployments")),
        ("ReplicaSet", REPLICA_SETS, ("rs", "replicaset", "replicasets")),
        ("StatefulSet", STATEFUL_SETS, ("sts", "statefulset", "statefulsets")),
        ("DaemonSet", DAEMON_SETS, ("ds", "daemonset", "daemonsets")),
        ("Job", JOBS, ("job", "jobs")),
    )
    for alias in aliases
}
_POD_ALIASES = ("po", "pod", "pods")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MAX_CANDIDATES = 20
_CLOSE = 0.6


class SubjectRequest(NamedTuple):
    """`kind` is "Pod" or an owner's kind; `namespace` is empty when it must be found."""

    kind: str
    namespace: str
    name: str


def parse_subject(text: str, namespace: str = "") -> SubjectRequest:
    """`trainer-0`, `ml/trainer-0`, `deploy/x`, `ml/deploy/x`; raises UsageError for anything else."""
    parts = text.strip().split("/")
    kind = "Pod"
    if len(parts) in (2, 3) and parts[-2].lower() in (*_OWNERS, *_POD_ALIASES):
        word = parts.pop(-2).lower()
        kind = _OWNERS[word][0] if word in _OWNERS else "Pod"
    name = parts.pop()
    if parts:
        if len(parts) > 1 or (namespace and parts[0] != namespace):
            raise UsageError(
                f"{text!r} names another namespace than {namespace!r}" if len(parts) == 1 else _no_pod(text)
            )
        namespace = parts[0]
    if not all(_NAME.fullmatch(one) for one in filter(None, (name, namespace))) or not name:
        raise UsageError(
            _no_pod(text),
            hint="Give a pod as NAME, NAMESPACE/NAME or KIND/NAME: why ml/trainer-0, why deploy/trainer -n ml.",
        )
    return SubjectRequest(kind, namespace, name)


def _no_pod(text: str) -> str:
    return f"{text[:120]!r} is not a pod, NAMESPACE/POD or KIND/NAME"


class Found(NamedTuple):
    """The pod the question is about. `siblings` are the other pods that match."""

    pod: Pod
    siblings: int = 0


class Absent(NamedTuple):
    """No such pod. `candidates` are names that could have been meant, `refusals` the owner's FailedCreate events.

    `answer` is what the source said, verbatim.
    """

    answer: str
    candidates: tuple[Subject, ...] = ()
    refusals: tuple[Event, ...] = ()


async def resolve(cluster: Cluster, wanted: SubjectRequest) -> Found | Absent:
    """The pod, or why there is none. Raises SourceError when it cannot be told."""
    if wanted.kind != "Pod":
        return await _by_owner(cluster, wanted)
    if wanted.namespace:
        try:
            return Found(await cluster.get(PODS, wanted.name, wanted.namespace))
        except NotFound as error:
            return await _by_prefix(cluster, wanted, error.message)
    try:
        exact = await cluster.list(PODS, fields=f"metadata.name={wanted.name}")
    except SourceError:
        if not cluster.namespace:
            raise
        return await resolve(cluster, wanted._replace(namespace=cluster.namespace))
    if len(exact) == 1:
        return Found(exact[0])
    if exact:
        return Absent(f'pods "{wanted.name}" is in several namespaces', _subjects(exact))
    return await _by_prefix(cluster, wanted, f'pods "{wanted.name}" not found')


async def _by_prefix(cluster: Cluster, wanted: SubjectRequest, answer: str) -> Found | Absent:
    pods = await cluster.list(PODS, wanted.namespace, metadata_only=True)
    matching = [pod for pod in pods if pod.name.startswith(wanted.name)]
    if len(matching) == 1:
        return Found(await cluster.get(PODS, matching[0].name, matching[0].namespace))
    if matching:
        return Absent(answer, _subjects(matching))
    refusals = await _refusals(cluster, wanted.namespace, wanted.name)
    near = difflib.get_close_matches(wanted.name, {pod.name for pod in pods}, n=5, cutoff=_CLOSE)
    return Absent(answer, _subjects(pod for pod in pods if pod.name in near), refusals)


async def _by_owner(cluster: Cluster, wanted: SubjectRequest) -> Found | Absent:
    api = next(kind for name, kind in _OWNERS.values() if name == wanted.kind)
    owners = await cluster.list(api, wanted.namespace, fields=f"metadata.name={wanted.name}")
    if not owners:
        return Absent(f'{api.plural} "{wanted.name}" not found')
    if len(owners) > 1:
        subjects = tuple(Subject(wanted.kind, one.namespace, one.name) for one in owners)
        return Absent(f'{api.plural} "{wanted.name}" is in several namespaces', subjects)
    owner = owners[0]
    uids, names = {owner.metadata.uid}, {owner.name}
    if wanted.kind == "Deployment":
        for one in await cluster.list(REPLICA_SETS, owner.namespace):
            if any(ref.uid == owner.metadata.uid for ref in one.metadata.owner_references or ()):
                uids.add(one.metadata.uid)
                names.add(one.name)
    pods = [
        pod
        for pod in await cluster.list(PODS, owner.namespace)
        if any(ref.uid in uids for ref in pod.metadata.owner_references or ())
    ]
    if pods:
        pods.sort(key=_most_in_need)
        return Found(pods[0], siblings=len(pods) - 1)
    refusals = [one for name in sorted(names) for one in await _refusals(cluster, owner.namespace, name)]
    return Absent(f'{api.plural} "{owner.name}" has no pod', (), tuple(refusals))


def _most_in_need(pod: Pod) -> tuple[int, str, str]:
    """Unscheduled pods first, then failed, then the rest; the oldest of each first."""
    unscheduled = pod.status.phase == "Pending" and not pod.spec.node_name
    order = 0 if unscheduled else 1 if pod.status.phase in ("Pending", "Failed") else 2
    return order, pod.metadata.creation_timestamp or "", pod.name


async def _refusals(cluster: Cluster, namespace: str, name: str) -> tuple[Event, ...]:
    """FailedCreate events of what would own such a pod, newest first; none when events cannot be read."""
    try:
        events = await cluster.list(EVENTS, namespace, fields="reason=FailedCreate")
    except SourceError:
        return ()
    about = [one for one in events if _could_own(one.involved_object.name, name)]
    return tuple(sorted(about, key=lambda one: one.seen_at, reverse=True)[:3])


def _could_own(owner: str, pod: str) -> bool:
    """A controller's pods are named after it; a Deployment's name begins its ReplicaSets' names."""
    return bool(owner) and (owner == pod or pod.startswith(f"{owner}-") or owner.startswith(f"{pod}-"))


def _subjects(pods: Iterable[Pod]) -> tuple[Subject, ...]:
    named = sorted((pod.namespace, pod.name) for pod in pods)
    return tuple(Subject("Pod", *one) for one in named[:_MAX_CANDIDATES])
