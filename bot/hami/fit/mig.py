"""MIG as HAMi v2.10 places it: which profile a request gets, and where on the GPU.

Rules: HAMi v2.10.0 pkg/device/nvidia/mig_topology.go, mig_allocations.go. Earlier versions choose by templates, which
is not modelled: the vendor's check raises `UnmodelledError` instead of guessing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bot.hami.nodes.cards import MigPlacement, MigProfile

MIG_ALLOCATIONS_KEY = "hami.io/vgpu-mig-allocations"
_DESCENDING = ("1g.", "3g.")


class MigReservation(msgspec.Struct, frozen=True, rename="camel"):
    """One MIG instance that HAMi reserved for a container: an element of `hami.io/vgpu-mig-allocations`."""

    container_index: int = 0
    device_index: int = 0
    gpu_uuid: str = msgspec.field(name="gpuUUID", default="")
    profile: str = ""
    placement: MigPlacement = MigPlacement()
    mig_uuid: str = msgspec.field(name="migUUID", default="")
    gpu_instance_id: int | None = msgspec.field(name="gpuInstanceID", default=None)
    compute_instance_id: int | None = msgspec.field(name="computeInstanceID", default=None)


class MigChoice(NamedTuple):
    profile: MigProfile
    placement: MigPlacement


_decoder = msgspec.json.Decoder(tuple[MigReservation, ...])


def read_mig_allocations(text: str) -> tuple[MigReservation, ...]:
    """The reservations of a `hami.io/vgpu-mig-allocations`; none where one is invalid, as the scheduler does."""
    try:
        reservations = _decoder.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return ()
    places = {(reservation.container_index, reservation.device_index) for reservation in reservations}
    valid = len(places) == len(reservations) and all(
        min(each.container_index, each.device_index, each.placement.start) >= 0
        and each.placement.size > 0
        and bool(each.gpu_uuid and each.profile)
        and bool(each.mig_uuid) == (each.gpu_instance_id is not None) == (each.compute_instance_id is not None)
        and min(each.gpu_instance_id or 0, each.compute_instance_id or 0) >= 0
        for each in reservations
    )
    return reservations if valid else ()


def choose(profiles: Sequence[MigProfile], memory_mib: int, occupied: Iterable[MigPlacement]) -> MigChoice | None:
    """The smallest MIG profile with at least `memory_mib` and a placement free of `occupied`; None without one."""
    taken = list(occupied)
    for profile in sorted(profiles, key=lambda mig_profile: (mig_profile.memory_mib, mig_profile.slices)):
        if profile.memory_mib < memory_mib:
            continue
        descending = profile.name.startswith(_DESCENDING)
        for placement in sorted(profile.placements or (), key=lambda placement: placement.start, reverse=descending):
            start, end = placement.start, placement.start + placement.size
            if not any(start < other.start + other.size and other.start < end for other in taken):
                return MigChoice(profile, placement)
    return None
