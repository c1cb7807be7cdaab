"""What of a pod's own selection of nodes would have to go for HAMi to give it cards elsewhere."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from bot.kube.models import Node, Pod
from bot.kube.selectors import SELECTOR_TEXT, NodeFilter
from bot.texts import Text
from playbooks.rules.common import prose
from playbooks.scenes.waiting_pod import PodScene

BY_AFFINITY = "nodeAffinity"
_MAX_TRIED = 20


class Loosened(NamedTuple):
    """The labels that have to go (`nodeAffinity` for the affinity), and some nodes that would then take the pod."""

    parts: tuple[str, ...]
    nodes: list[str]

    @property
    def by_affinity(self) -> bool:
        """Whether the affinity is all that has to go."""
        return self.parts == (BY_AFFINITY,)

    def label(self) -> Text:
        nodes = prose.some(self.nodes)
        if self.by_affinity:
            return Text("change.loosen-affinity", label=BY_AFFINITY, nodes=nodes)
        return Text("change.loosen-selector", label=", ".join(self.parts), nodes=nodes)


def loosen(scene: PodScene, names: Sequence[str]) -> Loosened | None:
    """The loosening that leaves most of the selection, tried on the first of these nodes that it leaves out."""
    drops = NodeFilter(_without(scene.pod, affinity=True)).obstacle
    unselected = (name for name in names if name in scene.obstacles and scene.obstacles[name].text == SELECTOR_TEXT)
    found: dict[tuple[str, ...], list[str]] = {}
    for name in islice(unselected, _MAX_TRIED):
        if drops(scene.nodes[name]) is None and scene.judge(name).fits:
            found.setdefault(_missed(scene.pod, scene.nodes[name]), []).append(name)
    parts = min(found, key=len, default=None)
    return None if parts is None else Loosened(parts, found[parts])


def _missed(pod: Pod, node: Node) -> tuple[str, ...]:
    labels = node.metadata.labels or {}
    keys = [key for key, value in (pod.spec.node_selector or {}).items() if labels.get(key) != value]
    left = NodeFilter(_without(pod, affinity=False)).obstacle(node)
    return *keys, *([BY_AFFINITY] if left is not None and left.text == SELECTOR_TEXT else [])


def _without(pod: Pod, *, affinity: bool) -> Pod:
    """Without its node selector, and without its affinity if that is to go too."""
    kept = None if affinity else pod.spec.affinity
    return structs.replace(pod, spec=structs.replace(pod.spec, node_selector=None, affinity=kept))
