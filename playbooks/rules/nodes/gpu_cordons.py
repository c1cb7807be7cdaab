"""How to take cards back into service that somebody cordoned: after a look at who did."""

from collections.abc import Sequence

from bot.hami.nodes.node_state import CORDON_KEY
from bot.kube.models import Node
from bot.report import NextAction, step
from bot.texts import Text
from playbooks.quotes import kubectl


def uncordon(node: Node, uuids: Sequence[str]) -> tuple[NextAction, NextAction]:
    """Who cordoned the node's cards, then to uncordon these; the others that are named stay as they are."""
    named = [name.strip() for name in (node.metadata.annotation(CORDON_KEY) or "").split(",")]
    left = ",".join(fromkey for fromkey in dict.fromkeys(named) if fromkey and fromkey not in uuids)
    change = ("--overwrite", f"{CORDON_KEY}={left}") if left else (f"{CORDON_KEY}-",)
    who = step(
        Text("card-cordoned.who", node=node.name),
        kubectl("get", "node", node.name, "-o", "yaml", "--show-managed-fields"),
    )
    undo = step(
        Text("card-cordoned.uncordon", node=node.name, cards=", ".join(uuids)),
        kubectl("annotate", "node", node.name, *change),
        changes_cluster=True,
    )
    return who, undo
