"""A node's state by its object: whether it is ready, what keeps pods off, and which GPU faults are reported.

`gpu_conditions.toml` says which program sets which condition at a fault; any other condition is only quoted.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from bot.kube.models import Node

NOT_READY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CORDON_TAINT = "node.kubernetes.io/unschedulable"
PRESSURE_TAINTS = tuple(f"node.kubernetes.io/{kind}-pressure" for kind in ("memory", "disk", "pid"))


def not_ready(node: Node) -> bool:
    """Whether the node's Ready condition is not true, or its taints say so. False where the node has neither."""
    return any(
        condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions or ()
    ) or any(taint.key in NOT_READY_TAINTS for taint in node.spec.taints or ())


def is_cordoned(node: Node) -> bool:
    return node.spec.unschedulable or any(taint.key == CORDON_TAINT for taint in node.spec.taints or ())


def pressures(node: Node) -> tuple[str, ...]:
    """The node's pressure taints, which keep pods off."""
    return tuple(taint.key for taint in node.spec.taints or () if taint.key in PRESSURE_TAINTS)


def other_taints(node: Node) -> tuple[str, ...]:
    """The keys of the node's taints that are not Kubernetes' own for readiness, cordon or pressure."""
    known = (*NOT_READY_TAINTS, CORDON_TAINT, *PRESSURE_TAINTS)
    return tuple(taint.key for taint in node.spec.taints or () if taint.key not in known)


class Emitter(NamedTuple):
    """A row of `gpu_conditions.toml`: a program that reports GPU faults. The file says what its fields mean."""

    name: str
    types: str
    faulty: Literal["True", "False"]
    source: str
    unless: str = ""


_TABLE = tomllib.loads(files("bot.kube").joinpath("gpu_conditions.toml").read_text(encoding="utf-8"))
EMITTERS = tuple(Emitter(**row) for row in _TABLE["emitter"])
_GPU_WORDS = re.compile(r"gpu|nvidia|nvlink|xid|dcgm|accelerat", re.IGNORECASE)


def reports_fault(type_: str, status: str, reason: str = "", message: str = "") -> Emitter | None:
    """The program that reports a faulty GPU by this node condition; None where the condition reports none."""
    emitter = _emitter(type_, status)
    if emitter is None or (emitter.unless and any(re.search(emitter.unless, text) for text in (reason, message))):
        return None
    return emitter


@cache
def is_about_gpus(type_: str) -> bool:
    """Whether a condition of this type is about GPUs by its name, whoever sets it and whatever it says."""
    return _GPU_WORDS.search(type_) is not None or any(re.fullmatch(emitter.types, type_) for emitter in EMITTERS)


@cache
def _emitter(type_: str, status: str) -> Emitter | None:
    return next(
        (emitter for emitter in EMITTERS if emitter.faulty == status and re.fullmatch(emitter.types, type_)), None
    )
