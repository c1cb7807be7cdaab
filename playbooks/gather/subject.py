"""Finds the pod that a question is about, by its name, by how its name begins, or by its owner."""

import asyncio
import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import structs

from bot.errors import NotFound, SourceError, UsageError
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.kube.cluster import Cluster, seen
from bot.kube.models import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Event,
    Kind,
    ObjectMeta,
    Pod,
    Resource,
    Workload,
)
from bot.kube.models.base import ObjectReference
from bot.report import Gap, Subject, gap
from bot.texts import Text, clauses
from playbooks.playbook import plain_numbers
from playbooks.quotes import REPLICA_FAILURE

R = TypeVar("R", bound=Resource)

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
_OF_OPERATORS: dict[str, str] = {
    **{
        word: kind
        for kind in (
            *("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "JobSet", "CronJob"),
            *("LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "InferenceService", "Workflow", "Notebook"),
            *("Rollout", "AppWrapper", "ReplicationController", "SparkApplication"),
        )
        for word in (kind.lower(), f"{kind.lower()}s")
    },
    **dict.fromkeys(("vcjob", "vcjobs", "vj"), "VolcanoJob"),
    "cj": "CronJob",
    "lws": "LeaderWorkerSet",
    "isvc": "InferenceService",
    "wf": "Workflow",
}
"""Kinds of operators' objects, which the bot does not read: their pods and the objects between name them as owner."""
_OWNED_AS = {"VolcanoJob": "Job"}
_BETWEEN = (DEPLOYMENTS, STATEFUL_SETS, JOBS, REPLICA_SETS)
"""Kinds of objects between an operator's object and its pods, in the order of ownership."""
_NAMED_AFTER = (
    *("training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name"),
    *("ray.io/cluster", "ray.io/originated-from-cr-name", "serving.kserve.io/inferenceservice", "notebook-name"),
    *("workflows.argoproj.io/workflow", "volcano.sh/job-name", "workload.codeflare.dev/appwrapper"),
)
"""Labels of pods that name the object for which an operator made them."""
_ROLES = (
    *("training.kubeflow.org/replica-type", "volcano.sh/task-spec", "ray.io/group"),
    *("jobset.sigs.k8s.io/replicatedjob-name", "component"),
)
KINDS_OF_OWNERS = frozenset({*_OWNERS, *_OF_OPERATORS})
"""The words for kinds of owners before a name: `deploy/x`, `jobs/x`."""
_POD_ALIASES = ("po", "pod", "pods")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMED = re.compile(r"(?:([a-z0-9][a-z0-9-]{0,62})/)?([a-z0-9][a-z0-9.-]{0,251}[a-z0-9])(?![a-z0-9])")
_MAX_CANDIDATES = 20
_CREATED_POD = re.compile(r"create Pod (\S+) in StatefulSet")
_MAX_REFUSALS = 3
_WELL = 4
_CLOSE = 0.6


def parse_subject(text: str, namespace: str = "") -> Subject:
    """The subject in `trainer-0`, `ml/trainer-0`, `deploy/x`, or `ml/deploy/x`. Raises UsageError for anything else.
    Its namespace is empty if none was named: it has to be found.
    """
    parts = text.strip().lower().split("/")  # as every name of Kubernetes is
    kind = "Pod"
    word = parts[-2].lower().partition(".")[0] if len(parts) in (2, 3) else ""
    if word in (*_OWNERS, *_OF_OPERATORS, *_POD_ALIASES):
        del parts[-2]
        kind = _OWNERS[word][0] if word in _OWNERS else _OF_OPERATORS.get(word, "Pod")
    name = parts.pop()
    if len(parts) > 1:
        raise UsageError(Text("error-gather.no-pod-or-owner", text=repr(text[:120])))
    if parts and namespace not in ("", parts[0]):
        raise UsageError(Text("error-gather.names-another-namespace", text=repr(text), namespace=repr(namespace)))
    namespace = parts[0] if parts else namespace
    if not all(_NAME.fullmatch(part) for part in filter(None, (name, namespace))) or not name:
        no_pod = Text("error-gather.no-pod-or-owner", text=repr(text[:120]))
        raise UsageError(no_pod, hint=Text("error-gather.give-pod-as"))
    return Subject(kind, namespace, name)


class FoundPod(msgspec.Struct, frozen=True):
    """The pod that a question is about. `gaps` tell where no pod was looked for. `by_prefix`: no pod has the name that
    was typed, and only this one's begins with it. `alike` are all pods of the owner that was asked about, this one
    among them, and `wanted` is how many it wants, None if that is not known.
    """

    pod: Pod
    by_prefix: bool = False
    gaps: tuple[Gap, ...] = ()
    alike: tuple[Pod, ...] = ()
    wanted: int | None = None


class AbsentPod(msgspec.Struct, frozen=True):
    """Why no pod was found. `candidates` are names that could have been meant, the first of the `matches` with that
    name or beginning, or 0 if they are only near. `refusals` are the owner's FailedCreate events, or its condition.
    `answer` is the API's own message that the pod was not found. `node`: a node has exactly that name. `suspended` is
    the Job that has no pod because it is suspended.
    """

    answer: str
    matches: int = 0
    candidates: tuple[Subject, ...] = ()
    refusals: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    node: bool = False
    suspended: Workload | None = None


async def resolve(cluster: Cluster, wanted: Subject, *, whole_name: bool = False) -> FoundPod | AbsentPod:
    """The pod that is meant, or why there is none; `whole_name`: a part of a name finds none. Raises SourceError."""
    if wanted.kind != "Pod":
        return await _by_owner(cluster, wanted)
    if wanted.namespace:
        try:
            return FoundPod(await cluster.get(PODS, wanted.name, wanted.namespace))
        except NotFound:
            found = await _by_prefix(cluster, wanted, whole_name=whole_name)
            if isinstance(found, FoundPod) or found.candidates:
                return found
            elsewhere = await seen("pods", cluster.list(PODS, fields=f"metadata.name={wanted.name}"))
            known = () if isinstance(elsewhere, Gap) else _subjects(elsewhere)
            return structs.replace(found, candidates=known)
    try:
        exact = await cluster.list(PODS, fields=f"metadata.name={wanted.name}")
    except SourceError as error:
        if not cluster.namespace:
            raise
        found = await resolve(cluster, structs.replace(wanted, namespace=cluster.namespace), whole_name=whole_name)
        return structs.replace(found, gaps=(only_own_namespace(cluster.namespace, error),))
    if len(exact) == 1:
        return FoundPod(exact[0])
    if exact:
        return AbsentPod(_not_found(PODS, wanted.name), len(exact), _subjects(exact))
    return await _by_prefix(cluster, wanted, whole_name=whole_name)


def only_own_namespace(namespace: str, error: SourceError) -> Gap:
    """The gap that only pods of the credentials' own namespace were read, because those of all were refused."""
    hint = Text("error-gather.only-namespace-searched", namespace=namespace)
    return gap("pods of all namespaces", error.message, clauses([hint, error.hint]) if error.hint else hint)


async def pods_named_in(cluster: Cluster, text: str) -> tuple[Subject, ...]:
    """The pods that a text names in full, by at most 20 of its words. Raises SourceError if pods cannot be read."""
    pods: dict[tuple[str, str], Pod] = {}
    # Pods of controllers have a hyphen in their name, most others one or a digit; plain words of a sentence do not.
    words = dict.fromkeys(match for match in _NAMED.findall(text.lower()) if re.search(r"[-\d]", match[1]))
    for namespace, name in list(words)[:_MAX_CANDIDATES]:
        found = await cluster.list(PODS, namespace, fields=f"metadata.name={name}")
        pods |= {(pod.namespace, pod.name): pod for pod in found}
    return _subjects(pods.values())


class KnownNames(NamedTuple):
    """Names in a cluster that a message may mention: pods and owners by namespace, nodes, namespaces, words of GPU
    types. An owner is named as in a command: `ml/job/train`. Nodes are by what people call them: see `as_called`.
    """

    pods: Mapping[str, tuple[str, ...]]
    owners: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, str]
    namespaces: frozenset[str]
    types: frozenset[str]


NOBODY_KNOWN = KnownNames({}, {}, {}, frozenset(), frozenset())
_TEMPLATE_HASH = re.compile(r"-[a-z0-9]{5,10}$")
_TYPE_WORD = re.compile(r"(?=[a-z]*\d)[a-z0-9]{2,}")


def as_called(nodes: Iterable[str]) -> Mapping[str, str]:
    """The nodes by name and by short names that are no other's: without domain or zeros, and `#7` for `node 7`."""
    names = {node: node for node in nodes}
    called = Counter[str]()
    others: dict[str, str] = {}
    for node in names:
        host = node.partition(".")[0]
        also = {host, plain_numbers(host), *(f"#{int(number)}" for number in re.findall(r"\d+$", host))}
        called.update(also)
        others |= dict.fromkeys(also, node)
    return {word: node for word, node in others.items() if called[word] == 1} | names


async def gather_names(cluster: Cluster) -> KnownNames:
    """Reads the names of pods, owners, nodes, namespaces and GPU types in a cluster, as far as they can be read."""
    pods, nodes = await asyncio.gather(
        seen("pods", cluster.list(PODS, metadata_only=True)), seen("nodes", cluster.list(NODES, metadata_only=True))
    )
    spaces: defaultdict[str, dict[str, None]] = defaultdict(dict)
    owners: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for pod in [] if isinstance(pods, Gap) else pods:
        spaces[pod.name][pod.namespace] = None
        for owner in pod.metadata.owner_references or ():
            kind, name = owner.kind.lower(), owner.name
            if kind == "replicaset" and _TEMPLATE_HASH.search(name):
                kind, name = "deploy", _TEMPLATE_HASH.sub("", name)
            owners[name]["/".join(filter(None, (pod.namespace, kind if kind in _OWNERS else "", name)))] = None
    known = [] if isinstance(nodes, Gap) else nodes
    found = (each for node in known for each in read_registrations(node) if isinstance(each, Registration))
    cards = [card for registration in found for card in registration.cards]
    return KnownNames(
        {name: tuple(some) for name, some in spaces.items()},
        {name: tuple(some) for name, some in owners.items() if name not in {node.name for node in known}},
        as_called(node.name for node in known),
        frozenset(namespace for some in spaces.values() for namespace in some),
        frozenset(word for card in cards for word in _TYPE_WORD.findall(card.type.lower())),
    )


async def _by_prefix(cluster: Cluster, wanted: Subject, *, whole_name: bool) -> FoundPod | AbsentPod:
    """The pod whose name was made of the one typed: `wl` is meant for `wl-7d9f-x2`, and `wl-1` not for `wl-10`."""
    answer = _not_found(PODS, wanted.name)
    pods = await cluster.list(PODS, wanted.namespace, metadata_only=True)
    matching = [pod for pod in pods if pod.name.startswith(f"{wanted.name}-")]
    if len(matching) == 1 and not whole_name:
        return FoundPod(await cluster.get(PODS, matching[0].name, matching[0].namespace), by_prefix=True)
    if len(matching) > 1:
        return AbsentPod(answer, len(matching), _subjects(matching))
    refusals: list[Event] = []
    for event in await _failed_creates(cluster, wanted.namespace):
        # A controller's pods are named after it; a Deployment's name begins its ReplicaSets' names.
        owner, pod, named = event.involved_object.name, wanted.name, _CREATED_POD.search(event.message)
        alike = owner and (owner == pod or pod.startswith(f"{owner}-") or owner.startswith(f"{pod}-"))
        if alike and (named is None or f"{named[1]}-".startswith(f"{pod}-")):  # a StatefulSet's says which pod it was
            refusals.append(event)
    longer = [pod for pod in pods if pod.name.startswith(wanted.name)]
    node = False
    if not refusals:
        called = await seen("nodes", cluster.list(NODES, fields=f"metadata.name={wanted.name}", metadata_only=True))
        node = bool(called) and not isinstance(called, Gap)
    candidates = _subjects(longer) or _near(wanted, pods)
    return AbsentPod(answer, 0, candidates, tuple(refusals[:_MAX_REFUSALS]), node=node)


def _not_found(kind: Kind[R], name: str) -> str:
    return f'{kind.plural} "{name}" not found'


def role_of(pod: Pod) -> str:
    """The pod's role among the pods of its owner, by its operator's label; empty without one."""
    return next((value for key in _ROLES if (value := pod.metadata.label(key))), "")


async def _by_operator(cluster: Cluster, wanted: Subject) -> FoundPod | AbsentPod:
    """By the references of the pods and of what stands between them and the owner, or by the operator's labels."""
    kind, uids = _OWNED_AS.get(wanted.kind, wanted.kind), set[str]()

    def is_owned(thing: Resource) -> bool:
        owners = thing.metadata.owner_references or ()
        return any(owner.uid in uids or (owner.kind, owner.name) == (kind, wanted.name) for owner in owners)

    for api in _BETWEEN:
        between = await seen(api.plural, cluster.list(api, wanted.namespace, metadata_only=True))
        uids |= {thing.metadata.uid for thing in (() if isinstance(between, Gap) else between) if is_owned(thing)}
    pods = [
        pod
        for pod in await cluster.list(PODS, wanted.namespace)
        if is_owned(pod) or any(pod.metadata.label(key) == wanted.name for key in _NAMED_AFTER)
    ]
    if len(spaces := sorted({pod.namespace for pod in pods})) > 1:
        same = tuple(Subject(wanted.kind, space, wanted.name) for space in spaces)
        return AbsentPod(f'{wanted.kind} "{wanted.name}"', len(spaces), same)
    if pods:
        pods.sort(key=lambda pod: (_need(pod), pod.metadata.creation_timestamp or "", pod.name))
        return FoundPod(pods[0], alike=tuple(pods))
    events = await _failed_creates(cluster, wanted.namespace)
    refusals = tuple(event for event in events if event.involved_object.name == wanted.name)[:_MAX_REFUSALS]
    return AbsentPod(f'no pod of {wanted.kind} "{wanted.name}" was found', refusals=refusals)


async def _by_owner(cluster: Cluster, wanted: Subject) -> FoundPod | AbsentPod:
    if wanted.kind in _OF_OPERATORS.values():
        return await _by_operator(cluster, wanted)
    api = next(kind for name, kind in _OWNERS.values() if name == wanted.kind)
    owners = await cluster.list(api, wanted.namespace, fields=f"metadata.name={wanted.name}")
    if not owners:
        known = await cluster.list(api, wanted.namespace, metadata_only=True)
        return AbsentPod(_not_found(api, wanted.name), 0, _near(wanted, known))
    if len(owners) > 1:
        return AbsentPod(_not_found(api, wanted.name), len(owners), _subjects(owners, wanted.kind))
    owner = owners[0]
    makers = {owner.metadata.uid: owner}
    if wanted.kind == "Deployment":
        for workload in await cluster.list(REPLICA_SETS, owner.namespace):
            if any(ref.uid == owner.metadata.uid for ref in workload.metadata.owner_references or ()):
                makers[workload.metadata.uid] = workload
    pods = [
        pod
        for pod in await cluster.list(PODS, owner.namespace)
        if any(ref.uid in makers for ref in pod.metadata.owner_references or ())
    ]
    pods.sort(key=lambda pod: (_need(pod), pod.metadata.creation_timestamp or "", pod.name))
    found = FoundPod(pods[0], alike=tuple(pods), wanted=owner.spec.replicas) if pods else None
    if found and _need(found.pod) < _WELL:
        return found
    counts = ((maker, maker.spec.replicas, maker.status.replicas) for maker in makers.values())
    short = [maker for maker, wanted_, there in counts if not pods or (wanted_ is not None and there < wanted_)]
    events = await _failed_creates(cluster, owner.namespace)
    refusals = tuple(event for event in events if any(_names(event, candidate) for candidate in short))
    others = (candidate for candidate in short if candidate is not owner)
    refusals = refusals or tuple(replica_failures(others, "ReplicaSet"))
    refusals = refusals or tuple(replica_failures([owner] if owner in short else [], wanted.kind))
    if found and not refusals:
        return found
    wants_none = ", and wants 0 replicas" if owner.spec.replicas == 0 else ""
    answer = f'{api.plural} "{owner.name}" has no pod{wants_none}'
    return AbsentPod(answer, 0, (), refusals[:_MAX_REFUSALS], suspended=owner if owner.spec.suspend else None)


def _near(wanted: Subject, known: Iterable[Resource]) -> tuple[Subject, ...]:
    listed = list(known)
    near = difflib.get_close_matches(wanted.name, {resource.name for resource in listed}, n=5, cutoff=_CLOSE)
    return _subjects((resource for resource in listed if resource.name in near), wanted.kind)


def _names(event: Event, owner: Workload) -> bool:
    about = event.involved_object
    return about.name == owner.name and about.uid in ("", owner.metadata.uid)


def _need(pod: Pod) -> int:
    """How much a pod needs an answer: 0 waits for a node, and so on up to `_WELL` and what is going away."""
    if pod.metadata.deletion_timestamp:
        return _WELL + 1
    if pod.status.phase == "Pending":
        return 1 if pod.spec.node_name else 0
    parts = pod.status.container_statuses or ()
    crashing = any(part.state.waiting or (part.restart_count and not part.ready) for part in parts)
    return 2 if pod.status.phase == "Running" and crashing else 3 if pod.status.phase == "Failed" else _WELL


async def _failed_creates(cluster: Cluster, namespace: str) -> list[Event]:
    events = await seen("events", cluster.list(EVENTS, namespace, fields="reason=FailedCreate"))
    return [] if isinstance(events, Gap) else sorted(events, key=lambda event: event.seen_at, reverse=True)


def _subjects(objects: Iterable[Resource], kind: str = "Pod") -> tuple[Subject, ...]:
    named = sorted((resource.namespace, resource.name) for resource in objects)
    return tuple(Subject(kind, *key) for key in named[:_MAX_CANDIDATES])


def replica_failures(owners: Iterable[Workload], kind: str) -> list[Event]:
    """The ReplicaFailure condition of each of these owners, all of one `kind`, as an event."""
    return [
        Event(
            metadata=ObjectMeta(namespace=owner.namespace),
            involved_object=ObjectReference(kind, owner.namespace, owner.name, owner.metadata.uid),
            reason=REPLICA_FAILURE,
            message=condition.message,
            last_timestamp=condition.last_transition_time,
        )
        for owner in owners
        for condition in owner.status.conditions or ()
        if condition.type == REPLICA_FAILURE and condition.status == "True" and condition.message
    ]


_MAX_NEAR = 3


class EmptyNamespace(NamedTuple):
    """A namespace without any pod or quota. `near` are namespaces with pods whose names are like it."""

    namespace: str
    near: tuple[str, ...]


async def gather_deserted(cluster: Cluster, namespace: str) -> EmptyNamespace | Gap | None:
    """The namespace if it is empty; None if it has a pod or a quota, a gap if these could not be read. Namespaces
    themselves are not read: that would take one more right.
    """
    there = await asyncio.gather(
        seen(f"pods of {namespace}", cluster.list(PODS, namespace, metadata_only=True)),
        seen(f"resource quotas of {namespace}", cluster.list(RESOURCE_QUOTAS, namespace)),
    )
    unread = [gap for gap in there if isinstance(gap, Gap)]
    if unread or any(there):
        return unread[0] if unread else None
    pods = await seen("pods", cluster.list(PODS, metadata_only=True))
    names = sorted({pod.namespace for pod in pods}) if not isinstance(pods, Gap) else []
    return EmptyNamespace(namespace, tuple(difflib.get_close_matches(namespace, names, n=_MAX_NEAR)))
