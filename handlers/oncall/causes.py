"""Why alerts fire: each pod that they name is judged as `why` and `pending` do, each node as `nodes` does."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from bot.errors import SourceError, UsageError
from bot.finding_codes import CODES
from bot.hami.pods.request_parsing import DeviceConfig, gpus_of
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Finding, Report
from bot.texts import Text
from bot.triage.cause import Cause, unexplained
from bot.triage.summary import GpuRequest
from bot.triage.webhook import Alert
from playbooks.gather.pods import gather_scene, gather_waiting
from playbooks.judgement.waiting import Judge
from playbooks.nodes.tables import NodeCardRow
from playbooks.playbook import Playbook, Sources, find
from playbooks.rules.waiting.alike import cause_signature
from playbooks.scenes.cluster import ClusterScene

ONE_BY_ONE = 20
"""Pods that wait for no node, and nodes, are asked about one after the other. If there are more of them, the alerts
about the others stand for themselves: a crowd must keep no other alert waiting."""

FINDING = "hami_bot_finding"
"""The label that names the finding an alert of our own is about."""
_TOO_MANY = f"alerts about more than {ONE_BY_ONE} of them came at once"

Name = tuple[str, str]
Sorted = list[tuple[Cause, list[Alert]]]


class AlertCauses(NamedTuple):
    """The causes of alerts, and what the pods that were read for it ask for."""

    causes: Sorted
    needs: Mapping[Name, GpuRequest] = {}


async def find_causes(sources: Sources, given: Sequence[Alert]) -> AlertCauses:
    """The causes of these alerts, of each pod or node by itself. Raises BotError when the cluster cannot be read."""
    by_pod: dict[Name, list[Alert]] = {}
    by_node: dict[str, list[Alert]] = {}
    by_finding: dict[tuple[str, str], list[Alert]] = {}
    others: list[Alert] = []
    for alert in given:
        if alert.namespace and alert.pod:
            by_pod.setdefault((alert.namespace, alert.pod), []).append(alert)
        elif FINDING in alert.labels:
            by_finding.setdefault(("nodes" if alert.node else "status", alert.labels[FINDING]), []).append(alert)
        elif alert.node:
            by_node.setdefault(alert.node, []).append(alert)
        else:
            others.append(alert)
    found, needs = await _of_pods(sources, by_pod) if by_pod else AlertCauses([])
    for number, (node, some) in enumerate(by_node.items()):
        found += await _of_node(sources, node, some) if number < ONE_BY_ONE else _alone(some, _TOO_MANY)
    if by_finding:
        found += await _of_findings(sources, by_finding)
    return AlertCauses([*found, *_alone(others)], needs)


def told_alone(alert: Alert, why_not: str = "") -> Cause:
    """What the alert says of itself, where its cause cannot be looked for."""
    claim = next(
        (alert.annotations[name] for name in ("summary", "description", "message") if alert.annotations.get(name)), ""
    )
    subject = f"{alert.namespace}/{alert.pod}" if alert.pod else alert.node
    return unexplained(
        alert.name,
        alert.namespace,
        alert.level,
        claim or alert.name,
        why_not=why_not,
        subject=subject,
        labels=alert.labels,
    )


def together(found: Iterable[tuple[Cause, list[Alert]]]) -> Sorted:
    """The alerts of one cause as one; it is told as of its first, with the first graph that any of them has."""
    first: dict[str, Cause] = {}
    members: dict[str, list[Alert]] = {}
    for cause, some in found:
        first.setdefault(cause.signature, cause)
        members.setdefault(cause.signature, []).extend(some)
    graphs = {signature: next(filter(None, (alert.graph for alert in some)), "") for signature, some in members.items()}
    return [
        (msgspec.structs.replace(first[signature], graph=graphs[signature]), some)
        for signature, some in members.items()
    ]


async def _of_pods(sources: Sources, named: Mapping[Name, list[Alert]]) -> AlertCauses:
    install, waiting = await gather_waiting(sources, "")
    pods = [pod for pod in waiting.pods if (pod.namespace, pod.name) in named]
    found: Sorted = []
    if pods:
        scene = await gather_scene(sources, install, waiting._replace(pods=pods))
        for name, finding in await asyncio.to_thread(_judged, scene, pods):
            found += [(_cause(finding, "/".join(name)), named[name])] if finding else _alone(named[name])
    judged = {(pod.namespace, pod.name) for pod in pods}
    left = [name for name in named if name not in judged]
    found += [pair for name in left[ONE_BY_ONE:] for pair in _alone(named[name], _TOO_MANY)]
    for name in left[:ONE_BY_ONE]:
        report, pod = await _why(sources, name)
        first = report.findings[0]
        found += [(_cause(first, "/".join(name)), named[name])] if _explains(first) else _alone(named[name])
        pods += [pod] if pod else []
    return AlertCauses(found, {(pod.namespace, pod.name): _need(pod, install.config) for pod in pods})


def _need(pod: Pod, config: DeviceConfig) -> GpuRequest:
    created = parse_time(pod.metadata.creation_timestamp)
    return GpuRequest(gpus_of(pod, config), created.timestamp() if created else 0.0)


def _judged(scene: ClusterScene, pods: Sequence[Pod]) -> list[tuple[Name, Finding | None]]:
    """Why each of them waits, as far as a rule explains it."""
    judge = Judge(scene)
    return [((pod.namespace, pod.name), judge.cause(pod)) for pod in pods]


async def _of_node(sources: Sources, node: str, some: list[Alert]) -> Sorted:
    report = await answer(sources, "nodes", node)
    bad = next(filter(_explains, report.findings), None)
    return [(_cause(bad, node), some)] if bad else _alone(some)


def _explains(finding: Finding) -> bool:
    """What is known of a pod that runs, or of what is gone, is not why an alert about it fires."""
    return finding.severity != "info" and CODES[finding.code].explains


def _alone(some: Sequence[Alert], why_not: str = "") -> Sorted:
    return [(told_alone(alert, why_not), [alert]) for alert in some]


async def _of_findings(sources: Sources, named: Mapping[tuple[str, str], list[Alert]]) -> Sorted:
    found: Sorted = []
    for verb in {verb for verb, _ in named}:
        report = await all_findings(sources, verb)
        for (asked, code), some in named.items():
            for alert in some if asked == verb else ():
                about = (
                    finding
                    for finding in report.findings
                    if finding.code == code and (not alert.node or alert.node in finding.scope.nodes)
                )
                finding = next(about, None)
                found.append((_cause(finding, alert.node) if finding else told_alone(alert), [alert]))
    return found


async def all_findings(sources: Sources, verb: str) -> Report:
    """What a playbook says of the whole cluster, before it is words."""
    playbook = find(verb)
    return await _diagnosed(playbook, playbook.request(), sources)


async def answer(sources: Sources, verb: str, subject: str) -> Report:
    """What a playbook says about a pod (`ns/pod`) or a node, before it is words."""
    return await _diagnosed(find(verb), _request(verb, subject), sources)


def _request(verb: str, subject: str) -> Any:
    playbook = find(verb)
    try:
        return playbook.request(pod=subject) if verb == "why" else playbook.request(node=subject)
    except UsageError as error:  # the name came with an alert, nobody typed it
        raise UsageError(
            Text("error-oncall.cannot-be-asked-about", subject=repr(subject[:120]), why=error.message)
        ) from error


async def _why(sources: Sources, name: Name) -> tuple[Report, Pod | None]:
    """What `why` says of the pod, and the pod, if that is there under this name."""
    playbook = find("why")
    snapshot = await playbook.gather(_request("why", "/".join(name)), sources)
    pod: Pod | None = snapshot.pod
    is_it = pod is not None and (pod.namespace, pod.name) == name
    return await asyncio.to_thread(playbook.diagnose, snapshot), pod if is_it else None


async def registration_state(sources: Sources, node: str) -> Literal["registered", "lost", "unknown"]:
    """Whether HAMi counts on the node: its cards are registered, and nothing says that they are not any more.

    `unknown`: there is no such node. Raises BotError when the cluster, or that node, cannot be read.
    """
    report = await answer(sources, "nodes", node)
    if any(finding.code == "not-found" for finding in report.findings):
        if left_out := [place for place in sources.cluster.undecodable if node in place]:
            raise SourceError(Text("error-oncall.node-cannot-be-read", node=node, why=left_out[0]))
        return "unknown"
    is_lost = any(CODES[finding.code].loses_node for finding in report.findings)
    return "lost" if is_lost or not report.typed(NodeCardRow) else "registered"


async def _diagnosed(playbook: Playbook, request: Any, sources: Sources) -> Report:
    """In a thread: on a large cluster a diagnosis takes longer than the ack of a question may wait."""
    snapshot = await playbook.gather(request, sources)
    return await asyncio.to_thread(playbook.diagnose, snapshot)


def _cause(finding: Finding, subject: str) -> Cause:
    return Cause(
        cause_signature(finding),
        finding.code,
        finding.claim,
        finding.severity,
        subject,
        finding.scope.nodes,
        step=next(iter(finding.next_actions), None),
        key=finding.key,
        values=finding.values,
    )
