"""What stands behind kubelet's refusal of a pod's devices: the node, or what the device plugin answered."""

import re
from datetime import datetime

from msgspec import structs

from bot.hami.pods.request_parsing import device_asked
from bot.hami.signatures import find
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding
from bot.texts import Text, unstopped
from playbooks.gather.node_side import NodeSide, is_monitor
from playbooks.gather.placed_pod import PlacedPod
from playbooks.rules.common.signature_findings import fix_of, log_line
from playbooks.rules.nodes.node_causes import node_causes
from playbooks.rules.nodes.plugin_faults import crash_near

_ANSWERED = re.compile(r"rpc error: code = (?!Unavailable|DeadlineExceeded|Canceled)\w+ desc = ")
"""gRPC's codes for a plugin that was not there; any other one is the plugin's own answer."""
_MOST_LINES = 3


def refused_causes(refused: Finding, pod: Pod, placed: PlacedPod, now: datetime) -> list[Finding]:
    """What is wrong with the node; nothing where the device plugin was there and refused this pod itself."""
    if any(_ANSWERED.search(evidence.quote) for evidence in refused.evidence):
        return []
    times = [at for evidence in refused.evidence if (at := parse_time(evidence.at))]
    vendor = device_asked(pod, placed.install.config).vendor
    found = node_causes([placed.side], placed.plugin_sets, placed.install, now, vendor)
    return found or [cause.told() for cause in crash_near(placed.side, times, vendor)]


def refused_more(refused: Finding, pod: Pod, side: NodeSide, *, stripped: bool) -> Finding:
    """The refusal with what kubelet's words mean, and with what the device plugin logged of this pod or around then.

    `stripped`: HAMi bound the pod and its annotations are gone, which is what those words mean then.
    """
    hits = find("kubelet-message", [evidence.quote for evidence in refused.evidence])
    proofs = [*refused.evidence, *_logged(pod, side)]
    if not hits or stripped:
        return structs.replace(refused, evidence=tuple(proofs))
    words = hits[0].signature
    claim = Text("allocate-failed.means", claim=unstopped(refused.text), means=words.means)
    actions = (fix_of(hits[0]), *refused.next_actions)
    return refused.saying(claim, evidence=tuple(proofs), next_actions=actions)


def _logged(pod: Pod, side: NodeSide) -> list[Evidence]:
    """The newest lines of the device plugin's log that name this pod, the last of them first: its end tells most."""
    named = re.compile(rf"(?<![\w.-]){re.escape(f'{pod.namespace}/{pod.name}')}(?![\w.-])")
    for log in side.logs:
        if not is_monitor(log.container):
            lines = [line for line in log.lines if named.search(line)]
            if lines:
                return [log_line(log, line) for line in reversed(lines[-_MOST_LINES:])]
    return []
