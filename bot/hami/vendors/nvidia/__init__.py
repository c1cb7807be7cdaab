"""NVIDIA's GPUs [HAMi v2.4 to v2.10, pkg/device/nvidia/device.go]."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from bot.hami.fit.verdicts import CardUse, Run, Verdict
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.handshake import judge_as_scheduler
from bot.hami.nodes.registration import (
    JSON_SINCE,
    Registration,
    Unreadable,
    Unregistered,
    kubelet_offers,
    read_registration,
)
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.nvidia import fit, requests
from bot.hami.vendors.shared.admission import Amounts, AnnotatedContainer, Answer, Denied, Mutation
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

SCORE_KEY = "hami.io/node-nvidia-score"
_EXCLUSIVE_BY_DEFAULT = Version(2, 7, 0)
_CHECKED = Version(2, 10, 0)
_FOUND_BY = (
    *("nvidia.com/gpu.present", "nvidia.com/gpu.count"),  # GPU Feature Discovery
    # NFD, vendor id 10de
    *(f"feature.node.kubernetes.io/pci-{prefix}10de.present" for prefix in ("", "0302_", "0300_")),
)
_LABELS = (
    *_FOUND_BY[:2],
    "nvidia.com/gpu.product",
    *_FOUND_BY[2:],
    *("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator"),
)


class _LinkScores(msgspec.Struct):
    uuid: str = ""
    score: dict[str, int] | None = None


_link_scores: msgspec.json.Decoder[list[_LinkScores] | None] = msgspec.json.Decoder(list[_LinkScores] | None)


class Nvidia(Vendor):
    """What a container asks for is in `requests`, the verdict in `fit`."""

    names = requests.NAMES
    node_label = ("gpu", "on")
    gpu_labels = _FOUND_BY
    node_keys = (SCORE_KEY,)
    plugin_labels = "app.kubernetes.io/component=hami-device-plugin"
    obeys_quota = True

    def read_resources(self, document: object) -> tuple[Resources, ...]:
        return requests.read_resources(document)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        return requests.container_request(container, resources, version)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """A count where only memory or cores are named, all cores with a whole GPU.

        Source: MutateAdmission and defaultExclusiveCoreIfNeeded, v2.7 to v2.10.
        """
        if not any(name in shown.limits for name in resources.all):
            return None
        percentage = shown.asked(resources.percentage)
        if percentage is not None and not 0 <= percentage <= WHOLE_CARD and shown.version >= _CHECKED:
            where = f"in container {shown.container}: must be an integer between 0 and {WHOLE_CARD}"
            return Denied(f"invalid {resources.percentage} value {percentage} {where}")
        named = resources.count in shown.limits
        if not named and resources.default_count <= 0:
            return None
        added: Amounts = {} if named else {resources.count: resources.default_count}
        if _is_whole(shown, resources, percentage) and shown.version >= _EXCLUSIVE_BY_DEFAULT:
            added = {**added, resources.cores: WHOLE_CARD}
        return Mutation(added)

    def gpu_label(self, node: Node) -> str:
        """Whatever HAMi does there."""
        for key in _LABELS:
            value = node.metadata.label(key) or ""
            if value.startswith("nvidia") if "accelerator" in key else value not in ("", "false", "0"):
                return key
        return ""

    def node_facts(self, node: Node) -> dict[tuple[str, str], int] | None:
        """The node's pair scores, None when it has none."""
        text = node.metadata.annotation(SCORE_KEY)
        return read_link_scores(text) if text else None

    def registration(
        self, node: Node, version: Version, now: datetime, resources: Resources
    ) -> Registration | Unregistered:
        names = self.names
        text = node.metadata.annotation(names.register)
        if text is None:
            return Unregistered("absent")
        read = read_registration(names, names.word, text)
        if isinstance(read, Unreadable):
            return Unregistered("unreadable", names.register, text[:200] or read.why)
        if (read.encoding == "json") != (version >= JSON_SINCE):
            return Unregistered("other-format", names.register, text[:80], read)
        score = node.metadata.annotation(SCORE_KEY)
        if version >= JSON_SINCE and score is not None and read_link_scores(score) is None:
            return Unregistered("score-unreadable", SCORE_KEY, score[:200], read)
        if self.is_taken_in_for_good(node, version, resources):
            return read
        handshake, offered = self._handshake(node, resources), kubelet_offers(node, resources.count)
        judgement = judge_as_scheduler(handshake, version, offered, now)
        if judgement in ("alive", "unknown"):
            return read
        quote = node.metadata.annotation(names.handshake) or ""
        if version >= JSON_SINCE:  # the handshake is asked only where kubelet offers nothing
            return Unregistered("no-allocatable", names.handshake, quote, read)
        return Unregistered("deleted" if judgement == "deleted" else "stale", names.handshake, quote, read)

    def is_taken_in_for_good(self, node: Node, version: Version, resources: Resources) -> bool:
        return version >= JSON_SINCE and kubelet_offers(node, resources.count) > 0

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources) -> bool:
        offered = kubelet_offers(node, resources.count)
        judged = judge_as_scheduler(self._handshake(node, resources), version, offered, now)
        return offered == 0 and judged == "unknown"

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        return fit.scan(run, in_play, asked)

    def may_split(self, run: Run, in_play: list[CardState]) -> bool:
        return fit.may_split(run, in_play)

    def slices(self, state: CardState) -> Sequence[int]:
        return fit.slices(state)


def _is_whole(shown: AnnotatedContainer, resources: Resources, percentage: int | None) -> bool:
    if shown.asked(resources.cores) is not None:
        return False
    return percentage == WHOLE_CARD if percentage is not None else shown.asked(resources.memory) is None


def read_link_scores(text: str) -> dict[tuple[str, str], int] | None:
    """The pair scores for topology-aware by (uuid, uuid), None when the annotation is no such JSON."""
    try:
        listed = _link_scores.decode(text.encode()) or []
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return {(scores.uuid, other): score for scores in listed for other, score in (scores.score or {}).items()}
