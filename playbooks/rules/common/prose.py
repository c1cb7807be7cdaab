"""Small pieces that claims and steps share: lists of names, amounts, commands."""

import difflib
import shlex
from collections.abc import Sequence

from bot.hami.installation.install import Install
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.report import NextAction, act, step
from bot.texts import Prose, Text, listed, some_names
from playbooks import quotes
from playbooks.playbook import plain_numbers
from playbooks.quotes import kubectl

_SHOWN = 3


names = some_names


def some(found: Sequence[str]) -> Prose:
    """Names as a list: `a, b, c`, or `a, b, c and others` where only so many were looked for."""
    return Text("words.and-others", names=listed(found[:_SHOWN])) if len(found) > _SHOWN else names(found)


def mib(amount: int) -> str:
    """An amount of memory as text: `24,000 MiB`."""
    return f"{amount:,} MiB"


def plugin_pods_command(node: str, vendor: Vendor = FIRST) -> str:
    """The command that shows the vendor's device plugin on one node: all pods there where its labels are not known."""
    labels = ("-l", vendor.plugin_labels) if vendor.plugin_labels else ()
    return kubectl("get", "pods", "-A", *labels, "--field-selector", f"spec.nodeName={node}")


def command(*words: str) -> str:
    """A command of the bot to copy or to click. Names are quoted, since a recording may hold any."""
    return shlex.join(words)


def alternatives(ways: Sequence[Sequence[NextAction]]) -> list[NextAction]:
    """The steps of ways that are each enough: where several change something, the first change of each says so, and
    what only looks stands before them or after them all.
    """
    changes = [next((one for one in way if one.changes_cluster), None) for way in ways]
    keys = dict.fromkeys(one for one in changes if one is not None)
    steps = [one for way in ways for one in way]
    if len(keys) < 2:
        return steps
    first = next(iter(keys))
    begin = steps.index(first)
    among = steps[begin:]
    steps = [*steps[:begin], *(one for one in among if one.changes_cluster)]
    steps += [one for one in among if not one.changes_cluster]
    marked = {one: Text("words.either" if one is first else "words.or", step=one.text) for one in keys}
    return [act(marked[one], one.command) if one in marked else one for one in steps]


def see_cards(node: str) -> tuple[NextAction, ...]:
    return (step(Text("gpus.see", node=node), command("gpus", "--node", node)),)


def see_node(node: str) -> tuple[NextAction, ...]:
    """The step to look at a node's device plugin and other faults there, with the command for the plugin's log."""
    return (step(Text("nodes.see", node=node), command("nodes", node)),)


def see_quota(namespace: str) -> tuple[NextAction, ...]:
    return (step(Text("quota.see", namespace=namespace), command("quota", namespace)),)


def scheduler_log(install: Install, pod: str) -> tuple[NextAction, ...]:
    """The step to read what the extender logs about a pod; empty when no extender was found."""
    names = [pod.name for pod in install.pods[:1]]
    names = names or [f"deploy/{workload.name}" for workload in (install.deployment,) if workload]
    commands = (quotes.extender_log(install.namespace, name, pod) for name in names)
    return tuple(step(Text("words.scheduler-log"), command) for command in commands)


def raise_verbosity() -> tuple[NextAction, ...]:
    """The step to let HAMi log each GPU's figures for a while (its V(5)); the bot asks before it does that."""
    return (act(Text("changing.raise-it"), "verbosity 5 for 10m"),)


_MAX_NEAR = 3


def near_names(typed: str, names: Sequence[str]) -> list[str]:
    """The nodes that end in what was typed (`16` for `gpu-node-016`), then those with it inside, then similar names."""
    ending = [name for name in names if f"-{plain_numbers(name)}".endswith(f"-{plain_numbers(typed)}")]
    containing = [name for name in names if typed in name]
    near = difflib.get_close_matches(typed, names, n=_MAX_NEAR)
    return list(dict.fromkeys((ending or containing) + near))[:_MAX_NEAR]


def see_all_nodes() -> tuple[NextAction, ...]:
    return (step(Text("gpus.all-nodes"), command("nodes", "--all")),)
