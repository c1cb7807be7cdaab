"""GPU-hours affected: how many GPUs the pods of incidents asked for, times how long they were affected."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class GpuRequest(NamedTuple):
    """What a pod asks for: so many GPUs, None where that is not known; `created_at` in seconds since 1970."""

    gpus: int | None
    created_at: float = 0.0


class FiringSpan(NamedTuple):
    """An alert about the pod fired from `began` to `ended`, in seconds since 1970; infinite: it fires still. If it came
    and went, it fired for that `share` of the time.

    `pod` names it. It asked for so many GPUs then, None where that is not known.
    """

    pod: tuple[str, ...]
    gpus: int | None
    began: float
    ended: float
    share: float = 1.0


class GpuTime(NamedTuple):
    """GPU-seconds affected: the GPUs that each pod asked for (not what it was given or used), times how long alerts
    about it fired; a moment with several alerts about a pod counts once.

    It is of `known` pods of all `pods`, and so a lower bound while `known` is less: what the others ask for is not
    known. `gpus` is what the known ones ask for together.
    """

    seconds: float = 0.0
    gpus: int = 0
    known: int = 0
    pods: int = 0

    @property
    def mean_s(self) -> float:
        """How long each of the GPUs was affected on average."""
        return self.seconds / self.gpus if self.gpus else 0.0


def gpu_time(spells: Sequence[FiringSpan], until: float, since: float = 0.0) -> GpuTime:
    """Of what lies between these times, in seconds since 1970.

    A pod of which one alert tells what it asks for is known. If it was made anew and asks for another number, each
    alert counts with its own, and for `gpus` the largest. Of several alerts at a time the one that counts most does.
    """
    by_pod: defaultdict[tuple[str, ...], list[FiringSpan]] = defaultdict(list)
    for spell in spells:
        began, ended = max(spell.began, since), min(spell.ended, until)
        if ended > began:
            by_pod[spell.pod].append(spell._replace(began=began, ended=ended))
    known = [_of_pod(some) for some in by_pod.values() if any(spell.gpus is not None for spell in some)]
    return GpuTime(sum(seconds for seconds, _ in known), sum(gpus for _, gpus in known), len(known), len(by_pod))


def _of_pod(spells: Sequence[FiringSpan]) -> tuple[float, int]:
    """GPU-seconds and the GPUs, of which one spell at least tells."""
    most = max(spell.gpus for spell in spells if spell.gpus is not None)
    seconds = 0.0
    for began, ended in pairwise(sorted({moment for spell in spells for moment in (spell.began, spell.ended)})):
        here = [spell for spell in spells if spell.began <= began and ended <= spell.ended]
        counted = ((most if spell.gpus is None else spell.gpus) * spell.share for spell in here)
        seconds += (ended - began) * max(counted, default=0.0)
    return seconds, most
