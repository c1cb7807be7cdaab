"""`tune compare BEFORE AFTER`: what changed between two recordings, and whether it helped.

A difference between two measurements is more than chance under these rules. Times: a rank test (Mann-Whitney U, normal
approximation with correction for ties), two-sided at 1 %, of at least ten pods on each side; and the medians differ by
10 % of the larger, and by 0.05 s, or by 1 s where whole seconds are known. Counts: each pod is one chance; the counts
differ by more than three times their standard deviation if every pod on either side caused as many.
"""

import math
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple, cast

from msgspec import structs

from bot.errors import Unusable
from bot.hami.installation.install import container_of, verbosity_of
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE
from bot.hami.scheduler_logs.scheduling_latency import Life, measure, settled
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, read_flags
from bot.kube.models import Container
from bot.report import Evidence, Gap, Report, Sheet, Subject
from bot.safe_yaml import parse_documents
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.latency import LatencySeen, gather_latency
from playbooks.playbook import Snapshot, Sources
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.tune.advice import flag
from playbooks.tune.scene import TuneScene, gather_scene

Difference = Literal["better", "worse", "no difference", "not enough data"]
LEAST = 10
"""The least number of pods on each side for a comparison."""
_BEYOND_CHANCE = 2.58
_DEVIATIONS = 3
_SHARE = 0.1


def compare_times(before: Sequence[float], after: Sequence[float], resolution_s: float) -> Difference:
    """Whether times (seconds, of pods before and after) differ by more than chance, and medians by `resolution_s`."""
    if min(len(before), len(after)) < LEAST:
        return "not enough data"
    old, new = statistics.median(before), statistics.median(after)
    least = max(_SHARE * max(old, new), resolution_s)
    if abs(old - new) < least or abs(_rank_score(before, after)) < _BEYOND_CHANCE:
        return "no difference"
    return "better" if new < old else "worse"


def compare_counts(before: int, after: int, pods_before: int, pods_after: int) -> Difference:
    """Whether counts (of so many pods before and after) differ by more than chance; less is better."""
    if min(pods_before, pods_after) < LEAST:
        return "not enough data"
    excess = before * pods_after - after * pods_before
    deviation = math.sqrt((before + after) * pods_before * pods_after)
    if abs(excess) <= _DEVIATIONS * deviation:
        return "no difference"
    return "better" if excess > 0 else "worse"


def _rank_score(before: Sequence[float], after: Sequence[float]) -> float:
    """How many standard deviations the ranks of `before` are off what chance gives; 0 where all are the same."""
    first, second = len(before), len(after)
    total = first + second
    ties = Counter([*before, *after])
    ranks: dict[float, float] = {}
    below = 0
    for value in sorted(ties):
        ranks[value] = below + (ties[value] + 1) / 2
        below += ties[value]
    off = sum(ranks[value] for value in before) - first * (total + 1) / 2
    correction = sum(count**3 - count for count in ties.values()) / (total * (total - 1))
    variance = first * second / 12 * (total + 1 - correction)
    return off / math.sqrt(variance) if variance > 0 else 0.0


_LONGEST = timedelta(hours=24)
DEFAULTS = {"--kube-qps": "5", "--kube-burst": "10"}
"""The default values of client-go for flags that are not set."""
_CONFIG_FILES = (DEVICE_CONFIG_FILE, "config.yaml", "config.json")
_LONGEST_VALUE = 60
_COUNTED = ("nodes", "GPUs", "split count", "memory scaling")


class ComparedSide(NamedTuple):
    """What one recording shows. `settings` by group and name; a group that could not be read is missing."""

    scene: TuneScene
    latency: LatencySeen
    settings: Mapping[str, Mapping[str, str]]

    @property
    def busiest_minute(self) -> int:
        """The most pods that were created within a minute: how much work the scheduler had."""
        times = sorted(life.noted["created"] for life in self.latency.lives)
        minute = timedelta(minutes=1)
        return max((bisect_left(times, at + minute) - place for place, at in enumerate(times)), default=0)

    @property
    def verbosity(self) -> int | None:
        """The extender's log level; from 3 on it logs also requests that were held back for less than 1 s."""
        found = (container_of(pod.spec, EXTENDER_CONTAINER) for pod in self.scene.install.pods)
        container = next(filter(None, found), None)
        return verbosity_of(container)[0] if container else None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(dict.fromkeys([*self.scene.seen.gaps, *self.latency.gaps]))


async def gather_side(sources: Sources) -> ComparedSide:
    """Reads one recording. Only pods created since the scheduler's newest start count: its settings may change."""
    scene = await gather_scene(sources)
    now = sources.cluster.now()
    started = [at for pod in scene.install.ready_pods if (at := pod.running_since(EXTENDER_CONTAINER))]
    since = max([now - _LONGEST, *started])
    latency = await gather_latency(sources.cluster, scene.seen, since)
    if latency.unread:
        raise Unusable(Text("error-tune.pods-could-not-be-read", name=sources.cluster.name, why=latency.gaps[0].text))
    return ComparedSide(scene, latency, {group: dict(found) for group, found in _settings_of(scene)})


def _settings_of(scene: TuneScene) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    install = scene.install
    if install.version:
        yield "version", [("HAMi", str(install.version.version))]
    if install.pods:
        yield "replicas", [("replicas of the scheduler", str(len(install.pods)))]
        yield from settings_of(container for pod in install.pods for container in pod.spec.containers)
    if scene.seen.config_maps:
        files = [
            (config_map.name, key, text)
            for config_map in scene.seen.config_maps
            for key, text in (config_map.data or {}).items()
            if key in _CONFIG_FILES
        ]
        values = ((filter(None, (*of, path)), value) for *of, text in files for path, value in _values_of(text))
        yield "configuration", [(" ".join(words), value) for words, value in values]
    if not isinstance(scene.nodes, Gap):
        yield "cluster", _counted(scene)


def settings_of(containers: Iterable[Container]) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """The flags and images of HAMi's extender and of kube-scheduler, from the first container of each name."""
    by_name: dict[str, Container] = {}
    for container in containers:
        by_name.setdefault(container.name, container)
    for name, prefix in ((EXTENDER_CONTAINER, ""), (KUBE_SCHEDULER_CONTAINER, "kube-scheduler ")):
        if container := by_name.get(name):
            flags = read_flags([*(container.command or ()), *(container.args or ())])
            yield name, [(f"{prefix}--{flag}", value) for flag, value in flags.items()]
            yield f"image of {name}", [(f"image of {name}", container.image)]


def _counted(scene: TuneScene) -> Iterator[tuple[str, str]]:
    pools = scene.pools
    splits, scalings = Counter[str](), Counter[str]()
    for pool in pools:
        splits[str(pool.splits)] += len(pool.gpus)
        scalings["?" if pool.scaling is None else f"{pool.scaling:g}"] += len(pool.gpus)
    nodes = () if isinstance(scene.nodes, Gap) else scene.nodes
    values = (str(len(nodes)), str(splits.total()), _counts_of(splits), _counts_of(scalings))
    yield from zip(_COUNTED, values, strict=True)


def _counts_of(counted: Counter[str]) -> str:
    """`10` where all GPUs have the same, else `10 (8 GPUs), 20 (4 GPUs)`."""
    if len(counted) < 2:
        return next(iter(counted), "")
    return ", ".join(f"{value} ({number} GPUs)" for value, number in sorted(counted.items()))


def _values_of(text: str) -> Iterator[tuple[str, str]]:
    """Each value of a YAML or JSON text with its path; of any other text the whole."""
    try:
        documents = parse_documents(text)
    except (ValueError, RecursionError):
        documents = [text]
    for document in documents:
        yield from _leaves("", document)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in cast("dict[Any, Any]", value).items():
            yield from _leaves(f"{path}.{key}".removeprefix("."), inner)
    elif isinstance(value, list):
        for place, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(f"{path}[{place}]", inner)
    else:
        yield path, " ".join(str(value).split())[:_LONGEST_VALUE]


_EXACT_S, _WHOLE_S = 0.05, 1.0
_ALL_WAITS_FROM = 3
"""The log level from which requests that waited for less than 1 s are logged as well."""
_SHOWN_WAITS, _SHOWN_CHANGES = 2, 10
_TOLD_CHANGES = 3
_TIMES_THE_LOAD = 2
_THROTTLED = "throttled requests"
_FEW, _LOAD, _UNCHANGED = "not enough data", "load", "unchanged"
_VERDICTS = {
    "better": "tune.compare-better",
    "worse": "tune.compare-worse",
    "no difference": "tune.compare-noise",
    _UNCHANGED: "tune.compare-unchanged",
    _FEW: "tune.compare-few",
    _LOAD: "tune.compare-load",
}


class ChangeRow(NamedTuple):
    """A row for a setting, a version or a count that differs between the two sides."""

    setting: Prose
    before: Prose
    after: Prose


class MeasuredRow(NamedTuple):
    """A row for a figure measured before and after; the medians of stages in seconds, with their number of pods."""

    figure: str
    pods_before: int
    before: float | None
    pods_after: int
    after: float | None
    answer: Difference


CHANGED = Sheet("changed", ChangeRow, brief="setting before after", together=3)
MEASURED = Sheet(
    "measured",
    MeasuredRow,
    brief="figure before after answer",
    together=3,
)


def compare(request: Any, before: ComparedSide, after: ComparedSide) -> Report:
    """The report on two recordings: a row per figure says what changed; the time from creation to start decides."""
    old, new = ({"recording": {"cluster": side.scene.cluster}, **side.settings} for side in (before, after))
    changes, figures = changes_of(old, new), _figures(before, after)
    waits = next(row for row in figures if row.figure == _THROTTLED)
    known = waits.before is not None and waits.after is not None
    kind, values = effect(figures[0], changes, (before.busiest_minute, after.busiest_minute))
    return effect_report(
        Snapshot(request, after.scene.cluster, after.scene.taken_at, after),
        (kind, Text(_VERDICTS[kind], **values)),
        changes,
        figures,
        _proof(before, after, changes),
        also=Text("tune.compare-waits", old=waits.before, new=waits.after) if known else "",
        gaps=(*_gaps(before, "before"), *_gaps(after, "after")),
        unsure=bool(before.gaps or after.gaps),
    )


def effect(
    whole: MeasuredRow, changes: Sequence[ChangeRow], loads: Sequence[int] = (), shown: Sequence[object] = ()
) -> tuple[str, dict[str, object]]:
    """Which of `_VERDICTS` the main figure gives, and the values of that verdict's text.

    `loads`: how hard the two rounds of work were; they are comparable if one is at most twice as hard. `shown`: values
    for the text in place of the figure's.
    """
    kind: str = whole.answer
    if kind != _FEW and loads and max(loads) > _TIMES_THE_LOAD * min(loads):
        kind = _LOAD
    elif kind in ("better", "worse") and not changes:
        kind = _UNCHANGED
    told = {_FEW: (whole.pods_before, whole.pods_after), _LOAD: loads}.get(kind, shown or (whole.before, whole.after))
    return kind, {"before": told[0], "after": told[1], "least": LEAST}


def effect_report(
    snapshot: Snapshot[Any, Any],
    came: tuple[str, Text],
    changes: Sequence[ChangeRow],
    figures: Sequence[MeasuredRow],
    proofs: Sequence[Evidence],
    *,
    also: Prose = "",
    gaps: Sequence[Gap],
    unsure: bool,
) -> Report:
    """The report of a comparison; `came` is its verdict and the text of it."""
    kind, verdict = came
    lines = [Text("tune.compare-change", name=row.setting, old=row.before, new=row.after) for row in changes]
    changed = Text("tune.compare-changed", changes=prose.names(lines, _TOLD_CHANGES))
    claim = sentences(verdict, changed if lines else Text("tune.compare-same"), also)
    sure = "suspected" if unsure or kind in (_FEW, _LOAD, _UNCHANGED) else "confirmed"
    severity = "warning" if kind == "worse" else "info"
    found = finding("tuning-effect", claim, sure, (), proofs, severity=severity)
    tables = CHANGED.table(changes, brief=changes[:_SHOWN_CHANGES]), MEASURED.table(figures, brief=figures)
    return snapshot.report("tune", Subject("Cluster", "", ""), [found], verdict=verdict, tables=tables, gaps=gaps)


def changes_of(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> list[ChangeRow]:
    """The settings that differ, by group and name. A group that one side could not read is left out."""
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
    return Text("tune.default", value=DEFAULTS[name]) if name in DEFAULTS else Text("render.unset")


def changed_flags(changes: Iterable[ChangeRow]) -> list[str]:
    """The flags of HAMi's extender among the settings that differ."""
    return [row.setting[2:] for row in changes if isinstance(row.setting, str) and row.setting.startswith("--")]


def _figures(before: ComparedSide, after: ComparedSide) -> list[MeasuredRow]:
    pods = len(before.latency.lives), len(after.latency.lives)
    waits, pending = len(before.latency.pending), len(after.latency.pending)
    answer = compare_counts(waits, pending, *pods)
    unstarted = MeasuredRow("new pods that are pending", pods[0], waits, pods[1], pending, answer)
    stages = figures_of_stages(before.latency.lives, after.latency.lives)
    return [*stages, _of_waits(before, after), unstarted]


def figures_of_stages(before: Sequence[Life], after: Sequence[Life]) -> list[MeasuredRow]:
    """The medians of each scheduling stage that both sides have, the whole time first."""
    stages = {stage.name: stage for stage in measure(settled(before))}
    rows: list[MeasuredRow] = []
    for new in measure(settled(after)):
        if old := stages.get(new.name):
            answer = compare_times(old.seconds, new.seconds, _EXACT_S if old.exact and new.exact else _WHOLE_S)
            rows.append(MeasuredRow(new.name, old.n, old.median_s, new.n, new.median_s, answer))
    return [rows[-1], *rows[:-1]]


def _of_waits(before: ComparedSide, after: ComparedSide) -> MeasuredRow:
    """Comparable only where both logs were read, and both show requests that waited for less than 1 s, or neither."""
    pods = len(before.latency.lives), len(after.latency.lives)
    levels = [side.verbosity for side in (before, after)]
    old, new = (len(side.latency.waits) if side.latency.throttling else None for side in (before, after))
    alike = None not in levels and len({(level or 0) >= _ALL_WAITS_FROM for level in levels}) == 1
    answer = compare_counts(old, new, *pods) if alike and old is not None and new is not None else "not enough data"
    return MeasuredRow(_THROTTLED, pods[0], old, pods[1], new, answer)


def _proof(before: ComparedSide, after: ComparedSide, changes: Sequence[ChangeRow]) -> list[Evidence]:
    sides = (before, after)
    proofs = [proof for name in changed_flags(changes) for side in sides for proof in flag(side.scene, name).proof]
    for side in sides:
        waits = sorted(side.latency.waits, key=lambda wait: -wait.wait.seconds)[:_SHOWN_WAITS]
        proofs += [quotes.of_wait(wait.wait, wait.scheduler) for wait in waits]
    return proofs


def _gaps(side: ComparedSide, name: str) -> list[Gap]:
    return [structs.replace(gap, source=f"{name}: {gap.source}") for gap in side.gaps]
