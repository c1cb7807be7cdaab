"""What alerts are about and why they fire: each pod is judged as `why` and `pending` do, each node as `nodes` does."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from bot.errors import SourceError, UsageError
from bot.finding_codes import CODES
from bot.hami.installation.install import Install, is_of_hami
from bot.hami.pods.request_parsing import DeviceConfig, gpus_of
from bot.kube.cluster import seen
from bot.kube.models import NODES, Pod
from bot.kube.times import parse_time
from bot.render.overview import first_step
from bot.report import Finding, Gap, Report
from bot.rows import GpuRow
from bot.texts import Text
from bot.triage.cause import Cause
from bot.triage.summary import GpuRequest
from bot.triage.webhook import Alert
from playbooks.gather.pods import gather_scene, gather_waiting
from playbooks.gather.scheduling import gather_install
from playbooks.judgement.waiting import Judge
from playbooks.nodes.tables import NodeCardRow
from playbooks.own.discovery import find
from playbooks.playbook import Playbook, Sources
from playbooks.rules.common import prose
from playbooks.rules.waiting.alike import cause_signature

ONE_BY_ONE = 20
"""The most nodes, and pods that do not wait for one, that are asked about, one after the other. Alerts about more get
no other cause than themselves: a crowd must keep no other alert waiting.
"""

FINDING = "hami_bot_finding"
"""The label that names the finding which an alert of the bot itself is about."""
_MOST_LABELS, _LONGEST_LABEL = 8, 80
_SAID_ELSEWHERE = ("alertname", "severity")
_TOO_MANY = f"alerts about more than {ONE_BY_ONE} of them came at once"

Name = tuple[str, str]
CauseGroups = list[tuple[Cause, list[Alert]]]


class AlertCauses(NamedTuple):
    """What was found about the pods of alerts: their causes in groups, and the GPUs that each pod requests."""

    causes: CauseGroups
    needs: Mapping[Name, GpuRequest] = {}


class AlertQuestion(NamedTuple):
    """The question that an alert raises: the verb and its subject. `about` is what people call the subject. The subject
    is empty for `status` and for `nodes` of all; both are empty if the bot knows nothing that the alert is about.
    """

    verb: str = ""
    subject: str = ""
    about: str = ""


async def find_causes(sources: Sources, given: Sequence[Alert]) -> AlertCauses:
    """The causes of these alerts, for each pod or node by itself. Raises BotError if the cluster cannot be read."""
    by_pod: dict[Name, list[Alert]] = {}
    by_finding: dict[tuple[str, str], list[Alert]] = {}
    others: list[Alert] = []
    for alert in given:
        if FINDING in alert.labels and not alert.pod:
            by_finding.setdefault(("nodes" if alert.node else "status", alert.labels[FINDING]), []).append(alert)
        else:
            others.append(alert)
    by_question: dict[AlertQuestion, list[Alert]] = {}
    for alert, asked in zip(others, await questions(sources, others) if others else (), strict=True):
        namespace, _, pod = asked.subject.partition("/")
        if asked.verb == "why" and "/" not in pod:
            by_pod.setdefault((namespace, pod), []).append(alert)
        else:
            by_question.setdefault(asked, []).append(alert)
    found, needs = await _of_pods(sources, by_pod) if by_pod else AlertCauses([])
    for number, (asked, some) in enumerate(by_question.items()):
        if not asked.verb:
            found += _alone(some)
        else:
            found += await _of_question(sources, asked, some) if number < ONE_BY_ONE else _alone(some, _TOO_MANY)
    if by_finding:
        found += await _of_findings(sources, by_finding)
    return AlertCauses([*await _on_gpus(sources, found)], needs)


async def questions(sources: Sources, given: Sequence[Alert]) -> list[AlertQuestion]:
    """What to ask about each alert, most telling first: HAMi itself, a pod, what owns pods, a node, a GPU's node."""
    read = await gather_install(sources)
    unsure = any(not alert.pod and not alert.owner for alert in given)
    nodes = await seen("nodes", sources.cluster.list(NODES)) if unsure else []
    by_place: dict[str, str] = {}
    for node in () if isinstance(nodes, Gap) else nodes:  # by its name and its addresses
        by_place |= dict.fromkeys((node.name, *(each.address for each in node.status.addresses or ())), node.name)
    by_gpu: Mapping[str, GpuRow] = {}
    if any(alert.gpu and not _node(alert, by_place) for alert in given if not alert.pod):
        by_gpu = await _gpus(sources)
    return [
        _of_hami(alert, read.install, node) or _asked(alert, read.config, node, by_gpu.get(alert.gpu.upper()))
        for alert, node in ((alert, _node(alert, by_place)) for alert in given)
    ]


async def _gpus(sources: Sources) -> Mapping[str, GpuRow]:
    """By their UUIDs, which some exporters write without what they begin with."""
    playbook = find("gpus")
    rows = (await _diagnosed(playbook, playbook.request(all=True), sources)).typed(GpuRow)
    named = ((str(row.card).upper(), row) for row in rows if isinstance(row.card, str))
    return {key: row for uuid, row in named for key in (uuid, uuid.removeprefix("GPU-"))}


def _node(alert: Alert, by_place: Mapping[str, str]) -> str:
    return next((by_place[place] for place in alert.places if place in by_place), "")


def _of_hami(alert: Alert, install: Install, node: str) -> AlertQuestion | None:
    """For HAMi's own workloads: `nodes` says what is wrong with its device plugin, `status` with the rest. Without a
    namespace they may be anybody's, and the node tells more.
    """
    kind, _, name = alert.owner.partition("/")[2].partition("/")
    named = name or alert.pod or alert.labels.get("service") or alert.labels.get("job", "")
    if not named or alert.namespace not in ("", install.namespace) or (node and not alert.namespace):
        return None
    if not is_of_hami(named) and not (install.deployment and named == install.deployment.name):
        return None
    if not name and not alert.pod and (alert.node or alert.gpu or alert.quota):
        return None  # HAMi's metrics tell of nodes, GPUs and quotas
    on_nodes = kind == "ds" or "device-plugin" in named
    return AlertQuestion("nodes" if on_nodes else "status", "", f"{alert.namespace}/{kind}/{name}" if name else named)


def _asked(alert: Alert, config: DeviceConfig, node: str, gpu: GpuRow | None) -> AlertQuestion:
    if subject := f"{alert.namespace}/{alert.pod}" if alert.pod else alert.owner:
        return AlertQuestion("why", subject, subject)
    if alert.namespace and config.names(alert.quota):
        return AlertQuestion("quota", alert.namespace, alert.namespace)
    node = node or (gpu.node if gpu else alert.node)
    return AlertQuestion("nodes", node, node) if node else AlertQuestion()


def cause_alone(alert: Alert, why_not: str = "") -> Cause:
    """The cause of an alert for which none can be looked for: what the alert says about itself."""
    claim = next(filter(None, map(alert.annotations.get, ("summary", "description", "message"))), alert.name)
    subject = f"{alert.namespace}/{alert.pod}" if alert.pod else alert.owner or alert.node
    said = sorted(item for item in alert.labels.items() if item[0] not in _SAID_ELSEWHERE)
    labels = tuple(f"{label}={value}"[:_LONGEST_LABEL] for label, value in said[:_MOST_LABELS])
    facts = ("unexplained", alert.name, alert.namespace)  # those of one name in one namespace are taken together
    signature = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]
    return Cause(signature, "", claim, alert.level, subject, why_not=why_not, labels=labels)


def group_by_cause(found: Iterable[tuple[Cause, list[Alert]]]) -> CauseGroups:
    """Joins alerts with the same cause into one entry, with the first found cause and the first graph that any has."""
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
    found: CauseGroups = []
    if pods:
        scene = await gather_scene(sources, install, waiting._replace(pods=pods))
        judged = await asyncio.to_thread(lambda: [*map(Judge(scene).cause, pods)])
        for pod, finding in zip(pods, judged, strict=True):
            name = pod.namespace, pod.name
            found += [(_cause(finding, "/".join(name)), named[name])] if finding else _alone(named[name])
    waits = {(pod.namespace, pod.name) for pod in pods}
    left = [name for name in named if name not in waits]
    found += [pair for name in left[ONE_BY_ONE:] for pair in _alone(named[name], _TOO_MANY)]
    for name in left[:ONE_BY_ONE]:
        why = find("why")
        snapshot = await why.gather(_request("why", "/".join(name)), sources)
        pod: Pod | None = snapshot.pod
        first = (await asyncio.to_thread(why.diagnose, snapshot)).findings[0]
        found += [(_cause(first, "/".join(name)), named[name])] if _explains(first) else _alone(named[name])
        pods += [pod] if pod and (pod.namespace, pod.name) == name else []
    created = [parse_time(pod.metadata.creation_timestamp) for pod in pods]
    return AlertCauses(
        found,
        {
            (pod.namespace, pod.name): GpuRequest(gpus_of(pod, install.config), at.timestamp() if at else 0.0)
            for pod, at in zip(pods, created, strict=True)
        },
    )


async def _of_question(sources: Sources, asked: AlertQuestion, some: list[Alert]) -> CauseGroups:
    """The cause is the first finding of the answer that explains anything; its evidence is that answer."""
    report = await answer(sources, asked.verb, asked.subject)
    bad = next(filter(_explains, report.findings), None)
    found = [(_cause(bad, asked.about), some)] if bad else _alone(some)
    told = {"verb": asked.verb, "subject": asked.about, "step": first_step(report)}
    return [(msgspec.structs.replace(cause, **told), members) for cause, members in found]


async def _on_gpus(sources: Sources, found: CauseGroups) -> CauseGroups:
    """Tells whose pods a GPU has, where an alert names one."""
    named = [next((alert.gpu for alert in some if alert.gpu and not alert.pod), "") for _, some in found]
    cards: Mapping[str, GpuRow] = await _gpus(sources) if any(named) else {}
    told: CauseGroups = []
    for (cause, some), uuid in zip(found, named, strict=True):
        if not uuid or cause.verb != "nodes":
            told.append((cause, some))
            continue
        card = cards.get(uuid.upper())
        holders = Text("triage.gpu-unregistered") if card is None else Text("triage.gpu-free")
        if card is not None and card.holders:
            holders = Text("triage.gpu-held", pods=prose.names([*card.holders]))
        values = {"uuid": str(card.card) if card else uuid, "node": card.node if card else cause.subject}
        on_gpu = Text("triage.on-gpu", **values, holders=holders).data
        told.append((msgspec.structs.replace(cause, gpu=on_gpu), some))
    return told


def _explains(finding: Finding) -> bool:
    """What is known of a pod that runs, or of what is gone, is not why an alert about it fires."""
    return finding.severity != "info" and CODES[finding.code].explains


def _alone(some: Sequence[Alert], why_not: str = "") -> CauseGroups:
    return [(cause_alone(alert, why_not), [alert]) for alert in some]


async def _of_findings(sources: Sources, named: Mapping[tuple[str, str], list[Alert]]) -> CauseGroups:
    found: CauseGroups = []
    for verb in {verb for verb, _ in named}:
        report = await answer(sources, verb)
        for (asked, code), some in named.items():
            for alert in some if asked == verb else ():
                about = (
                    finding
                    for finding in report.findings
                    if finding.code == code and (not alert.node or alert.node in finding.scope.nodes)
                )
                finding = next(about, None)
                found.append((_cause(finding, alert.node) if finding else cause_alone(alert), [alert]))
    return found


async def answer(sources: Sources, verb: str, subject: str = "") -> Report:
    """A playbook's report, not yet in words, on a pod or owner of pods (`ns/pod`, `ns/deploy/name`), a node, or all."""
    return await _diagnosed(find(verb), _request(verb, subject), sources)


def is_about_all(verb: str, subject: str) -> bool:
    """Whether the question is about the whole cluster, so that its subject is only shown to people."""
    return verb == "status" or (verb == "nodes" and "/" in subject)


def _request(verb: str, subject: str) -> Any:
    playbook = find(verb)
    try:
        if verb == "status":
            return playbook.request()
        if verb == "why":
            return playbook.request(pod=subject)
        if verb == "quota":
            return playbook.request(namespace=subject)
        return playbook.request(node="" if is_about_all(verb, subject) else subject)
    except UsageError as error:  # the name came with an alert, nobody typed it
        raise UsageError(
            Text("error-oncall.cannot-be-asked-about", subject=repr(subject[:120]), why=error.message)
        ) from error


async def registration_state(sources: Sources, node: str) -> Literal["registered", "lost", "unknown"]:
    """Whether HAMi counts on the node: its GPUs are registered, and no finding says that they are lost. `unknown`: the
    node does not exist. Raises BotError if the cluster, or that node, cannot be read.
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
