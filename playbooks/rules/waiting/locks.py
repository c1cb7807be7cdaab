"""What the lock on a node means, in words: the same for one pod that waits and for all nodes."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.finding_codes import Code, as_code
from bot.hami.installation.install import Install
from bot.hami.nodes.node_lock import (
    LOCK_KEY,
    USUAL_ALLOCATION,
    LockState,
    Owner,
    judge_lock,
    parse_lock,
    read_timeout,
)
from bot.hami.pods.allocations import BIND_PHASE_KEY, is_finished, was_allocated
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.kube.models import Node, Pod
from bot.kube.times import format_time
from bot.report import Evidence, Gap, NextAction, one_line, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.quotes import kubectl

Owners = Mapping[tuple[str, str], Pod | Gap | None]
"""The pods that locks name: None = read, and not there."""


_CLAIMS = {
    ("held", "claim"): "node-lock-held.claim",
    ("held", "nameless"): "node-lock-held.nameless",
    ("held", "unseen"): "node-lock-held.unseen",
    ("dangling", "claim"): "node-lock-dangling.claim",
    ("dangling", "kept"): "node-lock-dangling.kept",
    ("dangling", "served"): "node-lock-dangling.served",
    ("dangling", "expired"): "node-lock-dangling.expired",
    ("dangling", "nameless"): "node-lock-dangling.nameless",
}


class NodeLock(NamedTuple):
    """One lock. `passing`: the next bind on the node releases it by itself, so it keeps nobody out.

    `unseen` is its owner where that could not be read: whether it is gone is not known then.
    """

    code: Code
    claim: Prose
    passing: bool = False
    unseen: tuple[str, str] | None = None
    key: str = LOCK_KEY


def lock_on(node: Node, install: Install, now: datetime, owners: Owners, vendor: Vendor = FIRST) -> LockState | None:
    """What the lock is that keeps pods for the vendor's devices off a node, None when there is none."""
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
    """How long this scheduler keeps a lock."""
    return vendor.lock_expiry or read_timeout(install.flags.get("node-lock-timeout", ""))


def owner_of(state: LockState, owners: Owners) -> Pod | None:
    """The pod that holds the lock, None where it is gone or was not seen."""
    owner = owners.get((state.lock.namespace, state.lock.pod)) if state.lock else None
    return owner if isinstance(owner, Pod) else None


def owner_proofs(state: LockState | None, owners: Owners) -> list[Evidence]:
    """How far the lock's owner is; none where it is gone or was not seen."""
    owner = owner_of(state, owners) if state else None
    if owner is None:
        return []
    proofs = [quotes.of_pod(owner, owner.status.phase, "{.status.phase}")]
    return [*proofs, *([quotes.of_pod_annotation(owner, BIND_PHASE_KEY)] if was_allocated(owner) else [])]


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
    settled = lock is not None and now - lock.taken_at > USUAL_ALLOCATION
    return "served" if _is_served(owner, settled=settled) else "there"


def _is_served(owner: Pod, *, settled: bool) -> bool:
    """Whether the pod has its devices, so that the device plugin should have released its lock.

    kubelet starts no container before Allocate has answered, and the plugin marks the pod and releases the lock within
    Allocate (HAMi pkg/device-plugin/nvidiadevice, PodAllocationTrySuccess). One of the two is enough only when the lock
    is older than an allocation takes.
    """
    statuses = [*(owner.status.init_container_statuses or ()), *(owner.status.container_statuses or ())]
    started = any(status.state.running or status.state.terminated for status in statuses)
    signs = (was_allocated(owner), started and bool(owner.spec.node_name))
    return any(signs) if settled else all(signs)


def lock_in_words(node: Node, state: LockState, expiry: timedelta, key: str = LOCK_KEY) -> NodeLock:
    """The lock in words; `key` is the annotation that it stands in."""
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
    unseen = (state.lock.namespace, state.lock.pod) if state.why == "unseen" else None
    return NodeLock(code, Text(_CLAIMS[state.phase, state.why], **values), state.passing, unseen, key)


def lock_actions(node: str, held: NodeLock) -> list[NextAction]:
    """To look at the lock and at an owner that was not seen, and to remove one whose owner is not at work."""
    path = held.key.replace(".", "\\.")
    look = kubectl("get", "node", node, "-o", f"jsonpath={{.metadata.annotations.{path}}}")
    actions = [step(Text("node-lock.look"), look)]
    if held.unseen:
        namespace, pod = held.unseen
        actions.append(step(Text("node-lock.owner"), kubectl("-n", namespace, "get", "pod", pod)))
    if held.code in ("node-lock-dangling", "node-lock-malformed"):
        release = kubectl("annotate", "node", node, f"{held.key}-")
        actions.append(step(Text("node-lock.release"), release, changes_cluster=True))
    return actions


def after(moment: datetime, wait: timedelta) -> datetime:
    """The moment so much later; the end of time for one that is there already."""
    try:
        return moment + wait
    except OverflowError:
        return moment
