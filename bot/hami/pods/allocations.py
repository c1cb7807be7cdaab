"""HAMi's annotations on a pod: the GPUs that each container was given.

Encoding: containers end in `;`, cards in `:`, fields `uuid,type,memory MiB,cores` [HAMi pkg/device/devices.go
EncodePodSingleDevice, DecodePodDevices].
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
    """The share of one GPU that one container was given."""

    uuid: str
    memory_mib: int
    cores: int


Containers = tuple[tuple[Allocation, ...], ...]


@lru_cache(maxsize=2**15)
def decode_allocations(text: str, version: Version) -> Containers | None:
    """The shares in an allocation annotation, by container; None where this version's scheduler ignores the annotation.

    A piece with too few fields makes every version ignore it; from 2.9 on so does an integer beyond 32 bits, which
    older ones count as Go's ParseInt leaves it: 0, or the largest. Up to 2.9 the MIG suffix `[template-slot]` is no
    part of the uuid.
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
    """The node whose GPUs the pod counts against, even if it is not bound there; empty for none."""
    return metadata.annotation(NODE_KEY) or ""


def was_allocated(pod: Pod | Holder) -> bool:
    """Whether the device plugin reported that each container of the pod has its devices (`bind-phase: success`)."""
    return pod.metadata.annotation(BIND_PHASE_KEY) == ALLOCATED


def bound_at(pod: Pod | Holder) -> int | None:
    """When HAMi bound the pod, in seconds since 1970; None where no annotation says so."""
    text = pod.metadata.annotation(BIND_TIME_KEY) or ""
    return int(text) if text.isdecimal() else None


def is_finished(pod: Pod | Holder) -> bool:
    """Whether the pod has ended, so that its GPUs are free again."""
    return pod.status.phase in FINISHED_PHASES


def waits(pod: Pod) -> bool:
    """Whether a scheduler may still place the pod: it has no node, has not ended and is not being deleted."""
    return not pod.spec.node_name and not is_finished(pod) and not pod.metadata.deletion_timestamp


def counted_allocations(metadata: ObjectMeta, version: Version) -> Containers | None:
    """What the pod was given of devices that HAMi counts, by container; None where HAMi counts none of it.

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
    """Those of the keys `texts` that are annotations with what HAMi gave a pod."""
    return _allocated(tuple(texts))


@lru_cache(maxsize=4096)  # thousands of pods have the same keys
def _allocated(keys: tuple[str, ...]) -> tuple[str, ...]:
    began, ended = _OF_CHIPS
    return tuple(key for key in keys if key in _COUNTED or (key.endswith(ended) and key.startswith(began)))


def given(metadata: ObjectMeta) -> tuple[str, str] | None:
    """Key and text of the annotation with what HAMi gave the pod; None where it was given nothing."""
    texts = metadata.annotations or {}
    return next(((key, texts[key]) for key in allocated_keys(texts)), None)
