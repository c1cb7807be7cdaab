"""`tune compare DATE DATE`: what changed between two days, and whether it helped.

Prometheus has what was used of GPUs; the scheduler's arguments are those of the ReplicaSets that its Deployment keeps,
and times of scheduling those of the pods that still exist. If the arguments changed, these times decide, else the
memory in use of a GPU.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from bot.hami.metrics.gpu_usage import IDLE_S
from bot.hami.scheduler_logs.scheduling_latency import measure, settled
from bot.kube.times import format_time
from bot.report import Evidence, Gap, Report
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.past_days import Average, Day, PastDay, PastDays
from playbooks.playbook import Snapshot
from playbooks.rules.common import prose
from playbooks.tune.advice import flag_of_replica_set
from playbooks.tune.compare import (
    ChangeRow,
    MeasuredRow,
    changed_flags,
    changes_of,
    compare_counts,
    compare_times,
    effect,
    effect_report,
    figures_of_stages,
    settings_of,
)

_MIB = 2**20
_SHOWN = 3
_BY_PODS = {
    "better": "tune.compare-better",
    "worse": "tune.compare-worse",
    "no difference": "tune.compare-noise",
    "unchanged": "tune.compare-unchanged",
    "not enough data": "tune.days-pods-few",
}
_BY_USE = {
    "better": "tune.days-better",
    "worse": "tune.days-worse",
    "no difference": "tune.days-noise",
    "unchanged": "tune.days-unchanged",
    "not enough data": "tune.days-few",
    "load": "tune.days-load",
}


def compare_days(snapshot: Snapshot[Any, Any], days: PastDays) -> Report:
    """The report on two days: a row per figure says what changed; one that a day lacks is not enough data."""
    before, after = days.before, days.after
    shown = before.scheduler is not None and after.scheduler is not None
    arguments = changes_of(*map(_settings, (before, after))) if shown else []
    measured = list(_changes(before.measured, after.measured))
    changes = [*arguments, *(row for row in measured if row.before != row.after)]
    whole, *parts = figures_of_stages(before.lives, after.lives)
    late = [whole, *(row for row in parts if row.pods_before or row.pods_after)]
    used = list(_figures(before.measured, after.measured))
    by_pods = bool(arguments) or isinstance(before.measured, Gap) or isinstance(after.measured, Gap)
    if by_pods:
        kind, values = effect(whole, changes)
        verdict = Text(_BY_PODS[kind], old=before.day, new=after.day, **values)
    else:
        shares = [0 if isinstance(day.measured, Gap) else len(day.measured.used) for day in (before, after)]
        amounts = [prose.mib(round(amount or 0)) for amount in (used[0].before, used[0].after)]
        kind, values = effect(used[0], changes, shares, amounts)
        verdict = Text(_BY_USE[kind], old=before.day, new=after.day, **values)
    ran = [day.scheduler for day in (before, after) if day.scheduler]
    proofs = [flag_of_replica_set(workload, flag) for flag in changed_flags(arguments) for workload in ran]
    proofs += [proof for day in (before, after) for proof in _proofs(day)]
    gaps = [structs.replace(gap, source=f"{day.day}: {gap.source}") for day in (before, after) for gap in day.gaps]
    return effect_report(
        snapshot,
        (kind, verdict),
        changes,
        [*late, *used] if by_pods else [*used, *late],
        proofs,
        gaps=tuple(dict.fromkeys(gaps)),
        unsure=by_pods or not (before.is_over and after.is_over),
    )


def _settings(day: PastDay) -> Mapping[str, Mapping[str, str]]:
    containers = day.scheduler.spec.template.spec.containers if day.scheduler else []
    return {group: dict(found) for group, found in settings_of(containers)}


def _changes(before: Day | Gap, after: Day | Gap) -> Iterator[ChangeRow]:
    if isinstance(before, Gap) or isinstance(after, Gap):
        return
    if before.versions and after.versions:
        yield ChangeRow("HAMi", ", ".join(before.versions), ", ".join(after.versions))
    if before.registered and after.registered:
        yield ChangeRow("GPUs", str(len(before.registered)), str(len(after.registered)))
        name = Text("tune.days-registered")
        yield ChangeRow(name, _spread(before.registered.values()), _spread(after.registered.values()))


def _spread(registered: Iterable[Average]) -> str:
    sizes = Counter(round(average.value / _MIB) for average in registered)
    return ", ".join(f"{prose.mib(size)} ({count} GPUs)" for size, count in sorted(sizes.items()))


def _figures(before: Day | Gap, after: Day | Gap) -> Iterator[MeasuredRow]:
    """More is better, but of what holds without use. None where Prometheus did not answer."""
    if isinstance(before, Gap) or isinstance(after, Gap):
        return
    yield _levels(
        "memory in use of a GPU, MiB",
        *([average.value / _MIB for average in day.gpu_used.values()] for day in (before, after)),
    )
    yield _levels(
        "cores in use of a GPU, %", *([average.value for average in day.gpu_core.values()] for day in (before, after))
    )
    yield _levels("memory in use of a share's limit, %", _of_limit(before), _of_limit(after))
    known = [len(day.last_kernel) for day in (before, after)]
    idle = [sum(1 for average in day.last_kernel.values() if average.value >= IDLE_S) for day in (before, after)]
    name, answer = "shares without a kernel for 6 h on average", compare_counts(*idle, *known)
    yield MeasuredRow(name, known[0], idle[0], known[1], idle[1], answer)


def _of_limit(day: Day) -> list[float]:
    limits = day.limit
    return [
        100 * sample.value / limits[of].value
        for of, sample in day.used.items()
        if of in limits and limits[of].value > 0
    ]


def _levels(name: str, old: list[float], new: list[float]) -> MeasuredRow:
    before, after = (round(statistics.median(values), 2) if values else None for values in (old, new))
    return MeasuredRow(name, len(old), before, len(new), after, compare_times(new, old, 1.0))


def _proofs(day: PastDay) -> list[Evidence]:
    *_, whole = measure(settled(day.lives))
    slow: list[Evidence] = []
    for pod in (life.pod for life in whole.lives[:_SHOWN]):
        slow.append(quotes.of_pod_age(pod))
        running = [status.state.running for status in pod.status.container_statuses or ()]
        if last := max((state.started_at or "" for state in running if state), default=""):
            slow.append(quotes.of_pod(pod, last, "{.status.containerStatuses[*].state.running.startedAt}"))
    if isinstance(day.measured, Gap):
        return slow
    most = sorted(day.measured.gpu_used.items(), key=lambda item: -item[1].value)[:_SHOWN]
    begin, end = format_time(day.measured.begin), format_time(day.measured.at)
    used = [
        Evidence("metrics", f"GPU {uuid}", end, sample.sample.line, f"PromQL: {sample.query}  # from {begin} to {end}")
        for uuid, sample in most
    ]
    return [*used, *slow]
