"""Moments that no log shows, and why: each needs a line of one of the scheduler's two containers."""

from collections.abc import Iterator, Mapping, Sequence

from bot.hami.scheduler_logs.scheduling_latency import MOMENTS, Moment, settled
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.report import Gap, NextAction, gap, step
from bot.texts import Text
from playbooks.gather.latency import LatencySeen

_ATTEMPTS_FROM = 3
"""The level from which kube-scheduler logs its attempts; the extender logs its moments at any level."""
_SHOWN_BY: Mapping[str, tuple[Moment, ...]] = {KUBE_SCHEDULER_CONTAINER: MOMENTS[1:2], EXTENDER_CONTAINER: MOMENTS[2:5]}


def unseen_moments(seen: LatencySeen) -> Iterator[Gap]:
    """A gap for each container whose logs show some moment of no pod, unless a gap of the log itself says why."""
    for container in _SHOWN_BY:
        missing = _missing(container, seen)
        if missing and (why := _why(container, missing, seen)):
            yield gap(f"{container} log", why)


def show_attempts(seen: LatencySeen) -> tuple[NextAction, ...]:
    """To let kube-scheduler log its attempts for a while, where its level is why it shows none."""
    if not _missing(KUBE_SCHEDULER_CONTAINER, seen) or _quiet_level(seen) is None:
        return ()
    command = f"verbosity {_ATTEMPTS_FROM} for 10m --container {KUBE_SCHEDULER_CONTAINER}"
    return (step(Text("latency.show-attempts"), command, changes_cluster=True),)


def _missing(container: str, seen: LatencySeen) -> list[Moment]:
    lives = settled(seen.lives)
    return [moment for moment in _SHOWN_BY[container] if lives and not any(moment in life.logged for life in lives)]


def _why(container: str, missing: Sequence[Moment], seen: LatencySeen) -> Text | None:
    """None where the log's own gap is why."""
    level = _quiet_level(seen)
    values = {"moments": ", ".join(missing), "container": container, "level": level, "least": _ATTEMPTS_FROM}
    own = [log for log in seen.logs if log.container == container]
    if not own:
        return Text("latency.unseen-no-log", **values)
    if container == KUBE_SCHEDULER_CONTAINER and level is not None:
        return Text("latency.unseen-quiet", **values)
    return None if any(log.has_gap for log in own) else Text("latency.unseen-lines", **values)


def _quiet_level(seen: LatencySeen) -> int | None:
    """The lowest level of the kube-schedulers whose logs were read; None where all of them log their attempts."""
    levels = [log.level for log in seen.logs if log.container == KUBE_SCHEDULER_CONTAINER and log.is_read]
    lowest = min(levels, default=_ATTEMPTS_FROM)
    return lowest if lowest < _ATTEMPTS_FROM else None
