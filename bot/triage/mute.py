"""Until when an incident is muted: a time, a node that is registered again, or the end of its cause."""

from collections.abc import Collection

import msgspec

_NODE = "node "


class Until(msgspec.Struct, frozen=True):
    """`at` in seconds since 1970, 0: at no time; `node`: as soon as HAMi sees that node again, empty: for no node.

    With neither it lasts as long as its cause.
    """

    at: float = 0.0
    node: str = ""


WHILE_IT_LASTS = Until()
"""After which the cause is new again."""


def is_over(until: Until, at: float, registered: Collection[str]) -> bool:
    """Whether a mute ends by itself at that time; `registered` are the nodes that were just seen to be."""
    return bool(until.at and at >= until.at) or until.node in registered


def written(until: Until) -> str:
    """The same as the detail of what is told; `read_until` reads it."""
    return f"{until.at:.0f}" if until.at else f"{_NODE}{until.node}" if until.node else ""


def read_until(detail: str) -> Until:
    """What `written` wrote."""
    if detail.startswith(_NODE):
        return Until(node=detail.removeprefix(_NODE))
    return Until(float(detail)) if detail else WHILE_IT_LASTS
