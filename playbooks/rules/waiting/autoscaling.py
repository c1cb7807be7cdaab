"""What cluster-autoscaler or karpenter says of a waiting pod: a node is on its way, or none will come.

Sources: autoscaler cluster-autoscaler/processors/status/eventing_scale_up_processor.go (TriggeredScaleUp,
NotTriggerScaleUp); karpenter pkg/controllers/provisioning/scheduling/events.go (Nominated, FailedScheduling).
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from bot.kube.times import parse_time
from bot.report import Evidence, Finding, one_line
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.scenes.waiting_pod import PodScene

_COMING = ("TriggeredScaleUp", "Nominated")
_NONE = ("NotTriggerScaleUp", "FailedScheduling")
_STARTS = timedelta(minutes=20)
"""A node that was ordered longer ago and is not there is not on its way any more."""
_LONGEST = 160


class _Said(NamedTuple):
    text: Prose
    evidence: Evidence


def with_autoscaler(scene: PodScene, found: Sequence[Finding]) -> list[Finding]:
    """The findings, the first of them with what an autoscaler says of the pod, where one does."""
    said = _said(scene)
    if said is None or not found or found[0].severity == "info":
        return list(found)
    first, *rest = found
    return [first.saying(sentences(first.text, said.text), evidence=(*first.evidence, said.evidence)), *rest]


def _said(scene: PodScene) -> _Said | None:
    name = scene.pod.namespace, scene.pod.name
    events = [
        event
        for event in scene.cluster.messages.events.get(name, ())
        if event.of_autoscaler and event.involved_object.uid in ("", scene.pod.metadata.uid)
    ]
    newest = max(events, key=lambda event: event.seen_at, default=None)
    if newest is None:
        return None
    scaler, words = newest.component, one_line(quotes.shown(newest.message), _LONGEST).rstrip(".")
    if newest.reason in _COMING:
        at = parse_time(newest.seen_at)
        late = at is None or scene.now - at > _STARTS
        return None if late else _Said(Text("autoscaler.coming", scaler=scaler, words=words), quotes.of_event(newest))
    if newest.reason not in _NONE:
        return None
    text: Prose = Text("autoscaler.none", scaler=scaler, words=words)
    if any(name in newest.message for name in scene.asked):
        text = sentences(text, Text("autoscaler.no-template"))
    return _Said(text, quotes.of_event(newest))
