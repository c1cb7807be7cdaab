"""Faults inside a GPU container by its own log: HAMi-core's words, the dynamic loader's and the CUDA libraries'."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.signatures import CORE_HEADER, Hit, find, signatures
from bot.kube.models import ContainerStatus, Pod
from bot.report import Evidence, Finding
from bot.texts import Texts
from playbooks import quotes
from playbooks.gather.node_side import LogSeen
from playbooks.rules.common.containers import in_trouble, path_in, statuses
from playbooks.rules.common.findings import finding
from playbooks.rules.common.signature_findings import fix_of, log_line

_CORE_LINE = re.compile(CORE_HEADER)
_INITIALIZED = re.compile(CORE_HEADER + r"Initialized")
_AMOUNTS = re.compile(r"OOM (\d+) / (\d+)")
_MIB = 1024 * 1024
_AFTER = 5
"""Other threads may print this much behind the last words of a process that waits or fails."""
_ELF_CLASS = "core-preload-class"
"""The loader says this also in a 32-bit helper beside a program that loads HAMi-core."""
_SURE = 3
"""A wait that is told once or twice is how processes start beside each other."""


class _Word(NamedTuple):
    """A signature found in a log, and what the container of that log is doing."""

    hit: Hit
    log: LogSeen
    status: ContainerStatus


def own_log_faults(pod: Pod, logs: Sequence[LogSeen], now: datetime, say: Texts, *, cores: bool) -> list[Finding]:
    """The fault that explains most, by its own words; `cores`: HAMi limits the pod's GPU cores."""
    by_name = {status.name: status for status in statuses(pod)}
    words = [
        _Word(hit, log, by_name[log.container])
        for log in logs
        if log.container in by_name and (not log.previous or in_trouble(by_name[log.container], now))
        for hit in find("workload-log", log.lines)
    ]
    order = [signature.id for signature in signatures()]
    meant = [word for word in words if _means_it(word, now) and (cores or word.hit.signature.id != "core-host-pid")]
    meant.sort(key=lambda word: (order.index(word.hit.signature.id), word.log.previous))
    return [_finding(pod, meant, now, say)] if meant else []


def _means_it(word: _Word, now: datetime) -> bool:
    """Whether the words say what is wrong now: most are harmless in a container that goes on."""
    after = word.log.lines[word.hit.line + 1 :]
    last = sum(1 for line in after if line.strip() and not _CORE_LINE.search(line)) <= _AFTER
    signature = word.hit.signature
    match signature.code:
        case "hami-core-crash":
            return in_trouble(word.status, now)
        case "hami-core-hang":
            return last and not any(map(_INITIALIZED.search, after))
        case "hami-core-missing":
            return not any(map(_CORE_LINE.search, after))
        case _:
            return signature.core or in_trouble(word.status, now) or (last and signature.id != "core-no-gpu-seen")


def _is_sure(word: _Word, now: datetime) -> bool:
    """Whether the words prove it. In the log of a program that runs, others than HAMi-core's may be anybody's."""
    signature = word.hit.signature
    if signature.code == "hami-core-hang":
        return _count(word) >= _SURE
    if signature.code == "hami-core-missing":
        return signature.id != _ELF_CLASS
    return signature.core or in_trouble(word.status, now)


def _finding(pod: Pod, words: Sequence[_Word], now: datetime, say: Texts) -> Finding:
    first = words[0]
    signature = first.hit.signature
    same = [word for word in words if word.hit.signature.code == signature.code]
    proofs: list[Evidence] = [log_line(word.log, word.hit.quote) for word in same]
    ended = first.status.last_state.terminated or first.status.state.terminated
    if ended is not None and in_trouble(first.status, now):
        place = "lastState" if first.status.last_state.terminated else "state"
        proofs.append(
            quotes.of_pod(pod, str(ended.exit_code), path_in(pod, first.log.container, f"{place}.terminated.exitCode"))
        )
    node = pod.spec.node_name
    means = signature.words(say.language).means
    if signature.id == "core-oom" and (amounts := _AMOUNTS.search(first.hit.quote)):
        needed, limit = (int(amount) // _MIB for amount in amounts.groups())
        means = say("in-container.memory", needed=f"{needed:,}", limit=f"{limit:,}")
    return finding(
        signature.code,
        say("in-container.claim", container=first.log.container, node=node or "?", means=means),
        "confirmed" if _is_sure(first, now) else "suspected",
        (node,) if node else (),
        proofs,
        severity="warning",
        actions=(fix_of(first.hit, say),),
    )


def _count(word: _Word) -> int:
    """How many lines of the log hold the words."""
    pattern = re.compile(word.hit.signature.pattern)
    return sum(1 for line in word.log.lines if pattern.search(line))
