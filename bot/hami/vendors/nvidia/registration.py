"""Whether a version's scheduler takes in the NVIDIA GPUs of a node, and if not, why not.

Rules: HAMi pkg/scheduler/scheduler.go register loop and pkg/device/nvidia/device.go GetNodeDevices, CheckHealth.
"""

from datetime import datetime

import msgspec

from bot.hami.nodes.handshake import Handshake, judge_as_scheduler, parse_handshake
from bot.hami.nodes.registration import (
    JSON_SINCE,
    Registration,
    Unreadable,
    Unregistered,
    kubelet_offers,
    read_registration,
)
from bot.hami.pods.pod_request import Resources
from bot.hami.vendors.nvidia.names import NAMES
from bot.hami.version import Version
from bot.kube.models import Node

SCORE_KEY = "hami.io/node-nvidia-score"


class _LinkScores(msgspec.Struct):
    uuid: str = ""
    score: dict[str, int] | None = None


_link_scores: msgspec.json.Decoder[list[_LinkScores] | None] = msgspec.json.Decoder(list[_LinkScores] | None)


def registration(node: Node, version: Version, now: datetime, resources: Resources) -> Registration | Unregistered:
    """The node's GPUs as this version's scheduler would take them in at that moment."""
    text = node.metadata.annotation(NAMES.register)
    if text is None:
        return Unregistered("absent")
    read = read_registration(NAMES, NAMES.word, text)
    if isinstance(read, Unreadable):
        return Unregistered("unreadable", NAMES.register, text[:200] or read.why)
    if (read.encoding == "json") != (version >= JSON_SINCE):
        return Unregistered("other-format", NAMES.register, text[:80], read)
    score = node.metadata.annotation(SCORE_KEY)
    if version >= JSON_SINCE and score is not None and read_link_scores(score) is None:
        return Unregistered("score-unreadable", SCORE_KEY, score[:200], read)
    if is_taken_in_for_good(node, version, resources):
        return read
    judgement = judge_as_scheduler(_handshake(node), version, kubelet_offers(node, resources.count), now)
    if judgement in ("alive", "unknown"):
        return read
    quote = node.metadata.annotation(NAMES.handshake) or ""
    if version >= JSON_SINCE:  # the handshake is asked only where kubelet offers nothing
        return Unregistered("no-allocatable", NAMES.handshake, quote, read)
    return Unregistered("deleted" if judgement == "deleted" else "stale", NAMES.handshake, quote, read)


def is_taken_in_for_good(node: Node, version: Version, resources: Resources) -> bool:
    """Whether what is registered counts at any time, whatever the handshake says: kubelet offers some of it."""
    return version >= JSON_SINCE and kubelet_offers(node, resources.count) > 0


def is_held_by_turns(node: Node, version: Version, now: datetime, resources: Resources) -> bool:
    """Whether the scheduler takes the cards in and drops them again every minute: kubelet offers none of them."""
    offered = kubelet_offers(node, resources.count)
    return offered == 0 and judge_as_scheduler(_handshake(node), version, offered, now) == "unknown"


def _handshake(node: Node) -> Handshake | None:
    text = node.metadata.annotation(NAMES.handshake)
    return None if text is None else parse_handshake(text)


def link_scores(node: Node) -> dict[tuple[str, str], int] | None:
    """The node's pair scores, None when it has none."""
    text = node.metadata.annotation(SCORE_KEY)
    return read_link_scores(text) if text else None


def read_link_scores(text: str) -> dict[tuple[str, str], int] | None:
    """The pair scores for topology-aware by (uuid, uuid), None when the annotation is no such JSON."""
    try:
        listed = _link_scores.decode(text.encode()) or []
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return {(scores.uuid, other): score for scores in listed for other, score in (scores.score or {}).items()}
