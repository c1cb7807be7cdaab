"""Who holds GPUs, and what they use: a pod's owner, its team (from labels or annotations), and figures as evidence.

`waited_for` names holders that have launched no kernel for hours, and whose end lets a pod in by HAMi's filter. Only
what is measured counts: a holder without figures is not known to be idle.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bot.finding_codes import Code
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import IDLE_S, PORT, ContainerUse, MeasuredHolding, held_by
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.kube.models import Holder, ObjectMeta, Pod
from bot.kube.times import format_time, roughly
from bot.report import Evidence, Finding, NextAction, act, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.usage import MOST_MEASURED, MeasuredNodes, UsageSeen
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.waiting_pod import PodScene

_TEAM_KEYS = ("team", "owner")
"""The keys of labels or annotations that name a team, also after a prefix: `example.com/team`."""
_HASH_LABEL = "pod-template-hash"
_SUSPENDED = json.dumps({"spec": {"suspend": True}}, separators=(",", ":"))


class Owner(NamedTuple):
    """Who a pod belongs to: a controller, or its namespace, or HAMi. `team` is empty where none is named."""

    kind: str
    namespace: str
    name: str
    team: str

    @property
    def asked(self) -> str:
        """Whom to ask about the pod: its team where one is named, else its owner by kind and name."""
        return self.team or f"{self.kind} {self.name}"


def owner_of(pod: Pod | Holder) -> Owner:
    """The pod's owner: its controller; for a ReplicaSet the Deployment, whose name is that without the hash."""
    metadata = pod.metadata
    return Owner(*(_controller(pod) or ("Namespace", "", metadata.namespace)), _team(metadata))


def _controller(pod: Pod | Holder) -> tuple[str, str, str] | None:
    metadata = pod.metadata
    refs = metadata.owner_references or ()
    ref = next((owner for owner in refs if owner.controller), next(iter(refs), None))
    if ref is None:
        return None
    ending = f"-{metadata.label(_HASH_LABEL)}"
    if ref.kind == "ReplicaSet" and ref.name.endswith(ending):
        return "Deployment", metadata.namespace, ref.name.removesuffix(ending)
    return ref.kind, metadata.namespace, ref.name


def are_siblings(pod: Pod | Holder, other: Pod | Holder) -> bool:
    """Whether the same controller would start either pod again."""
    return pod.namespace == other.namespace and _controller(pod) is not None and _controller(pod) == _controller(other)


_BUILT_IN = ("Job", "CronJob")
"""Kinds of Kubernetes whose names other API groups have too."""
_ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")
"""Owners that create their pods anew when their template changes."""


def _edited(pod: Pod | Holder) -> tuple[str, str]:
    """Kind and name of what has to change: the owner, or the pod that has none."""
    owner = owner_of(pod)
    return ("Pod", pod.name) if owner.kind == "Namespace" else (owner.kind, owner.name)


def _named(pod: Pod | Holder) -> str:
    kind, name = _edited(pod)
    group = f" ({group})" if kind in _BUILT_IN and (group := _group(pod, kind)) else ""
    return f"{kind}{group} {pod.namespace}/{name}"


def of_owner(pod: Pod) -> dict[str, Prose]:
    """Values for texts of steps: `owner` (`Deployment ml/web`), and `anew`, what is created again once it is edited."""
    kind, _ = _edited(pod)
    anew = Text("change.template-fixed", kind=kind)
    if kind == "Pod":
        anew = Text("change.from-manifest") if pod.spec.node_name else Text("change.pod-fixed")
    elif kind in _ROLLED_OUT:
        anew = Text("change.rolled-out")
    elif kind == "Job" and not _group(pod, kind):
        anew = Text("change.job-fixed")
    return {"owner": _named(pod), "anew": anew}


def _group(pod: Pod | Holder, kind: str) -> str:
    """The API group of an operator's kind, such as Volcano's Job; empty for Kubernetes' own."""
    version = next((owner.api_version for owner in pod.metadata.owner_references or () if owner.kind == kind), "")
    group = version.rpartition("/")[0]
    return group if "." in group else ""


def _resource(pod: Pod | Holder, kind: str) -> str:
    return ".".join(filter(None, (kind.lower(), _group(pod, kind))))


def edit(pod: Pod, label: Text, verb: tuple[str, ...] = ("edit",), *rest: str) -> NextAction:
    """The step that changes the pod's owner, and with it the pod: `kubectl VERB deployment/web REST`.

    A pending pod without an owner is replaced. For other owners, and pods that have a node (a copy would go there
    without a scheduler), the command only shows them: whoever has the manifest creates them again.
    """
    kind, name = _edited(pod)
    target = _resource(pod, kind), name
    if kind in _ROLLED_OUT:
        return act(label, kubectl("-n", pod.namespace, *verb, "/".join(target), *rest))
    look = kubectl("-n", pod.namespace, "get", *target, "-o", "yaml")
    if kind != "Pod" or pod.spec.node_name:
        return act(label, look)
    if verb == ("edit",):
        return act(label, f"{look} > pod.yaml && ${{EDITOR:-vi}} pod.yaml && kubectl replace --force -f pod.yaml")
    changed = kubectl(*verb, "--local", "-f", "-", *rest, "-o", "yaml")
    return act(label, f"{look} | {changed} | kubectl replace --force -f -")


def edit_owner(pod: Pod, change: Prose, patch: Mapping[str, object] | None = None) -> NextAction:
    """The step that makes a change of the pod's owner; `patch` is the change as a part of the pod, where known."""
    label = Text("change.in-owner", change=change, **of_owner(pod))
    if patch is None:
        return edit(pod, label)
    whole = patch if _edited(pod)[0] == "Pod" else {"spec": {"template": patch}}
    return edit(pod, label, ("patch",), "-p", json.dumps(whole, separators=(",", ":")))


def annotate(pod: Pod, change: Prose, keys: Mapping[str, str | None]) -> NextAction:
    """The step that changes annotations that HAMi's filter reads from a waiting pod at each try; None removes one."""
    kind = _edited(pod)[0]
    if kind in _ROLLED_OUT or pod.spec.node_name:
        return edit_owner(pod, change, {"metadata": {"annotations": keys}})
    values = {"change": change, "pod": f"{pod.namespace}/{pod.name}", "owner": _named(pod)}
    label = Text("change.annotate" if kind == "Pod" else "change.annotate-both", **values)
    changed = (f"{name}-" if value is None else f"{name}={value}" for name, value in keys.items())
    return act(label, quotes.kubectl_pod(pod, "annotate", "--overwrite", *changed))


def recreate(pod: Pod, label: Text) -> NextAction:
    """The step that deletes a pod, so that its owner, or whoever has its manifest, creates it again."""
    owner = _named(pod)
    again = Text("change.by-owner", owner=owner) if owner_of(pod).kind != "Namespace" else Text("change.by-hand")
    label = Text("change.recreate", change=label, again=again)
    return act(label, quotes.kubectl_pod(pod, "delete"))


def without_env(container: str, *names: str) -> dict[str, object]:
    """The patch of a pod that removes variables from the environment of a container."""
    gone = [{"name": name, "$patch": "delete"} for name in names]
    return {"spec": {"containers": [{"name": container, "env": gone}]}}


_SCALED = ("Deployment", "StatefulSet", "ReplicaSet")
_COST = "controller.kubernetes.io/pod-deletion-cost=-1"
"""The annotation that makes a Deployment end this pod first when it is scaled down."""


class PodEnd(NamedTuple):
    """How a pod is ended so that nothing starts it again: in words, and the command."""

    how: Text
    command: str


def stop(pod: Pod | Holder, pods: Iterable[Pod | Holder]) -> PodEnd:
    """How to end a pod for good: through its owner, which would start another. `pods` has those of the same owner.

    A StatefulSet ends its highest numbers first, a Deployment the pod of the least deletion cost. kubectl refuses to
    scale an owner that has another number of pods than is known here.
    """
    (kind, name), owner, own = _edited(pod), _named(pod), ("-n", pod.namespace)
    if kind == "Pod":
        return PodEnd(Text("stop.alone"), quotes.kubectl_pod(pod, "delete"))
    if kind == "Job" and not _group(pod, kind):
        return PodEnd(Text("stop.suspend", owner=owner), kubectl(*own, "patch", f"job/{name}", "-p", _SUSPENDED))
    target, own_pods = _resource(pod, kind), [one for one in pods if are_siblings(one, pod)] or [pod]
    numbers = [one.name.rpartition("-")[2] for one in own_pods] if kind == "StatefulSet" else []
    last = max((int(number) for number in numbers if number.isdecimal()), default=-1)
    if kind not in _SCALED or (numbers and pod.name.rpartition("-")[2] != str(last)):
        return PodEnd(Text("stop.other", owner=owner), kubectl(*own, "get", target, name, "-o", "yaml"))
    count = last + 1 if numbers else len(own_pods)
    scale = kubectl(*own, "scale", f"{target}/{name}", f"--current-replicas={count}", f"--replicas={count - 1}")
    if not numbers and count > 1:
        scale = f"{quotes.kubectl_pod(pod, 'annotate', _COST)} && {scale}"
    return PodEnd(Text("stop.scale", owner=owner, left=count - 1, count=count), scale)


def end_pod(name: str, node: str, every: Iterable[Pod | Holder]) -> NextAction:
    """The step to wait for a pod (NAMESPACE/NAME, one of `every`), or to end it for good: `node` then has room."""
    pods = [*every]
    pod = next(one for one in pods if f"{one.namespace}/{one.name}" == name)
    end = stop(pod, pods)
    label = Text("change.end-pod", pod=name, node=node, end=end.how, users=_team(pod.metadata) or Text("stop.users"))
    return act(label, end.command)


def _team(metadata: ObjectMeta) -> str:
    for given in (metadata.labels or {}, metadata.annotations or {}):
        for wanted in _TEAM_KEYS:
            found = sorted(key for key in given if key.rpartition("/")[2].casefold() == wanted)
            if found:
                return given[found[0]]
    return ""


class MeasuredSnapshot(Protocol):
    """A snapshot with figures of use, and when they were read."""

    @property
    def usage(self) -> UsageSeen: ...

    @property
    def taken_at(self) -> datetime: ...


def of_use(use: ContainerUse, reading: Sample, node: str, measured: MeasuredSnapshot) -> Evidence:
    return of_sample(f"Pod {use.namespace}/{use.pod}", reading, node, measured, grep=f'"{use.pod}"')


def of_sample(about: str, reading: Sample, node: str, measured: MeasuredSnapshot, *, grep: str) -> Evidence:
    """The evidence of one sample, as the node's vGPUmonitor or Prometheus gave it."""
    seen, command = measured.usage, ""
    monitor = next((pod for pod in seen.monitors if pod.spec.node_name == node), None)
    if seen.of_prometheus:
        command = f"PromQL: {reading.line.rpartition(' ')[0]}"
    elif monitor is not None:
        path = f"/api/v1/namespaces/{monitor.namespace}/pods/{monitor.name}:{PORT}/proxy/metrics"
        command = f"{kubectl('get', '--raw', path)} | grep '{grep}'"
    return Evidence("metrics", about, format_time(measured.taken_at), reading.line, command)


_MOST_TRIED = 20
_MOST_ENDED = 3
NO_ROOM = frozenset[Code](
    (*(reason.finding for reason in REASONS if reason.nature == "use"), "allocated-cards-insufficient", "fits-nowhere")
)
"""Codes of findings that the end of another pod may resolve."""


def in_question(scene: PodScene) -> dict[str, list[str]]:
    """At most three nodes, with their GPUs, that would take the pod if holders old enough to be idle ended."""
    ledger = scene.view.ledger
    asks = scene.nodes_seen and scene.request.containers and not scene.pod.spec.node_name
    if not asks or ledger is None or len(scene.views) != 1 or scene.fitting or scene.too_large:
        return {}
    before = (scene.now - timedelta(seconds=IDLE_S)).strftime("%Y-%m-%dT%H:%M:%SZ")
    # The API writes every time in the same form, so texts compare as times do.
    old = [
        (name, [it for it in ledger.on(name) if it.bound and not it.ending and "" < it.created <= before])
        for name in scene.candidates
    ]
    by_gain = sorted((of for of in old if of[1]), key=lambda of: -sum(holding.amounts[0] for holding in of[1]))
    found: dict[str, list[str]] = {}
    for name, held in by_gain[:_MOST_TRIED]:
        if len(found) < MOST_MEASURED and scene.view.judge_without(name, scene.request, held).fits:
            found[name] = sorted({uuid for holding in held for uuid in holding.shares})
    return found


def waited_for(scene: PodScene) -> Finding | None:
    """The finding that the pod would fit if idle pods on one node ended; None where it would not."""
    measured = scene.usage
    if measured is None or scene.view.ledger is None or not measured.usage.usage.containers:
        return None
    siblings = {(one.namespace, one.name) for one in scene.view.facts.pods or () if are_siblings(one, scene.pod)}
    held = held_by(scene.view.ledger.all(), measured.usage.usage)
    held = [one for one in held if (one.holding.namespace, one.holding.name) not in siblings]
    idle = [holding for holding in held if not holding.holding.ending and (holding.idle_s or 0) >= IDLE_S]
    idle.sort(key=lambda holding: (-(holding.idle_s or 0), holding.name))
    alone = ([holding] for holding in idle[:_MOST_TRIED] if _fits(scene, [holding]))
    found = next(alone, None) or _together(scene, idle)
    return _told(scene, found, measured) if found else None


def _together(scene: PodScene, idle: Sequence[MeasuredHolding]) -> list[MeasuredHolding]:
    for node in dict.fromkeys(holding.holding.node for holding in idle):
        ended = [holding for holding in idle if holding.holding.node == node][:_MOST_TRIED]
        if not _fits(scene, ended):
            continue
        for tried in sorted(ended, key=lambda held: held.holding.amounts):
            rest = [other for other in ended if other is not tried]
            ended = rest if rest and _fits(scene, rest) else ended
        if len(ended) <= _MOST_ENDED:
            return ended
    return []


def _fits(scene: PodScene, ended: Sequence[MeasuredHolding]) -> bool:
    node = ended[0].holding.node
    if node not in scene.nodes or node in scene.obstacles:
        return False
    return scene.view.judge_without(node, scene.request, [holding.holding for holding in ended]).fits is True


def _told(scene: PodScene, found: Sequence[MeasuredHolding], measured: MeasuredNodes) -> Finding:
    node = found[0].holding.node
    holders = {(pod.namespace, pod.name): pod for pod in scene.view.facts.pods or ()}
    pods = [holders[holding.holding.namespace, holding.holding.name] for holding in found]
    values = {
        "pods": ", ".join(holding.name for holding in found),
        "memory": prose.mib(sum(holding.holding.amounts[0] for holding in found)),
        "time": roughly(min(holding.idle_s or 0 for holding in found)),
        "owner": ", ".join(dict.fromkeys(owner_of(pod).asked for pod in pods)),
        "node": node,
    }
    last = (holding.last for holding in found if holding.last)
    proofs = [of_use(use, use.last_kernel, node, measured) for use in last if use.last_kernel]
    proofs += [quotes.of_holder(pod) for pod in pods]
    steps = list[NextAction]()
    for holding, pod in zip(found, pods, strict=True):
        end = stop(pod, holders.values())
        ask = Text("waited-for.ask", **{**values, "pods": holding.name, "owner": owner_of(pod).asked}, end=end.how)
        steps.append(act(ask, end.command))
    steps.append(step(Text("waited-for.look", node=node), prose.command("gpus", "--idle", "--node", node)))
    return finding("idle-holder", Text("waited-for.claim", **values), nodes=(node,), proofs=proofs, actions=steps)
