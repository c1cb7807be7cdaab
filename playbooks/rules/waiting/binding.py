"""Rules about pods that the filter let through: locked nodes, refused binds, and waiting for the next attempt."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from bot.finding_codes import Code, as_code
from bot.hami.installation.install import Install, read_forbidden
from bot.hami.nodes.node_lock import (
    LOCK_KEY,
    USUAL_ALLOCATION,
    LockComplaint,
    LockState,
    Owner,
    judge_lock,
    parse_lock,
    read_timeout,
)
from bot.hami.pods.allocations import BIND_PHASE_KEY, is_finished, reserved_node, was_allocated
from bot.hami.scheduler_logs.scheduling_events import chosen_node
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import bug_behind
from bot.kube.models import Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, act, one_line, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import statuses
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.install_settings import forbidden
from playbooks.rules.nodes.node_causes import NODE_CODES, with_nodes_behind
from playbooks.rules.waiting.cause_ranking import by_words
from playbooks.rules.waiting.panics import panicked_elsewhen
from playbooks.rules.waiting.unregistered_nodes import untrusted_nodes
from playbooks.scenes.waiting_pod import PodScene

UNSCHEDULABLE_FLUSH = timedelta(minutes=5)
"""kube-scheduler retries an unschedulable pod at the latest after this (--pod-max-in-unschedulable-pods-duration)."""
FILTERED_GRACE = timedelta(seconds=30)
"""How long Bind may come after the filter: milliseconds, longer with a volume to provision or a plugin that waits."""

_LOCKS: tuple[Code, ...] = ("node-lock-held", "node-lock-dangling", "node-lock-malformed")
_MAX_LOCKS_SHOWN = 3
_PRE_BIND = re.compile(r'running (?:Reserve|Permit|PreBind) plugin "([^"]+)"')
"""Matches kube-scheduler's words when one of its own plugins failed: HAMi's Bind was not called yet."""
_BIND, _MANY = "/bind", 3
_TIMED_OUT = re.compile(r"context deadline exceeded|Client\.Timeout")
Owners = Mapping[tuple[str, str], Pod | Gap | None]
"""The pods that locks name, by namespace and name; None for one that was looked up and does not exist."""


class NodeLock(msgspec.Struct, frozen=True):
    """A node's lock in words. `passing`: the next bind on the node releases the lock, so it keeps no pod out.

    `owner` is the namespace and pod of the lock; `unseen`: it could not be read, so that it may be gone or not.
    """

    code: Code
    claim: Prose
    passing: bool = False
    owner: tuple[str, str] | None = None
    unseen: bool = False
    key: str = LOCK_KEY
    kept_until: str = ""


@rule(*_LOCKS, "binding-failed", *NODE_CODES)
def locked(scene: PodScene) -> list[Finding]:
    """The finding of the lock on the pod's node, when a bind was refused for it or every fitting node has one. A lock
    counts too if Bind waited for it (from 2.10 on 28 seconds) until kube-scheduler gave up.
    """
    attempt, name = scene.attempt, reserved_node(scene.pod.metadata)
    if attempt.stage == "bind" and attempt.lock is not None:
        return with_nodes_behind(scene, _refused_by_lock(scene, attempt.lock, attempt.lock.node or name))
    if attempt.stage == "bind":
        names = [name] if attempt.evidence and _TIMED_OUT.search(attempt.evidence.quote) else []
    else:
        names = scene.fitting
    locks = _locks_on(scene, names)
    if not locks or any(held.passing for held in locks.values()):
        return []
    said = scene.words if attempt.stage == "bind" else []
    return with_nodes_behind(scene, _lock_finding(scene, locks, [*said, *_of_owner(scene, next(iter(locks)))]))


def _locks_on(scene: PodScene, names: Sequence[str]) -> dict[str, NodeLock]:
    """The locks of these nodes; empty unless each of them has one."""
    locks = {name: held for name in names if (held := _judge(scene, name))}
    return locks if len(locks) == len(names) else {}


def _refused_by_lock(scene: PodScene, lock: LockComplaint, name: str) -> Finding:
    """A bind was refused because of a lock, whether it is still there or not."""
    held = _judge(scene, name)
    if held is not None:
        sure: Confidence = "suspected" if held.unseen else "confirmed"
        return _lock_finding(scene, {name: held}, [*_of_owner(scene, name), *scene.words], sure)
    if name in scene.nodes:
        late = scene.attempt.at is None or scene.now - scene.attempt.at > UNSCHEDULABLE_FLUSH
        code = "node-lock-malformed" if lock.malformed else "node-lock-held"
        locks = {name: NodeLock(code, Text("node-lock.gone", node=name))}
        severity: Severity = "warning" if late else "info"
        return _lock_finding(scene, locks, scene.words, severity=severity, steps=False)
    said = "node-lock-malformed.said" if lock.malformed else "node-lock-held.said"
    code = "node-lock-malformed" if lock.malformed else "binding-failed"
    return _lock_finding(scene, {name: NodeLock(code, Text(said, node=name or "?"))}, scene.words)


def _lock_finding(
    scene: PodScene,
    locks: Mapping[str, NodeLock],
    proofs: Sequence[Evidence],
    confidence: Confidence = "suspected",
    *,
    severity: Severity = "warning",
    steps: bool = True,
) -> Finding:
    names = [name for name in locks if name]
    held = next(iter(locks.values()))
    shown = [scene.nodes[name] for name in names if name in scene.nodes][:_MAX_LOCKS_SHOWN]
    texts = [(node, node.metadata.annotation(held.key)) for node in shown]
    look = prose.scheduler_log(scene.install, scene.pod.name) if severity != "info" else ()
    actions = lock_actions(names[0], held) if names and steps else look
    proofs = [*(quotes.of_node_annotation(node, held.key, text) for node, text in texts if text), *proofs]
    claim = Text("node-lock.waits", pod=f"{scene.pod.namespace}/{scene.pod.name}", claim=held.claim)
    code, claim, of = held.code, claim if severity == "warning" else held.claim, scene.install
    return finding(code, claim, confidence, names, proofs, severity=severity, actions=actions, of=of)


def _of_owner(scene: PodScene, name: str) -> list[Evidence]:
    node = scene.nodes.get(name)
    return owner_proofs(_lock(scene, node), scene.cluster.lock_owners) if node else []


def _judge(scene: PodScene, name: str) -> NodeLock | None:
    node = scene.nodes.get(name)
    state, vendor = _lock(scene, node) if node else None, scene.device.vendor
    if not node or not state:
        return None
    return lock_in_words(node, state, lock_expiry(scene.install, vendor), vendor.lock_key)


def _lock(scene: PodScene, node: Node) -> LockState | None:
    return lock_on(node, scene.install, scene.now, scene.cluster.lock_owners, scene.device.vendor)


@rule("filtering-failed", "binding-failed", "scheduler-forbidden", *NODE_CODES)
def refused_with_error(scene: PodScene) -> list[Finding]:
    """The finding that HAMi's filter ended with an error, or that Bind was refused for another reason than a lock."""
    stage, said = scene.attempt.stage, scene.attempt.evidence
    if stage not in ("bind", "filter-error") or scene.attempt.lock is not None or said is None:
        return []
    why = said.quote
    if (refusal := read_forbidden(why)) is not None and refusal.account.split(":")[2] == scene.install.namespace:
        return with_nodes_behind(scene, forbidden({refusal: said}))
    steps = prose.scheduler_log(scene.install, scene.pod.name)
    code = "filtering-failed" if stage == "filter-error" else "binding-failed"
    if code == "filtering-failed":
        claim = Text("filtering-failed.claim", why=why)
    elif (plugin := _PRE_BIND.search(why)) is not None:
        claim = Text("binding-failed.plugin", plugin=plugin[1], why=why)
        if plugin[1] == "VolumeBinding":
            steps = (step(Text("binding-failed.volumes"), kubectl("-n", scene.pod.namespace, "get", "pvc")),)
    else:
        claim = Text("binding-failed.timeout" if _TIMED_OUT.search(why) else "binding-failed.claim", why=why)
    return with_nodes_behind(scene, finding(code, claim, proofs=[said], actions=steps, of=scene.install))


def late_binds(pods: Iterable[Pod], install: Install) -> Iterator[Finding]:
    """The finding that many pods were not bound within kube-scheduler's timeout: one lock can let all binds wait."""
    refused = [(pod, why) for pod in pods if (why := pod.condition("PodScheduled")) and why.status == "False"]
    late = [(pod, why) for pod, why in refused if _BIND in why.message and _TIMED_OUT.search(why.message)]
    if len(late) < _MANY:
        return
    version = install.version.version if install.version else None
    proofs = [quotes.of_condition(pod, why, why.last_transition_time) for pod, why in late[:_MAX_LOCKS_SHOWN]]
    claim = Text("binding-failed.many", count=len(late))
    if bug := bug_behind("binding-failed", [why.message for _, why in late], version):
        claim = sentences(claim, Text("known-bug.in", version=version, why=bug.why, threads=", ".join(bug.threads)))
    steps = prose.scheduler_log(install, late[0][0].name)
    yield finding("binding-failed", claim, proofs=proofs, actions=steps, of=install)


@rule("scheduler-degraded", "scheduler-panic")
def extender_silent(scene: PodScene) -> Iterator[Finding]:
    """The finding that kube-scheduler got no answer from HAMi's extender; after it, panics at other times."""
    if scene.attempt.stage != "extender" or scene.attempt.evidence is None:
        return
    claim, pods = Text("scheduler-degraded.silent", why=scene.attempt.evidence.quote), scene.install.pods
    look = kubectl("-n", scene.install.namespace, "get", "pods", *(pod.name for pod in pods))
    steps = [step(Text("scheduler-degraded.pods"), look)] if pods else []
    proofs = [scene.attempt.evidence]
    yield finding("scheduler-degraded", claim, proofs=proofs, severity="critical", actions=steps, of=scene.install)
    yield from panicked_elsewhen(scene)


@rule("blocked-after-filter", *NODE_CODES)
def blocked(scene: PodScene) -> list[Finding]:
    """The finding that the pod passed the filter, and was neither bound nor refused since."""
    said, at = scene.attempt.evidence, scene.attempt.at
    if scene.attempt.stage != "filtered" or said is None or not (scene.fitting or scene.once(by_words)):
        return []
    node = reserved_node(scene.pod.metadata) or chosen_node(said.quote)
    if at is not None and scene.now - at < FILTERED_GRACE:
        claim, severity, steps = Text("blocked-after-filter.calm", node=node or "?"), "info", []
    else:
        claim, severity = Text("blocked-after-filter.claim", node=node or "?"), "warning"
        steps = [step(Text("blocked-after-filter.look"), kubectl_pod(scene.pod, "describe"))]
    told = finding("blocked-after-filter", claim, nodes=[node], proofs=[said], severity=severity, actions=steps)
    return with_nodes_behind(scene, told)


@rule("waiting-for-retry", *_LOCKS, "handshake-stale", reads=("nodes",))
def waits_for_retry(scene: PodScene) -> Iterator[Finding]:
    """The finding that a node would take the pod at its next try; then, as information, its lock or old handshake."""
    untrusted, names = scene.once(untrusted_nodes), scene.fitting
    if not names or not scene.request.containers or (untrusted and untrusted.severity != "info"):
        return
    tried, created = scene.attempt.at, parse_time(scene.pod.metadata.creation_timestamp)
    proofs, shown, late, wait = scene.words, prose.names(names), False, ()
    if proofs and tried is not None:
        due, late = after(tried, UNSCHEDULABLE_FLUSH), scene.now - tried >= UNSCHEDULABLE_FLUSH
        key = "waiting-for-retry.overdue" if due <= scene.now else "waiting-for-retry.claim"
        claim = Text(key, nodes=shown, tried=format_time(tried), due=format_time(due))
        wait = (step(Text("waiting-for-retry.wait", due=format_time(due)), ""),) if due > scene.now else ()
    elif created is not None and scene.now - created > UNSCHEDULABLE_FLUSH:
        claim, late = Text("waiting-for-retry.ignored", nodes=shown, created=format_time(created)), True
        proofs = [quotes.of_pod_age(scene.pod), *proofs]
    else:
        claim = Text("waiting-for-retry.untried", nodes=shown)
    proofs += [quotes.of_card(scene.nodes[names[0]], card.card.uuid) for card in scene.view.cards(names[0])[:1]]
    severity, steps = ("warning", prose.scheduler_log(scene.install, scene.pod.name)) if late else ("info", wait)
    yield finding("waiting-for-retry", claim, "suspected", names, proofs, severity=severity, actions=steps)
    if locks := _locks_on(scene, names):
        yield _lock_finding(scene, locks, _of_owner(scene, next(iter(locks))), severity="info", steps=False)
    yield from [untrusted] if untrusted else []


_CLAIMS = {
    ("held", "claim"): "node-lock-held.claim",
    ("held", "nameless"): "node-lock-held.nameless",
    ("held", "unseen"): "node-lock-held.unseen",
    ("dangling", "claim"): "node-lock-dangling.claim",
    ("held", "expired"): "node-lock-held.expired",
    ("dangling", "kept"): "node-lock-dangling.kept",
    ("dangling", "ended"): "node-lock-dangling.ended",
    ("dangling", "served"): "node-lock-dangling.served",
    ("dangling", "expired"): "node-lock-dangling.expired",
    ("dangling", "nameless"): "node-lock-dangling.nameless",
}


def lock_on(node: Node, install: Install, now: datetime, owners: Owners, vendor: Vendor = FIRST) -> LockState | None:
    """The state of the lock that keeps pods for the vendor's devices off a node; None without a lock."""
    version = install.version.version if install.version else None
    if version is not None and version < vendor.locks_since:
        return None
    text = node.metadata.annotation(vendor.lock_key) if vendor.lock_key else None
    if not text:
        return None
    if vendor.lock_expiry:
        return judge_lock(text, None, now, vendor.lock_expiry, "unseen")
    return judge_lock(text, version, now, lock_expiry(install), _owner(text, now, owners))


def lock_expiry(install: Install, vendor: Vendor = FIRST) -> timedelta:
    return vendor.lock_expiry or read_timeout(install.flags.get("node-lock-timeout", ""))


def owner_proofs(state: LockState | None, owners: Owners) -> list[Evidence]:
    """The evidence of how far the pod of the lock has come; empty where it is gone or was not read."""
    owner = owners.get((state.lock.namespace, state.lock.pod)) if state and state.lock else None
    if not isinstance(owner, Pod):
        return []
    phase = quotes.of_pod(owner, owner.status.phase, "{.status.phase}")
    bound = owner.metadata.annotation(BIND_PHASE_KEY)
    return [*([quotes.of_pod_annotation(owner, BIND_PHASE_KEY)] if bound else []), phase]


def _owner(text: str, now: datetime, owners: Owners) -> Owner:
    lock = parse_lock(text, None)
    named = (lock.namespace, lock.pod) if lock else ("", "")
    if named not in owners:
        return "unseen"
    owner = owners[named]
    if owner is None:
        return "gone"
    if isinstance(owner, Gap):
        return "unseen"
    if is_finished(owner):
        return "finished"
    # kubelet starts no container before Allocate has answered, and the plugin marks the pod and releases the lock in
    # Allocate (HAMi pkg/device-plugin/nvidiadevice, PodAllocationTrySuccess). One of the two is enough only when the
    # lock is older than an allocation takes.
    started = any(status.state.running or status.state.terminated for status in statuses(owner))
    signs = (was_allocated(owner), started and bool(owner.spec.node_name))
    settled = lock is not None and now - lock.taken_at > USUAL_ALLOCATION
    return "served" if (any(signs) if settled else all(signs)) else "there"


def lock_in_words(node: Node, state: LockState, expiry: timedelta, key: str = LOCK_KEY) -> NodeLock:
    code = as_code(f"node-lock-{state.phase}")
    if state.lock is None:
        value = one_line(node.metadata.annotation(key) or "", 80)
        return NodeLock(code, Text("node-lock-malformed.claim", node=node.name, value=value), key=key)
    values = {
        "node": node.name,
        "owner": f"{state.lock.namespace}/{state.lock.pod}",
        "age": max(0, int(state.age.total_seconds())),
        "expires": format_time(after(state.lock.taken_at, expiry)),
    }
    return NodeLock(
        code,
        Text(_CLAIMS[state.phase, state.why], **values),
        passing=state.passing,
        owner=(state.lock.namespace, state.lock.pod) if state.lock.pod else None,
        unseen=state.why == "unseen",
        key=key,
        kept_until=str(values["expires"]) if state.why in ("kept", "ended", "served") else "",
    )


def lock_actions(node: str, held: NodeLock) -> list[NextAction]:
    """The steps to wait for the lock's end, to look at its pod (or the lock, if it has none), to remove an idle one."""
    actions = [step(Text("node-lock.wait", until=held.kept_until), "")] if held.kept_until else []
    if held.owner and held.code != "node-lock-dangling":
        namespace, pod = held.owner
        actions.append(step(Text("node-lock.owner"), kubectl("-n", namespace, "get", "pod", pod)))
    elif not held.owner:
        path = f"{{.metadata.annotations.{quotes.escape(held.key)}}}"
        look = kubectl("get", "node", node, "-o", f"jsonpath={path}")
        actions.append(step(Text("node-lock.look"), look))
    if held.code == "node-lock-held" and not held.unseen:
        actions.insert(0, step(Text("node-lock.wait-seconds"), ""))
    if held.code in ("node-lock-dangling", "node-lock-malformed"):
        said = Text("node-lock.release" if held.owner else "node-lock.remove", key=held.key, node=node)
        actions.append(act(said, kubectl("annotate", "node", node, f"{held.key}-")))
    return actions


def after(moment: datetime, wait: timedelta) -> datetime:
    """The moment `wait` later; `moment` itself where that would be after the end of time."""
    try:
        return moment + wait
    except OverflowError:
        return moment
