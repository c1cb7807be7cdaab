"""How processes of pods that hold GPUs ended: a container that used too much of the node's memory was OOMKilled.

That is never GPU memory: a program that gets none sees CUDA's out-of-memory error and ends by itself. But what an
OOMKilled container would have used of its GPU is not known, since its run was cut short.
"""

from datetime import timedelta

from bot.hami.metrics.holder_usage import MeasuredHolding
from bot.kube.models import Holder
from bot.kube.models.pods import HolderContainer
from bot.kube.times import parse_time
from bot.report import Evidence
from playbooks.gather.usage import WINDOW_DAYS
from playbooks.quotes import clock, kubectl
from playbooks.tune.facts import Facts

_OOM = "OOMKilled"


def oomkilled(held: MeasuredHolding, facts: Facts) -> list[HolderContainer]:
    """The pod's containers whose last end was that within the window; an end without a time counts."""
    since = facts.taken_at - timedelta(days=WINDOW_DAYS)
    found: list[HolderContainer] = []
    for container in _statuses(facts.holder(held)):
        ended = parse_time(container.end.finished_at) if container.end else None
        if container.end and container.end.reason == _OOM and (ended is None or ended >= since):
            found.append(container)
    return found


def restarted(held: MeasuredHolding, container: str, facts: Facts) -> HolderContainer | None:
    """That container of the pod, if its process ended and was started again."""
    own = (status for status in _statuses(facts.holder(held)) if status.name == container)
    return next((status for status in own if status.restart_count), None)


def _statuses(holder: Holder | None) -> list[HolderContainer]:
    return (holder.status.container_statuses or []) if holder else []


def of_end(held: MeasuredHolding, container: HolderContainer) -> Evidence:
    """The reason of the container's last end."""
    place = "state" if container.state.terminated else "lastState"
    reason = container.end.reason if container.end else ""
    shown = f"{place}.terminated.reason" if reason else "restartCount"
    at = clock(container.end.finished_at) if container.end else None
    return Evidence(
        "pod", f"Pod {held.name}", at, reason or str(container.restart_count), _command(held, container, shown)
    )


def of_restarts(held: MeasuredHolding, container: HolderContainer) -> Evidence:
    """How often the container was started again."""
    return Evidence(
        "pod", f"Pod {held.name}", None, str(container.restart_count), _command(held, container, "restartCount")
    )


def _command(held: MeasuredHolding, container: HolderContainer, field: str) -> str:
    path = f'jsonpath={{.status.containerStatuses[?(@.name=="{container.name}")].{field}}}'
    return kubectl("-n", held.holding.namespace, "get", "pod", held.holding.name, "-o", path)
