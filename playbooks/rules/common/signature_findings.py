"""Findings from signatures: words in a log or in the API that prove a fault."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from bot.hami.installation.install import Install
from bot.hami.scheduler_logs.log_lines import parse_line
from bot.hami.signatures import Hit, Where, find
from bot.hami.version import Version
from bot.kube.hami_pods import is_plugin
from bot.kube.models import ContainerStatus, Event, Pod
from bot.kube.recording.redact import NEVER_STARTED
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, NextAction, step
from bot.texts import Prose
from playbooks.gather.node_side import LogSeen
from playbooks.quotes import of_event, of_logged, of_status
from playbooks.rules.common.containers import path_in
from playbooks.rules.common.findings import finding

_NEVER = datetime.min.replace(tzinfo=UTC)


def in_log(where: Where, log: LogSeen, version: Version | None) -> list[tuple[Hit, Evidence]]:
    """The signatures in one log, each with its line as evidence."""
    return [(hit, log_line(log, hit.quote)) for hit in find(where, log.lines, version)]


def in_messages(
    pod: Pod, statuses: Iterable[ContainerStatus], version: Version | None, where: Where = "container-message"
) -> list[tuple[Hit, Evidence, str]]:
    """The signatures in what the runtime says of these containers, with evidence and the container's name.

    What a container waits for comes first, then this run's end, then the last one's: a back-off has no such words.
    Of a pod that is not HAMi's, the last words of a container that was started are its program's own: no proof.
    """
    found: list[tuple[Hit, Evidence, str]] = []
    for status in statuses:
        for field, message, at in _messages(status, started=is_plugin(pod)):
            hits = find(where, [message], version)
            path = path_in(pod, status.name, field)
            found += [(hit, of_status(pod, hit.quote, path, at), status.name) for hit in hits]
    return found


def in_events(events: Iterable[Event], version: Version | None) -> list[tuple[Hit, Evidence]]:
    """The signatures in these events, the newest event first."""
    newest = sorted(events, key=lambda event: parse_time(event.seen_at) or _NEVER, reverse=True)
    return [(hit, of_event(event)) for event in newest for hit in find("event-message", [event.message], version)]


def signed(
    hit: Hit,
    proofs: Sequence[Evidence],
    claim: Prose,
    nodes: Sequence[str],
    install: Install,
    *,
    pod: Pod | None = None,
) -> Finding:
    """The finding that a signature proves, with its fix as the next step; `pod`: whose words they are."""
    code, fix = hit.signature.code, fix_of(hit, pod)
    return finding(code, claim, nodes=nodes, proofs=proofs, actions=(fix,), of=install, plugin=hit.version)


def fix_of(hit: Hit, pod: Pod | None = None) -> NextAction:
    """What to do, in words: no one command does it, and the evidence has the one that shows the fault.

    A `pod` that has NVIDIA's runtime class is not told to set it.
    """
    return step(hit._replace(classed=pod is not None and "nvidia" in pod.spec.runtime_class_name).fix, "")


def log_line(log: LogSeen, line: str) -> Evidence:
    """A line of a container's log, with its time where it carries one."""
    parsed = parse_line(line, log.read_at) if log.read_at else None
    options = ["--previous"] if log.previous else []
    return of_logged(log.pod, log.container, line, parsed and parsed.at, *options, source="log")


def _messages(status: ContainerStatus, *, started: bool) -> Iterable[tuple[str, str, str | None]]:
    """Each text with its place in the status and its time; `started`: also what a container that was started left."""
    if status.state.waiting and status.state.waiting.message:
        yield "state.waiting.message", status.state.waiting.message, None
    for name, state in (("state", status.state), ("lastState", status.last_state)):
        end = state.terminated
        if end and end.message and (started or end.reason in NEVER_STARTED):
            yield f"{name}.terminated.message", end.message, end.finished_at
