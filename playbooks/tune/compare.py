"""What changed between two recordings, and whether it helped: `tune compare BEFORE AFTER`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.hami.scheduler_logs.scheduling_latency import Stage
from bot.kube.times import format_time
from bot.report import Evidence, Gap, Report, Sheet, Subject, new_report
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.tune.compared_recording import DEFAULTS, ComparedSide
from playbooks.tune.significance import LEAST, Answer, compare_counts, compare_times

_EXACT_S, _WHOLE_S = 0.05, 1.0
_ALL_WAITS_FROM = 3
"""The level from which requests that waited for less than 1 s are logged as well."""
_SHOWN_WAITS, _SHOWN_CHANGES = 2, 10
TOLD_CHANGES = 3
TIMES_THE_LOAD = 2
_THROTTLED = "throttled requests"
UNDECIDED = ("few", "load", "unchanged")
_VERDICTS = {
    "better": "tune.compare-better",
    "worse": "tune.compare-worse",
    "noise": "tune.compare-noise",
    "unchanged": "tune.compare-unchanged",
    "few": "tune.compare-few",
    "load": "tune.compare-load",
}


class ChangeRow(NamedTuple):
    """A setting, a version or a count that differs."""

    setting: Prose
    before: Prose
    after: Prose


class FigureRow(NamedTuple):
    """A measured figure; the medians of stages in seconds, with the pods that they are of."""

    figure: str
    pods_before: int
    before: float | None
    pods_after: int
    after: float | None
    answer: Answer


CHANGED = Sheet("changed", ChangeRow, brief={"setting": "setting", "before": "before", "after": "after"}, together=3)
MEASURED = Sheet(
    "measured",
    FigureRow,
    brief={"figure": "figure", "before": "before", "after": "after", "answer": "answer"},
    together=3,
)


class Verdict(NamedTuple):
    """What came of it: `kind` is one of `_VERDICTS`."""

    kind: str
    text: Prose


def compare(before: ComparedSide, after: ComparedSide, *, everything: bool) -> Report:
    """The answer by the time from creation to start; a row for each figure says what changed in it. `everything`: no
    overview.
    """
    changes = _changes(before, after)
    figures = _figures(before, after)
    verdict = _verdict(before, after, figures[0], changes)
    result = finding(
        "tuning-effect",
        sentences(verdict.text, _told(changes, figures)),
        "suspected" if before.gaps or after.gaps or verdict.kind in UNDECIDED else "confirmed",
        (),
        _proof(before, after, changes),
        severity="warning" if verdict.kind == "worse" else "info",
    )
    return new_report(
        playbook="tune",
        cluster=after.facts.cluster,
        taken_at=format_time(after.facts.taken_at),
        subject=Subject("Cluster", "", ""),
        verdict=verdict.text,
        findings=(result,),
        tables=(
            CHANGED.table(changes, brief=None if everything else changes[:_SHOWN_CHANGES]),
            MEASURED.table(figures, brief=None if everything else figures),
        ),
        gaps=(*_gaps(before, "before"), *_gaps(after, "after")),
    )


def _changes(before: ComparedSide, after: ComparedSide) -> list[ChangeRow]:
    """What tuning changes first, then the rest."""
    old, new = ({"recording": {"cluster": side.facts.cluster}, **side.settings} for side in (before, after))
    return changes_of(old, new)


def changes_of(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> list[ChangeRow]:
    """The settings that differ, by group and name. A group that one side could not read is no change."""
    rows: list[ChangeRow] = []
    for group in before:
        if group in after:
            old, new = before[group], after[group]
            rows += [ChangeRow(name, _value(old, name), _value(new, name)) for name in {**old, **new}]
    found = [row for row in rows if row.before != row.after]
    first = {name: place for place, name in enumerate(DEFAULTS)}
    return sorted(found, key=lambda row: (first.get(str(row.setting), len(first)), str(row.setting)))


def _value(settings: Mapping[str, str], name: str) -> Prose:
    if name in settings:
        return settings[name]
    return Text("tune.default", value=DEFAULTS[name]) if name in DEFAULTS else Text("tune.unset")


def _figures(before: ComparedSide, after: ComparedSide) -> list[FigureRow]:
    """The whole time first, then its stages in their order, then counts."""
    old = {stage.name: stage for stage in before.stages}
    *parts, whole = [figure_of_stage(old[stage.name], stage) for stage in after.stages if stage.name in old]
    return [whole, *parts, _of_waits(before, after), _of_pending(before, after)]


def figure_of_stage(old: Stage, new: Stage) -> FigureRow:
    """The medians of one stage."""
    resolution = _EXACT_S if old.exact and new.exact else _WHOLE_S
    answer = compare_times(old.seconds, new.seconds, resolution)
    return FigureRow(new.name, old.n, old.median_s, new.n, new.median_s, answer)


def _of_waits(before: ComparedSide, after: ComparedSide) -> FigureRow:
    """Comparable only where both logs were read, and both show requests that waited for less than 1 s, or neither."""
    pods = len(before.latency.lives), len(after.latency.lives)
    levels = [side.verbosity for side in (before, after)]
    old, new = (len(side.latency.waits) if side.latency.throttling else None for side in (before, after))
    alike = None not in levels and len({(level or 0) >= _ALL_WAITS_FROM for level in levels}) == 1
    answer = compare_counts(old, new, *pods) if alike and old is not None and new is not None else "not enough data"
    return FigureRow(_THROTTLED, pods[0], old, pods[1], new, answer)


def _of_pending(before: ComparedSide, after: ComparedSide) -> FigureRow:
    pods = len(before.latency.lives), len(after.latency.lives)
    old, new = len(before.latency.pending), len(after.latency.pending)
    return FigureRow("new pods that are pending", pods[0], old, pods[1], new, compare_counts(old, new, *pods))


def _verdict(before: ComparedSide, after: ComparedSide, whole: FigureRow, changes: Sequence[ChangeRow]) -> Verdict:
    """Two rounds of work are comparable where one is at most twice as hard as the other."""
    values: dict[str, object] = {"before": whole.before, "after": whole.after, "least": LEAST}
    loads = sorted((before.busiest_minute, after.busiest_minute))
    if whole.answer == "not enough data":
        kind = "few"
        values |= {"before": whole.pods_before, "after": whole.pods_after}
    elif loads[1] > TIMES_THE_LOAD * loads[0]:
        kind = "load"
        values |= {"before": before.busiest_minute, "after": after.busiest_minute}
    elif not changes and whole.answer != "no difference":
        kind = "unchanged"
    else:
        kind = "noise" if whole.answer == "no difference" else whole.answer
    return Verdict(kind, Text(_VERDICTS[kind], **values))


def _told(changes: Sequence[ChangeRow], figures: Sequence[FigureRow]) -> Text:
    """What changed, and how many requests were throttled."""
    lines = [Text("tune.compare-change", name=row.setting, old=row.before, new=row.after) for row in changes]
    changed = Text("tune.compare-changed", changes=prose.several(lines, TOLD_CHANGES)) if lines else ""
    waits = next(row for row in figures if row.figure == _THROTTLED)
    known = waits.before is not None and waits.after is not None
    held = Text("tune.compare-waits", old=waits.before, new=waits.after) if known else ""
    return sentences(changed or Text("tune.compare-same"), held)


def _proof(before: ComparedSide, after: ComparedSide, changes: Sequence[ChangeRow]) -> list[Evidence]:
    """The arguments that differ, then the longest waits of each side."""
    sides = (before, after)
    proofs = [proof for row in changes for side in sides for proof in side.proof(row.setting)]
    for side in sides:
        waits = sorted(side.latency.waits, key=lambda wait: -wait.wait.seconds)[:_SHOWN_WAITS]
        proofs += [quotes.of_wait(wait.wait, wait.scheduler) for wait in waits]
    return proofs


def _gaps(side: ComparedSide, name: str) -> list[Gap]:
    return [structs.replace(gap, source=f"{name}: {gap.source}") for gap in side.gaps]
