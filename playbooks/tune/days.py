"""What changed between two days of a Prometheus, and whether the GPUs are used more: `tune compare DATE DATE`.

HAMi serves neither its scheduler's flags nor times of scheduling as metrics: those are compared between recordings.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta

from bot.hami.held import IDLE_S
from bot.kube.times import format_time
from bot.report import SCHEMA, Evidence, Report, Subject, one_line
from bot.texts import Texts
from playbooks.gather.usage_of_day import Average, Day
from playbooks.rules import prose
from playbooks.rules.findings import finding
from playbooks.tune.compare import CHANGED, MEASURED, TIMES_THE_LOAD, TOLD_CHANGES, UNDECIDED, ChangeRow, FigureRow
from playbooks.tune.compare import Verdict as Came
from playbooks.tune.noise import LEAST, compare_counts, compare_times, median

_MIB = 2**20
_SHOWN = 3


def compare_days(before: Day, after: Day, cluster: str, say: Texts) -> Report:
    """The answer by the memory that is in use of a GPU; a row for each figure says what changed in it."""
    changes = [row for row in _changes(before, after, say) if row.before != row.after]
    figures = list(_figures(before, after))
    verdict = _verdict(before, after, figures[0], changes, say)
    names = [say("tune.compare-change", name=row.setting, old=row.before, new=row.after) for row in changes]
    changed = say("tune.compare-changed", changes=prose.names(say, names, TOLD_CHANGES))
    told = finding(
        "tuning-effect",
        f"{verdict.text} {changed if changes else say('tune.compare-same')}",
        "suspected" if verdict.kind in UNDECIDED else "confirmed",
        (),
        [proof for day in (before, after) for proof in _proofs(day)],
        severity="warning" if verdict.kind == "worse" else "info",
    )
    return Report(
        schema=SCHEMA,
        playbook="tune",
        cluster=cluster,
        taken_at=format_time(after.at),
        subject=Subject("Cluster", "", ""),
        verdict=one_line(verdict.text),
        severity=told.severity,
        findings=(told,),
        tables=(CHANGED.table(changes, brief=changes), MEASURED.table(figures, brief=figures)),
        gaps=(),
    )


def _changes(before: Day, after: Day, say: Texts) -> Iterator[ChangeRow]:
    """What one of the days does not have is no change."""
    if before.versions and after.versions:
        yield ChangeRow("HAMi", ", ".join(before.versions), ", ".join(after.versions))
    if before.registered and after.registered:
        yield ChangeRow("GPUs", str(len(before.registered)), str(len(after.registered)))
        name = say("tune.days-registered")
        yield ChangeRow(name, _spread(before.registered.values()), _spread(after.registered.values()))


def _spread(registered: Iterable[Average]) -> str:
    """The sizes of the GPUs, the smallest first."""
    sizes = Counter(round(one.value / _MIB) for one in registered)
    return ", ".join(f"{prose.mib(size)} ({count} GPUs)" for size, count in sorted(sizes.items()))


def _figures(before: Day, after: Day) -> Iterator[FigureRow]:
    """More is better, but of what holds without use."""
    yield _levels(
        "memory in use of a GPU, MiB", *([one.value / _MIB for one in day.gpu_used.values()] for day in (before, after))
    )
    yield _levels(
        "cores in use of a GPU, %", *([one.value for one in day.gpu_core.values()] for day in (before, after))
    )
    yield _levels("memory in use of a share's limit, %", _of_limit(before), _of_limit(after))
    known = [len(day.last_kernel) for day in (before, after)]
    idle = [sum(1 for one in day.last_kernel.values() if one.value >= IDLE_S) for day in (before, after)]
    yield FigureRow(
        "shares without a kernel for 6 h on average",
        known[0],
        idle[0],
        known[1],
        idle[1],
        compare_counts(*idle, *known),
    )


def _of_limit(day: Day) -> list[float]:
    limits = day.limit
    return [100 * one.value / limits[of].value for of, one in day.used.items() if of in limits and limits[of].value > 0]


def _levels(name: str, old: list[float], new: list[float]) -> FigureRow:
    return FigureRow(name, len(old), median(old), len(new), median(new), compare_times(new, old, 1.0))


def _verdict(before: Day, after: Day, used: FigureRow, changes: list[ChangeRow], say: Texts) -> Came:
    values: dict[str, object] = {
        "before": prose.mib(round(used.before or 0)),
        "after": prose.mib(round(used.after or 0)),
        "least": LEAST,
        "old": before.day,
        "new": after.day,
    }
    shares = len(before.used), len(after.used)
    if used.answer == "not enough data":
        kind = "few"
        values |= {"before": used.pods_before, "after": used.pods_after}
    elif max(shares) > TIMES_THE_LOAD * min(shares):
        kind = "load"
        values |= {"before": shares[0], "after": shares[1]}
    elif not changes and used.answer != "no difference":
        kind = "unchanged"
    else:
        kind = "noise" if used.answer == "no difference" else used.answer
    return Came(kind, say(f"tune.days-{kind}", **values))


def _proofs(day: Day) -> list[Evidence]:
    """The GPUs with the most memory in use."""
    most = sorted(day.gpu_used.items(), key=lambda one: -one[1].value)[:_SHOWN]
    begin, end = format_time(day.at - timedelta(days=1)), format_time(day.at)
    return [
        Evidence("metrics", f"GPU {uuid}", end, one.sample.line, f"PromQL: {one.query}  # from {begin} to {end}")
        for uuid, one in most
    ]
