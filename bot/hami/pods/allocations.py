"""What HAMi wrote on a pod: which cards each container was given.

Encoding: containers end in `;`, cards in `:`, fields `uuid,type,memory MiB,cores`
[HAMi pkg/device/devices.go EncodePodSingleDevice, DecodePodDevices].
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, zip_longest
from typing import NamedTuple

from bot.hami.vendors import NAMES
from bot.hami.version import Version
from bot.kube.models import Holder, ObjectMeta, Pod

NODE_KEY = "hami.io/vgpu-node"
BIND_PHASE_KEY = "hami.io/bind-phase"
BIND_TIME_KEY = "hami.io/bind-time"
ALLOCATED = "success"
_COUNTED = frozenset(key for names in NAMES for key in names.allocated)
_OF_CHIPS = ("hami.io/", "-devices-allocated")
FINISHED_PHASES = ("Succeeded", "Failed")

_FIELDS = 4
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_INT32 = 2**31 - 1
MIG_SUFFIX = re.compile(r"\[\d+-\d+\]$")


class Allocation(NamedTuple):
    """One card's share given to one container."""

    uuid: str
    memory_mib: int
    cores: int


Containers = tuple[tuple[Allocation, ...], ...]


@lru_cache(maxsize=2**15)
def decode_allocations(text: str, version: Version) -> Containers | None:
    """The shares, container by container; None when this version's scheduler ignores the whole annotation.

    A piece with too few fields makes every version drop the pod's usage; an integer that does not fit 32 bits does so
    from 2.9, and counts as what Go's ParseInt leaves of it before: 0, or the largest. The MIG suffix `[template-slot]`
    is taken off the uuid up to 2.9; to 2.10, which writes none, it is part of a uuid that no card has.
    """
    containers: list[tuple[Allocation, ...]] = []
    strict, suffixed = version >= (2, 9), version < (2, 10)
    parts = text.split(";")
    for part in parts[:-1] if parts[-1] == "" else parts:
        shares: list[Allocation] = []
        for piece in part.split(":"):
            if "," not in piece:
                continue
            fields = piece.split(",")
            if len(fields) < _FIELDS:
                return None
            memory, cores = _integer(fields[2]), _integer(fields[3])
            if memory is None or cores is None or abs(memory) > _INT32 or abs(cores) > _INT32:
                if strict:
                    return None
                memory, cores = _clamped(memory), _clamped(cores)
            uuid = MIG_SUFFIX.sub("", fields[0]) if suffixed and fields[0].endswith("]") else fields[0]
            shares.append(Allocation(uuid, memory, cores))
        containers.append(tuple(shares))
    return tuple(containers)


@lru_cache(maxsize=4096)  # the sizes that people ask for, written on every pod
def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _clamped(number: int | None) -> int:
    return max(-_INT32, min(number or 0, _INT32))


def reserved_node(metadata: ObjectMeta) -> str:
    """The node whose cards the pod counts against, whether or not it is bound there; empty when none."""
    return metadata.annotation(NODE_KEY) or ""


def was_allocated(pod: Pod | Holder) -> bool:
    """Whether the device plugin said that every container of the pod has its devices (`bind-phase: success`)."""
    return pod.metadata.annotation(BIND_PHASE_KEY) == ALLOCATED


def bound_at(pod: Pod | Holder) -> int | None:
    """When HAMi bound the pod, in seconds since 1970; None where it does not say."""
    text = pod.metadata.annotation(BIND_TIME_KEY) or ""
    return int(text) if text.isdecimal() else None


def is_finished(pod: Pod | Holder) -> bool:
    """Whether the pod has given its cards back."""
    return pod.status.phase in FINISHED_PHASES


def waits(pod: Pod) -> bool:
    """Whether a scheduler may still place the pod; one that is being deleted is left alone."""
    return not pod.spec.node_name and not is_finished(pod) and not pod.metadata.deletion_timestamp


def counted_allocations(metadata: ObjectMeta, version: Version) -> Containers | None:
    """What the pod was given of the vendors whose cards are counted; None where it counts as nothing.

    One annotation that the scheduler cannot read makes it ignore the others too.
    """
    texts = metadata.annotations or {}
    found = [decode_allocations(texts[key], version) for key in allocated_keys(texts)]
    if len(found) < 2:
        return found[0] if found else None
    readable = [entry for entry in found if entry is not None]
    merged = (tuple(chain.from_iterable(parts)) for parts in zip_longest(*readable, fillvalue=()))
    return tuple(merged) if len(readable) == len(found) else None


def allocated_keys(texts: Iterable[str]) -> tuple[str, ...]:
    """The keys of annotations that hold what HAMi gave."""
    return _allocated(tuple(texts))


@lru_cache(maxsize=4096)  # thousands of pods have the same keys
def _allocated(keys: tuple[str, ...]) -> tuple[str, ...]:
    began, ended = _OF_CHIPS
    return tuple(key for key in keys if key in _COUNTED or (key.endswith(ended) and key.startswith(began)))


def given(metadata: ObjectMeta) -> tuple[str, str] | None:
    """The annotation that holds what HAMi gave the pod, its key and its text; None when it was given nothing."""
    texts = metadata.annotations or {}
    return next(((key, texts[key]) for key in allocated_keys(texts)), None)
