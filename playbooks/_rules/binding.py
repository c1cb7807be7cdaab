"""Pods that the filter let through: locked nodes, refused binds, and waiting for the next attempt."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from bot.hami.allocations import is_finished, reserved_node
from bot.hami.messages import chosen_node
from bot.hami.nodelock import DEFAULT_EXPIRY, LOCK_KEY, parse_lock
from bot.hami.vendors import NVIDIA
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Scope, Severity, one_line
from bot.texts import Texts
from playbooks import _evidence
from playbooks._evidence import kubectl, kubectl_pod
from playbooks._rules import prose
from playbooks._rules.case import Case
from playbooks._rules.said import Said

UNSCHEDULABLE_FLUSH = timedelta(minutes=5)
"""kube-scheduler retries an unschedulable pod at the latest after this (--pod-max-in-unschedulable-pods-duration)."""

_RELEASES_DANGLING = Version(2, 7, 0)
_MAX_LOCKS_SHOWN = 3
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|m|s)")
_SECONDS = {"h": 3600, "m": 60, "s": 1}
_LONGEST_S = 10**9

Owners = Mapping[tuple[str, str], Pod | Gap | None]
"""The pods that locks name: None = read, and not there."""


class _Held(NamedTuple):
    """One lock. `passing`: the next bind on the node releases it by itself, so it keeps nobody out."""

    code: str
    claim: str
    passing: bool = False


def locked(case: Case, said: Said, owners: Owners, say: Texts) -> Finding | None:
    """The lock on the node that the pod would go to, when a bind was refused for it or every fitting node has one."""
    if said.stage == "bind" and said.lock is not None:
        name = said.lock.node or reserved_node(case.pod.metadata)
        return _refused_by_lock(case, said, name, owners, say)
    if said.stage == "bind" or not case.fitting:
        return None
    locks = {name: held for name in case.fitting if (held := _judge(case, name, owners, say))}
    if len(locks) < len(case.fitting) or any(held.passing for held in locks.values()):
        return None
    return _lock_finding(case, locks, [], "suspected", say)


def passing_lock(case: Case, owners: Owners, say: Texts) -> Finding | None:
    """A lock that the next bind releases, on every node that would take the pod: noise, and told as such."""
    locks = {name: held for name in case.fitting if (held := _judge(case, name, owners, say))}
    if not locks or len(locks) < len(case.fitting):
        return None
    return structs.replace(_lock_finding(case, locks, [], "suspected", say), severity="info", next_actions=())


def _refused_by_lock(case: Case, said: Said, name: str, owners: Owners, say: Texts) -> Finding | None:
    """A bind was refused because of a lock, whether it is still there or not."""
    if said.lock is None or said.evidence is None:
        return None
    held = _judge(case, name, owners, say)
    if held is not None:
        return _lock_finding(case, {name: held}, [said.evidence], "confirmed", say)
    code = "node-lock-malformed" if said.lock.malformed else "node-lock-held"
    if name in case.nodes:
        late = said.at is None or case.now - said.at > UNSCHEDULABLE_FLUSH
        finding = _lock_finding(
            case, {name: _Held(code, say("node-lock.gone", node=name))}, [said.evidence], "suspected", say
        )
        return structs.replace(finding, severity="warning" if late else "info", next_actions=())
    locks = {name: _Held(code, say(f"{code}.said", node=name or "?"))}
    return _lock_finding(case, locks, [said.evidence], "suspected", say)


def _lock_finding(
    case: Case, locks: Mapping[str, _Held], proofs: Sequence[Evidence], confidence: Confidence, say: Texts
) -> Finding:
    names = [name for name in locks if name]
    held = next(iter(locks.values()))
    shown = [case.nodes[name] for name in names if name in case.nodes][:_MAX_LOCKS_SHOWN]
    texts = [(node, node.metadata.annotation(LOCK_KEY)) for node in shown]
    actions: list[NextAction] = []
    if names:
        look = kubectl("get", "node", names[0], "-o", "jsonpath={.metadata.annotations.hami\\.io/mutex\\.lock}")
        actions.append(NextAction(say("node-lock.look"), look))
        if held.code != "node-lock-held":
            release = kubectl("annotate", "node", names[0], f"{LOCK_KEY}-")
            actions.append(NextAction(say("node-lock.release"), release, changes_cluster=True))
    return Finding(
        code=held.code,
        claim=one_line(held.claim, 400),
        severity="warning",
        confidence=confidence,
        scope=Scope(nodes=tuple(sorted(names))),
        evidence=(*proofs, *(_evidence.of_node_annotation(node, LOCK_KEY, text) for node, text in texts if text)),
        next_actions=tuple(actions),
    )


def _judge(case: Case, name: str, owners: Owners, say: Texts) -> _Held | None:
    """What the lock on a node is, None when it has none that was seen."""
    node = case.nodes.get(name)
    text = node.metadata.annotation(LOCK_KEY) if node else None
    if not text:
        return None
    lock = parse_lock(text, case.version)
    if lock is None:
        claim = say("node-lock-malformed.claim", node=name, value=one_line(text, 80))
        return _Held("node-lock-malformed", claim)
    age, expiry = case.now - lock.taken_at, _expiry(case)
    told = {
        "node": name,
        "owner": f"{lock.namespace}/{lock.pod}",
        "age": max(0, int(age.total_seconds())),
        "expires": format_time(_after(lock.taken_at, expiry)),
    }
    if age > expiry:
        key = "expired" if lock.pod else "nameless"
        return _Held("node-lock-dangling", say(f"node-lock-dangling.{key}", **told), passing=True)
    if not lock.pod:
        return _Held("node-lock-held", say("node-lock-held.nameless", **told))
    unread = Gap("lock owner", "")
    owner = owners.get((lock.namespace, lock.pod), unread)
    if owner is None and case.version is not None and case.version >= _RELEASES_DANGLING:
        return _Held("node-lock-dangling", say("node-lock-dangling.claim", **told), passing=True)
    if owner is None or (isinstance(owner, Pod) and is_finished(owner)):
        return _Held("node-lock-dangling", say("node-lock-dangling.kept", **told))
    return _Held("node-lock-held", say("node-lock-held.claim", **told))


def _expiry(case: Case) -> timedelta:
    """How long this scheduler keeps a lock: 5 minutes, or its --node-lock-timeout (2.7 and later)."""
    pieces = _DURATION.findall(case.install.flags.get("node-lock-timeout", ""))
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in pieces)
    return timedelta(seconds=min(seconds, _LONGEST_S)) if seconds else DEFAULT_EXPIRY


def _after(moment: datetime, wait: timedelta) -> datetime:
    """The moment so much later; the end of time for one that is there already."""
    try:
        return moment + wait
    except OverflowError:
        return moment


def bind_refused(case: Case, said: Said, say: Texts) -> Finding | None:
    """Bind was refused for another reason than a lock."""
    if said.stage != "bind" or said.lock is not None or said.evidence is None:
        return None
    return _finding(
        "binding-failed",
        say("binding-failed.claim", why=said.evidence.quote),
        "confirmed",
        [said.evidence],
        (),
        severity="warning",
        actions=prose.scheduler_log(case.install, case.pod.name, say),
    )


def extender_silent(case: Case, said: Said, say: Texts) -> Finding | None:
    """kube-scheduler got no answer from HAMi's extender."""
    if said.stage != "extender" or said.evidence is None:
        return None
    return _finding(
        "scheduler-degraded",
        say("scheduler-degraded.silent", why=said.evidence.quote),
        "confirmed",
        [said.evidence],
        (),
        severity="critical",
        actions=(
            NextAction(
                say("scheduler-degraded.pods"),
                kubectl("-n", case.install.namespace, "get", "pods", *(one.name for one in case.install.pods)),
            ),
        )
        if case.install.pods
        else (),
    )


def blocked(case: Case, said: Said, say: Texts) -> Finding | None:
    """Filtered, and neither bound nor refused since."""
    if said.stage != "filtered" or said.evidence is None:
        return None
    node = reserved_node(case.pod.metadata) or chosen_node(said.evidence.quote)
    return _finding(
        "blocked-after-filter",
        say("blocked-after-filter.claim", node=node or "?"),
        "confirmed",
        [said.evidence],
        (node,) if node else (),
        severity="warning",
        actions=(
            NextAction(
                say("blocked-after-filter.look"),
                kubectl_pod(case.pod, "describe"),
            ),
        ),
    )


def waits_for_retry(case: Case, said: Said, say: Texts) -> Finding | None:
    """Some candidate would take the pod now."""
    if not case.fitting:
        return None
    if said.at is not None and said.evidence is not None:
        claim, late, proofs = _tried_at(case, said.at, say), case.now - said.at >= UNSCHEDULABLE_FLUSH, [said.evidence]
    else:
        claim, late, proofs = _never_tried(case, said, say)
    node = case.nodes[case.fitting[0]]
    cards = case.view.cards(node.name)
    if cards:
        proofs.append(_evidence.of_node_annotation(node, NVIDIA.register, cards[0].card.uuid))
    return _finding(
        "waiting-for-retry",
        claim,
        "suspected",
        proofs,
        tuple(case.fitting),
        severity="warning" if late else "info",
        actions=prose.scheduler_log(case.install, case.pod.name, say) if late else (),
    )


def _tried_at(case: Case, tried: datetime, say: Texts) -> str:
    due = _after(tried, UNSCHEDULABLE_FLUSH)
    key = "waiting-for-retry.overdue" if due <= case.now else "waiting-for-retry.claim"
    return say(key, nodes=prose.names(say, case.fitting), tried=format_time(tried), due=format_time(due))


def _never_tried(case: Case, said: Said, say: Texts) -> tuple[str, bool, list[Evidence]]:
    """The claim, whether it is late for a first try, and the proofs."""
    proofs = [said.evidence] if said.evidence else []
    text = case.pod.metadata.creation_timestamp or ""
    created = parse_time(text)
    shown = prose.names(say, case.fitting)
    if created is None or case.now - created <= UNSCHEDULABLE_FLUSH:
        return say("waiting-for-retry.untried", nodes=shown), False, proofs
    claim = say("waiting-for-retry.ignored", nodes=shown, created=format_time(created))
    return claim, True, [_evidence.of_pod(case.pod, text, "{.metadata.creationTimestamp}"), *proofs]


def _finding(
    code: str,
    claim: str,
    confidence: Confidence,
    proofs: Sequence[Evidence],
    nodes: Sequence[str],
    *,
    severity: Severity,
    actions: Sequence[NextAction] = (),
) -> Finding:
    return Finding(
        code=code,
        claim=one_line(claim, 400),
        severity=severity,
        confidence=confidence,
        scope=Scope(nodes=tuple(nodes)),
        evidence=tuple(proofs),
        next_actions=tuple(actions),
    )
