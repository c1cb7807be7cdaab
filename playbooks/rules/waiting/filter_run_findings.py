"""Findings about a pod's filter runs as the logs have them: what the newest one says, by HAMi's own reasons."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bot.changes.record import Record, read_record
from bot.finding_codes import Code
from bot.hami.nodes.node_lock import lock_complaint
from bot.hami.scheduler_logs.filter_runs import Cycle
from bot.hami.scheduler_logs.log_lines import LogLine
from bot.hami.scheduler_logs.scheduling_events import finding_code
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.times import format_time
from bot.report import Confidence, Evidence, Finding, Severity, step
from bot.texts import Prose, Text, listed
from playbooks import quotes
from playbooks.gather.scheduler_logs import LogOf
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.install_settings import of_record
from playbooks.rules.waiting.panics import Logged, RunInLog, Statement

NODE_VERDICTS, CARD_FIGURES = 4, 5
"""The verbosities from which HAMi logs its verdict on each node, and each card's figures [pkg/scheduler/score.go,
pkg/device/nvidia/device.go at v2.6 to v2.10]."""
_MAX_CODES = 4


class RunWording(NamedTuple):
    """How the findings are told: the pod in words, how far back was to be looked and how far it was, in words.

    `waits`: the pod has no node yet. `sure` is false when a newer run than those read may be in a log that was not.
    """

    pod: Prose
    name: str
    since: str
    window: Prose
    waits: bool
    sure: bool

    @property
    def severity(self) -> Severity:
        return "warning" if self.waits else "info"

    @property
    def confidence(self) -> Confidence:
        return "confirmed" if self.sure else "suspected"


def newest_run(logged: Logged, wording: RunWording) -> list[Finding]:
    """What the newest run says, its main reason first; nothing when HAMi was not asked."""
    if not logged.runs:
        return []
    run = logged.runs[-1]
    if run.cycle.mixed:
        wording = wording._replace(sure=False)
    if run.cycle.chosen:
        return [_chosen(logged, run, wording)]
    if run.cycle.asked_nothing:
        return [_told("no-device-request", Text("logs.passed", **_values(logged, run, wording)), run, wording)]
    if reasons := run.cycle.nodes_by_code():
        return _refused(logged, run, reasons, wording)
    return _unexplained(logged, run, wording)


def _chosen(logged: Logged, run: RunInLog, wording: RunWording) -> Finding:
    cycle, values = run.cycle, _values(logged, run, wording)
    if error := cycle.bind_error:
        complaint = lock_complaint(error)
        code: Code = "node-lock-malformed" if complaint and complaint.malformed else "binding-failed"
        return _told(code, Text("logs.bind-failed", **values), run, wording)
    if cycle.bound:
        return _told("placed", Text("logs.bound", **values), run, wording._replace(waits=False))
    return _told("blocked-after-filter", Text("logs.chosen", **values), run, wording)


def _told(code: Code, claim: Text, run: RunInLog, wording: RunWording) -> Finding:
    cycle = run.cycle
    proofs = [of_line(run.log, line, wording) for line in (cycle.outcome, cycle.choice, cycle.start) if line]
    nodes = [cycle.chosen] if cycle.chosen else []
    return finding(code, claim, wording.confidence, nodes, proofs, severity=wording.severity)


def _refused(logged: Logged, run: RunInLog, reasons: dict[str, list[str]], wording: RunWording) -> list[Finding]:
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
    claims = [Text("logs.refused", **amounts, **_counts(logged, run, wording))]
    claims += [
        Text("logs.also", reason=code, count=len(nodes), nodes=prose.names(nodes))
        for code, nodes in list(reasons.items())[1:]
    ]
    found: dict[str, Finding] = {}
    for (code, nodes), claim in zip(reasons.items(), claims, strict=True):
        proof = cycle.proof_of(code)
        proofs = [of_line(run.log, line, wording) for line in (proof, None if found else cycle.none_fit) if line]
        refusal = finding(
            finding_code(code),
            claim,
            wording.confidence,
            nodes,
            proofs,
            severity=wording.severity if not found else "info",
        )
        # Codes of refusal family share a finding: the first speaks for it.
        found.setdefault(refusal.code, refusal)
    return list(found.values())


def _unexplained(logged: Logged, run: RunInLog, wording: RunWording) -> list[Finding]:
    """No verdict with a reason: what is said of cards (up to 2.5), else kube-scheduler's sum of HAMi's answer."""
    cycle = run.cycle
    refused = len({verdict.node for verdict in cycle.refused}) or cycle.unfit
    counts = _counts(logged, run, wording)
    nodes = sorted({verdict.node for verdict in cycle.refused})
    proofs = [
        of_line(run.log, line, wording)
        for line in (*(verdict.line for verdict in cycle.refused[:1]), cycle.none_fit)
        if line
    ]
    if cycle.cards:
        claim = Text("logs.cards", refused=refused, reasons=_card_reasons(cycle), **counts)
        return [_by_cards(run, claim, proofs, wording)]
    if summed := _summed(logged.statement, cycle):
        code, listed = summed
        proofs = (
            [of_line(logged.statement.log, logged.statement.line, wording), *proofs] if logged.statement else proofs
        )
        claim = Text("logs.summed", reasons=listed, **counts)
        return [finding(finding_code(code), claim, wording.confidence, nodes, proofs, severity=wording.severity)]
    proofs = proofs or [of_line(run.log, line, wording) for line in cycle.lines[:1]]
    key = "logs.unsaid" if refused or cycle.none_fit else "logs.no-verdict"
    claim = Text(key, refused=refused, **counts)
    return [finding("node-unfit-pod", claim, "suspected", nodes, proofs, severity=wording.severity)]


def _card_reasons(cycle: Cycle) -> Text:
    told = [f"{code} {count}" for code, count in Counter(card.code for card in cycle.cards).most_common(_MAX_CODES)]
    unsaid = cycle.cards_tried - len(cycle.cards)
    return listed([*told, *([Text("logs.no-reason", count=unsaid)] if unsaid > 0 else [])])


def _by_cards(run: RunInLog, claim: Prose, proofs: Sequence[Evidence], wording: RunWording) -> Finding:
    """Up to 2.5 some refusals of cards are only logged at -v=5: the reason is known when each card tried has one."""
    cycle = run.cycle
    code = Counter(card.code for card in cycle.cards).most_common(1)[0][0]
    whole = 0 < cycle.cards_tried <= len(cycle.cards)
    proof = cycle.proof_of(code)
    return finding(
        finding_code(code if whole else ""),
        claim,
        wording.confidence if whole else "suspected",
        sorted({verdict.node for verdict in cycle.refused}),
        [*([of_line(run.log, proof, wording)] if proof else []), *proofs],
        severity=wording.severity,
    )


def _summed(statement: Statement | None, cycle: Cycle) -> tuple[str, str] | None:
    """HAMi's reasons in kube-scheduler's text about this run, the most nodes first; None when it has none."""
    if statement is None or (statement.line.at and cycle.at and statement.line.at < cycle.at):
        return None
    reasons = sorted(statement.said.by_hami, key=lambda reason: -reason.nodes)
    if not reasons:
        return None
    return reasons[0].cards[0].code, ", ".join(f"{reason.text} {reason.nodes}" for reason in reasons)


def _counts(logged: Logged, run: RunInLog, wording: RunWording) -> dict[str, object]:
    at = run.cycle.at
    return {
        "pod": wording.pod,
        "count": len(logged.runs),
        "since": wording.window,
        "at": "?" if at is None else f"{at:%m-%d %H:%M:%S}" if wording.since.endswith("d") else f"{at:%H:%M:%S}",
    }


def _values(logged: Logged, run: RunInLog, wording: RunWording) -> dict[str, object]:
    return {"node": run.cycle.chosen, "why": run.cycle.bind_error, **_counts(logged, run, wording)}


def by_kubernetes(logged: Logged, wording: RunWording) -> list[Finding]:
    """The nodes that kube-scheduler dropped before HAMi was asked, as its newest sum has them."""
    statement = logged.statement
    if statement is None or not statement.said.by_kubernetes:
        return []
    total, reasons = statement.said.total, statement.said.by_kubernetes
    dropped = sum(reason.nodes for reason in reasons)
    listed = ", ".join(f"{reason.text} {reason.nodes}" for reason in reasons)
    claim = Text("logs.kubernetes", pod=wording.pod, dropped=dropped, total=total, reasons=listed)
    severity: Severity = wording.severity if dropped == total else "info"
    proofs = [of_line(statement.log, statement.line, wording)]
    why = step(Text("pending.why", pod=wording.pod), prose.command("why", str(wording.pod)))
    steps = [] if severity == "info" else [why]
    return [finding("kubernetes-filter", claim, wording.confidence, (), proofs, severity=severity, actions=steps)]


def verbosity(logs: Sequence[LogOf]) -> list[Finding]:
    """At which -v the logs were written, and what HAMi's would add at a higher one."""
    read = [log for log in logs if not log.previous]
    if not read:
        return []
    levels = sorted({(log.container, log.verbosity) for log in read}, reverse=True)
    least = min((log.verbosity for log in read if log.container == EXTENDER_CONTAINER), default=CARD_FIGURES)
    key = "logs.v-cards" if least < CARD_FIGURES else "logs.v-all"
    listed = ", ".join(f"{container} -v={level}" for container, level in levels)
    proofs = [of_flag(log) for log in {(log.container, log.verbosity): log for log in read}.values()]
    claim = Text("logs.v-nodes" if least < NODE_VERDICTS else key, levels=listed)
    more = () if least >= CARD_FIGURES else prose.raise_verbosity()
    return [finding("log-verbosity", claim, "confirmed", (), proofs, severity="info", actions=more)]


def of_flag(log: LogOf) -> Evidence:
    """What sets the verbosity: an open change, else the word of the command line; the pod's name when neither does."""
    record = read_record(log.change) if log.change else None
    if isinstance(record, Record):
        namespace, _, name = record.target.partition("/")
        return of_record(namespace, name, log.change)
    path = f'{{.spec.containers[?(@.name=="{log.container}")].command}}'
    return quotes.of_pod(log.scheduler, log.flag, path)


def of_line(log: LogOf, line: LogLine, wording: RunWording) -> Evidence:
    """A line of the log."""
    return Evidence(
        source="scheduler log",
        object=f"Pod {log.scheduler.namespace}/{log.scheduler.name} container {log.container}",
        at=format_time(line.at) if line.at else None,
        quote=quotes.shown(line.raw),
        command=_command(log, wording),
    )


def _command(log: LogOf, wording: RunWording) -> str:
    previous = ("--previous",) if log.previous else ()
    days = wording.since.removesuffix("d")
    # kubectl knows no days.
    since = f"--since={int(days) * 24}h" if days != wording.since else f"--since={wording.since}"
    scheduler = log.scheduler
    words = kubectl("-n", scheduler.namespace, "logs", scheduler.name, "-c", log.container, *previous, since)
    return f"{words} | grep {prose.command(wording.name)}"
