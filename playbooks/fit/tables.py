"""The tables of `fit`: nodes grouped and one by one, the pods' requests, pods whose end would help, and quotas."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bot.hami.fit.blockers import Ending
from bot.report import Sheet, Table
from bot.texts import Prose, Text, listed
from playbooks.fit.manifest import role_of
from playbooks.fit.scene import AskedScene, amounts, asked_memory, changes, effects_on_cards, is_share, other_resources
from playbooks.rules.capacity.request_amounts import memory
from playbooks.rules.common import prose
from playbooks.rules.common.findings import other_vendors
from playbooks.scenes.waiting_pod import PodScene


class ReasonRow(NamedTuple):
    """A row for the nodes that give a pod the same verdict for the same reasons."""

    pod: str
    verdict: str
    reason: Prose
    kubernetes: str
    nodes: int
    which: Prose


class FitNodeRow(NamedTuple):
    """A row for whether a pod fits on one node. `reason` is HAMi's own text, as its extender logs it."""

    pod: str
    node: str
    verdict: str
    reason: Prose
    kubernetes: str


class RoleRow(msgspec.Struct, frozen=True):
    """A row for pods that are alike. `replicas` is None for a DaemonSet; `other` are the resources beside HAMi's."""

    role: str
    kind: str
    replicas: int | None
    gpus_each: int
    memory: Prose
    cores: str
    min_available: int | str
    other: str


class RequestRow(msgspec.Struct, frozen=True):
    """A row for what one container asks of a GPU."""

    pod: str
    namespace: str
    container: str
    cards: int
    memory: str
    cores: str
    only: str


class AdmittedRow(NamedTuple):
    """A row for a limit that HAMi's webhook writes into the pod."""

    pod: str
    container: str
    resource: str
    written: str
    admitted: str


class EndingRow(NamedTuple):
    """A row for a set of pods whose end would make room for the pod."""

    pod: str
    choice: int
    node: str
    pods_to_end: tuple[str, ...]
    highest_priority: int
    oldest_since: str


class EffectRow(msgspec.Struct, frozen=True):
    """A row for what one limit of a quota would hold with the pod counted."""

    pod: str
    held_by: str
    key: str
    limit: int | str
    used: int | None
    asked: int | Prose | None
    verdict: str


ROLES = Sheet("roles", RoleRow, names="gpus_each=GPUs_each")
REASONS = Sheet("by reason", ReasonRow)
REASONS_OF_ONE = Sheet("by reason", ReasonRow, beside=("pod",))
NODES = Sheet("nodes", FitNodeRow)
REQUESTS = Sheet("request as read", RequestRow)
ADMITTED = Sheet("as admitted", AdmittedRow)
ENDINGS = Sheet("pods to end", EndingRow)
EFFECTS = Sheet("quota", EffectRow)


def roles(scenes: Sequence[AskedScene]) -> Table:
    """The table of what each role of objects with pod templates asks for; empty for plain pods."""
    shown = scenes if any(role_of(scene.written).kind != "Pod" for scene in scenes) else ()
    return ROLES.table(
        RoleRow(
            role.name or scene.name,
            role.kind,
            role.replicas,
            sum(container.count for container in asked),
            memory=listed(dict.fromkeys(memory(scene, container) for container in asked)),
            cores=", ".join(dict.fromkeys(f"{container.cores}%" for container in asked if container.cores)),
            min_available=role.least or "",
            other=", ".join(f"{name}: {amount}" for name, amount in other_resources(scene.pod, scene.config).items()),
        )
        for scene in shown
        for role, asked in ((role_of(scene.written), scene.request.containers),)
    )


def by_reason(scenes: Sequence[AskedScene]) -> Table:
    """The table of nodes by verdict and reasons, for each pod: nodes that take it first, then the largest groups."""
    rows: list[ReasonRow] = []
    for scene in scenes:
        groups: dict[tuple[str, Prose, str], list[str]] = {}
        for name in sorted(scene.nodes):
            word, reason = _judged(scene, name, counted=False)
            groups.setdefault((word, reason, _obstacle(scene, name)), []).append(name)
        ordered = sorted(groups.items(), key=lambda group: (group[0][0] != "fit", group[0][2] != "", -len(group[1])))
        rows += [ReasonRow(scene.name, *key, len(names), prose.names(names)) for key, names in ordered]
    return (REASONS if len(scenes) > 1 else REASONS_OF_ONE).table(rows)


def nodes(scenes: Iterable[AskedScene]) -> Table:
    """The table with one row per pod and node."""
    return NODES.table(
        FitNodeRow(scene.name, name, *_judged(scene, name, counted=True), _obstacle(scene, name))
        for scene in scenes
        for name in sorted(scene.nodes)
    )


def _judged(scene: PodScene, name: str, *, counted: bool) -> tuple[str, Prose]:
    """`fit`, `unfit` or `unknown`, and why; with HAMi's counts of cards, or the codes alone."""
    verdict = scene.judge(name)
    if verdict.fits:
        vendors = other_vendors(scene)
        return ("unknown", Text("gap.vendor", resource=vendors[0])) if vendors else ("fit", verdict.said)
    reason = verdict.said if counted else ", ".join(sorted(verdict.codes))
    return "unknown" if verdict.fits is None else "unfit", reason or verdict.unknown


def _obstacle(scene: PodScene, name: str) -> str:
    lost = scene.obstacles.get(name)
    return lost.text if lost else ""


def admitted(scenes: Iterable[AskedScene]) -> Table:
    """The table of limits that HAMi's webhook would change."""
    return ADMITTED.table(
        AdmittedRow(scene.name, *change) for scene in scenes for change in changes(scene.written, scene.pod)
    )


def requests(scenes: Iterable[AskedScene]) -> Table:
    """The table of what each container asks of a GPU, as HAMi reads it."""
    return REQUESTS.table(
        RequestRow(
            scene.name,
            scene.pod.namespace,
            container.container,
            container.count,
            memory=prose.mib(container.memory_mib) if container.memory_mib else f"{container.percentage}%",
            cores=f"{container.cores}%" if container.cores else "",
            only=", ".join(f"{key}: {value}" for key, value in _constraints(scene)),
        )
        for scene in scenes
        for container in scene.request.containers
    )


def _constraints(scene: PodScene) -> list[tuple[str, str]]:
    fields = msgspec.structs.asdict(scene.request.constraints)
    read = zip(scene.device.names.also_read, fields.pop("more"), strict=False)
    return [(key, str(value)) for key, value in (*fields.items(), *read) if value not in (None, False, "")]


def endings(found: Iterable[tuple[str, Sequence[Ending]]]) -> Table:
    """The table of pods that would have to end, one set per row, the least disruptive first."""
    return ENDINGS.table(
        EndingRow(
            name,
            rank,
            ending.node,
            tuple(f"{pod.namespace}/{pod.name}" for pod in ending.pods),
            max(pod.priority for pod in ending.pods),
            min(pod.created for pod in ending.pods),
        )
        for name, some in found
        for rank, ending in enumerate(some, 1)
    )


def quota_effect(scenes: Iterable[AskedScene]) -> Table:
    """The table of what the namespace's quotas on HAMi's resources would hold with the pod counted."""
    return EFFECTS.table(
        EffectRow(
            scene.name,
            effect.by,
            effect.key,
            effect.limit,
            used=effect.used,
            asked=amounts(asked_memory(scene), "d") if is_share(scene, effect) else effect.asked,
            verdict=effect.verdict,
        )
        for scene in scenes
        for effect in effects_on_cards(scene)
    )
