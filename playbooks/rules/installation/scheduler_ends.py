"""Why a container of HAMi's scheduler does not serve: by how its last run ended, and by what that run logged."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bot.hami.signatures import Hit
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.models import ContainerStatus, Pod, StateTerminated
from bot.kube.recording.redact import NEVER_STARTED
from bot.report import Evidence, NextAction, act, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import LogSeen
from playbooks.rules.common import prose
from playbooks.rules.common.containers import LastWords, last_of, path_in, statuses, stuck
from playbooks.rules.common.findings import fix_of, in_log, in_messages, log_line

_LEASE = re.compile(r"^[EF]\d{4} .*(leaderelection|[Ll]ease|resource lock)")
HEAP = step(Text("scheduler-degraded.heap"), prose.command("profile", "heap"))
Proven = tuple[Hit, Sequence[Evidence]]


class EndReason(NamedTuple):
    """Why a run ended: in whole sentences, with the evidence, and what to do where that is known."""

    means: Prose
    proofs: tuple[Evidence, ...]
    actions: tuple[NextAction, ...] = ()


def why_it_ends(pods: Iterable[Pod], runs: Sequence[LogSeen], version: Version | None) -> EndReason | None:
    """Why the first container that does not run ended, by a signature where one is known; None without any end."""
    # Down, or up after an end, and not only started for the first time.
    ill = ((pod, status) for pod in pods for status in statuses(pod) if not status.ready)
    sick = [(pod, status) for pod, status in ill if stuck(status) or _end(status)]
    for pod, status in sick:
        if known := _signed(pod, status, runs, version):
            (hit, proofs), end = known, _end(status)
            ended = [of_end(pod, status, end)] if end and "scheduler-log" in hit.signature.where else []
            return EndReason(hit.means, (*proofs, *ended), (fix_of(hit),))
    told = (_told(pod, status, end, runs) for pod, status in sick if (end := _end(status)))
    return next(told, None)


def why_nobody_leads(runs: Sequence[LogSeen]) -> EndReason | None:
    """Why no scheduler leads, by kube-scheduler's last log line about the lease; None without an error."""
    logs = [log for log in runs if log.container == KUBE_SCHEDULER_CONTAINER]
    for hit, proof in (found for log in logs for found in in_log("scheduler-log", log, None)):
        if hit.signature.code == "scheduler-no-leader":
            return EndReason(hit.means, (proof,), (fix_of(hit),))
    for log in logs:
        if line := next((line for line in reversed(log.lines) if _LEASE.match(line)), ""):
            words = LastWords(log, line, error=True)
            return EndReason(Text("scheduler-down.error", line=_unstopped(words.text)), (log_line(log, line),))
    return None


def _end(status: ContainerStatus) -> StateTerminated | None:
    """How the last run ended. An init container that is done has not failed."""
    end = status.state.terminated or status.last_state.terminated
    return end if end and (end.exit_code or end.reason in (*NEVER_STARTED, "OOMKilled")) else None


def _signed(pod: Pod, status: ContainerStatus, runs: Sequence[LogSeen], version: Version | None) -> Proven | None:
    """The runtime's words about the start, then the container's own."""
    for hit, proof, _ in in_messages(pod, [status], version, "scheduler-message"):
        return hit, [proof]
    for log in _logs(pod, status, runs):
        for hit, proof in in_log("scheduler-log", log, version):
            return hit, [proof, *_continued(log, hit.quote)]
    return None


def _logs(pod: Pod, status: ContainerStatus, runs: Sequence[LogSeen]) -> list[LogSeen]:
    """Of the container, that of the run that ended last first: while none runs, it is what the log shows."""
    own = [log for log in runs if log.pod.metadata.uid == pod.metadata.uid and log.container == status.name]
    return sorted(own, key=lambda log: log.previous != (status.state.running is not None))


def _told(pod: Pod, status: ContainerStatus, end: StateTerminated, runs: Sequence[LogSeen]) -> EndReason:
    """How it ended and what it said last, without a reading of it."""
    never = end.reason in NEVER_STARTED and end.message
    said = f"{end.reason}: {quotes.shown(end.message)}" if never else how(end)
    means, proofs = Text("scheduler-down.ended", container=status.name, how=said), [of_end(pod, status, end)]
    words = last_of(_logs(pod, status, runs), end, running=status.state.running is not None)
    if words and not never:
        key = "scheduler-down.error" if words.error else "scheduler-down.last"
        means = sentences(means, Text(key, line=_unstopped(words.text)))
        proofs = [log_line(words.log, words.line), *_continued(words.log, words.line), *proofs]
    memory = act(Text("scheduler-down.memory", container=status.name))
    heap = [HEAP] if status.name == EXTENDER_CONTAINER else []
    return EndReason(means, tuple(proofs), (memory, *heap) if end.reason == "OOMKilled" else ())


def _unstopped(line: str) -> str:
    """For the end of a sentence."""
    return line.rstrip(" .:。")


def how(end: StateTerminated) -> Text:
    """How a run ended, in words: its reason and exit code."""
    if end.reason and end.reason != "Error":
        return Text("scheduler-down.how", reason=end.reason, code=end.exit_code)
    return Text("scheduler-down.code", code=end.exit_code)


def _continued(log: LogSeen, line: str) -> list[Evidence]:
    """The line behind one that ends with a colon: an error in a file has its place there."""
    if not line.rstrip().endswith(":"):
        return []
    at = len(log.lines) - 1 - log.lines[::-1].index(line)
    return [log_line(log, more) for more in log.lines[at + 1 : at + 2] if more[:1].isspace() and more.strip()]


def of_end(pod: Pod, status: ContainerStatus, end: StateTerminated) -> Evidence:
    """The evidence of a run's end: the runtime's message if it did not start, else the reason or the exit code."""
    state = "state" if status.state.terminated else "lastState"
    field, quote = ("reason", end.reason) if end.reason and end.reason != "Error" else ("exitCode", str(end.exit_code))
    if end.reason in NEVER_STARTED and end.message:
        field, quote = "message", end.message
    return quotes.of_pod(pod, quote, path_in(pod, status.name, f"{state}.terminated.{field}"))
