"""A way on from a node that there is not."""

import difflib
from collections.abc import Sequence

from bot.report import NextAction, step
from bot.texts import Text
from playbooks.rules.common import prose

_MAX_NEAR = 3


def near_names(typed: str, names: Sequence[str]) -> list[str]:
    """The nodes that end as was typed, `16` for `gpu-node-16`, then those that contain it or are close to it."""
    ending = [name for name in names if name.endswith(f"-{typed}")]
    containing = [name for name in names if typed in name]
    near = difflib.get_close_matches(typed, names, n=_MAX_NEAR)
    return list(dict.fromkeys((ending or containing) + near))[:_MAX_NEAR]


def see_all_nodes() -> tuple[NextAction, ...]:
    """To look through the names that there are."""
    return (step(Text("gpus.all-nodes"), prose.command("nodes", "--all")),)
