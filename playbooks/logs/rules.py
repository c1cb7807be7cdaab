"""What the newest filter run of a pod says, what kube-scheduler did with it, and how much the logs show."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from bot.changes.record import Record, read_record
from bot.finding_codes import Code
from bot.hami.nodes.node_lock import lock_complaint
from bot.hami.scheduler_logs.log_lines import LogLine, read_line
from bot.hami.scheduler_logs.scheduling_events import REASONS, NodesReason, finding_code
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, Subject, step
from bot.texts import Prose, Text, listed
from playbooks import quotes
from playbooks.gather.node_side import LogSeen
from playbooks.gather.scheduler_logs import LogOf
from playbooks.gather.subject import AbsentPod, FoundPod
from playbooks.rule import Stage, rule
from playbooks.rules.admission.before_scheduling import not_found
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.install_settings import of_record
from playbooks.rules.waiting.panics import Logged, LogSubject, RunInLog, namespaces_named, panicked_in, read_logs
from playbooks.scenes.cluster import OfInstall
from playbooks.scenes.waiting_pod import PodScene

NODE_VERDICTS, CARD_FIGURES = 4, 5
"""The log levels (`-v`) from which HAMi logs its verdict on each node, and each GPU's figures [pkg/scheduler/score.go,
pkg/device/nvidia/device.go at v2.6 to v2.10].
"""
_MAX_CODES = 4
UNSAID = "?"
SLACK = timedelta(minutes=1)
"""A log that begins this much after the window does has lost its beginning; a quiet one may begin a little later."""
_OF_HAMI: set[Code] = {"node-unfit-pod", *(reason.finding for reason in REASONS)}
_IN_SECONDS = 120
"""Times shorter than this are told in seconds."""


class LogsScene(OfInstall, frozen=True, dict=True, eq=False):
    """The schedulers' logs of a pod, and what is known of the pod. `nodes` is empty if no line is about a GPU.

    `since` is how far back, `words` the same as typed; `as_of` the moment to count back from. `waiting` is the scene
    that `why` judges a pending pod by.
    """

    wanted: Subject
    since: timedelta
    words: str
    taken_at: datetime
    as_of: datetime
    subject: FoundPod | AbsentPod | Gap
    logs: tuple[LogOf, ...]
    panics: tuple[LogSeen, ...]
    nodes: Sequence[Node] | Gap
    undecodable: tuple[str, ...]
    waiting: PodScene | None = None

    @property
    def pod(self) -> Pod | None:
        """The pod; None if none was found."""
        return self.subject.pod if isinstance(self.subject, FoundPod) else None

    @cached_property
    def about(self) -> LogSubject:
        """The pod whose lines to read; if it is gone, and no namespace was typed, that of the newest line."""
        pod, wanted = self.pod, self.wanted
        name, namespace = (pod.name, pod.namespace) if pod else (wanted.name, wanted.namespace)
        if not namespace:
            namespace = next(iter(namespaces_named(self.logs, name, self.taken_at)), "")
        return LogSubject(namespace, name, pod.metadata.uid if pod else "", self.as_of - self.since, self.taken_at)

    @cached_property
    def logged(self) -> Logged:
        """The pod's lines and filter runs in the logs."""
        return read_logs(self.logs, self.about)

    @cached_property
    def called(self) -> Prose:
        """The pod as claims name it, with the remark that it is gone if only the logs tell of it."""
        gone = isinstance(self.subject, AbsentPod) and bool(self.logged.lines)
        return Text("logs.gone", pod=self._name) if gone else self._name

    @property
    def _name(self) -> str:
        return f"{self.about.namespace}/{self.about.name}" if self.about.namespace else self.about.name

    @cached_property
    def window(self) -> Prose:
        """How far back the extenders' logs were read, in words: as typed, or as far as the oldest of them reaches."""
        logs = [log.read for log in self.logs if log.container == EXTENDER_CONTAINER]
        first = [log.first for log in logs if not isinstance(log, Gap)]
        return covered(first, self.as_of, self.since, self.taken_at) or self.words

    @property
    def severity(self) -> Severity:
        """The severity of a finding about a failed run: a warning if the pod is pending, else information."""
        pod = self.pod
        waits = isinstance(self.subject, Gap) or bool(pod and pod.status.phase == "Pending" and not pod.spec.node_name)
        return "warning" if waits else "info"

    @cached_property
    def confidence(self) -> Confidence:
        """How sure a finding is: `suspected` if an extender's log that was not read whole may hold a newer run."""
        extenders = [log.read for log in self.logs if log.container == EXTENDER_CONTAINER]
        unread = self.seen.gaps or any(isinstance(log, Gap) or log.ends_early for log in extenders)
        return "suspected" if unread else "confirmed"

    @property
    def steps(self) -> tuple[NextAction, ...]:
        """The first step of every finding about a pod that exists: to ask why it is pending."""
        return (step(Text("logs.why", pod=self._name), prose.command("why", self._name)),) if self.pod else ()


def covered(first: Sequence[str], as_of: datetime, since: timedelta, taken_at: datetime) -> Text | None:
    """The time that the logs with these oldest lines cover, in words; None where they reach back as far as asked."""
    begun = [line.at for line in (read_line(text, taken_at) for text in first) if line and line.at]
    if not begun or len(begun) < len(first) or min(begun) <= as_of - since + SLACK:
        return None
    seconds = max(1, round((as_of - min(begun)).total_seconds()))
    time = Text("age.seconds", count=seconds) if seconds < _IN_SECONDS else Text("age.minutes", count=seconds // 60)
    return Text("logs.kept", time=time)


@rule("scheduler-panic")
def panicked(scene: LogsScene) -> list[Finding]:
    """The finding that the pod's newest filter run has no result, and that HAMi's scheduler panicked as it began."""
    return panicked_in(scene.logged.runs, scene.panics, scene.steps)


@rule("placed", "no-device-request", "node-lock-malformed", "binding-failed", "blocked-after-filter", *_OF_HAMI)
def newest_run(scene: LogsScene) -> list[Finding]:
    """The finding of what the pod's newest filter run says of the nodes, its main reason first; none without a run."""
    if not scene.logged.runs:
        return []
    run = scene.logged.runs[-1]
    cycle, values = run.cycle, {"node": run.cycle.chosen, "why": run.cycle.bind_error, **_counts(scene, run)}
    if cycle.chosen and (error := cycle.bind_error):
        complaint = lock_complaint(error)
        code: Code = "node-lock-malformed" if complaint and complaint.malformed else "binding-failed"
        return [_passed(scene, run, code, Text("logs.bind-failed", **values))]
    if cycle.chosen and cycle.bound:
        return [_passed(scene, run, "placed", Text("logs.bound", **values), leads=False)]
    if cycle.chosen:
        return [_passed(scene, run, "blocked-after-filter", Text("logs.chosen", **values))]
    if cycle.asked_nothing:
        return [_passed(scene, run, "no-device-request", Text("logs.passed", **values))]
    if reasons := cycle.nodes_by_code():
        return _refused(scene, run, reasons)
    return _unexplained(scene, run)


def _passed(scene: LogsScene, run: RunInLog, code: Code, claim: Text, *, leads: bool = True) -> Finding:
    cycle = run.cycle
    proofs = [_line(scene, run.log, line) for line in (cycle.outcome, cycle.choice, cycle.start) if line]
    nodes = [cycle.chosen] if cycle.chosen else []
    return _finding(scene, code, claim, nodes, proofs, sure=not cycle.mixed, leads=leads)


def _finding(
    scene: LogsScene,
    code: Code,
    claim: Text,
    nodes: Sequence[str],
    proofs: Sequence[Evidence],
    *,
    sure: bool = True,
    leads: bool = True,
) -> Finding:
    severity, confidence = scene.severity if leads else "info", scene.confidence if sure else "suspected"
    return finding(code, claim, confidence, nodes, proofs, severity=severity, actions=scene.steps)


def _refused(scene: LogsScene, run: RunInLog, reasons: dict[str, list[str]]) -> list[Finding]:
    """One finding per code; the first, of most nodes, sums the run up."""
    cycle = run.cycle
    judged = {node.node for node in cycle.nodes}
    explained = {node for nodes in reasons.values() for node in nodes}
    refused = max(len(explained), len({verdict.node for verdict in cycle.refused}), cycle.unfit)
    reasons_told: list[Prose] = [f"{code} {len(nodes)}" for code, nodes in list(reasons.items())[:_MAX_CODES]]
    if more := refused - len(explained):
        reasons_told.append(Text("logs.no-reason", count=more))
    told_of = listed(reasons_told)
    if sum(map(len, reasons.values())) > len(explained):
        told_of = Text("logs.several", reasons=told_of)
    amounts = {"refused": refused, "all": max(len(judged), refused), "reasons": told_of}
    claims = [Text("logs.refused", **amounts, **_counts(scene, run))]
    claims += [
        Text("logs.also", reason=code, count=len(nodes), nodes=prose.names(nodes))
        for code, nodes in list(reasons.items())[1:]
    ]
    found: dict[str, Finding] = {}
    for (code, nodes), claim in zip(reasons.items(), claims, strict=True):
        proof = cycle.proof_of(code)
        proofs = [_line(scene, run.log, line) for line in (proof, None if found else cycle.none_fit) if line]
        refusal = _finding(scene, finding_code(code), claim, nodes, proofs, sure=not cycle.mixed, leads=not found)
        # Codes of refusal family share a finding: the first speaks for it.
        found.setdefault(refusal.code, refusal)
    return list(found.values())


def _unexplained(scene: LogsScene, run: RunInLog) -> list[Finding]:
    """No verdict with a reason: what is said of cards (up to 2.5), else kube-scheduler's sum of HAMi's answer."""
    cycle, statement, counts = run.cycle, scene.logged.statement, _counts(scene, run)
    nodes = sorted({verdict.node for verdict in cycle.refused})
    refused = len(nodes) or cycle.unfit
    lines = (*(verdict.line for verdict in cycle.refused[:1]), cycle.none_fit)
    proofs = [_line(scene, run.log, line) for line in lines if line]
    if codes := Counter(card.code for card in cycle.cards).most_common():
        told: list[Prose] = [f"{code} {count}" for code, count in codes[:_MAX_CODES]]
        if (unsaid := cycle.cards_tried - len(cycle.cards)) > 0:
            told.append(Text("logs.no-reason", count=unsaid))
        claim, code = Text("logs.cards", refused=refused, reasons=listed(told), **counts), codes[0][0]
        # Up to 2.5 some refusals of cards are only logged at -v=5: the reason is known when each card tried has one.
        whole = 0 < cycle.cards_tried <= len(cycle.cards)
        proofs = [*([_line(scene, run.log, proof)] if (proof := cycle.proof_of(code)) else []), *proofs]
        sure = whole and not cycle.mixed
        return [_finding(scene, finding_code(code if whole else ""), claim, nodes, proofs, sure=sure)]
    earlier = statement is None or (statement.line.at and cycle.at and statement.line.at < cycle.at)
    if statement is not None and statement.said.by_hami and not earlier:
        reasons = sorted(statement.said.by_hami, key=lambda reason: -reason.nodes)
        proofs = [_line(scene, statement.log, statement.line), *proofs]
        claim = Text("logs.summed", reasons=_with_nodes(reasons), **counts)
        return [_finding(scene, finding_code(reasons[0].cards[0].code), claim, nodes, proofs, sure=not cycle.mixed)]
    proofs = proofs or [_line(scene, run.log, line) for line in cycle.lines[:1]]
    key = "logs.unsaid" if refused or cycle.none_fit else "logs.no-verdict"
    claim = Text(key, refused=refused, **counts)
    return [_finding(scene, "node-unfit-pod", claim, nodes, proofs, sure=False)]


def _with_nodes(reasons: Sequence[NodesReason]) -> str:
    return ", ".join(f"{reason.text} {reason.nodes}" for reason in reasons)


def _counts(scene: LogsScene, run: RunInLog) -> dict[str, object]:
    at = run.cycle.at
    return {
        "pod": scene.called,
        "count": len(scene.logged.runs),
        "since": scene.window,
        "at": "?" if at is None else f"{at:%m-%d %H:%M:%S}" if scene.words.endswith("d") else f"{at:%H:%M:%S}",
    }


@rule("kubernetes-filter")
def by_kubernetes(scene: LogsScene) -> list[Finding]:
    """The finding of the nodes that kube-scheduler dropped before it asked HAMi, by its newest statement."""
    statement = scene.logged.statement
    if statement is None or not statement.said.by_kubernetes:
        return []
    total, reasons = statement.said.total, statement.said.by_kubernetes
    dropped = sum(reason.nodes for reason in reasons)
    claim = Text("logs.kubernetes", pod=scene.called, dropped=dropped, total=total, reasons=_with_nodes(reasons))
    proofs = [_line(scene, statement.log, statement.line)]
    return [_finding(scene, "kubernetes-filter", claim, (), proofs, leads=dropped == total)]


@rule("not-enough-evidence", "not-found", "not-in-log")
def nothing_logged(scene: LogsScene) -> Iterator[Finding]:
    """The finding that HAMi logged no run of the pod and kube-scheduler said nothing: why that may be."""
    read = [log for log in scene.logged.logs if not isinstance(log.log.read, Gap)]
    if not read:
        claim = Text("logs.none-read", pod=scene.called)
        steps = scene.steps or (step(Text("blind.doctor"), prose.command("doctor")),)
        yield finding("not-enough-evidence", claim, "suspected", (), (), severity="warning", actions=steps)
        return
    lines = [(log, log.lines[-1]) for log in read if log.lines]
    if not lines and isinstance(scene.subject, AbsentPod):
        yield not_found(scene.subject, scene.wanted, "logs")
        return
    why, proofs = _why_not(scene)
    values = {"pod": scene.called, "since": scene.words, "why": why}
    if lines:
        log, line = lines[-1]
        proof, claim = _line(scene, log.log, line), Text("logs.no-run", **values)
    else:
        proof, claim = _flag(read[0].log), Text("logs.nothing", count=len(read), **values)
    yield finding("not-in-log", claim, scene.confidence, (), [*proofs, proof], severity="info", actions=scene.steps)


def _why_not(scene: LogsScene) -> tuple[Text, list[Evidence]]:
    """The likeliest reason that HAMi logged nothing, and its proof; every verbosity logs the start of a filter run."""
    scheduler, pod = scene.install.scheduler_name, scene.pod
    if pod and pod.spec.scheduler_name != scheduler:
        proof = quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}")
        return Text("logs.other-scheduler", scheduler=pod.spec.scheduler_name, hami=scheduler), [proof]
    if older := [log.older.at for log in scene.logged.logs if log.older and log.older.at]:
        return Text("logs.before", at=format_time(max(older))), []
    if pod and pod.spec.node_name:
        placed = pod.condition("PodScheduled")
        at = parse_time(placed.last_transition_time if placed else None) or parse_time(pod.metadata.creation_timestamp)
        proof = quotes.of_status(pod, pod.spec.node_name, "{.spec.nodeName}", format_time(at) if at else None)
        return Text("logs.placed-before", node=pod.spec.node_name, at=format_time(at) if at else UNSAID), [proof]
    if pod and pod.condition("PodScheduled") is None:
        return Text("logs.never-tried"), []
    if any(isinstance(log.read, Gap) for log in scene.logs):
        return Text("logs.unread"), []
    return Text("logs.never-asked"), []


@rule("log-verbosity")
def verbosity(scene: LogsScene) -> list[Finding]:
    """The finding of the log level (`-v`) with which the logs were written, and what HAMi would add at a higher one."""
    read = [log for log in scene.logs if not log.previous]
    if not read:
        return []
    levels = sorted({(log.container, log.verbosity) for log in read}, reverse=True)
    least = min((log.verbosity for log in read if log.container == EXTENDER_CONTAINER), default=CARD_FIGURES)
    key = "logs.v-cards" if least < CARD_FIGURES else "logs.v-all"
    listed = ", ".join(f"{container} -v={level}" for container, level in levels)
    proofs = [_flag(log) for log in {(log.container, log.verbosity): log for log in read}.values()]
    claim = Text("logs.v-nodes" if least < NODE_VERDICTS else key, levels=listed)
    more = () if least >= CARD_FIGURES else prose.raise_verbosity()
    return [finding("log-verbosity", claim, "confirmed", (), proofs, severity="info", actions=more)]


def _flag(log: LogOf) -> Evidence:
    """What sets the verbosity: an open change, else the word of the command line; the pod's name when neither does."""
    record = read_record(log.change) if log.change else None
    if isinstance(record, Record):
        namespace, _, name = record.target.partition("/")
        return of_record(namespace, name, log.change)
    path = f'{{.spec.containers[?(@.name=="{log.container}")].command}}'
    return quotes.of_pod(log.scheduler, log.flag, path)


def _line(scene: LogsScene, log: LogOf, line: LogLine) -> Evidence:
    days = scene.words.removesuffix("d")
    since = f"--since={int(days) * 24}h" if days != scene.words else f"--since={scene.words}"  # kubectl knows no days
    options = ["--previous", since] if log.previous else [since]
    grep = prose.command(scene.about.name)
    return quotes.of_logged(log.scheduler, log.container, line.raw, line.at, *options, grep=grep)


LOGS_RULES: tuple[Stage[LogsScene], ...] = (
    Stage("the newest run", panicked, newest_run, either=True),
    Stage("before HAMi was asked", by_kubernetes),
    Stage("nothing was logged", nothing_logged, when=lambda _, told: not told.findings),
    Stage("how closely was looked", verbosity),
)
