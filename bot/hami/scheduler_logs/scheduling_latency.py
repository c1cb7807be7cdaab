"""Where the time from a pod's creation to its start goes, by the schedulers' logs and the pod's own object.

Moments: kube-scheduler's first attempt (pkg/scheduler/schedule_one.go, V3); the extender's first filter run, last
choice of a node and first try to bind, and the binding (HAMi pkg/scheduler/scheduler.go at v2.4 to v2.10, V0); the
allocation; the start of the last container. A retried pod is chosen more than once: retries count as time until the
last choice, and again from the first try to bind.

Where no log shows a moment, the object does, in whole seconds: HAMi's annotations `hami.io/vgpu-time` (chosen) and
`hami.io/bind-time` (first try to bind), the condition PodScheduled (bound) and `status.startTime` (allocated), which
kubelet sets after the device plugin's Allocate (kubernetes pkg/kubelet/status/status_manager.go).
"""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from bot.hami.scheduler_logs.filter_runs import BINDS, BOUND, CHOSEN
from bot.hami.scheduler_logs.log_lines import FILTER_STARTS, LogLine, pod_key_of, read_line
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.models import Pod
from bot.kube.times import parse_time

Moment = Literal[
    "created", "first_attempt", "first_filter", "chosen", "bind_started", "bound", "allocated", "running_started_at"
]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
WHOLE: tuple[Moment, Moment] = ("created", "running_started_at")
NEEDLE = "schedule"
"""A word in the source file name of every log line that is read for latency, in both containers."""

_ATTEMPT = ("Attempting to schedule pod",)
_LOCKED = ("Failed to lock node",)
_MARKS = {KUBE_SCHEDULER_CONTAINER: _ATTEMPT, EXTENDER_CONTAINER: FILTER_STARTS}
"""By container, the messages with which each try to place a pod begins."""
_CHOSEN_2_4 = re.compile(r"schedule (\S+/\S+) to \S")
_TELLING = (*_ATTEMPT, *FILTER_STARTS, *CHOSEN, *BOUND, *_LOCKED, BINDS[0], '"Bind"', "] schedule ")
_WHOLE_SECOND = timedelta(seconds=1)
_CHOSEN_AT, _BIND_AT = "hami.io/vgpu-time", "hami.io/bind-time"


class SchedulerLog(NamedTuple):
    """One log of a scheduler pod: its lines with `NEEDLE`, and its oldest line. `previous`: of the run before."""

    scheduler: Pod
    container: str
    first: str
    lines: Sequence[str]
    previous: bool = False


class PodLogLine(NamedTuple):
    """A log line that tells of a pod, its time, and the log that has it."""

    at: datetime
    line: LogLine
    log: SchedulerLog


class Life(NamedTuple):
    """The known moments of one pod: `logged` by a log, `noted` in whole seconds by the pod's object. `locked` are tries
    to bind that a node lock refused. `filters` is how often the extender's filter ran.
    """

    pod: Pod
    logged: Mapping[Moment, PodLogLine]
    noted: Mapping[Moment, datetime]
    locked: tuple[PodLogLine, ...] = ()
    filters: int = 0


class LatencyStage(NamedTuple):
    """The time between two moments over `n` pods, in seconds; figures are None where no pod shows both moments.

    `p95_s` is by nearest rank. `exact` is false where a moment is known only in whole seconds. `lives` are the pods of
    `seconds`, in the same order, the slowest first.
    """

    start: Moment
    end: Moment
    seconds: tuple[float, ...]
    lives: tuple[Life, ...]
    exact: bool

    @property
    def name(self) -> str:
        """In words, such as `first attempt -> first filter`."""
        return f"{self.start} -> {self.end.removesuffix('_started_at')}".replace("_", " ")

    @property
    def n(self) -> int:
        return len(self.seconds)

    @property
    def median_s(self) -> float | None:
        return round(statistics.median(self.seconds), 2) if self.seconds else None

    @property
    def p95_s(self) -> float | None:
        return round(sorted(self.seconds)[math.ceil(0.95 * self.n) - 1], 2) if self.seconds else None

    @property
    def max_s(self) -> float | None:
        return round(max(self.seconds), 2) if self.seconds else None


def read_lives(pods: Iterable[Pod], logs: Sequence[SchedulerLog], now: datetime) -> list[Life]:
    """The known moments of each pod with a creation time. A pod older than its log, or than a hole in it, gets none
    from it: a retry could look like the first try.
    """
    said: dict[str, list[PodLogLine]] = {}
    for log in logs:
        telling = (raw for raw in log.lines if any(text in raw for text in _TELLING))
        for line in (read_line(raw, now) for raw in telling):
            if line and line.at:
                of_2_4 = _CHOSEN_2_4.match(line.message)
                said.setdefault(of_2_4[1] if of_2_4 else pod_key_of(line), []).append(PodLogLine(line.at, line, log))
    found: list[_Told] = []
    for pod in pods:
        if created := parse_time(pod.metadata.creation_timestamp):
            own = [log_line for log_line in said.get(f"{pod.namespace}/{pod.name}", ()) if log_line.at >= created]
            found.append(_Told(pod, created, sorted(own, key=lambda log_line: log_line.at)))
    begins = {container: _whole_from(container, logs, found, now) for container in _MARKS}
    lives: list[Life] = []
    for seen in found:
        since = seen.created + _WHOLE_SECOND
        whole = {name for name, begin in begins.items() if begin and begin < since and not seen.lacks_first(name)}
        lives.append(_life(seen, [log_line for log_line in seen.said if log_line.log.container in whole]))
    return lives


def settled(lives: Sequence[Life]) -> list[Life]:
    """The pods that run, or all where none does: with both, each stage's figures would be of different pods."""
    return [life for life in lives if MOMENTS[-1] in life.noted] or list(lives)


def measure(lives: Sequence[Life]) -> list[LatencyStage]:
    """The latency stages in order, then those that bridge a moment that no pod shows, then creation to start. A retried
    pod was first bound before its last choice of a node: between these no time lies.
    """
    exact: dict[Moment, bool] = {moment: any(moment in life.logged for life in lives) for moment in MOMENTS}
    shown: list[Moment] = [moment for moment in MOMENTS if any(_at(life, moment, exact[moment]) for life in lives)]
    steps: list[tuple[Moment, Moment]] = list(pairwise(MOMENTS))
    bridges = [pair for pair in pairwise(shown) if pair not in steps]
    parts: list[tuple[Moment, Moment]] = [pair for pair in (*steps, *bridges) if pair != WHOLE]
    return [_stage(start, end, lives, exact) for start, end in (*parts, WHOLE)]


class _Told(NamedTuple):
    """A pod with the lines about it since it was created, oldest first."""

    pod: Pod
    created: datetime
    said: Sequence[PodLogLine]

    def first(self, container: str) -> PodLogLine | None:
        """The first line that every try begins with."""
        return _first((log_line for log_line in self.said if log_line.log.container == container), _MARKS[container])

    def lacks_first(self, container: str) -> bool:
        """Whether the pod was refused before the first try that the log shows: an earlier one is missing."""
        first, refused = self.first(container), self.pod.condition("PodScheduled")
        at = parse_time(refused.last_transition_time) if refused and refused.status == "False" else None
        return bool(first and at and at + _WHOLE_SECOND <= first.at)


def _whole_from(container: str, logs: Sequence[SchedulerLog], found: Sequence[_Told], now: datetime) -> datetime | None:
    """From when on these containers' logs are complete. A pod with a node and no line shows a hole."""
    own = [log for log in logs if log.container == container]
    begins = [line.at for log in own if (line := read_line(log.first, now)) and line.at]
    if not begins:
        return None
    begin = min(begins)
    placed = [seen for seen in found if seen.pod.spec.node_name and seen.created + _WHOLE_SECOND > begin]
    holes = [_noted(seen.pod, seen.created) for seen in placed if not seen.first(container)]
    return max([begin, *(noted.get("bound", noted["created"]) for noted in holes)])


def _life(seen: _Told, said: Sequence[PodLogLine]) -> Life:
    pod = seen.pod
    of_kube = [log_line for log_line in said if log_line.log.container == KUBE_SCHEDULER_CONTAINER]
    of_hami = [log_line for log_line in said if log_line.log.container != KUBE_SCHEDULER_CONTAINER]
    filters = [log_line for log_line in of_hami if log_line.line.message in FILTER_STARTS]
    placed = bool(pod.spec.node_name)
    lines = ((log_line, log_line.line.message) for log_line in reversed(of_hami))
    choices = (log_line for log_line, text in lines if text in CHOSEN or _CHOSEN_2_4.match(text))
    found: dict[Moment, PodLogLine | None] = {
        "first_attempt": _first(of_kube, _ATTEMPT),
        "first_filter": filters[0] if filters else None,
        "chosen": next(choices, None) if placed else None,  # another pod may be tried again
        "bind_started": _first(of_hami, BINDS),
        "bound": _first(said, BOUND) if placed else None,
    }
    locked = tuple(log_line for log_line in of_hami if log_line.line.message in _LOCKED)
    logged: dict[Moment, PodLogLine] = {moment: log_line for moment, log_line in found.items() if log_line}
    return Life(pod, logged, _noted(pod, seen.created), locked, len(filters))


def _first(said: Iterable[PodLogLine], messages: Sequence[str]) -> PodLogLine | None:
    return next((log_line for log_line in said if log_line.line.message in messages), None)


def _noted(pod: Pod, created: datetime) -> Mapping[Moment, datetime]:
    bound = pod.condition("PodScheduled")
    times: dict[Moment, datetime | None] = {
        "created": created,
        "chosen": _unix(pod.metadata.annotation(_CHOSEN_AT)) if pod.spec.node_name else None,
        "bind_started": _unix(pod.metadata.annotation(_BIND_AT)) if pod.spec.node_name else None,
        "bound": parse_time(bound.last_transition_time) if bound and bound.status == "True" else None,
        "allocated": parse_time(pod.status.start_time) if pod.spec.node_name else None,
        "running_started_at": _started(pod),
    }
    return {moment: at for moment, at in times.items() if at and at >= created}


def _unix(text: str | None) -> datetime | None:
    if text is None or not text.isdecimal() or len(text) > 11:
        return None
    return datetime.fromtimestamp(int(text), UTC)


def _started(pod: Pod) -> datetime | None:
    """When the last of the pod's containers first started; None where one has not, or its first run is lost."""
    statuses = pod.status.container_statuses or ()
    states = [each.last_state if each.restart_count else each.state for each in statuses if each.restart_count < 2]
    runs = [state.running or state.terminated for state in states]
    known = [start for run in runs if run and (start := parse_time(run.started_at))]
    return max(known) if known and len(known) == len(pod.spec.containers) else None


def _at(life: Life, moment: Moment, exact: bool) -> datetime | None:  # noqa: FBT001
    if not exact:
        return life.noted.get(moment)
    return life.logged[moment].at if moment in life.logged else None


def _stage(start: Moment, end: Moment, lives: Sequence[Life], exact: Mapping[Moment, bool]) -> LatencyStage:
    both = ((life, _at(life, start, exact[start]), _at(life, end, exact[end])) for life in lives)
    found = [(max(0.0, (done - begin).total_seconds()), life) for life, begin, done in both if begin and done]
    found.sort(key=lambda stage: -stage[0])
    known_exactly = (exact[start] or start == "created") and exact[end]
    return LatencyStage(start, end, tuple(s for s, _ in found), tuple(life for _, life in found), known_exactly)


# ---------------------------------------------------------------------- what times grow with

_LEAST_CALLS, _LEAST_VALUES, _LEAST_SPREAD = 20, 3, 1.5
"""The least that a slope needs: calls, different values, and the ratio of the largest value to the smallest."""
_ALIKE = 0.95
"""The correlation of two numbers above which nothing tells which of them makes a call slow."""
_FELT = 0.5
"""A share of the median: a number whose values change a call's time by less does not make it slow."""


class Growth(msgspec.Struct, frozen=True):
    """How much longer HAMi's `call` takes for one more of `grows_with` (95 %: `low_ms` to `high_ms`). `twice_ms`: its
    time with twice as many as usual. The last four fields are None with too few points.
    """

    call: str
    runs: int
    median_ms: float
    grows_with: str
    usual: int
    state: Literal["grows", "does not grow", "too few points"] = "too few points"
    each_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    twice_ms: float | None = None


def slopes(call: str, took_ms: Sequence[float], values: Mapping[str, Sequence[int]]) -> list[Growth]:
    """How much `took_ms` grows with each of `values`: least squares over all that vary, with White's errors."""
    median = statistics.median(took_ms)
    shown: dict[str, Sequence[int]] = {}
    for name, own in values.items():
        spread = len(set(own)) >= _LEAST_VALUES and max(own) >= max(_LEAST_SPREAD * min(own), min(own) + _LEAST_VALUES)
        alike = spread and any(abs(statistics.correlation(own, other)) > _ALIKE for other in shown.values())
        if len(took_ms) >= _LEAST_CALLS and spread and not alike:
            shown[name] = own
    measured = _least_squares(took_ms, list(shown.values())) if shown else ()
    found = dict(zip(shown, measured, strict=True))
    rows: list[Growth] = []
    for name, own in values.items():
        usual = round(statistics.median(own))
        state, figures = "too few points", dict[str, float]()
        slope, half, typical = found.get(name, (0.0, math.inf, 0.0))
        grows = slope > half and slope / 2 < typical < 2 * slope
        if grows or slope + half <= _FELT * median / (max(own) - min(own) or 1):
            state = "grows" if grows else "does not grow"
            of_one = {"each_ms": slope, "low_ms": slope - half, "high_ms": slope + half}
            figures = {key: round(ms, 3) for key, ms in {**of_one, "twice_ms": median + slope * usual}.items()}
        rows.append(Growth(call, len(took_ms), round(median, 3), name, usual, state, **figures))
    return rows


_LARGEST_CONDITION = 10
"""The condition number above which the factors are too much alike for any slope to be told."""


def _least_squares(took: Sequence[float], values: Sequence[Sequence[int]]) -> list[tuple[float, float, float]]:
    """Each slope, half its interval, and the slope by medians, which a few long calls do not change. Student's 95 % is
    nearly 1.96 and 2.37 by each degree of freedom.
    """
    import numpy  # noqa: ICN001, PLC0415  # only where there is something to measure

    np: Any = numpy
    y, free = np.asarray(took), len(took) - 1 - len(values)
    x = np.column_stack([np.ones(len(y)), *(np.asarray(own) - statistics.fmean(own) for own in values)])
    if np.linalg.cond(x / np.sqrt((x**2).sum(axis=0))) > _LARGEST_CONDITION:
        return [(0.0, math.inf, 0.0)] * len(values)
    inverse = np.linalg.inv(x.T @ x)
    found = inverse @ x.T @ y
    rest = y - x @ found
    spread = inverse @ (x.T * rest**2) @ x @ inverse * (len(y) / free)
    half = (1.96 + 2.37 / free) * np.sqrt(spread.diagonal())
    told: list[tuple[float, float, float]] = []
    for place in range(1, len(values) + 1):
        own, above = x[:, place], x[:, place] > 0
        of_this = rest + own * found[place]
        rise = np.median(of_this[above]) - np.median(of_this[~above])
        typical = rise / (own[above].mean() - own[~above].mean())
        told.append((float(found[place]), float(half[place]), float(typical)))
    return told
