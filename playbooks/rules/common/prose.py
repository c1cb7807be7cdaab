"""Small pieces that claims and actions share: lists of names, amounts, commands."""

import difflib
import shlex
from collections.abc import Sequence

from bot.hami.installation.install import Install
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.report import NextAction, step
from bot.texts import Prose, Text, listed
from playbooks import quotes
from playbooks.quotes import kubectl

_SHOWN = 3


def names(found: Sequence[str], shown: int = _SHOWN) -> Prose:
    """`a, b, c` or `a, b and 5 more`."""
    if len(found) <= shown:
        return ", ".join(found)
    return Text("words.and-more", names=", ".join(found[: shown - 1]), more=len(found) - shown + 1)


def several(parts: Sequence[Text], shown: int = _SHOWN) -> Text:
    """A list of texts: a few of them, and how many more there are."""
    if len(parts) <= shown:
        return listed(parts)
    return Text("words.and-more", names=listed(parts[: shown - 1]), more=len(parts) - shown + 1)


def some(found: Sequence[str]) -> Prose:
    """`a, b, c`, or `a, b, c and others` where only so many were looked for that their number is not known."""
    shown = ", ".join(found[:_SHOWN])
    return Text("words.and-others", names=shown) if len(found) > _SHOWN else shown


def mib(amount: int) -> str:
    """`24,000 MiB`."""
    return f"{amount:,} MiB"


def plugin_pods_command(node: str, vendor: Vendor = FIRST) -> str:
    """The command that shows the vendor's device plugin on one node: all pods there where its labels are not known."""
    labels = ("-l", vendor.plugin_labels) if vendor.plugin_labels else ()
    return kubectl("get", "pods", "-A", *labels, "--field-selector", f"spec.nodeName={node}")


def command(*words: str) -> str:
    """A command of ours to copy or to click: names are quoted, since a recording may hold any."""
    return shlex.join(words)


def see_cards(node: str) -> tuple[NextAction, ...]:
    """To look at a node's cards and their holders."""
    return (step(Text("gpus.see", node=node), command("gpus", "--node", node)),)


def see_node(node: str) -> tuple[NextAction, ...]:
    """To look at a node's device plugin and whatever else is wrong there, with the command that reads its log."""
    return (step(Text("nodes.see", node=node), command("nodes", node)),)


def see_quota(namespace: str) -> tuple[NextAction, ...]:
    """To look at what counts against a namespace's quotas."""
    return (step(Text("quota.see", namespace=namespace), command("quota", namespace)),)


def scheduler_log(install: Install, pod: str) -> tuple[NextAction, ...]:
    """To read what the extender logs about a pod; nothing when no extender was found."""
    names = [pod.name for pod in install.pods[:1]]
    names = names or [f"deploy/{workload.name}" for workload in (install.deployment,) if workload]
    commands = (quotes.extender_log(install.namespace, name, pod) for name in names)
    return tuple(step(Text("words.scheduler-log"), command) for command in commands)


def raise_verbosity() -> tuple[NextAction, ...]:
    """To let HAMi log each card's figures for a while (its V(5)); it is asked about before it is done."""
    return (step(Text("changing.raise-it"), "verbosity 5 for 10m", changes_cluster=True),)


_MAX_NEAR = 3


def near_names(typed: str, names: Sequence[str]) -> list[str]:
    """The nodes that end as was typed, `16` for `gpu-node-16`, then those that contain it or are close to it."""
    ending = [name for name in names if name.endswith(f"-{typed}")]
    containing = [name for name in names if typed in name]
    near = difflib.get_close_matches(typed, names, n=_MAX_NEAR)
    return list(dict.fromkeys((ending or containing) + near))[:_MAX_NEAR]


def see_all_nodes() -> tuple[NextAction, ...]:
    """To look through the names that there are."""
    return (step(Text("gpus.all-nodes"), command("nodes", "--all")),)
