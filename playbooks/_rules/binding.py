"""Pods that the filter let through: locked nodes, refused binds, and waiting for the next attempt."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.hami.allocations import is_finished, reserved_node
from bot.hami.nodelock import DEFAULT_EXPIRY, LOCK_KEY, Lock, parse_lock
from bot.hami.version import Version
from bot.kube.models import Node, Pod
from bot.kube.times import format_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Scope, one_line
from bot.texts import Texts
from playbooks import _evidence
from playbooks._rules import prose
from playbooks._rules.case import Case
from playbooks._rules.said import Said

UNSCHEDULABLE_FLUSH = timedelta(minutes=5)
"""kube-scheduler retries an unschedulable pod at the latest after this (--pod-max-in-unschedulable-pods-duration)."""

_RELEASES_DANGLING = Version(2, 7, 0)

Owners = Mapping[tuple[str, str], Pod | Gap | None]
"""The pods that locks name: None = read, and not there."""


class _Held(NamedTuple):
    code: str
    claim: str


def locked(case: Case, said: Said, owners: Owners, say: Texts) -> Finding | None:
    """The lock on the node that the pod would go to, when a bind was refused for it or every fitting node has one."""
    if said.stage == "bind" and said.lock is not None:
        name = said.lock.node or reserved_node(case.pod.metadata)
        return _lock_finding(case, [name] if name else [], said, owners, say)
    free = [name for name in case.fitting if case.nodes[name].metadata.annotation(LOCK_KEY) is None]
    if said.stage == "bind" or free or not case.fitting:
        return None
    return _lock_finding(case, case.fitting, said, owners, say)


def _lock_finding(case: Case, names: Sequence[str], said: Said, owners: Owners, say: Texts) -> Finding | None:
    confirmed = said.stage == "bind" and said.evidence is not None
    proofs: list[Evidence] = [said.evidence] if confirmed and said.evidence else []
    held: _Held | None = None
    for name in names:
        node = case.nodes.get(name)
        text = node.metadata.annotation(LOCK_KEY) if node else None
        if node is None or text is None:
            continue
        proofs.append(_evidence.of_node_annotation(node, LOCK_KEY, text))
        held = held or _judge(node, text, case, owners, say)
    if held is None:
        if not confirmed:
            return None
        malformed = said.lock is not None and said.lock.malformed
        key = "node-lock-malformed" if malformed else "node-lock-held"
        held = _Held(key, say(f"{key}.said", node=prose.names(say, names) or "?"))
    actions = (
        [
            NextAction(
                say("node-lock.look"),
                f"kubectl get node {names[0]} -o jsonpath='{{.metadata.annotations.hami\\.io/mutex\\.lock}}'",
            )
        ]
        if names
        else []
    )
    if held.code != "node-lock-held" and names:
        actions.append(
            NextAction(say("node-lock.release"), f"kubectl annotate node {names[0]} {LOCK_KEY}-", changes_cluster=True)
        )
    return Finding(
        code=held.code,
        claim=one_line(held.claim, 400),
        severity="warning",
        confidence="confirmed" if confirmed and any(one.source == "node" for one in proofs) else "suspected",
        scope=Scope(nodes=tuple(sorted(names))),
        evidence=tuple(proofs),
        next_actions=tuple(actions),
    )


def _judge(node: Node, text: str, case: Case, owners: Owners, say: Texts) -> _Held:
    lock = parse_lock(text, case.version)
    if lock is None:
        return _Held("node-lock-malformed", say("node-lock-malformed.claim", node=node.name, value=text))
    age = int((case.now - lock.taken_at).total_seconds())
    owner = owners.get((lock.namespace, lock.pod)) if lock.pod else None
    name = f"{lock.namespace}/{lock.pod}" if lock.pod else "?"
    expired = case.now - lock.taken_at > DEFAULT_EXPIRY
    if expired or (lock.pod and (owner is None or (isinstance(owner, Pod) and is_finished(owner)))):
        expires = format_time(lock.taken_at + DEFAULT_EXPIRY)
        key = "expired" if expired else "kept" if case.version and case.version < _RELEASES_DANGLING else "claim"
        return _Held(
            "node-lock-dangling", say(f"node-lock-dangling.{key}", node=node.name, owner=name, age=age, expires=expires)
        )
    return _Held(
        "node-lock-held",
        say("node-lock-held.claim", node=node.name, owner=name, age=age, expires=format_time(_expiry(lock))),
    )


def _expiry(lock: Lock) -> datetime:
    return lock.taken_at + DEFAULT_EXPIRY


def bind_refused(said: Said, say: Texts) -> Finding | None:
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
    )


def extender_silent(said: Said, say: Texts) -> Finding | None:
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
    )


def blocked(case: Case, said: Said, say: Texts) -> Finding | None:
    """Filtered, and neither bound nor refused since."""
    if said.stage != "filtered" or said.evidence is None:
        return None
    node = reserved_node(case.pod.metadata)
    return _finding(
        "blocked-after-filter",
        say("blocked-after-filter.claim", node=node or "?"),
        "confirmed",
        [said.evidence],
        (node,) if node else (),
        severity="warning",
    )


def waits_for_retry(case: Case, said: Said, say: Texts) -> Finding | None:
    """Some candidate would take the pod now."""
    if not case.fitting:
        return None
    names = case.fitting
    proofs = [said.evidence] if said.evidence else []
    node = case.nodes[names[0]]
    register = node.metadata.annotation("hami.io/node-nvidia-register")
    uuid = case.view.cards(names[0])[0].card.uuid if register and case.view.cards(names[0]) else node.name
    proofs.append(_evidence.of_node_annotation(node, "hami.io/node-nvidia-register", uuid))
    if said.at is None:
        claim = say("waiting-for-retry.untried", nodes=prose.names(say, names))
    else:
        due = said.at + UNSCHEDULABLE_FLUSH
        key = "waiting-for-retry.claim" if due > case.now else "waiting-for-retry.overdue"
        claim = say(key, nodes=prose.names(say, names), tried=format_time(said.at), due=format_time(due))
    return _finding("waiting-for-retry", claim, "suspected", proofs, tuple(names), severity="info")


def _finding(
    code: str, claim: str, confidence: Confidence, proofs: Sequence[Evidence], nodes: Sequence[str], *, severity: str
) -> Finding:
    return Finding(
        code=code,
        claim=one_line(claim, 400),
        severity=severity,  # pyright: ignore[reportArgumentType]  # one of Severity's three, by the callers above
        confidence=confidence,
        scope=Scope(nodes=tuple(nodes)),
        evidence=tuple(proofs),
    )
