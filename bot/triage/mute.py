"""Until when an incident is muted: a time, a node that is registered again, or the end of its cause."""

from typing import NamedTuple

import msgspec

_NODE = "node "


class MuteUntil(msgspec.Struct, frozen=True):
    """`at` in seconds since 1970, 0: at no time; `node`: as soon as HAMi sees that node again, or it is gone;
    empty: for no node. With neither it lasts as long as its cause.
    """

    at: float = 0.0
    node: str = ""


WHILE_IT_LASTS = MuteUntil()
"""After which the cause is new again."""


class Nodes(NamedTuple):
    """Those that were just seen to be registered, and those of which it was just seen that they do not exist."""

    registered: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


UNSEEN = Nodes()


def is_over(until: MuteUntil, at: float, nodes: Nodes) -> bool:
    """Whether a mute ends by itself at that time."""
    return bool(until.at and at >= until.at) or until.node in nodes.registered | nodes.gone


def written(until: MuteUntil) -> str:
    """The same as the detail of what is told; `read_until` reads it."""
    return f"{until.at:.0f}" if until.at else f"{_NODE}{until.node}" if until.node else ""


def read_until(detail: str) -> MuteUntil:
    """What `written` wrote."""
    if detail.startswith(_NODE):
        return MuteUntil(node=detail.removeprefix(_NODE))
    return MuteUntil(float(detail)) if detail else WHILE_IT_LASTS
