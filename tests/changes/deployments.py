"""Deployments to plan on: the recorded charts', and hand-made ones."""

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from bot.changes.decide import DueChange, Wait, decide
from bot.changes.kinds import KINDS, ChangeKind, Switch
from bot.changes.plan import Raise
from bot.changes.record import Means
from tests.cases_support import files_of

Words = list[str]

EDITS: dict[str, Callable[[Words], Words]] = {
    "appends": lambda words: [*words, "--foreign=1"],
    "puts in front": lambda words: [words[0], "--foreign=1", *words[1:]],
    "removes": lambda words: [word for word in words if word != "--debug"],
    "edits": lambda words: ["--debug=false" if word == "--debug" else word for word in words],
}
"""What somebody else does to a container's words, of which none is ours."""
EXTENDER, KUBE_SCHEDULER = "vgpu-scheduler-extender", "kube-scheduler"
EVERY = [(kind, container) for kind in KINDS.values() for container in kind.containers]
"""Everything that can be changed."""
NOW = 1_795_237_200.0  # 2026-11-21T05:00:00Z


def wants(  # noqa: PLR0917  # as people say it
    kind: ChangeKind,
    value: str,
    container: str,
    seconds: float,
    by: str = "",
    because: str = "",
    *,
    means: Means = "patch",
) -> Raise:
    """What somebody asks for who changes one flag."""
    return Raise(((kind.name, value),), container, seconds, because, by=by, means=means)


def but(wanted: Raise, *, kind: ChangeKind | None = None, value: str | None = None, **other: Any) -> Raise:
    """The same with another flag, another value of it, or whatever else differs."""
    ((flag, now),) = wanted.values
    return msgspec.structs.replace(
        wanted, values=((kind.name if kind else flag, now if value is None else value),), **other
    )


def new_value(kind: ChangeKind) -> str:
    """One that no Deployment here has."""
    return "true" if isinstance(kind.values, Switch) else str(kind.values.highest)


@cache
def _recorded(version: str) -> dict[str, Any]:
    return json.loads(files_of(version)["objects/deployments.apps.json"])["items"][0]


def recorded(version: str) -> dict[str, Any]:
    """The scheduler's Deployment of a recorded chart."""
    return copy.deepcopy(_recorded(version))


def deployment(
    *, command: Sequence[str] | None = None, args: Sequence[str] | None = None, annotations: Any = None
) -> dict[str, Any]:
    """One whose extender stands between two sidecars, rolled out."""
    extender: dict[str, Any] = {"name": EXTENDER, "image": "projecthami/hami:v2.10.0"}
    extender |= {"command": list(command)} if command is not None else {}
    extender |= {"args": list(args)} if args is not None else {}
    metadata: dict[str, Any] = {
        "namespace": "kube-system", "name": "hami-scheduler", "uid": "u-1", "resourceVersion": "7", "generation": 3
    }  # fmt: skip
    containers = [{"name": "before", "image": "a"}, extender, {"name": "after", "image": "b", "args": ["-v=1"]}]
    return {
        "metadata": metadata | ({"annotations": annotations} if annotations is not None else {}),
        "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}},
        "status": {"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    }


LABELS = {"app": "hami-scheduler"}


def rolled_out(words: Sequence[str] = ("scheduler", "-v=4", "--debug")) -> dict[str, Any]:
    """One whose pods can be found, with every container that has flags to change; `words` are the extender's."""
    made = deployment(args=words)
    template = made["spec"]["template"]
    template["metadata"] = {"labels": LABELS}
    kube_scheduler = {"name": KUBE_SCHEDULER, "image": "kube-scheduler:v1.34.1", "command": ["kube-scheduler", "-v=3"]}
    template["spec"]["containers"].append(kube_scheduler)
    made["spec"]["selector"] = {"matchLabels": LABELS}
    return made


def due_on(target: dict[str, Any], now: float) -> DueChange:
    """What is due on the Deployment, where something is."""
    due = decide(target, now)
    assert isinstance(due, DueChange), due
    return due


def due_at_deadline(target: dict[str, Any], seconds: float = 600) -> DueChange:
    """What is due once the change has lasted so long, and not before."""
    assert isinstance(decide(target, NOW + seconds - 1), Wait)
    return due_on(target, NOW + seconds)
