"""Nodes of other vendors that a restarted scheduler does not know until their device plugin reports.

A scheduler takes such a node's devices in only when it finds the handshake without the word `Requesting`, and then
writes that word itself: one from before its start is an earlier process's. NVIDIA's devices need no report.
Source: HAMi v2.9 and v2.10 pkg/scheduler/scheduler.go register loop and pkg/device/*/device.go CheckHealth; seen by
running v2.10.0.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.hami.fit.verdicts import NODE_UNREGISTERED
from bot.hami.installation.install import Install
from bot.hami.nodes.handshake import parse_handshake
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import DaemonPod, Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, Gap, NextAction, gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.nodes.node_causes import NODE_CODES
from playbooks.rules.waiting.cause_ranking import by_words
from playbooks.rules.waiting.nodes_at_fault import with_nodes_behind
from playbooks.rules.waiting.stale_scheduler import refused_nodes
from playbooks.rules.waiting.unregistered_nodes import plugin_actions
from playbooks.scenes.waiting_pod import PodScene

_SINCE = Version(2, 9, 0)
"""Before, a handshake that is not answered for 60 s is stale whatever kubelet offers."""
_UTC = timedelta()
_PATIENCE = timedelta(seconds=60)
"""A plugin that works reports every 30 s."""


class Start(NamedTuple):
    """Since when the extender that leads has been running, and the pod that it runs in."""

    at: datetime
    pod: Pod
    text: str


def start_of(install: Install) -> Start | None:
    """The start of the scheduler that takes nodes in; None where it is not known."""
    pod = install.leader or (install.pods[0] if len(install.pods) == 1 else None)
    statuses = (pod.status.container_statuses or ()) if pod else ()
    running = next((status.state.running for status in statuses if status.name == EXTENDER_CONTAINER), None)
    at = parse_time(running.started_at) if running else None
    return Start(at, pod, running.started_at or "") if pod and running and at else None


def is_not_taken_in(
    node: Node, device: Device, version: Version | None, start: Start | None, now: datetime, *, zone: timedelta = _UTC
) -> bool:
    """Whether the handshake is still one from before the scheduler's start, long after that.

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
    """The nodes that HAMi calls unregistered for this, although they are registered."""
    return [] if scene.once(by_words) else with_nodes_behind(scene, _unknown_since_restart(scene))


def _unknown_since_restart(scene: PodScene) -> Finding | None:
    start, device, said = start_of(scene.install), scene.device, scene.attempt.evidence_for(NODE_UNREGISTERED)
    if start is None or scene.attempt.at is None or scene.attempt.at < start.at or not said:
        return None
    names = [
        name
        for name in refused_nodes(scene)
        if is_not_taken_in(scene.nodes[name], device, scene.version, start, scene.now)
    ]
    if not names:
        return None
    nodes = [scene.nodes[name] for name in names]
    proofs = [*said, *proofs_of(nodes[:1], device, start)]
    claim = claim_about(names, start)
    actions = steps(names[0], device, scene.plugins.get(names[0]))
    return finding("handshake-stale", claim, "confirmed", names, proofs, severity="warning", actions=actions)


def maybe_unknown(scene: PodScene) -> list[Gap]:
    """That HAMi may not know nodes that would take the pod, which no object tells for sure."""
    start = start_of(scene.install)
    names = [
        name
        for name in scene.fitting
        if is_not_taken_in(scene.nodes[name], scene.device, scene.version, start, scene.now)
    ]
    if not names:
        return []
    return [gap("fit", Text("gap.since-restart", nodes=prose.names(names)), Text("gap.since-restart-hint"))]


def claim_about(names: Sequence[str], start: Start) -> Text:
    """What holds for these nodes."""
    return Text("handshake-stale.restarted", nodes=prose.names(names), started=format_time(start.at))


def proofs_of(nodes: Sequence[Node], device: Device, start: Start) -> list[Evidence]:
    """The handshakes, and since when the scheduler runs."""
    key = device.names.handshake
    found = [quotes.of_node_annotation(node, key, (node.metadata.annotation(key) or "")[:200]) for node in nodes]
    path = f'{{.status.containerStatuses[?(@.name=="{EXTENDER_CONTAINER}")].state.running.startedAt}}'
    return [*found, quotes.of_pod(start.pod, start.text, path)]


def steps(name: str, device: Device, plugin: Sequence[Pod | DaemonPod] | Gap | None) -> list[NextAction]:
    """To see why the plugin does not report; without it, to have the scheduler take the node in."""
    forget = kubectl("annotate", "node", name, f"{device.names.handshake}-")
    look = plugin_actions(name, plugin, device.vendor)[0]
    return [look, step(Text("handshake-stale.renew", node=name), forget, changes_cluster=True)]
