"""Whether a version's scheduler takes in the NVIDIA cards of a node, and if not, why not.

Rules: HAMi pkg/scheduler/scheduler.go register loop and pkg/device/nvidia/device.go GetNodeDevices, CheckHealth.
"""

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from bot.hami.handshake import Handshake, judge_as_scheduler, parse_handshake
from bot.hami.registration import Registration, Unreadable, read_registration
from bot.hami.vendors import NVIDIA
from bot.hami.version import Version
from bot.kube.models import Node
from bot.kube.quantities import whole

JSON_SINCE = Version(2, 8, 0)
SCORE_KEY = "hami.io/node-nvidia-score"
CORDON_KEY = "hami.io/device-cordon"
GPU_LABEL = ("gpu", "on")

Why = Literal["absent", "unreadable", "other-format", "stale", "deleted", "no-allocatable", "score-unreadable"]


class Unregistered(NamedTuple):
    """Why the scheduler has no cards of the node. `key` and `quote` are the annotation that shows it, if one does.

    `registration` is what would be there if the node were trusted.
    """

    why: Why
    key: str = ""
    quote: str = ""
    registration: Registration | None = None


class _LinkScores(msgspec.Struct):
    uuid: str = ""
    score: dict[str, int] | None = None


_link_scores: msgspec.json.Decoder[list[_LinkScores] | None] = msgspec.json.Decoder(list[_LinkScores] | None)


def nvidia_cards(
    node: Node,
    version: Version,
    now: datetime,
    *,
    count_resource: str = NVIDIA.count,
) -> Registration | Unregistered:
    """The node's NVIDIA registration as this version's scheduler would take it in at that moment."""
    text = node.metadata.annotation(NVIDIA.register)
    if text is None:
        return Unregistered("absent")
    read = read_registration(NVIDIA.register, text)
    if not isinstance(read, Registration):
        why = read.why if isinstance(read, Unreadable) else ""
        return Unregistered("unreadable", NVIDIA.register, text[:200] or why)
    if (read.encoding == "json") != (version >= JSON_SINCE):
        return Unregistered("other-format", NVIDIA.register, text[:80], read)
    score = node.metadata.annotation(SCORE_KEY)
    if version >= JSON_SINCE and score is not None and read_link_scores(score) is None:
        return Unregistered("score-unreadable", SCORE_KEY, score[:200], read)
    if is_taken_in_for_good(node, version, count_resource):
        return read
    allocatable = nvidia_allocatable(node, count_resource)
    judgement = judge_as_scheduler(nvidia_handshake(node), version, allocatable, now)
    if judgement in ("alive", "unknown"):
        return read
    quote = node.metadata.annotation(NVIDIA.handshake) or ""
    if version >= JSON_SINCE:  # the handshake is asked only where kubelet offers nothing
        return Unregistered("no-allocatable", NVIDIA.handshake, quote, read)
    return Unregistered("deleted" if judgement == "deleted" else "stale", NVIDIA.handshake, quote, read)


def is_taken_in_for_good(node: Node, version: Version, count_resource: str = NVIDIA.count) -> bool:
    """Whether what is registered counts at any time, whatever the handshake says: kubelet offers some of it."""
    return version >= JSON_SINCE and nvidia_allocatable(node, count_resource) > 0


def is_held_by_turns(node: Node, version: Version, now: datetime, *, count_resource: str = NVIDIA.count) -> bool:
    """Whether the scheduler takes the cards in and drops them again every minute: kubelet offers none of them."""
    allocatable = nvidia_allocatable(node, count_resource)
    return allocatable == 0 and judge_as_scheduler(nvidia_handshake(node), version, allocatable, now) == "unknown"


def nvidia_handshake(node: Node) -> Handshake | None:
    """The NVIDIA handshake of the node, None when it has none."""
    text = node.metadata.annotation(NVIDIA.handshake)
    return None if text is None else parse_handshake(text)


def nvidia_allocatable(node: Node, count_resource: str = NVIDIA.count) -> int:
    """How many of the NVIDIA count resource kubelet offers; 0 when none."""
    return whole((node.status.allocatable or {}).get(count_resource)) or 0


def expects_gpus(node: Node, count_resource: str = NVIDIA.count) -> bool:
    """Whether the node is meant to have NVIDIA cards; a node without is unregistered by right."""
    key, value = GPU_LABEL
    return (
        node.metadata.annotation(NVIDIA.register) is not None
        or nvidia_allocatable(node, count_resource) > 0
        or (whole((node.status.capacity or {}).get(count_resource)) or 0) > 0
        or node.metadata.label(key) == value
    )


def cordoned_uuids(node: Node) -> frozenset[str]:
    """The cards that an operator cordoned (2.10 reads this at registration)."""
    text = node.metadata.annotation(CORDON_KEY) or ""
    return frozenset(uuid.strip() for uuid in text.split(",") if uuid.strip())


def read_link_scores(text: str) -> dict[tuple[str, str], int] | None:
    """The pair scores for topology-aware by (uuid, uuid), None when the annotation is no such JSON."""
    try:
        listed = _link_scores.decode(text.encode()) or []
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return {(one.uuid, other): score for one in listed for other, score in (one.score or {}).items()}
