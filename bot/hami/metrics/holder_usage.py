"""What each pod that holds GPUs uses of them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from bot.hami.fit.allocated_totals import Holding, Share
from bot.hami.metrics.gpu_usage import ContainerUse, Usage

IDLE_S = 6 * 3600.0
"""A pod without a kernel for so long is idle."""


class MeasuredHolding(msgspec.Struct, frozen=True, dict=True):
    """What one pod holds of NVIDIA's GPUs, with the figures of its containers. `unmeasured` are the GPUs of which a
    container has no figure.

    That is so before any process of the container has touched the GPU, where HAMi-core is not loaded, and where
    vGPUmonitor does not run.
    """

    holding: Holding
    uses: tuple[ContainerUse, ...]
    unmeasured: tuple[str, ...]

    @cached_property
    def shares(self) -> Mapping[str, Share]:
        """By GPU. vGPUmonitor measures no other vendor's devices."""
        return _measurable(self.holding)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.holding.namespace}/{self.holding.name}"

    @cached_property
    def last(self) -> ContainerUse | None:
        """The share on which a kernel ran last; None where that is not known of each GPU that the pod holds."""
        if self.unmeasured or not self.uses or any(use.last_kernel is None for use in self.uses):
            return None
        return min(self.uses, key=_seconds_idle)

    @property
    def idle_s(self) -> float | None:
        """Seconds since the pod's last kernel on any of its GPUs; before the first, since its process started."""
        return _seconds_idle(self.last) if self.last else None

    @property
    def has_no_process(self) -> bool:
        """Whether nothing of the pod is on any of its GPUs, though its limits still are."""
        return bool(self.uses) and all(use.used is not None and use.used.value == 0 for use in self.uses)


def _seconds_idle(use: ContainerUse) -> float:
    return use.last_kernel.value if use.last_kernel else 0.0


def held_by(holdings: Iterable[Holding], usage: Usage) -> list[MeasuredHolding]:
    """Each pod that is bound to a node and holds GPUs, with what was measured of it: in the order of the holdings."""
    measured: dict[tuple[str, str], list[ContainerUse]] = defaultdict(list)
    for use in usage.containers:
        measured[use.namespace, use.pod].append(use)
    held: list[MeasuredHolding] = []
    for holding in holdings:
        shares = _measurable(holding)
        if not holding.bound or not shares:
            continue
        uses = tuple(use for use in measured[holding.namespace, holding.name] if use.uuid in shares)
        seen = [use.uuid for use in uses]
        unmeasured = tuple([uuid for uuid, share in shares.items() if seen.count(uuid) < share.slots])
        held.append(MeasuredHolding(holding, uses, unmeasured))
    return held


def _measurable(holding: Holding) -> Mapping[str, Share]:
    if not holding.others:
        return holding.shares
    return {uuid: share for uuid, share in holding.shares.items() if uuid not in holding.others}
