"""`logs`: what HAMi's scheduler logged about one pod, its filter runs over all replicas, node by node and GPU by GPU.

The lines of many pods interleave in a log, and every replica has two logs: kube-scheduler's and the extender's. The pod
may be gone: its name is enough.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import click
import msgspec
from msgspec import structs

from bot.errors import SourceError, Unusable, UsageError
from bot.hami.nodes.node_state import registered_cards
from bot.hami.pods.allocations import waits
from bot.hami.scheduler_logs.filter_runs import ALLOCATING, CARD_CODES, CARD_TRIED, Cycle
from bot.hami.scheduler_logs.log_lines import LogLine, read_line
from bot.hami.scheduler_logs.scheduling_events import LOG_TEXTS
from bot.kube.cluster import Cluster, seen
from bot.kube.models import NODES, Node, Pod
from bot.kube.times import format_time
from bot.report import Gap, Report, Sheet, Subject, Table, gap
from bot.texts import Text
from playbooks.gather.pods import gather_waiting_pod
from playbooks.gather.scheduler_logs import gather_scheduler_logs
from playbooks.gather.scheduler_process import gather_panics
from playbooks.gather.scheduling import gather_install, install_unread, nothing_read
from playbooks.gather.subject import AbsentPod, FoundPod, parse_subject, resolve
from playbooks.judgement.waiting import judge
from playbooks.logs.refusals import REFUSALS, RefusalsScene, gather_refusals, refusal_tables
from playbooks.logs.rules import LOGS_RULES, SLACK, UNSAID, LogsScene
from playbooks.playbook import SINCE, Playbook, Snapshot, Sources, read_since
from playbooks.rule import run
from playbooks.rules.common.findings import scene_gaps
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.waiting.panics import Logged, PodLog, newest_time
from playbooks.rules.waiting.volcano import pod_group

_ABOUT_CARDS = re.compile("|".join(f'"{re.escape(text)}"' for text in sorted({*CARD_CODES, *LOG_TEXTS})))


class Request(NamedTuple):
    """The pod whose lines are shown (None: all pods that HAMi refused), and how far back; `words` is that as typed."""

    subject: Subject | None
    since: timedelta
    words: str


def request(pod: str = "", namespace: str = "", since: str = "1h", failed: bool = False) -> Request:  # noqa: FBT001, FBT002  # the option's name
    """Reads the typed question. Raises UsageError for a time that cannot be read, or for a pod with --failed."""
    if failed and pod:
        raise UsageError(Text("error-command.failed-and-pod"), example=f"logs {pod}")
    return Request(parse_subject(pod, namespace) if pod else None, read_since(since), since.strip())


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, LogsScene | RefusalsScene]:
    """Finds HAMi and the pod, then reads the logs; the nodes only if a line names a GPU. Raises Unusable."""
    cluster, about = sources.cluster, wanted.subject
    if about is None:
        refusals = await gather_refusals(sources, wanted.since, wanted.words)
        return Snapshot(wanted, cluster.name, refusals.taken_at, refusals)
    subject, install = await asyncio.gather(_subject(cluster, about), gather_install(sources))
    name = subject.pod.name if isinstance(subject, FoundPod) else about.name
    logs, (panics, _) = await asyncio.gather(
        gather_scheduler_logs(cluster, install.install, name, wanted.since), gather_panics(cluster, install.install)
    )
    if isinstance(subject, Gap) and not logs and install_unread(install):
        raise nothing_read(subject)
    nodes: list[Node] | Gap = []
    if any(_ABOUT_CARDS.search(raw) for log in logs if not isinstance(log.read, Gap) for raw in log.read.lines):
        nodes = await seen("nodes", cluster.list(NODES, metadata_only=True))
    as_of = cluster.as_of(newest_time(logs, cluster.now()))
    scene = LogsScene(
        install,
        about,
        wanted.since,
        wanted.words,
        taken_at=cluster.now(),
        as_of=as_of,
        subject=subject,
        logs=tuple(logs),
        panics=panics,
        nodes=nodes,
        undecodable=tuple(cluster.undecodable),
    )
    if (pod := scene.pod) is not None and waits(pod):
        scene = structs.replace(scene, waiting=await gather_waiting_pod(pod, sources, pod_group(pod)))
    return Snapshot(wanted, cluster.name, scene.taken_at, scene)


async def _subject(cluster: Cluster, wanted: Subject) -> FoundPod | AbsentPod | Gap:
    try:
        return await resolve(cluster, wanted, whole_name=True)
    except Unusable:
        raise
    except SourceError as error:
        return gap("pod", error.message, error.hint)


def diagnose(snapshot: Snapshot[Request, LogsScene | RefusalsScene]) -> Report:
    """The report: why the pod is pending, as `why` says it; the newest run, kube-scheduler's words, the log levels."""
    scene = snapshot.scene
    if (without := answer_without_hami("logs", snapshot, scene.seen)) is not None:
        return without
    if isinstance(scene, RefusalsScene):
        findings = run(REFUSALS, scene).findings
        verdict, tables = scene.verdict or findings[0].text, refusal_tables(scene)
        about = Subject("Cluster", "", "")
        return snapshot.report("logs", about, findings, verdict=verdict, tables=tables, gaps=scene.gaps)
    pod, about = scene.pod, scene.about
    nodes = () if isinstance(scene.nodes, Gap) else scene.nodes
    tables, left = tables_of(scene.logged, nodes, pod, scene.taken_at)
    gaps = [*_gaps(scene)]
    gaps += [gap(title, Text("logs.left-out", count=count), Text("logs.shorter")) for title, count in left if count]
    found = run(LOGS_RULES, scene).findings
    cause = judge(scene.waiting).findings[0] if scene.waiting else None
    gaps += scene_gaps(scene.waiting.cluster, ()) if scene.waiting else []
    leads = [cause] if cause is not None and cause.code not in ("not-enough-evidence", found[0].code) else []
    subject = Subject("Pod", about.namespace, about.name)
    return snapshot.report("logs", subject, [*leads, *found], tables=tables, gaps=gaps)


# --------------------------------------------------------------------------------------------------------- gaps


def _gaps(scene: LogsScene) -> Iterator[Gap]:
    logged = scene.logged
    yield from scene.seen.gaps
    yield from (gap("objects", name, Text("gap.undecodable")) for name in scene.undecodable)
    yield from (gap for gap in (scene.subject, scene.nodes) if isinstance(gap, Gap))
    yield from () if isinstance(scene.subject, Gap) else scene.subject.gaps
    for log in logged.logs:
        yield from _gaps_of(scene, log)
    if any(run.cycle.mixed for run in logged.runs):
        yield gap(RUNS.title, Text("logs.mixed"), Text("logs.mixed-hint"))
    if logged.earlier:
        yield gap(RUNS.title, Text("logs.earlier", count=logged.earlier))
    if routine := sum(line.message in ROUTINE for log in logged.logs for line in log.lines):
        yield gap(LINES.title, Text("logs.routine", count=routine))
    bare = sum(len(pod_log.bare) for pod_log in logged.logs)
    if bare and logged.others:
        yield gap(LINES.title, Text("logs.bare", count=bare, name=scene.about.name, others=[*logged.others]))


def _gaps_of(scene: LogsScene, log: PodLog) -> Iterator[Gap]:
    source, read = log.log.source, log.log.read
    if isinstance(read, Gap):
        yield read
        return
    first = read_line(read.first, scene.taken_at)
    if first and first.at and first.at > scene.about.since + SLACK:
        yield gap(source, Text("logs.begins-late", at=format_time(first.at)), Text("logs.begins-late-hint"))
    if read.ends_early:
        yield gap(source, Text("logs.ends-early"), Text("logs.shorter"))
    elif read.cut:
        yield gap(source, Text("logs.cut"), Text("logs.shorter"))
    if log.ahead:
        yield gap(source, Text("logs.ahead", count=log.ahead))
    if log.older and log.older.at and not log.lines:
        yield gap(source, Text("logs.older", at=format_time(log.older.at)), Text("logs.longer"))


# ------------------------------------------------------------------------------------------------------- tables


class RunRow(msgspec.Struct, frozen=True):
    """A row for what a filter run, or several alike, said of a node or a GPU."""

    run: str
    time: str
    node: str
    card: str
    reason: str
    figures: str
    container: str


class LineRow(NamedTuple):
    """A row for a line of a log."""

    time: str
    log: str
    line: str


class LogRow(NamedTuple):
    """A row for a log; its `lines` are None if it could not be read."""

    log: str
    verbosity: int
    lines: int | None
    reaches_back_to: str


RUNS = Sheet("filter runs", RunRow)
LINES = Sheet("lines", LineRow)
LOGS = Sheet("logs read", LogRow)

_MOST_ROWS, MOST_LINES = 300, 200
_LONGEST_LINE = 1000
ROUTINE = (CARD_TRIED, ALLOCATING)
"""Messages for each GPU and node that only say that it is looked at: they would fill the table of lines."""
_Said = tuple[str, str, str, str, str]
"""A row of a run without its run and time: node, GPU, reason, figures, container."""


class _Alike(NamedTuple):
    """Runs in a row that ended alike, the first and the last by number, and when each of the two began."""

    first: int
    last: int
    since: datetime | None
    at: datetime | None
    rows: list[_Said]

    @property
    def shown(self) -> tuple[str, str]:
        last = _clock(self.at)
        if self.first == self.last:
            return str(self.last), last
        same_day = self.since and self.at and self.since.date() == self.at.date()
        times = f"{_clock(self.since)} - {last.partition(' ')[2] if same_day else last}"
        return f"{self.first}-{self.last}", times


def tables_of(
    logged: Logged, nodes: Iterable[Node], pod: Pod | None, now: datetime
) -> tuple[tuple[Table, ...], list[tuple[str, int]]]:
    """The tables of a pod's logs that have rows, and the number of rows left out, by table title."""
    known: dict[str, str] = {}  # the node of each registered card; none for a UUID that several nodes register
    for node in nodes:
        for card in registered_cards(node):
            known[card.uuid] = "" if known.get(card.uuid, node.name) != node.name else node.name
    rows, rows_left = _run_rows(logged, known, pod)
    lines, lines_left = _line_rows(logged)
    log_rows: list[LogRow] = []
    for log, read in ((log, log.log.read) for log in logged.logs):
        first = None if isinstance(read, Gap) else read_line(read.first, now)
        found = (None, UNSAID) if isinstance(read, Gap) else (len(log.lines), _clock(first.at if first else None))
        log_rows.append(LogRow(log.log.label, log.log.verbosity, *found))
    tables = (RUNS.table(rows), LINES.table(lines), LOGS.table(log_rows))
    return tuple(table for table in tables if table.rows), [(RUNS.title, rows_left), (LINES.title, lines_left)]


def _run_rows(logged: Logged, nodes: dict[str, str], pod: Pod | None) -> tuple[list[RunRow], int]:
    """The newest run first, those alike once, as far as the rows go; and how many rows are left out."""
    groups: list[_Alike] = []
    for number, cycle in reversed([(number, one.cycle) for number, one in enumerate(logged.runs, start=1)]):
        container = _container(cycle, pod)
        rows = [(*row, container) for row in _rows_of(cycle, nodes)]
        if groups and groups[-1].rows == rows:
            groups[-1] = groups[-1]._replace(first=number, since=cycle.at)
        else:
            groups.append(_Alike(number, number, cycle.at, cycle.at, rows))
    listed = [RunRow(*group.shown, *row) for group in groups for row in group.rows]
    return listed[:_MOST_ROWS], max(0, len(listed) - _MOST_ROWS)


def _rows_of(cycle: Cycle, nodes: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """(node, card, reason, figures) by node. What was said several times alike is one row: `CardTypeMismatch x8`."""
    for verdict in sorted(cycle.nodes, key=lambda each: each.node):  # HAMi judges and logs the nodes in no order
        yield verdict.node, "", "fits" if verdict.fits else verdict.reason or verdict.line.message, ""
    if not cycle.refused:
        for code, names in cycle.nodes_by_code().items():
            yield from ((name, "", code, "") for name in names)
    cards = Counter(
        (nodes.get(refusal.card) or UNSAID, refusal.card or UNSAID, refusal.code, refusal.figures)
        for refusal in cycle.cards
    )
    for (node, card, code, figures), count in sorted(cards.items()):
        yield node, card, code if count == 1 else f"{code} x{count}", figures
    if cycle.chosen:
        yield cycle.chosen, "", cycle.bind_error or ("bound" if cycle.bound else "chosen"), ""
    if cycle.none_fit and not (cycle.refused or cycle.cards):
        yield "", "", cycle.none_fit.values["message"], ""


def _container(cycle: Cycle, pod: Pod | None) -> str:
    """The container that asks for devices, where only one does; lines about cards do not name theirs."""
    asking = [position for position, asks in enumerate(cycle.requests) if asks]
    if len(asking) != 1:
        return ""
    containers = [*(pod.spec.init_containers or ()), *pod.spec.containers] if pod else []
    return containers[asking[0]].name if len(containers) == len(cycle.requests) else f"#{asking[0]}"


def _line_rows(logged: Logged) -> tuple[list[LineRow], int]:
    lines: list[tuple[LogLine, str]] = []
    for log in logged.logs:
        found = (*log.lines, *(() if logged.others else log.bare))
        lines += [(line, log.log.label) for line in found if line.message not in ROUTINE]
    lines.sort(key=lambda line: line[0].at.timestamp() if line[0].at else 0.0)
    newest = reversed(lines[-MOST_LINES:])
    rows = [LineRow(_clock(line.at), label, line.raw[:_LONGEST_LINE]) for line, label in newest]
    return rows, max(0, len(lines) - MOST_LINES)


def _clock(at: datetime | None) -> str:
    """UTC to the millisecond: runs of one pod follow each other within a few."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}" if at else UNSAID


PLAYBOOK = Playbook(
    verb="logs",
    summary="What did HAMi's scheduler log about a pod? Without one: whom it refused lately, and why.",
    example="logs ml/trainer-0 --since 1h",
    parameters=(
        click.Argument(["pod"], default="", required=False, metavar="[POD|KIND/NAME]"),
        click.Option(["-n", "--namespace"], default="", metavar="NS", help="The pod's namespace."),
        SINCE,
        click.Option(["--failed"], is_flag=True, help="Whom HAMi refused lately, by reason: as without a pod."),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
