"""Pods that the filter let through: locked nodes, refused binds, and waiting for the next attempt."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from bot.hami.installation.forbidden import read_forbidden
from bot.hami.nodes.node_lock import LockState
from bot.hami.pods.allocations import reserved_node
from bot.hami.scheduler_logs.scheduling_events import chosen_node
from bot.kube.models import Node
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.install_settings import forbidden
from playbooks.rules.waiting.attempt import Attempt
from playbooks.rules.waiting.locks import (
    NodeLock,
    Owners,
    after,
    lock_actions,
    lock_expiry,
    lock_in_words,
    lock_on,
    owner_proofs,
)
from playbooks.rules.waiting.waiting_pod import Case

UNSCHEDULABLE_FLUSH = timedelta(minutes=5)
"""kube-scheduler retries an unschedulable pod at the latest after this (--pod-max-in-unschedulable-pods-duration)."""
FILTERED_GRACE = timedelta(seconds=30)
"""From the filter to Bind it takes milliseconds, with a volume to provision or a plugin that waits longer."""

_MAX_LOCKS_SHOWN = 3
_PRE_BIND = re.compile(r'running (?:Reserve|Permit|PreBind) plugin "([^"]+)"')
"""One of kube-scheduler's own plugins failed: HAMi's Bind was not called yet."""
_TIMED_OUT = re.compile(r"context deadline exceeded|Client\.Timeout")


def locked(case: Case, attempt: Attempt, owners: Owners) -> Finding | None:
    """The lock on the node that the pod would go to, when a bind was refused for it or every fitting node has one."""
    if attempt.stage == "bind" and attempt.lock is not None:
        name = attempt.lock.node or reserved_node(case.pod.metadata)
        return _refused_by_lock(case, attempt, name, owners)
    if attempt.stage == "bind":
        return _behind_a_timeout(case, attempt, owners)
    if not case.fitting:
        return None
    locks = {name: held for name in case.fitting if (held := _judge(case, name, owners))}
    if len(locks) < len(case.fitting) or any(held.passing for held in locks.values()):
        return None
    return _lock_finding(case, locks, _of_owner(case, next(iter(locks)), owners), "suspected")


def _behind_a_timeout(case: Case, attempt: Attempt, owners: Owners) -> Finding | None:
    """The lock that a Bind waited for until kube-scheduler gave up: from 2.10 on Bind tries again for 28 seconds."""
    name = reserved_node(case.pod.metadata)
    if attempt.evidence is None or not _TIMED_OUT.search(attempt.evidence.quote):
        return None
    held = _judge(case, name, owners)
    if held is None or held.passing:
        return None
    return _lock_finding(case, {name: held}, [attempt.evidence, *_of_owner(case, name, owners)], "suspected")


def passing_lock(case: Case, owners: Owners) -> Finding | None:
    """A lock that the next bind releases, on every node that would take the pod: noise, and told as such."""
    locks = {name: held for name in case.fitting if (held := _judge(case, name, owners))}
    if not locks or len(locks) < len(case.fitting):
        return None
    return structs.replace(
        _lock_finding(case, locks, _of_owner(case, next(iter(locks)), owners), "suspected"),
        severity="info",
        next_actions=(),
    )


def _refused_by_lock(case: Case, attempt: Attempt, name: str, owners: Owners) -> Finding | None:
    """A bind was refused because of a lock, whether it is still there or not."""
    if attempt.lock is None or attempt.evidence is None:
        return None
    held = _judge(case, name, owners)
    if held is not None:
        sure: Confidence = "suspected" if held.unseen else "confirmed"
        return _lock_finding(case, {name: held}, [attempt.evidence, *_of_owner(case, name, owners)], sure)
    code = "node-lock-malformed" if attempt.lock.malformed else "node-lock-held"
    if name in case.nodes:
        late = attempt.at is None or case.now - attempt.at > UNSCHEDULABLE_FLUSH
        locks = {name: NodeLock(code, Text("node-lock.gone", node=name))}
        gone = _lock_finding(case, locks, [attempt.evidence], "suspected")
        return structs.replace(gone, severity="warning" if late else "info", next_actions=())
    said = "node-lock-malformed.said" if attempt.lock.malformed else "node-lock-held.said"
    claim = Text(said, node=name or "?")
    locks = {name: NodeLock("node-lock-malformed" if attempt.lock.malformed else "binding-failed", claim)}
    return _lock_finding(case, locks, [attempt.evidence], "suspected")


def _lock_finding(
    case: Case, locks: Mapping[str, NodeLock], proofs: Sequence[Evidence], confidence: Confidence
) -> Finding:
    names = [name for name in locks if name]
    held = next(iter(locks.values()))
    shown = [case.nodes[name] for name in names if name in case.nodes][:_MAX_LOCKS_SHOWN]
    texts = [(node, node.metadata.annotation(held.key)) for node in shown]
    actions = lock_actions(names[0], held) if names else []
    proofs = [*proofs, *(quotes.of_node_annotation(node, held.key, text) for node, text in texts if text)]
    return finding(held.code, held.claim, confidence, names, proofs, severity="warning", actions=actions)


def _of_owner(case: Case, name: str, owners: Owners) -> list[Evidence]:
    """How far the owner of the lock on a node is."""
    node = case.nodes.get(name)
    return owner_proofs(_lock(case, node, owners), owners) if node else []


def _judge(case: Case, name: str, owners: Owners) -> NodeLock | None:
    """What the lock on a node is, None when it has none that was seen."""
    node = case.nodes.get(name)
    state, vendor = _lock(case, node, owners) if node else None, case.device.vendor
    if not node or not state:
        return None
    return lock_in_words(node, state, lock_expiry(case.install, vendor), vendor.lock_key)


def _lock(case: Case, node: Node, owners: Owners) -> LockState | None:
    return lock_on(node, case.install, case.now, owners, case.device.vendor)


def refused_with_error(case: Case, attempt: Attempt) -> Finding | None:
    """HAMi's filter ended with an error, or Bind was refused for another reason than a lock."""
    if attempt.stage not in ("bind", "filter-error") or attempt.lock is not None or attempt.evidence is None:
        return None
    why = attempt.evidence.quote
    if (refusal := read_forbidden(why)) is not None and refusal.account.split(":")[2] == case.install.namespace:
        return forbidden({refusal: attempt.evidence})
    steps = prose.scheduler_log(case.install, case.pod.name)
    code = "filtering-failed" if attempt.stage == "filter-error" else "binding-failed"
    if code == "filtering-failed":
        claim = Text("filtering-failed.claim", why=why)
    elif (plugin := _PRE_BIND.search(why)) is not None:
        claim = Text("binding-failed.plugin", plugin=plugin[1], why=why)
        if plugin[1] == "VolumeBinding":
            steps = (step(Text("binding-failed.volumes"), kubectl("-n", case.pod.namespace, "get", "pvc")),)
    else:
        claim = Text("binding-failed.timeout" if _TIMED_OUT.search(why) else "binding-failed.claim", why=why)
    return finding(code, claim, "confirmed", (), [attempt.evidence], severity="warning", actions=steps)


def extender_silent(case: Case, attempt: Attempt) -> Finding | None:
    """kube-scheduler got no answer from HAMi's extender."""
    if attempt.stage != "extender" or attempt.evidence is None:
        return None
    return finding(
        "scheduler-degraded",
        Text("scheduler-degraded.silent", why=attempt.evidence.quote),
        "confirmed",
        (),
        [attempt.evidence],
        severity="critical",
        actions=(
            step(
                Text("scheduler-degraded.pods"),
                kubectl("-n", case.install.namespace, "get", "pods", *(pod.name for pod in case.install.pods)),
            ),
        )
        if case.install.pods
        else (),
    )


def blocked(case: Case, attempt: Attempt) -> Finding | None:
    """Filtered, and neither bound nor refused since."""
    if attempt.stage != "filtered" or attempt.evidence is None:
        return None
    node = reserved_node(case.pod.metadata) or chosen_node(attempt.evidence.quote)
    calm = attempt.at is not None and case.now - attempt.at < FILTERED_GRACE
    return finding(
        "blocked-after-filter",
        Text("blocked-after-filter.calm" if calm else "blocked-after-filter.claim", node=node or "?"),
        "confirmed",
        (node,) if node else (),
        [attempt.evidence],
        severity="info" if calm else "warning",
        actions=() if calm else (step(Text("blocked-after-filter.look"), kubectl_pod(case.pod, "describe")),),
    )


def waits_for_retry(case: Case, attempt: Attempt) -> Finding | None:
    """Some candidate would take the pod now."""
    if not case.fitting:
        return None
    if attempt.at is not None and attempt.evidence is not None:
        claim, late, proofs = (
            _tried_at(case, attempt.at),
            case.now - attempt.at >= UNSCHEDULABLE_FLUSH,
            [attempt.evidence],
        )
    else:
        claim, late, proofs = _never_tried(case, attempt)
    node = case.nodes[case.fitting[0]]
    cards = case.view.cards(node.name)
    if cards:
        proofs.append(quotes.of_card(node, cards[0].card.uuid))
    return finding(
        "waiting-for-retry",
        claim,
        "suspected",
        case.fitting,
        proofs,
        severity="warning" if late else "info",
        actions=prose.scheduler_log(case.install, case.pod.name) if late else (),
    )


def _tried_at(case: Case, tried: datetime) -> Text:
    due = after(tried, UNSCHEDULABLE_FLUSH)
    key = "waiting-for-retry.overdue" if due <= case.now else "waiting-for-retry.claim"
    return Text(key, nodes=prose.names(case.fitting), tried=format_time(tried), due=format_time(due))


def _never_tried(case: Case, attempt: Attempt) -> tuple[Prose, bool, list[Evidence]]:
    """The claim, whether it is late for a first try, and the proofs."""
    proofs = [attempt.evidence] if attempt.evidence else []
    text = case.pod.metadata.creation_timestamp or ""
    created = parse_time(text)
    shown = prose.names(case.fitting)
    if created is None or case.now - created <= UNSCHEDULABLE_FLUSH:
        return Text("waiting-for-retry.untried", nodes=shown), False, proofs
    claim = Text("waiting-for-retry.ignored", nodes=shown, created=format_time(created))
    return claim, True, [quotes.of_pod_age(case.pod), *proofs]
