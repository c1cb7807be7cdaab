"""The pods that HAMi's scheduler refused lately, without a pod's name: by reason, pods and nodes. It is what a guide's
`grep FilteringFailed` looks for: the newest run of each pod in the extenders' logs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.scheduler_logs.filter_runs import Cycle, rebuild
from bot.hami.scheduler_logs.log_lines import FILTER_STARTS, NODE_UNFIT, LogLine, parse_line, pod_key_of
from bot.hami.scheduler_logs.scheduling_events import REASONS, finding_code
from bot.kube.models import Pod
from bot.report import Finding, FirstNames, Gap, Sheet, Table, step
from bot.texts import Prose, Text, listed
from playbooks import quotes
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines
from playbooks.gather.scheduling import gather_install, install_unread, nothing_read
from playbooks.logs.rules import covered
from playbooks.playbook import Sources
from playbooks.rule import Stage, rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.cluster import OfInstall

_NEEDLES = ("FilteringFailed", "BindingFailed", "FilteringSucceed", *FILTER_STARTS, *NODE_UNFIT)
_LIMIT_BYTES = 128 * 1024 * 1024
_CODES: set[Code] = {"node-unfit-pod", *(reason.finding for reason in REASONS)}
_UNSAID = ""
_MOST = 10
"""The most reasons that findings tell; the tables have all."""


class RefusalRow(NamedTuple):
    """A row for a reason why HAMi refused pods, with these pods, the nodes and the newest time."""

    reason: Prose
    pods: int
    nodes: FirstNames
    newest: datetime | None
    pod: str


class RefusedRow(NamedTuple):
    """A row for a pod whose newest filter run failed."""

    pod: str
    reason: Prose
    nodes: FirstNames
    runs: int
    newest: datetime | None


BY_REASON = Sheet(
    "refusals",
    RefusalRow,
    brief="reason pods newest=ago pod=newest_pod nodes",
    tells_findings=True,
)
BY_POD = Sheet("refused pods", RefusedRow, brief="pod reason newest=ago nodes")


class RefusedPod(NamedTuple):
    """A pod whose newest filter run chose no node: the reasons with their nodes, and the number of its runs."""

    pod: str
    cycle: Cycle
    scheduler: Pod
    reasons: dict[str, list[str]]
    runs: int

    def line_of(self, reason: str) -> LogLine:
        """The log line that gives the reason, or says that no node fits."""
        return self.cycle.proof_of(reason) or self.cycle.none_fit or self.cycle.outcome or self.cycle.lines[-1]


class RefusalsScene(OfInstall, frozen=True, dict=True, eq=False):
    """The lines of the extenders' logs about filter runs of the last `since`, `words` as typed."""

    log: ExtenderLines
    since: timedelta
    words: str
    taken_at: datetime

    @property
    def window(self) -> Prose:
        """The time that was looked at: as typed, or what the logs cover."""
        return covered(self.log.first, self.taken_at, self.since, self.taken_at) or self.words

    @cached_property
    def refused(self) -> list[RefusedPod]:
        """The pods whose newest filter run failed, the newest first."""
        lines: defaultdict[str, list[LogLine]] = defaultdict(list)
        source: dict[str, Pod] = {}
        oldest = self.taken_at - self.since  # a recorded log is given whole
        for scheduler, raw in self.log.lines:
            line = parse_line(raw, self.taken_at)
            if line is not None and (line.at is None or line.at >= oldest) and (pod := pod_key_of(line)):
                lines[pod].append(line)
                source[pod] = scheduler
        found = (_refused(pod, rebuild(some), source[pod]) for pod, some in lines.items())
        at = ((pod, pod.cycle.at) for pod in filter(None, found))
        return [pod for pod, _ in sorted(at, key=lambda each: each[1].timestamp() if each[1] else 0.0, reverse=True)]

    @cached_property
    def by_reason(self) -> list[tuple[str, list[RefusedPod], list[str]]]:
        """Each reason, that which keeps the most pods off most of their nodes first, with its pods and its nodes."""
        counted = Counter(reason for pod in self.refused for reason in pod.reasons)
        first = sorted(counted, key=lambda reason: (-len(self.mainly(reason)), -counted[reason]))
        of = [(reason, [pod for pod in self.refused if reason in pod.reasons]) for reason in first]
        return [(reason, pods, _sorted(pod.reasons[reason] for pod in pods)) for reason, pods in of]

    def mainly(self, reason: str) -> list[RefusedPod]:
        """The pods that it keeps off more nodes than any other reason; others only meet it on the way."""
        return [pod for pod in self.refused if reason == next(iter(pod.reasons))]

    @property
    def verdict(self) -> Text | None:
        """How many pods were refused, and why most of them; None if none was."""
        if not self.by_reason:
            return None
        reason = self.by_reason[0][0]
        values = {"total": len(self.refused), "since": self.window, "count": len(self.mainly(reason))}
        return Text("refusals.verdict", reason=_shown(reason), **values)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps about HAMi and its scheduler's logs."""
        return (*self.seen.gaps, *self.log.gaps)


def _refused(pod: str, cycles: list[Cycle], scheduler: Pod) -> RefusedPod | None:
    told = [cycle for cycle in cycles if cycle.has_result or cycle.bind_error]
    if not told or (told[-1].chosen and not told[-1].bind_error) or told[-1].asked_nothing:
        return None
    newest = told[-1]
    reasons = {"BindingFailed": [newest.chosen]} if newest.bind_error else newest.nodes_by_code() or {_UNSAID: []}
    return RefusedPod(pod, newest, scheduler, reasons, sum(not cycle.chosen for cycle in told))


async def gather_refusals(sources: Sources, since: timedelta, words: str) -> RefusalsScene:
    """Reads the extenders' logs. Raises SourceError if HAMi's scheduler could not be read at all."""
    install = await gather_install(sources)
    if install_unread(install):
        raise nothing_read(install.gaps[0])
    seconds = max(1, int(since.total_seconds()))
    log = await gather_extender_lines(sources.cluster, install.install, _NEEDLES, _LIMIT_BYTES, seconds)
    return RefusalsScene(install, log, since, words, sources.cluster.now())


@rule("binding-failed", *_CODES)
def newest_refusals(scene: RefusalsScene) -> Iterator[Finding]:
    """A finding for each reason in the pods' newest filter runs, that of the most pods first."""
    sure = "suspected" if scene.log.gaps else "confirmed"
    for reason, some, nodes in scene.by_reason[:_MOST]:
        newest = some[0]
        values = {"reason": _shown(reason), "count": len(some), "nodes": len(nodes), "pod": newest.pod}
        key = "refusals.on-nodes" if nodes else "refusals.reason"
        look = step(Text("logs.why", pod=newest.pod), prose.command("why", newest.pod))
        proof = quotes.of_words(newest.line_of(reason), newest.scheduler, newest.pod.rpartition("/")[2])
        code = "binding-failed" if reason == "BindingFailed" else finding_code(reason)
        yield finding(code, Text(key, **values), sure, nodes, [proof], severity="warning", actions=[look])


@rule("not-in-log")
def none_refused(scene: RefusalsScene) -> Iterator[Finding]:
    """The finding that no pod's newest filter run failed."""
    if not scene.refused:
        sure = "suspected" if scene.gaps else "confirmed"
        proofs = [quotes.of_pod_name(scheduler) for scheduler in scene.install.pods[:1]]
        yield finding("not-in-log", Text("refusals.none", since=scene.window), sure, (), proofs, severity="info")


REFUSALS: tuple[Stage[RefusalsScene], ...] = (Stage("whom HAMi refused", newest_refusals, none_refused),)


def _shown(reason: str) -> Prose:
    return reason or Text("refusals.unsaid")


def _sorted(names: Iterable[list[str]]) -> list[str]:
    return sorted(set(filter(None, chain.from_iterable(names))))


def refusal_tables(scene: RefusalsScene) -> tuple[Table, ...]:
    """The table of reasons, then that of pods, the newest first; none if no pod was refused."""
    rows = [
        RefusalRow(_shown(reason), len(some), FirstNames(tuple(nodes)), some[0].cycle.at, some[0].pod)
        for reason, some, nodes in scene.by_reason
    ]
    of_pods = ((pod, FirstNames(tuple(_sorted(pod.reasons.values())))) for pod in scene.refused)
    pods = [
        RefusedRow(pod.pod, listed(map(_shown, pod.reasons)), nodes, pod.runs, pod.cycle.at) for pod, nodes in of_pods
    ]
    return (BY_REASON.table(rows, brief=rows), BY_POD.table(pods, brief=pods)) if rows else ()
