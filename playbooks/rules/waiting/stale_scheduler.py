"""Rules about HAMi's scheduler refusing what the objects allow, because its memory differs from them.

If it counts pods that are gone (ghosts), only a restart clears them. Its own metrics prove this; else it is suspected,
where it refused repeatedly and nothing seen has changed since. Sources: HAMi pkg/scheduler/scheduler.go onDelPod (up to
2.7.1 a delete that comes as a tombstone is lost, up to 2.10 that of a pod which lost its annotations), threads
HAMi#2923, #1458, #1899.

After a restart it does not know nodes of other vendors until their device plugin reports: it takes their devices in
only when it finds a handshake without the word `Requesting`, which it then writes itself. NVIDIA's need no report.
Source: HAMi v2.9 and v2.10 pkg/scheduler/scheduler.go register loop and pkg/device/*/device.go CheckHealth; seen by
running v2.10.0.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.fit.allocated_totals import Ledger
from bot.hami.fit.verdicts import CORDONED, NODE_UNREGISTERED, QUOTA_NOT_FIT
from bot.hami.installation.install import Install
from bot.hami.metrics.exposition import CountedShare, SchedulerCounts
from bot.hami.nodes.registration import parse_handshake
from bot.hami.scheduler_logs.scheduling_events import reason_of
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import DaemonPod, Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NameList, NextAction, Severity, Sheet, Table, act, gap
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.attempt import Attempt
from playbooks.gather.scheduler_process import Ghost, SchedulerProcess
from playbooks.quotes import kubectl, pod_name
from playbooks.rule import rule
from playbooks.rules.capacity.large_request import admits
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.nodes.node_causes import NODE_CODES, with_nodes_behind
from playbooks.rules.waiting.binding import UNSCHEDULABLE_FLUSH
from playbooks.rules.waiting.cause_ranking import by_words
from playbooks.rules.waiting.refused_requests import bug_of_containers, refused_by_bug
from playbooks.rules.waiting.unregistered_nodes import plugin_actions, untrusted_nodes
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.waiting_pod import PodScene

_MAX_SHOWN = 3


_REFUSED_NODE = {"card", "node"}
"""The natures of reasons that come from a node's registration; others come from what is counted as used."""


@rule(
    *("scheduler-ledger-stale", "registration-ignored", "node-unfit-pod", "handshake-stale", "card-cordoned"),
    *NODE_CODES,
    reads=("nodes",),
)
def disagrees(scene: PodScene) -> list[Finding]:
    """The findings why HAMi refuses nodes that would take the pod by the objects, as long as it still seems to."""
    untrusted = None if scene.once(by_words) else scene.once(untrusted_nodes)
    if untrusted is not None and untrusted.severity != "info":
        return []
    names = [name for name in refused_nodes(scene) if not _was_of_the_pod(scene, name)]
    reasons = _reasons(scene.attempt, names)
    if not names or not reasons or reasons[0] == QUOTA_NOT_FIT:  # a quota does not say when it was changed
        return []
    natures = {found.nature for text in reasons if (found := reason_of(text))}
    judges = _ignored if natures & _REFUSED_NODE else _ledger
    stale = judges(scene, names) if natures - {"pod"} else None
    if stale is None:
        return []
    found = with_nodes_behind(scene, stale) if scene.once(by_words) else [stale, *([untrusted] if untrusted else [])]
    if stale.severity != "info" or (bug := scene.once(bug_of_containers)) is None:
        return found
    return [refused_by_bug(scene, bug, stale, stale.next_actions), *found]


def refused_nodes(scene: PodScene) -> list[str]:
    """The nodes that would take the pod and that HAMi refused: those that it names, or all where it refused as many."""
    if scene.attempt.stage != "filter":
        return []
    takers, named, quotas = scene.fitting, _named(scene.attempt), scene.view.facts.quotas
    if not takers and quotas is None and QUOTA_NOT_FIT not in _reasons(scene.attempt, named):
        # HAMi named another reason, so a quota that could not be read did not refuse the pod.
        relaxed = scene.judge_each(scene.candidates, frozenset({QUOTA_NOT_FIT}))
        takers = [name for name, verdict in relaxed.items() if verdict.fits]
    if named:
        return [name for name in takers if name in named]
    refused = sum(reason.nodes for reason in scene.attempt.by_hami)
    return takers if refused >= len(scene.candidates) else []


def _named(attempt: Attempt) -> set[str]:
    return {node for event, _ in attempt.code_events for node in event.nodes} | {
        refusal.node for refusal, _ in attempt.refusals
    }


def _was_of_the_pod(scene: PodScene, name: str) -> bool:
    """Whether HAMi refused the node for annotations that the pod no longer has, which proves nothing."""
    natures = {found.nature for text in _reasons(scene.attempt, [name]) if (found := reason_of(text))}
    return "pod" in natures and all(admits(scene, one.card) for one in scene.view.cards(name))


def _reasons(attempt: Attempt, names: Iterable[str]) -> list[str]:
    codes = [card.code for name in names for card in attempt.cards_on(name)]
    codes = codes or [card.code for reason in attempt.by_hami for card in reason.cards]
    known = {text: found.nature for text in codes if (found := reason_of(text))}
    return sorted(known, key=lambda text: known[text] == "summary")


# ------------------------------------------------------------------------------------------------- what is used


def _ledger(scene: PodScene, names: Sequence[str]) -> Finding | None:
    """HAMi counts as used what no pod holds."""
    process = scene.cluster.process
    ghosts = [ghost for ghost in process.ghosts if any(taken.node in names for taken in ghost.taken)]
    if ghosts:
        return _told(ghosts, process, scene.install, scene.attempt, names=names, said=scene.words)
    if (namesake := _namesake(scene, names)) is not None:
        return namesake
    if isinstance(process.counted, SchedulerCounts) or not _stands(scene, names):
        return None
    return _suspected("scheduler-ledger-stale", scene, names)


def _namesake(scene: PodScene, names: Sequence[str]) -> Finding | None:
    """HAMi counts the waiting pod itself as a holder. It forgets the pod's own reservation before each attempt, so this
    is an earlier pod of the same name (pkg/scheduler/scheduler.go Filter: delPod by UID).
    """
    process = scene.cluster.process
    pod, counted = scene.pod, process.counted
    if not isinstance(counted, SchedulerCounts) or process.scheduler is None:
        return None
    name = pod.namespace, pod.name
    taken = [use for use in counted.taken if (use.namespace, use.pod) == name and use.node in names]
    events, own = scene.cluster.messages.events.get(name, ()), ("", pod.metadata.uid)
    earlier = [event for event in events if event.involved_object.uid not in own]
    if not taken or not (earlier or _stands(scene, names)):
        return None
    claim = Text(
        "scheduler-ledger-stale.namesake",
        pod=f"{pod.namespace}/{pod.name}",
        memory=prose.mib(sum(use.memory_mib for use in taken)),
        gpus=len({use.uuid for use in taken}),
        nodes=prose.names(sorted({use.node for use in taken})),
    )
    samples = [_of_sample(use, process.scheduler, process.port) for use in taken[:_MAX_SHOWN]]
    proofs = [samples[0], *(quotes.of_event(event) for event in earlier[-1:]), *samples[1:], *scene.words]
    sure: Confidence = "confirmed" if earlier and _stands(scene, names) else "suspected"
    steps, severity = restart(scene.install), _severity(scene) if sure == "suspected" else "warning"
    code, of = "scheduler-ledger-stale", scene.install
    return finding(code, claim, sure, names, proofs, severity=severity, actions=steps, of=of)


def ghosts_suspected(scene: PodScene) -> Finding | None:
    """The finding of ghosts on nodes that HAMi calls used up, where it is not known if the pod fits without them."""
    attempt, process = scene.attempt, scene.cluster.process
    used = {text for text in _reasons(attempt, _named(attempt)) if (found := reason_of(text)) and found.nature == "use"}
    ghosts = [ghost for ghost in process.ghosts if any(taken.node in _named(attempt) for taken in ghost.taken)]
    if attempt.stage != "filter" or not used:
        return None
    if not ghosts:
        return _namesake(scene, sorted(_named(attempt)))
    return _told(ghosts, process, scene.install, attempt, "suspected")


@rule("scheduler-ledger-stale")
def counts_ghosts(scene: InstallScene) -> list[Finding]:
    """The findings that HAMi's scheduler counts pods that are gone; on a node that is gone they keep nobody out."""
    return ghosts_told(scene.process, scene.install, {node.name for node in scene.nodes})


def ghosts_told(process: SchedulerProcess, install: Install, nodes: Collection[str]) -> list[Finding]:
    """The finding of ghosts on these nodes, whichever pod waits for their GPUs."""
    ghosts = [ghost for ghost in process.ghosts if any(taken.node in nodes for taken in ghost.taken)]
    return [_told(ghosts, process, install, None)] if ghosts else []


def _told(
    ghosts: Sequence[Ghost],
    process: SchedulerProcess,
    install: Install,
    attempt: Attempt | None,
    sure: Confidence = "confirmed",
    *,
    names: Sequence[str] = (),
    said: Sequence[Evidence] = (),
) -> Finding:
    """The finding about ghosts on `names`, by default all nodes with ghosts; `said`: the schedulers' words."""
    taken = [use for ghost in ghosts for use in ghost.taken]
    times = [*(parse_time(ghost.heard) for ghost in ghosts), attempt.since if attempt else None]
    since = min((moment for moment in times if moment is not None), default=None)
    pods = [f"{ghost.taken[0].namespace}/{ghost.taken[0].pod}" for ghost in ghosts]
    claim = Text(
        "scheduler-ledger-stale.claim",
        pods=prose.names(pods),
        memory=prose.mib(sum(use.memory_mib for use in taken)),
        gpus=len({(use.node, use.uuid) for use in taken}),
        nodes=prose.names(sorted({use.node for use in taken})),
        since=Text("scheduler-ledger-stale.since", at=format_time(since)) if since else "",
    )
    scheduler = process.scheduler
    proofs = [_of_sample(use, scheduler, process.port) for use in taken[:_MAX_SHOWN] if scheduler]
    proofs += [quotes.of_pod_age(ghost.pod) for ghost in ghosts[:_MAX_SHOWN] if ghost.pod is not None]
    nodes = names or sorted({share.node for share in taken})
    proofs, actions = [*said, *proofs], restart(install)
    return finding("scheduler-ledger-stale", claim, sure, nodes, proofs, actions=actions, of=install)


def _of_sample(taken: CountedShare, scheduler: Pod, port: int) -> Evidence:
    path = f"/api/v1/namespaces/{scheduler.namespace}/pods/http:{scheduler.name}:{port}/proxy/metrics"
    about, command = f"{pod_name(scheduler)} container {EXTENDER_CONTAINER}", f"{kubectl('get', '--raw', path)} | grep"
    return Evidence("scheduler metrics", about, None, taken.line, f"{command} {taken.uuid}")


# ------------------------------------------------------------------------------------------ what is registered


def _ignored(scene: PodScene, names: Sequence[str]) -> Finding | None:
    """HAMi works with an older registration than the node has now, or with none."""
    if not _stands(scene, names):
        return None
    counted = scene.cluster.process.counted
    known = counted.nodes if isinstance(counted, SchedulerCounts) else None
    unknown = [name for name in names if known is not None and name not in known]
    if known is None or not unknown:
        return _suspected("registration-ignored", scene, names) if _goes_on(scene) else None
    claim = Text("registration-ignored.claim", nodes=prose.names(unknown), count=len(known))
    proofs = [*scene.words, *_of_gpus(scene, unknown)]
    actions = restart(scene.install)
    return finding("registration-ignored", claim, nodes=unknown, proofs=proofs, actions=actions, of=scene.install)


# --------------------------------------------------------------------------------------------- without metrics


def _stands(scene: PodScene, names: Sequence[str]) -> bool:
    """Whether HAMi's last word on these nodes still holds: it was repeated, and nothing that decides changed since."""
    at, process = scene.attempt.at, scene.cluster.process
    if at is None or not scene.attempt.is_repeated:
        return False
    nodes = [scene.nodes[name] for name in names if name in scene.nodes]
    found = (scene.plugins.get(node.name) for node in nodes)
    pods = [*scene.install.pods, *(pod for some in found if some and not isinstance(some, Gap) for pod in some)]
    texts = [*process.ended, *(node.metadata.creation_timestamp for node in nodes)]
    texts += [one.last_transition_time for node in nodes for one in node.status.conditions or ()]
    texts += [one.last_transition_time for pod in pods for one in pod.status.conditions or ()]
    running = (one.state.running for pod in pods for one in pod.status.container_statuses or ())
    texts += [run.started_at for run in running if run]
    times = [*map(parse_time, texts), *(line.at for line in process.released)]
    return not any(moment is not None and moment >= at for moment in times)


def _goes_on(scene: PodScene) -> bool:
    """Whether HAMi refuses the pod for longer than a pod stays untried, and still does: when somebody changed a node's
    annotation, such as its cordon, no object says.
    """
    since, at = scene.attempt.since, scene.attempt.at
    return since is not None and at is not None and at - since >= UNSCHEDULABLE_FLUSH > scene.now - at


def _suspected(code: Code, scene: PodScene, names: Sequence[str]) -> Finding:
    attempt = scene.attempt
    since, tried = attempt.since, attempt.at
    key = "scheduler-ledger-stale.suspected" if code == "scheduler-ledger-stale" else "registration-ignored.suspected"
    if (reason := _reasons(attempt, names)[0]) == CORDONED:
        code = "card-cordoned"
        key = "card-cordoned.kept"
    when = {"since": format_time(since) if since else "?", "tried": format_time(tried) if tried else "?"}
    claim = Text(key, nodes=prose.names(names), reason=reason, **when)
    proofs = [*attempt.evidence_for(reason), *scene.words, *_of_gpus(scene, names)]
    look = prose.see_cards(names[0]) if code == "scheduler-ledger-stale" else ()
    actions = [*(look or prose.scheduler_log(scene.install, scene.pod.name)), *restart(scene.install)]
    if code == "scheduler-ledger-stale" and scene.cluster.process.unread:
        claim = sentences(claim, Text("scheduler-ledger-stale.unread"))
        actions = prose.see_cards(names[0])
    severity = _severity(scene) if code == "scheduler-ledger-stale" else "warning"
    return finding(code, claim, "suspected", names, proofs, severity=severity, actions=actions, of=scene.install)


def _severity(scene: PodScene) -> Severity:
    """Information where a known bug explains the refusal, so that its finding comes first; else a warning."""
    return "info" if scene.once(bug_of_containers) else "warning"


def _of_gpus(scene: PodScene, names: Sequence[str]) -> list[Evidence]:
    node = scene.nodes[names[0]]
    cards = scene.view.cards(node.name)
    return [quotes.of_card(node, cards[0].card.uuid)] if cards else []


def restart(install: Install) -> tuple[NextAction, ...]:
    """The step to restart the scheduler so that it counts anew; empty where its Deployment is not known."""
    deployment = install.deployment
    if deployment is None:
        return ()
    alone = len(install.pods) <= 1
    command = kubectl("-n", deployment.namespace, "rollout", "restart", f"deployment/{deployment.name}")
    label = Text("scheduler-ledger-stale.restart" if alone else "scheduler-ledger-stale.restart-one-by-one")
    return (act(label, command),)


_SINCE = Version(2, 9, 0)
"""The first version for which this holds: before, any unanswered handshake is stale after 60 s."""
_UTC = timedelta()
_PATIENCE = timedelta(seconds=60)
"""How long a plugin may take to report: one that works does so every 30 s."""


class ExtenderStart(NamedTuple):
    """When the running extender of the leader started, and in which pod."""

    at: datetime
    pod: Pod
    text: str


def start_of(install: Install) -> ExtenderStart | None:
    """The start of the scheduler that registers nodes; None where it is not known."""
    pod = install.leader or (install.pods[0] if len(install.pods) == 1 else None)
    statuses = (pod.status.container_statuses or ()) if pod else ()
    running = next((status.state.running for status in statuses if status.name == EXTENDER_CONTAINER), None)
    at = parse_time(running.started_at) if running else None
    return ExtenderStart(at, pod, running.started_at or "") if pod and running and at else None


def is_not_taken_in(
    node: Node,
    device: Device,
    version: Version | None,
    start: ExtenderStart | None,
    now: datetime,
    *,
    zone: timedelta = _UTC,
) -> bool:
    """Whether the node's handshake is from long before the scheduler's start, so that the node is not registered.
    `zone`: how far the scheduler's local time, which it writes without a zone, is ahead of UTC.
    """
    text = node.metadata.annotation(device.names.handshake) if device.names.handshake else None
    if device.vendor is FIRST or text is None or start is None or version is None or version < _SINCE:
        return False
    handshake = parse_handshake(text)
    asked_before = handshake.state == "requesting" and handshake.at is not None and handshake.at - zone < start.at
    return asked_before and now - start.at > _PATIENCE


@rule("handshake-stale", *NODE_CODES, reads=("nodes",))
def unknown_since_restart(scene: PodScene) -> list[Finding]:
    """The finding of registered nodes that HAMi calls unregistered since the scheduler's restart."""
    start, device, said = start_of(scene.install), scene.device, scene.attempt.evidence_for(NODE_UNREGISTERED)
    if start is None or scene.attempt.at is None or scene.attempt.at < start.at or not said or scene.once(by_words):
        return []
    names = _not_taken_in(scene, refused_nodes(scene))
    if not names:
        return []
    proofs = [*said, *restart_proofs([scene.nodes[names[0]]], device, start)]
    actions = restart_steps(names[0], device, scene.plugins.get(names[0]))
    told = finding("handshake-stale", since_restart(names, start), nodes=names, proofs=proofs, actions=actions)
    return with_nodes_behind(scene, told)


def _not_taken_in(scene: PodScene, names: Sequence[str]) -> list[str]:
    start, nodes = start_of(scene.install), scene.nodes
    return [name for name in names if is_not_taken_in(nodes[name], scene.device, scene.version, start, scene.now)]


def maybe_unknown(scene: PodScene) -> list[Gap]:
    """The gap that HAMi may not know some nodes that would take the pod, which no object tells for sure."""
    names, hint = _not_taken_in(scene, scene.fitting), Text("gap.since-restart-hint")
    return [gap("fit", Text("gap.since-restart", nodes=prose.names(names)), hint)] if names else []


def since_restart(names: Sequence[str], start: ExtenderStart) -> Text:
    return Text("handshake-stale.restarted", nodes=prose.names(names), started=format_time(start.at))


def restart_proofs(nodes: Sequence[Node], device: Device, start: ExtenderStart) -> list[Evidence]:
    key = device.names.handshake
    found = [quotes.of_node_annotation(node, key, (node.metadata.annotation(key) or "")[:200]) for node in nodes]
    path = f'{{.status.containerStatuses[?(@.name=="{EXTENDER_CONTAINER}")].state.running.startedAt}}'
    return [*found, quotes.of_pod(start.pod, start.text, path)]


def restart_steps(name: str, device: Device, plugin: Sequence[Pod | DaemonPod] | Gap | None) -> list[NextAction]:
    """The steps to see why the plugin does not report, and to have the scheduler register the node without a report."""
    forget = kubectl("annotate", "node", name, f"{device.names.handshake}-")
    look = plugin_actions(name, plugin, device.vendor)[0]
    return [look, act(Text("handshake-stale.renew", node=name), forget)]


Gpu = tuple[str, str]
"""The key of a GPU: node and UUID."""


class LedgerRow(NamedTuple):
    """A row for a node on whose GPUs the scheduler counts another amount of memory than live pods hold, in MiB."""

    node: str
    gpus: int
    hami_counts: int
    pods_hold: int
    difference: int
    only_counted: NameList


LEDGER = Sheet(
    "scheduler's count",
    LedgerRow,
    names="gpus=GPUs hami_counts=HAMi_counts",
    brief="node gpus=GPUs hami_counts=HAMi_counts pods_hold difference only_counted=only_HAMi_counts",
)


def differing(process: SchedulerProcess, ledger: Ledger | None) -> Mapping[Gpu, tuple[int, int]]:
    """By GPU the MiB that the scheduler counts and that pods hold, where they differ; empty where either is unread."""
    if not isinstance(process.counted, SchedulerCounts) or ledger is None:
        return {}
    hold = Counter[Gpu]()
    for holding in ledger.all():
        hold.update({(holding.node, uuid): share.memory_mib for uuid, share in holding.shares.items()})
    gpus = process.counted.gpus
    both = {key: (gpus.get(key, 0), hold[key]) for key in {*gpus, *hold}}
    return {key: amounts for key, amounts in both.items() if amounts[0] != amounts[1]}


def ledger_table(process: SchedulerProcess, ledger: Ledger | None, nodes: Collection[str]) -> tuple[Table, ...]:
    """The table with a row for each of these nodes whose counts and holdings differ; none where all agree."""
    by_node: dict[str, list[tuple[int, int]]] = {}
    for (node, _), amounts in differing(process, ledger).items():
        if node in nodes:
            by_node.setdefault(node, []).append(amounts)
    ghosts = {(taken.node, f"{taken.namespace}/{taken.pod}") for ghost in process.ghosts for taken in ghost.taken}
    rows = [_row(node, by_node[node], sorted(pod for at, pod in ghosts if at == node)) for node in sorted(by_node)]
    return (LEDGER.table(rows, brief=rows),) if rows else ()


def _row(node: str, amounts: Collection[tuple[int, int]], only_counted: Collection[str]) -> LedgerRow:
    counts, holds = sum(count for count, _ in amounts), sum(held for _, held in amounts)
    return LedgerRow(node, len(amounts), counts, holds, counts - holds, NameList(only_counted))
